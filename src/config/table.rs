//! Reads one table.

use std::cell::{Cell, RefCell};
use std::path::Path;

use hocon::{HoconValue, ScalarType};
use jsonptr::PointerBuf;
use serde_json::{Map, Value};
use url::Url;

use super::http::Format;
use super::openapi::{Asked, Described};
use super::section::Section;
use super::validate::{self, Facts, Sent};
use super::{ColumnConfig, ColumnType, Filter, Method, Operator, SchemaMode, TableConfig};
use super::{CursorTo, Style, aggregation, checkpoint, child, explode, http, keys, pagination, partition, text, urls};
use crate::storage::{self, Location, Settings};

/// What a table takes from the blocks of its source.
pub(super) struct Shared<'a> {
    pub(super) base_url: Option<Url>,
    /// The document of `openapi`.
    pub(super) described: Option<&'a Described>,
    /// Of the configuration file.
    pub(super) directory: &'a Path,
    pub(super) format: Option<Format>,
    /// The parameter of `auth.type = query`.
    pub(super) auth_sends: Option<Sent>,
    pub(super) pagination: Section<'a>,
    pub(super) schema: Section<'a>,
    pub(super) names: Vec<String>,
    pub(super) storage: &'a Settings,
    /// The problems of every store that a table names: many tables share one.
    pub(super) opened: RefCell<Vec<(Location, Vec<String>)>>,
    /// Whether any path leads to a store.
    pub(super) has_remote: Cell<bool>,
}

impl Shared<'_> {
    /// What is wrong with a location, found without asking anybody.
    pub(super) fn problems_of(&self, location: &Location) -> Vec<String> {
        let mut opened = self.opened.borrow_mut();
        if let Some((_, problems)) = opened.iter().find(|(known, _)| known == location) {
            return problems.clone();
        }
        let problems = storage::open(location, self.storage).err().unwrap_or_default();
        opened.push((location.clone(), problems.clone()));
        problems
    }
}

