//! `restmark schema`: the columns of a table as a block that can be pasted into the configuration.

use std::path::Path;

use arrow_array::cast::AsArray as _;

use super::console::Console;
use super::open;
use crate::config::{ColumnType, SchemaMode};
use crate::error::{Error, ErrorKind, Result};
use crate::run::first_batch;
use crate::schema::{self, Column, TableSchema};
use crate::source::Source;

pub(super) async fn run(config: &Path, table: &str, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    let schema = match source.schema(table).await? {
        Some(schema) => schema,
        None => infer(&source, table).await?,
    };
    console.print(&block(&schema))
}

/// The columns of the first page that has records, as a read would infer them: read as texts, nothing is lost.
async fn infer(source: &Source, name: &str) -> Result<TableSchema> {
    let mut config = source.config().clone();
    let Some(table) = config.tables.iter_mut().find(|table| table.name == name) else { return no_records(name) };
    let inferring = table.schema.clone();
    table.schema.mode = SchemaMode::Variant;
    let page = table.pagination.max_page_size;
    let Some(batch) = first_batch(&Source::new(config)?, name, page).await? else { return no_records(name) };
    let texts = batch.column(0).as_string::<i32>();
    schema::infer::infer(texts.iter().flatten(), &inferring)
}

fn no_records<T>(table: &str) -> Result<T> {
    let what = "no records came, so there are no columns to show";
    Err(Error::new(ErrorKind::Schema, what).with("table", table))
}

fn block(schema: &TableSchema) -> String {
    let unnamed = |column: &&Column| column.name.is_empty();
    let mut lines: Vec<String> = schema.columns.iter().filter(|c| !unnamed(c)).map(line).collect();
    if schema.columns.iter().any(|c| unnamed(&c)) {
        lines.push("  # a field without a name is left out: give it one, with path = \"/\"\n".to_owned());
    }
    let rest = schema.rest.as_ref().map(|rest| format!("# undeclared fields are kept in {}\n", rest.name));
    format!("{}columns {{\n{}}}", rest.unwrap_or_default(), lines.concat())
}

fn line(column: &Column) -> String {
    let mut settings = vec![format!("type = {}", type_name(column.data_type))];
    // `/name` is the default.
    let default = format!("/{}", column.name.replace('~', "~0").replace('/', "~1"));
    if column.path.as_str() != default {
        settings.push(format!("path = {}", quoted(column.path.as_str())));
    }
    if let Some(format) = &column.format {
        settings.push(format!("format = {}", quoted(&format.to_string())));
    }
    format!("  {} {{ {} }}\n", key(&column.name), settings.join(", "))
}

fn type_name(data_type: ColumnType) -> String {
    match data_type {
        ColumnType::Int32 => "int32".to_owned(),
        ColumnType::Int64 => "int64".to_owned(),
        ColumnType::Float64 => "float64".to_owned(),
        ColumnType::Decimal(precision, scale) => format!("\"decimal({precision},{scale})\""),
        ColumnType::Boolean => "boolean".to_owned(),
        ColumnType::String => "string".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Timestamp => "timestamp".to_owned(),
        ColumnType::Json => "json".to_owned(),
    }
}

/// A key that needs no quotes is written without them.
fn key(name: &str) -> String {
    // `include` is a word of the language.
    let plain = !name.is_empty() && name != "include" && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use jsonptr::PointerBuf;

    use super::*;
    use crate::config::OnMismatch;
    use crate::position::TimestampFormat;

    #[test]
    fn a_block_says_only_what_is_not_the_default() {
        let column = |name: &str, path: &str, data_type, format| Column {
            name: name.into(),
            path: PointerBuf::parse(path).unwrap(),
            data_type,
            format,
        };
        let columns = vec![
            column("id", "/id", ColumnType::Int64, None),
            column("user_name", "/user/name", ColumnType::String, None),
            column("a.b", "/a.b", ColumnType::Decimal(10, 2), None),
            column("at", "/at", ColumnType::Timestamp, Some(TimestampFormat::EpochMs)),
        ];
        let schema = TableSchema { columns, rest: None, on_mismatch: OnMismatch::Null };
        assert_eq!(
            block(&schema),
            "columns {\n  id { type = int64 }\n  user_name { type = string, path = \"/user/name\" }\n  \
             \"a.b\" { type = \"decimal(10,2)\" }\n  at { type = timestamp, format = \"epoch-ms\" }\n}"
        );
    }
}
