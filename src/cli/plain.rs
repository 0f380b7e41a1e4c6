//! Columns of any type as those that our text forms know: what a query computes has more types than a table.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use crate::error::{Error, ErrorKind, Result};

/// The same rows; what no other type holds becomes text.
pub(super) fn plain(batch: &RecordBatch) -> Result<RecordBatch> {
    let failed = |error: ArrowError| Error::new(ErrorKind::Bug, format!("the rows could not be shown: {error}"));
    let schema = schema(&batch.schema());
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let to = field.data_type();
        if column.data_type() == to || is_held(column.data_type()).is_some() { cast(column, to) } else { texts(column) }
    });
    let columns = columns.collect::<Result<_, _>>().map_err(failed)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(failed)
}

/// The columns of [`plain`] rows.
pub(super) fn schema(schema: &Schema) -> Schema {
    let plain = |field: &Field| {
        let to = is_held(field.data_type()).unwrap_or(DataType::Utf8);
        Field::new(field.name(), to, true).with_metadata(field.metadata().clone())
    };
    Schema::new(schema.fields().iter().map(|field| plain(field)).collect::<Vec<_>>())
}

/// The type that holds all values of another one.
fn is_held(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
        DataType::Int64 | DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
            DataType::Decimal128(*p, *s)
        }
        DataType::Boolean => DataType::Boolean,
        DataType::Date32 => DataType::Date32,
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Nanosecond => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        _ => return None,
    })
}

fn texts(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default();
    let shown = ArrayFormatter::try_new(column, &options)?;
    let text = |row| if column.is_null(row) { Ok(None) } else { shown.value(row).try_to_string().map(Some) };
    let texts = (0..column.len()).map(text).collect::<Result<StringArray, _>>()?;
    Ok(Arc::new(texts))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{ListArray, TimestampNanosecondArray, UInt64Array};

    use super::*;
    use crate::sink::as_texts;

    #[test]
    fn r24_every_type_of_a_query_has_a_text_with_all_its_digits() {
        let column = |name: &str, array: ArrayRef| (name.to_owned(), array);
        let batch = RecordBatch::try_from_iter([
            column("n", Arc::new(UInt64Array::from(vec![u64::MAX]))),
            column("at", Arc::new(TimestampNanosecondArray::from(vec![1]))),
            column("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]))),
            column("nothing", Arc::new(arrow_array::NullArray::new(1))),
        ])
        .unwrap();
        let texts = as_texts(&plain(&batch).unwrap()).unwrap();
        let shown: Vec<_> = (0..4).map(|at| texts.column(at).as_any().downcast_ref::<StringArray>().unwrap()).collect();
        assert_eq!(shown[0].value(0), "18446744073709551615");
        assert_eq!(shown[1].value(0), "1970-01-01T00:00:00.000000001");
        assert_eq!(shown[2].value(0), "[1, ]");
        assert_eq!(
            texts.schema(),
            as_texts(&RecordBatch::new_empty(Arc::new(schema(&batch.schema())))).unwrap().schema()
        );
    }
}
