//! Combinations of keys: refused (R12) or warned about (R13).

use jsonptr::PointerBuf;

use super::*;
use crate::config::{Function, Join, OnMissing, Partitioning};

/// Refused combinations: lines before `tables`, lines of the table, the key and the words of one problem.
#[test]
fn r12_combinations_that_cannot_work_are_refused() {
    let streamed = "http { response-format = ndjson }";
    let timestamp =
        "checkpoint { enabled = true, path = c, mode = timestamp, timestamp-path = \"/ts\", timestamp-param = ";
    let at = |lines: &str, param: &str| format!("{lines}\n{timestamp}\"{param}\" }}");
    let cases: Vec<(&str, String, &str, Vec<&str>)> = vec![
        ("", format!("{CURSOR} checkpoint {{ enabled = true, path = c }}, partition {{ type = enum, param = k, values = [a] }}"),
            "tables.items.partition", vec!["partition", "checkpoint"]),
        ("", at(CURSOR, "cursor"), "tables.items.checkpoint.timestamp-param", vec!["cursor", "default"]),
        ("", at("pagination { style = offset }", "limit"), "tables.items.checkpoint.timestamp-param", vec!["limit"]),
        ("", at("pagination { style = link_header, page-size-param = n }", "n"), "tables.items.checkpoint.timestamp-param", vec!["page-size-param"]),
        ("", at("params { since = 1 }", "since"), "tables.items.checkpoint.timestamp-param", vec!["params.since"]),
        ("", "pagination { style = offset }, params { limit = 10 }".into(), "tables.items.params.limit", vec!["page-size-param"]),
        ("", "pagination { style = offset, offset-param = limit }".into(), "tables.items.pagination.page-size-param", vec!["offset-param"]),
        ("auth { type = query, query-param = cursor, query-value = k }", CURSOR.into(), "tables.items.pagination.cursor-param", vec!["auth.query-param"]),
        ("auth { type = query, query-param = k, query-value = v }", "params { k = [1, 2] }".into(), "tables.items.params.k", vec!["auth.query-param"]),
        ("", "pagination { style = page }, partition { type = enum, param = page, values = [1] }".into(), "tables.items.partition.param", vec!["page-param"]),
        ("", format!("{COLUMNS} partition {{ type = date-range, column = ts, range = 1 day, start-param = d, end-param = d, format = \"%F\" }}"),
            "tables.items.partition.end-param", vec!["start-param"]),
        ("", format!("{COLUMNS} partition {{ type = date-range, column = ts, range = 1 day, start-param = a, end-param = b, format = \"%Y-%m\" }}"),
            "tables.items.partition.format", vec!["range"]),
        ("", format!("{COLUMNS} partition {{ type = date-range, column = ts, range = 1 day, start-param = a, end-param = b, format = yyyy-MM-dd }}"),
            "tables.items.partition.format", vec!["%Y-%m-%d"]),
        ("", format!("{CURSOR} checkpoint {{ enabled = true, path = c, mode = token, token-path = \"/t\", token-param = cursor }}"),
            "tables.items.checkpoint.token-param", vec!["cursor-param"]),
        ("", "pagination { style = link_header }, checkpoint { enabled = true, path = c }".into(), "tables.items.checkpoint.mode", vec!["link_header", "cursor"]),
        ("", "pagination { style = next_url, next-url-path = \"/n\" }, checkpoint { enabled = true, path = c, mode = offset }".into(),
            "tables.items.checkpoint.mode", vec!["next_url", "offset"]),
        ("", "checkpoint { enabled = true, path = c, mode = timestamp }".into(), "tables.items.checkpoint.timestamp-path", vec!["required"]),
        ("", "checkpoint { enabled = true, path = c, mode = timestamp }".into(), "tables.items.checkpoint.timestamp-param", vec!["required"]),
        ("", "checkpoint { enabled = true, path = c, mode = token }".into(), "tables.items.checkpoint.token-path", vec!["required"]),
        (streamed, format!("{CURSOR} checkpoint {{ enabled = true, path = c }}"), "tables.items.checkpoint.mode", vec!["ndjson"]),
        ("http { response-format = sse }", "pagination { style = offset }, checkpoint { enabled = true, path = c, mode = offset }".into(),
            "tables.items.checkpoint.mode", vec!["sse", "offset"]),
        (streamed, CURSOR.into(), "tables.items.pagination.cursor-path", vec!["ndjson"]),
        (streamed, "pagination { style = offset, total-path = \"/t\" }".into(), "tables.items.pagination.total-path", vec!["ndjson"]),
        (streamed, "checkpoint { enabled = true, path = c, mode = token, token-path = \"/t\", token-param = t }".into(),
            "tables.items.checkpoint.token-path", vec!["ndjson"]),
        ("http { response-format = sse }", "pagination { style = offset, has-more-path = \"/m\" }".into(),
            "tables.items.pagination.has-more-path", vec!["sse"]),
        ("http { response-format = csv }", "pagination { style = next_url, next-url-path = \"/n\" }".into(),
            "tables.items.pagination.next-url-path", vec!["csv"]),
        ("http { response-format = csv }", format!("{CURSOR} checkpoint {{ enabled = true, path = c }}"),
            "tables.items.checkpoint.mode", vec!["csv", "cursor"]),
        ("http { response-format = csv }", "checkpoint { enabled = true, path = c, mode = token, token-path = \"/t\", token-param = t }".into(),
            "tables.items.checkpoint.token-path", vec!["csv"]),
        ("http { response-format = csv }", "columns { a { type = string, path = \"/a/b\" } }".into(),
            "tables.items.columns.a.path", vec!["/a/b", "CSV"]),
        ("http { response-format = csv }", "error-path = \"/error/text\"".into(), "tables.items.error-path", vec!["CSV"]),
        ("http { response-format = csv }",
            "checkpoint { enabled = true, path = c, mode = timestamp, timestamp-path = \"/a/0\", timestamp-param = t, dedup-key = \"\" }".into(),
            "tables.items.checkpoint.timestamp-path", vec!["CSV"]),
        (streamed, "data-path = \"/items\"".into(), "tables.items.data-path", vec!["ndjson"]),
        (streamed, "pagination { style = offset }, partition { type = offset, size = 5, count = 2 }".into(), "tables.items.partition.type", vec!["streamed"]),
        ("", "parent-table = items, parent-key = a, endpoint = \"/x/{k}\", checkpoint { enabled = true, path = c }".into(),
            "tables.items.checkpoint.enabled", vec!["child", "checkpoint"]),
        ("schema { rest-column = id }", COLUMNS.into(), "schema.rest-column", vec!["id"]),
    ];
    for (before, lines, key, words) in cases {
        let problems = Files::new(&format!("{before}\n{}", items(&lines))).problems();
        let named = problems.iter().any(|p| p.key == key && words.iter().all(|word| p.message.contains(word)));
        assert!(named, "{before} {lines}\nshould name {key} and {words:?}, said {problems:#?}");
    }
}

