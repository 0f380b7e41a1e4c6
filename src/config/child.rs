//! Reads the keys of a child table, whose requests are made of its parent's rows (R31).

use jsonptr::PointerBuf;

use super::section::{Report, Section};
use super::validate::Sent;
use super::{Child, ColumnType, Join, OnMissing, TableConfig, text, urls};

/// The keys of a child table.
const CHILD: &[&str] = &[
    "parent-table",
    "parent-key",
    "join-strategy",
    "batch-param",
    "batch-size",
    "batch-separator",
    "child-key-field",
    "on-404",
];

/// The keys of a batch join.
const BATCH: &[&str] = &["batch-param", "batch-size", "batch-separator", "child-key-field"];

/// Reads the keys of a child table; also the batch parameter it sends.
pub(super) fn read(table: &Section<'_>, tables: &[String], endpoint: Option<&str>) -> (Option<Child>, Option<Sent>) {
    let parent = table.name("parent-table");
    let is_batch = table.choice("join-strategy", &[("nested_loop", false), ("batch", true)]);
    let on_missing = table.choice("on-404", &[("fail", OnMissing::Fail), ("skip", OnMissing::Skip)]);
    let placeholders = match endpoint.map(urls::placeholders) {
        Some(Err(said)) => {
            table.problem("endpoint", said);
            None
        }
        Some(Ok(names)) => Some(names),
        None => None,
    };
    let Some(parent) = parent else {
        if placeholders.is_some_and(|names| !names.is_empty()) {
            table.problem("endpoint", "only a child table (parent-table) can have a {placeholder}");
        }
        for key in CHILD.iter().filter(|key| **key != "parent-table" && table.sets(key)) {
            table.problem(key, "is a key of child tables: it needs parent-table");
        }
        return (None, None);
    };
    table.require("parent-key", " with parent-table");
    let key = table.name("parent-key");
    if !tables.contains(&parent) {
        table.problem("parent-table", format!("there is no table {parent:?}"));
    }
    if table.path() == text::join("tables", &parent) {
        table.problem("parent-table", "a table cannot be its own parent");
    }
    let column = key.as_ref().map(|key| format!("{PARENT}{key}"));
    for (name, section) in table.blocks("columns", super::keys::COLUMN) {
        if Some(&name) == column.as_ref() {
            section.report().problem(section.path(), "is the column that holds the parent's key: name it otherwise");
        }
    }
    if table.sets("partition") {
        table.problem("partition", "a child table is cut by its parent's rows: it can have no partition");
    }
    let is_batch = is_batch.unwrap_or(false);
    let (join, sent) = if is_batch { batch(table, placeholders) } else { (nested(table, placeholders), None) };
    let child = |join| {
        let (key, data_type) = (key?, ColumnType::String);
        let path = PointerBuf::from_tokens([key.as_str()]);
        Some(Child { parent, key, path, data_type, join, on_missing: on_missing? })
    };
    (join.and_then(child), sent)
}

/// What the column of the parent's key begins with.
pub(super) const PARENT: &str = "_parent_";

fn nested(table: &Section<'_>, placeholders: Option<Vec<&str>>) -> Option<Join> {
    table.unused(BATCH, "join-strategy = nested_loop");
    if let [name] = placeholders?.as_slice() {
        return Some(Join::NestedLoop { placeholder: (*name).to_owned() });
    }
    table.problem("endpoint", "a child table's endpoint needs exactly one {placeholder}");
    None
}

fn batch(table: &Section<'_>, placeholders: Option<Vec<&str>>) -> (Option<Join>, Option<Sent>) {
    for key in ["batch-param", "child-key-field"] {
        table.require(key, " with join-strategy = batch");
    }
    if placeholders.is_some_and(|names| !names.is_empty()) {
        table.problem("endpoint", "join-strategy = batch sends keys in batch-param, not in a {placeholder}");
    }
    let param = table.name("batch-param");
    let sent = param.as_ref().map(|param| Sent::by(table, "batch-param", param));
    let field = match table.text("child-key-field") {
        Some(text) if text.starts_with('/') => table.pointer("child-key-field"),
        Some(name) => Some(PointerBuf::from_tokens([name.as_str()])),
        None => None,
    };
    let separator = table.text("batch-separator");
    if separator.as_ref().is_some_and(String::is_empty) {
        table.problem("batch-separator", "must not be empty: keys would run into each other");
    }
    let join = || {
        let (size, separator) = (table.size("batch-size", 1)?, separator?);
        Some(Join::Batch { param: param?, size, separator, field: field? })
    };
    (join(), sent)
}

/// A key that the parent declares as a column stands where that column does, and keeps an integer's type.
pub(super) fn find_keys(tables: &mut [TableConfig]) {
    for at in 0..tables.len() {
        let column = tables.get(at).and_then(|table| table.child.as_ref()).and_then(|child| {
            let parent = tables.iter().find(|other| other.name == child.parent)?;
            parent.columns.iter().find(|column| column.name == child.key).cloned()
        });
        let child = tables.get_mut(at).and_then(|table| table.child.as_mut());
        if let (Some(child), Some(column)) = (child, column) {
            child.path = column.path;
            if matches!(column.data_type, ColumnType::Int32 | ColumnType::Int64) {
                child.data_type = column.data_type;
            }
        }
    }
}

/// A table whose parents lead back to itself has no first row.
pub(super) fn no_circles(tables: &[TableConfig], report: &Report) {
    for table in tables {
        let mut at = table;
        for _ in 0..tables.len() {
            let parent = at.child.as_ref().map(|child| &child.parent);
            let Some(parent) = tables.iter().find(|other| Some(&other.name) == parent) else { break };
            at = parent;
            if at.name == table.name {
                let key = text::join(&text::join("tables", &table.name), "parent-table");
                report.problem(&key, "the parents of this table lead back to itself");
                break;
            }
        }
    }
}
