//! Array columns as tables of their own: what is set, which names they have, and which of them are taken.

use super::section::{Report, Section};
use super::{ColumnType, SchemaMode, TableConfig, text};

/// `schema.array-handling = explode_view` or `both`, for one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explode {
    /// `both`: array columns also stay in their table.
    pub keeps_arrays: bool,
    /// `explode-outer`.
    pub outer: bool,
    /// Columns whose exploded table would have the name of another table, with that name.
    pub taken: Vec<(String, String)>,
    /// In an exploded table: what its rows are the elements of.
    pub of: Option<ArrayOf>,
}

/// An array column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayOf {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}

/// What a name that is no configured table may stand for.
#[derive(Debug)]
pub enum Named {
    /// The elements of an array column.
    Table(Box<TableConfig>),
    /// Why it stands for nothing.
    Nothing(String),
}

impl TableConfig {
    /// How arrays are exploded; `None` where they stay, as they do in a table with a checkpoint.
    pub fn explode(&self) -> Option<&Explode> {
        self.schema.explode.as_ref().filter(|_| self.keeps_arrays().is_none())
    }

    /// What keeps a table from having exploded tables: its key, what it is, and why.
    fn keeps_arrays(&self) -> Option<[&'static str; 3]> {
        if self.checkpoint.is_some() {
            return Some(["checkpoint", "a checkpoint", "its position says nothing about them"]);
        }
        // What elements are is inferred from the first page, and here each slice has one of its own.
        let sliced = "each of its slices would find columns of its own in them";
        match (&self.partition, &self.child) {
            (Some(_), _) => Some(["partition", "partitions", sliced]),
            (None, Some(_)) => Some(["parent-table", "a parent", sliced]),
            (None, None) => None,
        }
    }

    /// The array column whose elements are the rows, in an exploded table.
    pub fn array(&self) -> Option<&ArrayOf> {
        self.explode()?.of.as_ref()
    }

    /// The columns that may be exploded, where they are known without a record: those declared as `json`.
    pub fn json_columns(&self) -> impl Iterator<Item = &str> {
        let known = self.schema.mode == SchemaMode::Strict && self.explode().is_some_and(|e| e.of.is_none());
        let json = self.columns.iter().filter(|c| c.data_type == ColumnType::Json);
        json.filter(move |_| known).map(|c| c.name.as_str())
    }

    fn exploded(&self, column: &str) -> Self {
        let mut table = self.clone();
        if let Some(explode) = &mut table.schema.explode {
            explode.of = Some(ArrayOf { table: self.name.clone(), column: column.to_owned() });
        }
        table.name = exploded_name(&self.name, column);
        table
    }
}

/// `<table>_<field>`.
pub fn exploded_name(table: &str, column: &str) -> String {
    format!("{table}_{column}")
}

/// The exploded table of a name, if it can be one.
///
/// What an inferred table holds is known when it is read: there the name alone decides.
pub fn named(tables: &[TableConfig], name: &str) -> Named {
    let candidates: Vec<(&TableConfig, &str)> = tables
        .iter()
        .filter(|table| table.schema.explode.is_some())
        .filter_map(|table| Some((table, name.strip_prefix(&table.name)?.strip_prefix('_')?)))
        .filter(|(table, column)| {
            let json = |c: &super::ColumnConfig| c.name == *column && c.data_type == ColumnType::Json;
            !column.is_empty() && (table.schema.mode != SchemaMode::Strict || table.columns.iter().any(json))
        })
        .collect();
    let (kept, free): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|(table, _)| table.keeps_arrays().is_some());
    match (free.as_slice(), kept.as_slice()) {
        ([(table, column)], _) => match unsafe_name(name) {
            Some(why) => Named::Nothing(format!("the table name {name:?} {why}; it becomes the name of a file")),
            None => Named::Table(Box::new(table.exploded(column))),
        },
        ([(one, first), (other, second), ..], _) => Named::Nothing(format!(
            "{name:?} may be array column {first:?} of table {} or {second:?} of table {}: rename one of the tables",
            one.name, other.name
        )),
        ([], [(table, column), ..]) => {
            let [_, what, why] = table.keeps_arrays().unwrap_or_default();
            Named::Nothing(format!(
                "{name} would be the elements of {column:?} of table {}, which has {what}: {why}, so a table with {what} \
                 has no exploded tables; describe the endpoint a second time, as a table without {what}",
                table.name
            ))
        }
        ([], []) => {
            let names = tables.iter().flat_map(|table| {
                let exploded = table.json_columns().map(|column| exploded_name(&table.name, column));
                std::iter::once(table.name.clone()).chain(exploded).collect::<Vec<_>>()
            });
            Named::Nothing(format!("there is no table {name:?}; tables: {}", names.collect::<Vec<_>>().join(", ")))
        }
    }
}

/// Why a name cannot become the name of a file (R9).
pub(super) fn unsafe_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.starts_with('.') {
        Some("begins with a dot")
    } else if name.contains(['/', '\\', ':']) {
        Some("has a /, \\ or :")
    } else if name.contains(char::is_control) {
        Some("has control characters")
    } else if name.len() > 190 {
        // A claim on HDFS adds 61 bytes to it, and names there end at 255.
        Some("has more than 190 bytes")
    } else {
        None
    }
}

/// Reads the two keys for a table of this name and mode.
pub(super) fn read(section: &Section<'_>, mode: SchemaMode, name: &str, tables: &[String]) -> Option<Explode> {
    let keeps = [("keep_array", None), ("explode_view", Some(false)), ("both", Some(true))];
    let (keeps_arrays, outer) = (section.choice("array-handling", &keeps)?, section.flag("explode-outer")?);
    let Some(keeps_arrays) = keeps_arrays else {
        section.unused(&["explode-outer"], "schema.array-handling = keep_array");
        return None;
    };
    if mode == SchemaMode::Variant {
        section.unused(&["array-handling", "explode-outer"], "schema.mode = variant");
        return None;
    }
    let prefix = exploded_name(name, "");
    let taken = tables.iter().filter_map(|other| Some((other.strip_prefix(&prefix)?.to_owned(), other.clone())));
    Some(Explode { keeps_arrays, outer, taken: taken.collect(), of: None })
}

/// Two tables of one name; and a setting that a checkpoint takes the effect of.
pub(super) fn check(tables: &[TableConfig], report: &Report) {
    let at = |table: &str, key: &str| text::join(&text::join("tables", table), key);
    let mut seen: Vec<(String, &str, &str)> = Vec::new();
    for table in tables {
        let explode = table.schema.explode.as_ref();
        if let Some([key, what, _]) = table.keeps_arrays().filter(|_| explode.is_some_and(|e| !e.keeps_arrays)) {
            let said = format!("a table with {what} has no exploded tables: its arrays stay columns");
            report.warn(&at(&table.name, key), said);
        }
        for column in table.json_columns() {
            let (name, key) = (exploded_name(&table.name, column), text::join(&at(&table.name, "columns"), column));
            if tables.iter().any(|other| other.name == name) {
                let said = format!("its exploded table {name} would have the name of table {name}: rename one of them");
                report.problem(&key, said);
            }
            if let Some((_, other, theirs)) = seen.iter().find(|(taken, ..)| *taken == name) {
                let said = format!(
                    "its exploded table {name} would have the name of the one of column {theirs:?} of table {other}: \
                     rename one of them"
                );
                report.problem(&key, said);
            }
            seen.push((name, &table.name, column));
        }
    }
}