#[test]
fn r12_valid_neighbours_load() {
    let timestamp =
        "checkpoint { enabled = true, path = c, mode = timestamp, timestamp-path = \"/ts\", timestamp-param = ";
    for (before, lines) in [
        ("", format!("pagination {{ style = link_header }}, {COLUMNS} {timestamp} since }}")),
        ("http { response-format = ndjson }", format!("{COLUMNS} {timestamp} since }}")),
        ("http { response-format = jsonl }", "pagination { style = offset }".into()),
        ("http { response-format = sse }", format!("{COLUMNS} {timestamp} since, dedup-key = \"/a/id\" }}")),
        ("http { response-format = sse }", "pagination { style = cursor, cursor-header = X-Next }".into()),
        (
            "http { response-format = csv }",
            format!("pagination {{ style = page }}, {COLUMNS} {timestamp} since, dedup-key = \"/id\" }}"),
        ),
        (
            "http { response-format = csv }",
            "columns { \"a/b\" { type = string }, c { type = json, path = \"/a~1b\" } }".into(),
        ),
        ("", format!("{CURSOR} {COLUMNS} {timestamp} limit }}")),
        ("", "pagination { style = offset }, params { page = 1, cursor = x }".into()),
        ("auth { type = query, query-param = k, query-value = v }", "params { K = 1 }".into()),
        ("auth { type = oauth2_client, token = t }", String::new()),
        ("", "columns { a { type = string, path = \"/x\" }, b { type = string, path = \"/x\" } }".into()),
        ("http { timeout = \"30 seconds\", max-body-bytes = 1024, rate-limit = 0.5 }", "data-path = \"\"".into()),
    ] {
        let source = load(&format!("{before}\n{}", items(&lines)));
        assert!(source.warnings.is_empty(), "{lines}: {:?}", source.warnings);
    }
}

