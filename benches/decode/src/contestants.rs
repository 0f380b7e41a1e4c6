//! Everyone who decodes: a page in, batches out, and the next cursor read on the way.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::reader::{Decoder as JsonDecoder, ReaderBuilder};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use restmark::Source;
use restmark::decode::{DecodeSpec, Decoder, Scalar};
use restmark::position::{Boundary, BoundaryPolicy, Seen};
use serde::de::DeserializeSeed;

use crate::Result;
use crate::rows::Rows;
use crate::tree;

/// One page, in both forms.
pub(crate) struct Input {
    pub(crate) page: Vec<u8>,
    pub(crate) lines: Vec<u8>,
}

/// A way to decode.
pub(crate) trait Contestant {
    fn name(&self) -> &'static str;
    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>>;
}

/// Restmark first; only it where pages need conversions.
pub(crate) fn all(source: &Source, select: Option<&Vec<String>>, only_ours: bool) -> Result<Vec<Box<dyn Contestant>>> {
    let table = source.table("t")?;
    let full = table.schema().ok_or("no columns")?;
    let schema = select.map_or(Ok(full.clone()), |names| full.project(names))?.arrow();
    let decoder = Decoder::new(DecodeSpec::for_table(table.config()), Some(full), select.cloned())?;
    let ours = Ours { decoder, boundary: Boundary::new(BoundaryPolicy::default(), Seen::default()) };
    let mut all: Vec<Box<dyn Contestant>> = vec![Box::new(ours)];
    if !only_ours {
        all.push(Box::new(Sonic(Rows::new(&schema))));
        all.push(Box::new(Serde(Rows::new(&schema))));
        all.push(Box::new(ArrowJson::new(&schema)?));
        all.push(Box::new(Tree(schema)));
    }
    Ok(all)
}

struct Ours {
    decoder: Decoder,
    boundary: Boundary,
}

impl Contestant for Ours {
    fn name(&self) -> &'static str {
        "restmark"
    }

    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>> {
        let page = self.decoder.page(200, &input.page, &mut self.boundary)?;
        if page.envelope.next == Scalar::Absent {
            return Err("no cursor".into());
        }
        Ok(page.batches)
    }
}

struct Serde(Rows);

impl Contestant for Serde {
    fn name(&self) -> &'static str {
        "serde_json, DeserializeSeed into builders"
    }

    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>> {
        let text = simdutf8::basic::from_utf8(&input.page)?;
        let mut json = serde_json::Deserializer::from_str(text);
        self.0.page().deserialize(&mut json)?;
        json.end()?;
        Ok(vec![self.0.finish()?])
    }
}

struct Sonic(Rows);

impl Contestant for Sonic {
    fn name(&self) -> &'static str {
        "sonic-rs, DeserializeSeed into builders"
    }

    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>> {
        let text = simdutf8::basic::from_utf8(&input.page)?;
        let mut json = sonic_rs::Deserializer::from_str(text);
        self.0.page().deserialize(&mut json)?;
        Ok(vec![self.0.finish()?])
    }
}

/// Knows no envelope: it gets the records as lines, and reads no cursor.
struct ArrowJson(JsonDecoder);

impl ArrowJson {
    /// It knows offsets, but no zone called UTC.
    fn new(schema: &SchemaRef) -> Result<Self> {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let fields = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Timestamp(..) => field.as_ref().clone().with_data_type(utc.clone()),
            _ => field.as_ref().clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self(ReaderBuilder::new(schema).with_batch_size(1 << 20).build_decoder()?))
    }
}

impl Contestant for ArrowJson {
    fn name(&self) -> &'static str {
        "arrow-json (lines, no envelope)"
    }

    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>> {
        let mut rest = input.lines.as_slice();
        while !rest.is_empty() {
            let read = self.0.decode(rest)?;
            rest = &rest[read..];
        }
        Ok(self.0.flush()?.into_iter().collect())
    }
}

struct Tree(SchemaRef);

impl Contestant for Tree {
    fn name(&self) -> &'static str {
        "serde_json::Value tree, then builders"
    }

    fn decode(&mut self, input: &Input) -> Result<Vec<RecordBatch>> {
        Ok(vec![tree::decode(simdutf8::basic::from_utf8(&input.page)?, &Arc::clone(&self.0))?])
    }
}
