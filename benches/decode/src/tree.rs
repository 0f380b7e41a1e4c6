//! The simple way: the whole page as a tree of values, then the values into builders.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde_json::Value;

use crate::Result;
use crate::columns::Column;

pub(crate) fn decode(text: &str, schema: &SchemaRef) -> Result<RecordBatch> {
    let page: Value = serde_json::from_str(text)?;
    let records = page["data"].as_array().ok_or("no records")?;
    page["next"].as_str().ok_or("no cursor")?;
    let mut arrays = Vec::new();
    let mut columns: Vec<(&str, Column)> = schema
        .fields()
        .iter()
        .map(|f| (f.name().as_str(), Column::new(f.data_type(), records.len(), records.len() * 40)))
        .collect();
    for record in records {
        for (name, column) in &mut columns {
            let fits = match record.get(*name) {
                None | Some(Value::Null) => {
                    column.null();
                    true
                }
                Some(Value::Bool(value)) => column.boolean(*value),
                Some(Value::String(text)) => column.text(text),
                Some(Value::Number(number)) => match number.as_i64() {
                    Some(value) => column.integer(value),
                    None => number.as_f64().is_some_and(|value| column.float(value)),
                },
                Some(_) => false,
            };
            if !fits {
                return Err(format!("{name} does not fit").into());
            }
        }
    }
    arrays.extend(columns.iter_mut().map(|(_, column)| column.finish()));
    Ok(RecordBatch::try_new(Arc::clone(schema), arrays)?)
}