#[test]
fn r30_r31_what_slices_a_table_is_read_with_it() {
    let source = load(&items("pagination { style = offset }, partition { type = offset, size = 10, count = 2 }"));
    assert_eq!(source.tables[0].partition, Some(Partitioning::Offset { size: 10, count: 2 }));
    let source = load(&items("partition { type = enum, param = kind, values = [0, 1] }"));
    let values = vec!["0".to_owned(), "1".to_owned()];
    assert_eq!(source.tables[0].partition, Some(Partitioning::Enum { param: "kind".into(), values }));
    let parent = "tables.p.endpoint = p";
    let child = |lines: &str| load(&format!("{parent}\n{}", items(lines))).tables[1].child.clone().unwrap();
    let nested = child("endpoint = \"/x/{k}\", parent-table = p, parent-key = id, on-404 = skip");
    assert_eq!((nested.column().as_str(), nested.on_missing), ("_parent_id", OnMissing::Skip));
    assert_eq!(nested.join, Join::NestedLoop { placeholder: "k".into() });
    let batch = child(
        "parent-table = p, parent-key = id, join-strategy = batch, batch-param = ids, child-key-field = \"/a/b\"",
    );
    let field = PointerBuf::parse("/a/b").unwrap();
    assert_eq!(batch.join, Join::Batch { param: "ids".into(), size: 100, separator: ",".into(), field });
    let line = "aggregations { n { function = count, endpoint = \"/n\", response-path = \"/n\", params { a = 1 } } }";
    let aggregation = load(&items(line)).tables[0].aggregations[0].clone();
    assert_eq!((aggregation.name.as_str(), aggregation.function), ("n", Function::Count));
    assert_eq!((aggregation.url.path(), aggregation.params.len()), ("/api/n", 1));
}

#[test]
fn r12_what_cannot_slice_a_table_is_refused() {
    let parent = "tables.p { endpoint = p }";
    for (before, lines, key, said) in [
        ("", "partition { type = enum, param = k, values = [a, b, a] }", "partition.values", "twice"),
        (
            "",
            "pagination.style = offset, partition { type = offset, size = 1, count = 100001 }",
            "partition.count",
            "more",
        ),
        (
            parent,
            "endpoint = \"/{k}\", parent-table = p, parent-key = i, columns._parent_i.type = string",
            "columns._parent_i",
            "parent's key",
        ),
        (
            parent,
            "endpoint = \"/{k}\", parent-table = p, parent-key = i, partition { type = enum, param = k, values = [a] }",
            "partition",
            "child",
        ),
        (
            "tables.p { endpoint = \"/{k}\", parent-table = items, parent-key = i }",
            "endpoint = \"/{k}\", parent-table = p, parent-key = i",
            "parent-table",
            "back to itself",
        ),
        (
            "",
            "aggregations { n { function = sum, column = nope, endpoint = n, response-path = \"/n\" } }, columns.a.type = int64",
            "aggregations.n.column",
            "no column",
        ),
        (
            "",
            "aggregations { n { function = sum, endpoint = \"/{n}\", response-path = \"/n\" } }",
            "aggregations.n.endpoint",
            "placeholder",
        ),
        (
            "",
            "columns.a.type = string, partition { type = date-range, column = a, range = 1d, start-param = f, end-param = t, format = \"%F\" }",
            "partition.column",
            "date or timestamp",
        ),
    ] {
        let problems = Files::new(&format!("{before}\n{}", items(lines))).problems();
        let key = format!("tables.items.{key}");
        assert!(problems.iter().any(|p| p.key == key && p.message.contains(said)), "{key}: {problems:?}");
    }
}

#[test]
fn r13_a_filter_on_a_parameter_that_is_sent_is_one_warning() {
    let filters = "filters = [ { param = since, column = ts, operators = [gte] }, { param = limit, column = id, operators = [eq] }, \
                   { param = free, column = id, operators = [eq] }, { param = free, column = id, operators = [gt] } ]";
    let checkpoint =
        "checkpoint { enabled = true, path = c, mode = timestamp, timestamp-path = \"/ts\", timestamp-param = since }";
    let source = load(&items(&format!("{COLUMNS} pagination {{ style = offset }}\n{filters}\n{checkpoint}")));
    let said: Vec<&str> = source.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(said, ["tables.items.filters[0].param", "tables.items.filters[1].param"], "{:?}", source.warnings);
    assert!(source.warnings.iter().all(|w| w.line == Some(6) && w.message.contains("engine")), "{:?}", source.warnings);
    assert_eq!(source.tables[0].filters.len(), 4);
}

