//! Reads `aggregations`: endpoints that answer a count, a sum or an average.

use url::Url;

use super::section::Section;
use super::{Aggregation, Function, keys, urls};

/// Reads `aggregations`.
pub(super) fn read(table: &Section<'_>, base: Option<&Url>) -> Vec<Aggregation> {
    let columns: Vec<String> = table.blocks("columns", keys::COLUMN).into_iter().map(|(name, _)| name).collect();
    let blocks = table.blocks("aggregations", keys::AGGREGATION);
    blocks.into_iter().filter_map(|(name, section)| aggregation(name, &section, &columns, base)).collect()
}

fn aggregation(name: String, section: &Section<'_>, columns: &[String], base: Option<&Url>) -> Option<Aggregation> {
    for key in ["function", "endpoint", "response-path"] {
        section.require(key, "");
    }
    let functions = [("count", Function::Count), ("sum", Function::Sum), ("avg", Function::Avg)];
    let function = section.choice("function", &functions);
    if let Some(function) = function.filter(|f| *f != Function::Count) {
        section.require("column", &format!(" with function = {}", function.name()));
    }
    let column = section.name("column");
    if let Some(column) = column.as_ref().filter(|name| !columns.is_empty() && !columns.contains(name)) {
        section.problem("column", format!("{column:?} is no column of this table"));
    }
    let endpoint = section.text("endpoint").and_then(|text| {
        let placed = urls::check_endpoint(&text)
            .and_then(|()| match urls::placeholders(&text)?.as_slice() {
                [] => Ok(()),
                _ => Err("must have no {placeholder}".into()),
            })
            .and_then(|()| base.map(|base| urls::endpoint(base, &text)).transpose());
        placed.unwrap_or_else(|said| {
            section.problem("endpoint", said);
            None
        })
    });
    let response = section.pointer("response-path");
    let params = section.pairs("params");
    Some(Aggregation { name, function: function?, column, url: endpoint?, response: response?, params })
}
