//! `restmark schema`: the columns of a table as a block that can be pasted into the configuration.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray as _;
use jsonptr::PointerBuf;

use super::console::Console;
use super::open;
use crate::config::{ColumnType, SchemaConfig, SchemaMode, TableConfig, exploded_name};
use crate::error::{Error, ErrorKind, Result};
use crate::run::first_batch;
use crate::schema::explode::{self, Elements, Layout, Sampled};
use crate::schema::{self, Column, TableSchema};
use crate::source::Source;
use crate::text::one_line;

pub(super) async fn run(config: &Path, table: &str, console: &mut Console) -> Result<()> {
    let source = open(config, console)?;
    let known = source.table(table)?;
    let Some(schema) = source.schema(table).await? else {
        return console.print(&sampled(&source, known.config()).await?);
    };
    let exploded: Vec<String> = known.config().json_columns().map(|c| exploded_line(table, c, None)).collect();
    console.print(&block(&schema, &exploded))
}

/// The columns that a read would infer from the first page that has records.
async fn sampled(source: &Source, table: &TableConfig) -> Result<String> {
    let records = first_records(source, table).await?;
    let texts: Vec<&str> = records.as_string::<i32>().iter().flatten().collect();
    let settings = SchemaConfig { explode: table.explode().cloned(), ..table.schema.clone() };
    let declared = table.array().and_then(|_| schema::declared(table));
    match explode::sampled(&texts, &settings, declared.as_ref())? {
        Sampled::Known(Layout { schema, elements: Some(elements), .. }) => {
            Ok(exploded_block(&schema, &elements, table.array().map_or("", |of| &of.table)))
        }
        Sampled::Known(Layout { mut schema, .. }) => {
            schema.parent = schema::parent(table);
            let arrays = if table.explode().is_some() { explode::arrays(&texts, &settings)? } else { Vec::new() };
            let left_out = |array: &Column| schema.columns.iter().all(|column| column.path != array.path);
            let lines = arrays.iter().map(|a| exploded_line(&table.name, &a.name, Some(a).filter(|a| left_out(a))));
            Ok(block(&schema, &lines.collect::<Vec<_>>()))
        }
        Sampled::NoElement => {
            let what = "all arrays of the first records are empty, so there are no columns to show";
            Err(Error::new(ErrorKind::Schema, what).with("table", &table.name))
        }
        Sampled::NoArray(arrays) => Err(explode::no_array(table.array(), &arrays).with("table", &table.name)),
    }
}

/// The records of the first page that has any, read as texts: nothing is lost.
async fn first_records(source: &Source, table: &TableConfig) -> Result<ArrayRef> {
    let mut config = source.config().clone();
    let name = table.array().map_or(&table.name, |of| &of.table);
    let Some(records) = config.tables.iter_mut().find(|table| table.name == *name) else {
        return no_records(&table.name);
    };
    (records.schema.mode, records.schema.explode) = (SchemaMode::Variant, None);
    let page = records.pagination.max_page_size;
    match first_batch(&Source::new(config)?, name, page).await? {
        Some(batch) => Ok(Arc::clone(batch.column(0))),
        None => no_records(&table.name),
    }
}

fn no_records<T>(table: &str) -> Result<T> {
    let what = "no records came, so there are no columns to show";
    Err(Error::new(ErrorKind::Schema, what).with("table", table))
}

/// A block that can be pasted into the table, and what is not in it.
fn block(schema: &TableSchema, exploded: &[String]) -> String {
    let unnamed = |column: &&Column| column.name.is_empty();
    let mut lines: Vec<String> = schema.columns.iter().filter(|c| !unnamed(c)).map(line).collect();
    if schema.columns.iter().any(|c| unnamed(&c)) {
        lines.push("  # a field without a name is left out: give it one, with path = \"/\"\n".to_owned());
    }
    let rest = schema.rest.as_ref().map(|rest| format!("# undeclared fields are kept in {}\n", one_line(&rest.name)));
    let parent = schema.parent.as_ref().map(|key| format!("# the parent's key is in {}\n", one_line(&key.name)));
    let beside = rest.into_iter().chain(parent).collect::<String>();
    format!("{beside}{}columns {{\n{}}}", exploded.concat(), lines.concat())
}

