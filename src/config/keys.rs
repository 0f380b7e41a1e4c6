//! The one table of known keys: what each block may hold.

/// The top level.
pub(super) const TOP: &[&str] = &["base-url", "openapi", "auth", "pagination", "http", "schema", "hadoop", "tables"];

/// `auth`.
pub(super) const AUTH: &[&str] = &[
    "type",
    "token",
    "token-file",
    "username",
    "password",
    "header-name",
    "header-value",
    "query-param",
    "query-value",
    "client-id",
    "client-secret",
    "token-url",
    "scope",
    "audience",
    "client-auth",
];

/// `pagination`, of the source and of a table.
pub(super) const PAGINATION: &[&str] = &[
    "style",
    "offset-param",
    "page-param",
    "first-page",
    "page-size-param",
    "max-page-size",
    "results-path",
    "cursor-path",
    "cursor-header",
    "cursor-param",
    "cursor-body-path",
    "initial-cursor",
    "next-url-path",
    "total-path",
    "has-more-path",
    "max-pages",
];

/// `http`.
pub(super) const HTTP: &[&str] = &[
    "timeout",
    "idle-timeout",
    "page-timeout",
    "max-retries",
    "max-backoff",
    "max-retry-after",
    "rate-limit",
    "read-ahead",
    "compression",
    "response-format",
    "max-body-bytes",
    "follow-redirects",
    "headers",
];

/// `schema`.
pub(super) const SCHEMA: &[&str] =
    &["mode", "flatten-depth", "array-handling", "explode-outer", "on-mismatch", "rest-column", "batch-rows"];

/// `tables.<name>`.
pub(super) const TABLE: &[&str] = &[
    "endpoint",
    "method",
    "body",
    "params",
    "headers",
    "data-path",
    "error-path",
    "pagination",
    "columns",
    "filters",
    "partition",
    "checkpoint",
    "parent-table",
    "parent-key",
    "join-strategy",
    "batch-param",
    "batch-size",
    "batch-separator",
    "child-key-field",
    "on-404",
    "aggregations",
];

/// `tables.<name>.columns.<name>`.
pub(super) const COLUMN: &[&str] = &["type", "path", "format"];

/// An entry of `tables.<name>.filters`.
pub(super) const FILTER: &[&str] = &["param", "column", "operators", "exact"];

/// `tables.<name>.partition`.
pub(super) const PARTITION: &[&str] =
    &["type", "size", "count", "param", "values", "column", "range", "start-param", "end-param", "format"];

/// `tables.<name>.checkpoint`.
pub(super) const CHECKPOINT: &[&str] = &[
    "enabled",
    "path",
    "mode",
    "timestamp-path",
    "timestamp-param",
    "timestamp-format",
    "token-path",
    "token-param",
    "lag",
    "dedup-key",
    "future",
];

/// `tables.<name>.aggregations.<name>`.
pub(super) const AGGREGATION: &[&str] = &["function", "column", "endpoint", "response-path", "params"];

/// The entry of the reference that stands for each entry of a block of named blocks.
pub(super) const TEMPLATE: &str = "<name>";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hocon::HoconValue;

    use super::*;
    use crate::config::load::reference;

    /// The keys a block of the reference holds, found by its path.
    fn keys_of(root: &HoconValue, path: &[&str]) -> BTreeSet<String> {
        let block = path.iter().fold(root, |at, key| match at {
            HoconValue::Array(items) => &items[0],
            _ => &at.as_object().unwrap()[*key],
        });
        block.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn r11_the_reference_holds_exactly_the_known_keys() {
        let root = reference().unwrap();
        let table = ["tables", TEMPLATE];
        let blocks: [(&[&str], &[&str]); 11] = [
            (&[], TOP),
            (&["auth"], AUTH),
            (&["pagination"], PAGINATION),
            (&["http"], HTTP),
            (&["schema"], SCHEMA),
            (&table, TABLE),
            (&["tables", TEMPLATE, "columns", TEMPLATE], COLUMN),
            (&["tables", TEMPLATE, "filters", "0"], FILTER),
            (&["tables", TEMPLATE, "partition"], PARTITION),
            (&["tables", TEMPLATE, "checkpoint"], CHECKPOINT),
            (&["tables", TEMPLATE, "aggregations", TEMPLATE], AGGREGATION),
        ];
        for (path, known) in blocks {
            let known: BTreeSet<String> = known.iter().map(|k| (*k).to_owned()).collect();
            assert_eq!(keys_of(&root, path), known, "{path:?}");
        }
    }
}