#[test]
fn r13_a_mode_that_paging_cannot_serve_is_no_checkpoint_and_says_so() {
    for (style, mode) in
        [("offset", "cursor"), ("page", "cursor"), ("none", "cursor"), ("page", "offset"), ("none", "offset")]
    {
        let lines =
            format!("pagination {{ style = {style} }}\ncheckpoint {{ enabled = true, path = c, mode = {mode} }}");
        let source = load(&items(&lines));
        assert!(source.tables[0].checkpoint.is_none(), "{style} {mode}");
        let [warning] = source.warnings.as_slice() else { panic!("{:?}", source.warnings) };
        assert!(warning.message.contains("saves nothing") && warning.message.contains(style), "{warning}");
        assert_eq!((warning.key.as_str(), warning.line), ("tables.items.checkpoint.mode", Some(5)));
    }
    let offset = "pagination { style = offset }\ncheckpoint { enabled = true, path = c, mode = offset }";
    assert!(table(offset).checkpoint.is_some());
    assert!(table(&format!("{CURSOR} checkpoint {{ enabled = true, path = c }}")).checkpoint.is_some());
}

#[test]
fn r13_credentials_over_plain_http_are_warned_about() {
    let plain = items("").replace("https", "http");
    for lines in ["auth { type = bearer, token = abcdef }", "http.headers { X-Api-Key = abcdef }"] {
        let source = load(&format!("{plain}\n{lines}"));
        let [warning] = source.warnings.as_slice() else { panic!("{lines}: {:?}", source.warnings) };
        assert!(warning.message.contains("plain http://") && warning.message.contains("unencrypted"), "{warning}");
        assert!(!warning.to_string().contains("abcdef"));
        assert!(load(&format!("{}\n{lines}", items(""))).warnings.is_empty());
    }
    assert!(load(&plain).warnings.is_empty());
    let oauth = "auth { type = oauth2_client, client-id = a, client-secret = bcd, token-url = \"http://t/\" }";
    assert_eq!(load(&format!("{}\n{oauth}", items(""))).warnings[0].key, "auth.token-url");
}

#[test]
fn r31_tables_of_one_name_are_problems_that_name_both() {
    let config =
        |tables: &str| format!("base-url = \"https://h\"\nschema {{ array-handling = both }}\ntables {{ {tables} }}");
    let json =
        |name: &str, column: &str| format!("{name} {{ endpoint = e, columns {{ {column} {{ type = json }} }} }}\n");
    let problems = Files::new(&config(&(json("a", "b") + &json("a_b", "c")))).problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].key == "tables.a.columns.b" && problems[0].message.contains("a_b"), "{problems:?}");
    let problems = Files::new(&config(&(json("a", "b_c") + &json("a_b", "c")))).problems();
    assert!(problems[0].message.contains("a_b_c") && problems[0].message.contains("table a:"), "{problems:?}");
    load(&config(&(json("a", "b") + "a_c { endpoint = e }")));
}

#[test]
fn r31_a_name_stands_for_one_array_column_or_says_why_not() {
    let source = load(
        "base-url = \"https://h\"\nschema { array-handling = both, explode-outer = true }\n\
         tables { a.endpoint = e, a_b.endpoint = e, s { endpoint = e, columns { j.type = json, t.type = string } },\n\
         k { endpoint = e, checkpoint { enabled = true, path = c, mode = token, token-path = \"/t\", token-param = t } } }",
    );
    let named = |name: &str| match named(&source.tables, name) {
        Named::Table(table) => {
            let of = table.array().unwrap();
            format!("{} = {}.{}", table.name, of.table, of.column)
        }
        Named::Nothing(said) => said,
    };
    assert_eq!(named("a_c"), "a_c = a.c");
    assert_eq!(named("s_j"), "s_j = s.j");
    for (name, words) in [
        ("a_b_c", &["\"b_c\" of table a ", "\"c\" of table a_b"][..]),
        ("s_t", &["there is no table \"s_t\"", "s_j"]),
        ("k_x", &["\"x\"", "table k,", "checkpoint"]),
        ("a_x/y", &["has a /"]),
        ("a_", &["there is no table"]),
    ] {
        let said = named(name);
        assert!(words.iter().all(|word| said.contains(word)), "{name}: {said}");
    }
}

#[test]
fn r31_settings_without_an_effect_are_warned_about() {
    let checkpoint = "checkpoint { enabled = true, path = c, mode = token, token-path = \"/t\", token-param = t }";
    for (schema, lines, key) in [
        ("explode-outer = true", "", "schema.explode-outer"),
        ("array-handling = both, mode = variant", "", "schema.array-handling"),
        ("array-handling = explode_view", checkpoint, "tables.items.checkpoint"),
    ] {
        let source = load(&format!("schema {{ {schema} }}\n{}", items(lines)));
        assert_eq!(source.warnings.iter().map(|w| w.key.as_str()).collect::<Vec<_>>(), [key]);
        assert!(source.tables[0].explode().is_none());
    }
    assert!(load(&format!("schema {{ array-handling = both }}\n{}", items(checkpoint))).warnings.is_empty());
}