/// An exploded table by name; where its array is no column, what to add so that a pasted block does not lose it.
fn exploded_line(table: &str, column: &str, array: Option<&Column>) -> String {
    let name = one_line(&exploded_name(table, column));
    let add = array.map(|array| format!("; with declared columns it needs {}", line(array).trim()));
    format!("# exploded table: {name}{}\n", add.unwrap_or_default())
}

/// The columns of an exploded table. They follow from its table and cannot be declared, so this is only to be read.
fn exploded_block(schema: &TableSchema, elements: &Elements, table: &str) -> String {
    let lines = schema.columns.iter().enumerate().map(|(at, column)| match (at < elements.first, &column.path) {
        (true, _) => line(column),
        (false, path) => {
            let place = if path.is_root() { String::new() } else { format!("{} of ", one_line(path.as_str())) };
            let name = Column { path: PointerBuf::from_tokens([column.name.as_str()]), ..column.clone() };
            format!("{}  # {place}each element\n", line(&name).trim_end())
        }
    });
    let path = one_line(elements.path.as_str());
    format!(
        "# the elements of {path} in table {table}: these columns follow from it\ncolumns {{\n{}}}",
        lines.collect::<String>()
    )
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
        let schema = TableSchema { columns, rest: None, parent: None, on_mismatch: OnMismatch::Null };
        assert_eq!(
            block(&schema, &[]),
            "columns {\n  id { type = int64 }\n  user_name { type = string, path = \"/user/name\" }\n  \
             \"a.b\" { type = \"decimal(10,2)\" }\n  at { type = timestamp, format = \"epoch-ms\" }\n}"
        );
    }

    /// A block, loaded as the columns of a table.
    fn loaded(block: &str) -> Vec<Column> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("source.conf");
        let text = format!("base-url = \"https://h\"\ntables {{ t {{\nendpoint = e\n{block}\n}} }}\n");
        std::fs::write(&file, &text).unwrap();
        let config = crate::config::load::load_with_env(&file, &std::collections::HashMap::new());
        let config = config.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        schema::declared(&config.tables[0]).unwrap().columns
    }

    fn infer(record: &serde_json::Value) -> Option<TableSchema> {
        let settings = SchemaConfig {
            mode: SchemaMode::Infer,
            flatten_depth: 2,
            on_mismatch: OnMismatch::Fail,
            rest_column: None,
            batch_rows: 10,
            explode: None,
        };
        schema::infer::infer([record.to_string().as_str()], &settings).ok()
    }

    #[test]
    fn r24_a_block_of_odd_names_loads_back() {
        let record = serde_json::json!({
            "include": 1, "a.b": 2, "a/b~c": 3, "~1": 4, "with space": 5, "quo\"te": 6, "back\\slash": 7, "${X}": 8,
            "line\nbreak": 9, "é": 10, "#no": 11, "//no": 12, "true": 13, "null": 14, "1": 15, "+=": 16, "a": { "~": { "/": 17 } },
            "big": 123_456_789_012_345_678_901_u128.to_string(), "list": [1], "\u{1}": 18, "-": 19, "{}": 20, "a:b=c": 21,
        });
        let schema = infer(&record).unwrap();
        assert_eq!(loaded(&block(&schema, &[exploded_line("t", "x\ny", Some(&schema.columns[0]))])), schema.columns);
    }

    proptest::proptest! {
        #[test]
        fn r24_any_inferred_block_loads_back_as_the_same_columns(
            record in proptest::collection::btree_map("\\PC{1,6}|[a-z~/._\" $#\\\\{}]{1,6}", proptest::option::of(-9_i64..9), 1..8),
            inner in proptest::collection::btree_map("\\PC{1,4}", proptest::bool::ANY, 1..4),
        ) {
            let mut record = serde_json::json!(record);
            record["nested"] = serde_json::json!(inner);
            // Names that meet after flattening are an error, and no block.
            if let Some(schema) = infer(&record) {
                proptest::prop_assert_eq!(loaded(&block(&schema, &[])), schema.columns);
            }
        }
    }
}
