//! A table in words: how it pages, what it keeps, what that guarantees.

use crate::config::{
    CursorFrom, CursorTo, DeclaredEnd, Join, ModeConfig, Pagination, Partitioning, SchemaMode, Style, TableConfig,
    exploded_name,
};

/// How the endpoint pages.
pub(super) fn paging(pagination: &Pagination) -> String {
    let size = match &pagination.page_size_param {
        Some(param) => format!(", {param}={}", pagination.max_page_size),
        None => String::new(),
    };
    let words = match &pagination.style {
        Style::None => "one page".to_owned(),
        Style::Offset { param, end } => format!("by offset in {param}{size}, until {}", until(end)),
        Style::Page { param, first, end } => {
            format!("by page number in {param} from {first}{size}, until {}", until(end))
        }
        Style::Cursor { from, to, initial } => {
            let from = match from {
                CursorFrom::Path(path) => path.to_string(),
                CursorFrom::Header(name) => format!("the header {name}"),
            };
            let to = match to {
                CursorTo::Query(param) => param.clone(),
                CursorTo::Body(path) => format!("{path} of the body"),
            };
            let initial = initial.as_ref().map_or_else(String::new, |value| format!(", first {value:?}"));
            format!("by the cursor at {from}, sent in {to}{initial}{size}, until there is none")
        }
        Style::LinkHeader => format!("by the Link header{size}, until there is no rel=next"),
        Style::NextUrl { path } => format!("by the URL at {path}{size}, until there is none"),
    };
    match pagination.max_pages {
        Some(pages) => format!("{words}; needing more than {pages} pages is an error"),
        None => words,
    }
}

fn until(end: &DeclaredEnd) -> String {
    let declared: Vec<_> =
        end.total_path.iter().chain(&end.has_more_path).map(|path| format!("{path} says so")).collect();
    if declared.is_empty() { "an empty page".to_owned() } else { format!("{} or an empty page", declared.join(", ")) }
}

/// The names of a table's exploded tables, and what they are.
///
/// Those of an inferred table are known when it is read: one line stands for all of them.
pub(super) fn exploded(table: &TableConfig) -> Vec<(String, String)> {
    if table.explode().is_none() {
        return Vec::new();
    }
    let of = |column: &str| format!("the elements of {column} in {}", table.name);
    if table.schema.mode == SchemaMode::Infer {
        let what = format!("{}: restmark schema names them", of("each array column"));
        return vec![(exploded_name(&table.name, "<field>"), what)];
    }
    table.json_columns().map(|column| (exploded_name(&table.name, column), of(column))).collect()
}

/// How the table is cut into slices, or whose rows lead to it; `None` where it is read as one.
pub(super) fn slices(table: &TableConfig) -> Option<String> {
    let kind = table.partition.as_ref().map(|partition| match partition {
        Partitioning::Offset { size, count } => format!("{count} windows of {size} records"),
        Partitioning::Enum { param, values } => format!("one for each of {} values of {param}", values.len()),
        Partitioning::Dates { column, range, .. } => {
            format!("windows of {}s of {column}, between the bounds a query sets", range.as_secs_f64())
        }
    });
    let parent = table.child.as_ref().map(|child| {
        let how = match &child.join {
            Join::NestedLoop { .. } => format!("one walk for each {} of {}", child.key, child.parent),
            Join::Batch { param, size, .. } => {
                format!("one walk for {size} of {} of {}, in {param}", child.key, child.parent)
            }
        };
        format!("{how}; the key is in column {}", child.column())
    });
    kind.or(parent)
}

/// What the checkpoint keeps.
pub(super) fn checkpoint(table: &TableConfig) -> String {
    let Some(checkpoint) = &table.checkpoint else { return "none".to_owned() };
    match &checkpoint.mode {
        ModeConfig::Cursor => "the cursor that fetched the last page".to_owned(),
        ModeConfig::Offset => "the number of records received".to_owned(),
        ModeConfig::Timestamp { path, param, .. } => format!("the greatest timestamp at {path}, sent in {param}"),
        ModeConfig::Token { path, param } => format!("the token at {path} of the last page, sent in {param}"),
    }
}

/// What a run of the table delivers.
pub(super) fn guarantee(table: &TableConfig) -> String {
    let Some(checkpoint) = &table.checkpoint else { return "every run reads the whole table".to_owned() };
    let dedup = checkpoint.dedup_key.as_ref().map(|key| format!("each record once, as long as {key} identifies it"));
    match (&checkpoint.mode, dedup) {
        (ModeConfig::Cursor, None) => "at least once: the last page is read again".to_owned(),
        (ModeConfig::Cursor, Some(once)) => {
            format!("{once}: the last page is read again, what was delivered is dropped")
        }
        (ModeConfig::Offset, _) => "each record once on an append-only API".to_owned(),
        (ModeConfig::Timestamp { .. }, None) => "at least once from the greatest timestamp".to_owned(),
        (ModeConfig::Timestamp { .. }, Some(once)) => {
            format!("{once}: records of the greatest timestamp that were delivered are dropped")
        }
        (ModeConfig::Token { .. }, _) => "each record once, as far as the API's token says".to_owned(),
    }
}

/// What holds for each kind of output, and what could break it: a name for the line, and its words.
pub(super) fn outputs(table: &TableConfig) -> Vec<(&'static str, String)> {
    let Some(checkpoint) = &table.checkpoint else {
        return vec![
            (
                "to files",
                "each record once a run; a kill while its files appear leaves some of them in sight".to_owned(),
            ),
            (
                "to stdout",
                "each record once a run that ends with 0; what a failed one printed is part of it".to_owned(),
            ),
        ];
    };
    let has_dedup = checkpoint.dedup_key.is_some();
    let between = match (&checkpoint.mode, has_dedup) {
        (ModeConfig::Cursor, false) => "records of the last page come again in the next run",
        (ModeConfig::Cursor, true) => "once over all runs, while the last page still holds what it held",
        (ModeConfig::Offset, _) => "once over all runs, while the API only appends",
        (ModeConfig::Timestamp { .. }, false) => {
            "records of the greatest timestamp come again if the API's bound is inclusive"
        }
        (ModeConfig::Timestamp { .. }, true) => "once over all runs, while none is dated before the position less lag",
        (ModeConfig::Token { .. }, _) => "once over all runs, while the API's token is right",
    };
    let mut lines = vec![
        ("to files", format!("each run an epoch that a crash anywhere neither loses nor repeats; {between}")),
        ("to stdout", "at least once: a crash between the last row and the commit repeats the run".to_owned()),
    ];
    if matches!(checkpoint.mode, ModeConfig::Timestamp { .. }) {
        let lag = checkpoint.lag.as_secs();
        lines.push((
            "stream",
            format!(
                "once in files, while none comes later than {lag} s (lag) after its time, and clocks agree within it"
            ),
        ));
    }
    lines
}
