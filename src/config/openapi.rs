//! Reads `openapi`: a document at a path at once, with all its problems; of one at a URL, the URL.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jsonptr::PointerBuf;
use url::Url;

use super::pagination::StyleName;
use super::section::{Report, Section};
use super::{ColumnConfig, Method, SpecPlace, TableConfig, load, urls};
use crate::openapi::{About, Ask, Spec, parse};

/// The document of a source.
pub(super) struct Described {
    pub(super) place: SpecPlace,
    /// As written, for messages.
    name: String,
    /// `None` where it is at a URL or a problem leaves it out.
    pub(super) spec: Option<Spec>,
}

/// What a table asks of it.
pub(super) struct Asked<'a> {
    pub(super) url: &'a Url,
    pub(super) base: &'a Url,
    pub(super) method: Method,
    pub(super) data_path: Option<&'a PointerBuf>,
    pub(super) style: StyleName,
    pub(super) streamed: bool,
    pub(super) flatten_depth: usize,
}

/// Reads the key, and the file it names.
pub(super) fn read(top: &Section<'_>, http: &Section<'_>, directory: &Path, spec: load::Spec) -> Option<Described> {
    if !top.sets("openapi") {
        return None;
    }
    let name = top.name("openapi")?;
    if let Some((scheme, _)) = name.split_once("://") {
        let url = match scheme {
            "http" | "https" => urls::document(&name),
            _ => Err("must be a path, or an http or https URL".into()),
        };
        let url = url.map_err(|said| top.problem("openapi", said)).ok()?;
        return Some(Described { place: SpecPlace::Url(url), name, spec: None });
    }
    let path = directory.join(&name);
    if spec == load::Spec::StayedBehind {
        return Some(Described { place: SpecPlace::File(path), name, spec: None });
    }
    let read = http.bytes("max-body-bytes").map(|limit| read_file(&path, limit).and_then(|bytes| parse(&bytes)));
    let spec = read.and_then(|read| read.map_err(|said| top.problem("openapi", format!("{name} {said}"))).ok());
    Some(Described { place: SpecPlace::File(path), name, spec })
}

fn read_file(path: &PathBuf, limit: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|e| format!("cannot be read: {e}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("is larger than http.max-body-bytes ({limit})"));
    }
    Ok(bytes)
}

impl Described {
    /// The columns of a table, as far as the document is at hand; its problems stand at the keys of the table.
    pub(super) fn columns(&self, table: &Section<'_>, asked: &Asked<'_>) -> Vec<ColumnConfig> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let ask = Ask {
            url: asked.url,
            base: asked.base,
            origin: None,
            method: asked.method.as_str(),
            data_path: asked.data_path,
            is_paged: asked.style != StyleName::None,
            is_streamed: asked.streamed,
            flatten_depth: asked.flatten_depth,
        };
        spec.columns(&ask).unwrap_or_else(|fault| {
            let key = match fault.about {
                About::Endpoint => "endpoint",
                About::DataPath => "data-path",
            };
            table.problem(key, format!("{}: {}", self.name, fault.message));
            Vec::new()
        })
    }
}

/// A document that neither gives the base URL nor any columns.
pub(super) fn warn_if_unused(tables: &[TableConfig], report: &Report) {
    if !tables.iter().any(|table| table.is_from_spec) {
        report.warn("openapi", "has no effect: base-url is set, and every table has its columns from elsewhere");
    }
}