/// Reads a table; `None` if a problem leaves it incomplete.
pub(super) fn read(name: &str, table: &Section<'_>, shared: &Shared<'_>) -> Option<TableConfig> {
    let report = table.report();
    check_name(name, table);
    let method = table.choice("method", &[("GET", Method::Get), ("POST", Method::Post)]);
    let body = read_body(table, method);
    let params = table.pairs("params");
    let headers = http::read_headers(table);
    let data_path = table.pointer("data-path");
    let has_data_path = data_path.is_some() || !table.sets("data-path");
    let data_path = data_path.filter(|p| !p.is_root());
    let error_path = table.pointer("error-path");
    let columns = read_columns(table);
    let mut filters = read_filters(table);

    let own = table.block("pagination", keys::PAGINATION);
    let paging = pagination::read(own, &shared.pagination, method.unwrap_or(Method::Post));
    let cursor_in_body =
        paging.config.as_ref().is_some_and(|p| matches!(&p.style, Style::Cursor { to: CursorTo::Body(_), .. }));
    if cursor_in_body && body.as_ref().is_some_and(|b| !b.is_object()) {
        table.problem("body", "must be a block: pagination.cursor-body-path puts the cursor into it");
    }
    let saving = checkpoint::read(table.block("checkpoint", keys::CHECKPOINT), shared);

    let endpoint = table.text("endpoint");
    table.require("endpoint", ": a path relative to base-url");
    let streamed = shared.format.is_some_and(Format::is_streamed);
    let partition = partition::read(table, &paging, streamed);
    let (child, batch) = child::read(table, &shared.names, endpoint.as_deref());
    let aggregations = aggregation::read(table, shared.base_url.as_ref());
    let url = endpoint.and_then(|text| read_url(table, &text, shared.base_url.as_ref()));

    validate::check(&Facts {
        table,
        format: shared.format,
        paging: &paging,
        saving: &saving,
        partition: partition.as_ref(),
        is_child: table.sets("parent-table"),
    });
    let mut sends: Vec<Sent> = shared.auth_sends.iter().cloned().chain(paging.sends).collect();
    let mut fixed: Vec<Sent> =
        params.iter().map(|(name, _)| Sent::at(text::join(&table.key("params"), name), name)).collect();
    fixed.dedup();
    sends.extend(fixed);
    sends.extend(batch);
    sends.extend(saving.sends.clone());
    validate::filters(&mut filters, &sends, report);
    // The checkpoint last, so that it is the one to change.
    let at = sends.len() - usize::from(saving.sends.is_some());
    let (partition, slicing) = partition.map(|p| (p.config, p.sends)).unzip();
    sends.splice(at..at, slicing.into_iter().flatten());
    validate::writers(&sends, report);

    let mode = http::read_mode(&shared.schema, table, shared.described.is_some());
    let described = shared.described.filter(|_| mode == Some(SchemaMode::Strict) && !table.sets("columns"));
    let columns = match (described, &url, shared.base_url.as_ref(), method, paging.style) {
        (Some(described), Some(url), Some(base), Some(method), Some(style)) if has_data_path => {
            let flatten_depth = shared.schema.size("flatten-depth", 0).unwrap_or_default();
            let asked = Asked { url, base, method, data_path: data_path.as_ref(), style, streamed, flatten_depth };
            described.columns(table, &asked)
        }
        // Elsewhere they have no effect.
        _ if mode != Some(SchemaMode::Strict) => Vec::new(),
        _ => columns,
    };
    let schema = http::read_schema(&shared.schema, mode, &columns, described.is_some(), table, (name, &shared.names));
    let served = paging.style.is_some_and(|style| validate::is_served(&saving, style));
    Some(TableConfig {
        name: name.to_owned(),
        url: url?,
        method: method?,
        body,
        params,
        headers,
        data_path,
        error_path,
        columns,
        is_from_spec: described.is_some(),
        pagination: paging.config?,
        filters: filters.into_iter().map(|(_, filter)| filter).collect(),
        partition: partition.flatten(),
        child,
        aggregations,
        checkpoint: saving.config.filter(|_| served),
        schema: schema?,
    })
}

/// A table's name becomes a file name (R9).
fn check_name(name: &str, table: &Section<'_>) {
    let Some(why) = explode::unsafe_name(name) else { return };
    table.report().problem(table.path(), format!("the table name {name:?} {why}; it becomes the name of a file"));
}

fn read_url(table: &Section<'_>, text: &str, base: Option<&Url>) -> Option<Url> {
    let url = urls::check_endpoint(text).and_then(|()| base.map(|base| urls::endpoint(base, text)).transpose());
    url.unwrap_or_else(|said| {
        table.problem("endpoint", said);
        None
    })
}

fn read_body(table: &Section<'_>, method: Option<Method>) -> Option<Value> {
    let body = json(table.raw("body")?);
    if method == Some(Method::Get) {
        table.problem("body", "needs method = POST; a GET has no body");
    }
    if body.is_none() {
        table.problem("body", "holds a number that JSON cannot carry without changing it; quote it");
    }
    body
}

/// A value as JSON, numbers as written; `None` if a number would change.
fn json(value: &HoconValue) -> Option<Value> {
    match value {
        HoconValue::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Some((name.clone(), json(value)?)));
            fields.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        HoconValue::Array(items) => items.iter().map(json).collect::<Option<Vec<_>>>().map(Value::Array),
        HoconValue::Scalar(scalar) => match scalar.value_type {
            ScalarType::Null => Some(Value::Null),
            ScalarType::Boolean => Some(Value::Bool(scalar.raw == "true")),
            ScalarType::Number => number(&scalar.raw),
            _ => Some(Value::String(scalar.raw.clone())),
        },
        _ => Some(Value::Null),
    }
}

fn number(raw: &str) -> Option<Value> {
    if raw.contains(['.', 'e', 'E']) {
        return raw.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
    }
    raw.parse::<i64>().map(Value::from).or_else(|_| raw.parse::<u64>().map(Value::from)).ok()
}

fn read_columns(table: &Section<'_>) -> Vec<ColumnConfig> {
    let blocks = table.blocks("columns", keys::COLUMN);
    blocks.into_iter().filter_map(|(name, section)| read_column(name, &section)).collect()
}

fn read_column(name: String, section: &Section<'_>) -> Option<ColumnConfig> {
    if name.is_empty() {
        section.report().problem(section.path(), "the column name is empty");
    }
    section.require("type", &format!(": {TYPES}"));
    let data_type = section.text("type").and_then(|text| {
        let read = column_type(&text);
        if read.is_none() {
            section.problem("type", format!("expected one of {TYPES}, not {text:?}"));
        }
        read
    });
    let path =
        if section.sets("path") { section.pointer("path") } else { Some(PointerBuf::from_tokens([name.as_str()])) };
    let format = section.timestamp_format("format");
    if format.is_some() && data_type.is_some_and(|t| !matches!(t, ColumnType::Date | ColumnType::Timestamp)) {
        section.problem("format", "is for columns of type date and timestamp only");
    }
    Some(ColumnConfig { name, data_type: data_type?, path: path?, format })
}

const TYPES: &str = "int32, int64, float64, \"decimal(precision,scale)\", boolean, string, date, timestamp, json";

pub(super) fn column_type(text: &str) -> Option<ColumnType> {
    Some(match text {
        "int32" => ColumnType::Int32,
        "int64" => ColumnType::Int64,
        "float64" => ColumnType::Float64,
        "boolean" => ColumnType::Boolean,
        "string" => ColumnType::String,
        "date" => ColumnType::Date,
        "timestamp" => ColumnType::Timestamp,
        "json" => ColumnType::Json,
        other => return decimal(other),
    })
}

/// `decimal(p,s)`: precision 1 to 38, scale 0 to precision.
fn decimal(text: &str) -> Option<ColumnType> {
    let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale) = (precision.trim().parse::<u8>().ok()?, scale.trim().parse::<u8>().ok()?);
    let fits = (1..=38).contains(&precision) && scale <= precision;
    Some(ColumnType::Decimal(precision, i8::try_from(scale).ok()?)).filter(|_| fits)
}

const OPERATORS: [(&str, Operator); 6] = [
    ("eq", Operator::Eq),
    ("neq", Operator::Neq),
    ("gt", Operator::Gt),
    ("gte", Operator::Gte),
    ("lt", Operator::Lt),
    ("lte", Operator::Lte),
];

/// The filters with the path of each.
fn read_filters(table: &Section<'_>) -> Vec<(String, Filter)> {
    let blocks = table.list("filters", keys::FILTER);
    blocks.iter().filter_map(|section| Some((section.key("param"), read_filter(section)?))).collect()
}

fn read_filter(section: &Section<'_>) -> Option<Filter> {
    for key in ["param", "column", "operators"] {
        section.require(key, "");
    }
    let (param, column) = (section.name("param"), section.name("column"));
    let operators = section.texts("operators").map(|words| read_operators(section, &words));
    let exact = section.flag("exact");
    Some(Filter { param: param?, column: column?, operators: operators?, exact: exact?, is_taken: false })
}

fn read_operators(section: &Section<'_>, words: &[String]) -> Vec<Operator> {
    let valid = OPERATORS.map(|(word, _)| word).join(", ");
    if words.is_empty() {
        section.problem("operators", format!("must name at least one of {valid}"));
    }
    let mut operators = Vec::new();
    for word in words {
        match OPERATORS.iter().find(|(name, _)| name == word) {
            Some((_, operator)) => operators.push(*operator),
            None => section.problem("operators", format!("expected some of {valid}, not {word:?}")),
        }
    }
    operators
}
