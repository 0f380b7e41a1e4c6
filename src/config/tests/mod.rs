//! Whole configurations: what loads, what is refused and what the messages name.

mod openapi;
mod rules;
mod travel;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use super::load::load_with_env;
use super::*;
use crate::error::{Error, ErrorKind, Problem};

/// A directory with a configuration, and the variables of its environment.
struct Files {
    dir: tempfile::TempDir,
    env: HashMap<String, String>,
}

impl Files {
    fn new(config: &str) -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap(), env: HashMap::new() };
        files.and("source.conf", config)
    }

    fn and(self, name: &str, text: &str) -> Self {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("source.conf")
    }

    fn load(&self) -> Result<SourceConfig, Error> {
        load_with_env(&self.path(), &self.env)
    }

    fn problems(&self) -> Vec<Problem> {
        match self.load() {
            Ok(_) => panic!("it loads:\n{}", std::fs::read_to_string(self.path()).unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
                assert!(!error.config_problems().is_empty(), "{error:?}");
                error.config_problems().to_vec()
            }
        }
    }
}

fn load(config: &str) -> SourceConfig {
    Files::new(config).load().unwrap_or_else(|e| panic!("{e:?}\nof\n{config}"))
}

/// One table `items` with some more lines.
fn items(lines: &str) -> String {
    format!("base-url = \"https://h/api\"\ntables {{ items {{\n  endpoint = \"/items\"\n{lines}\n}} }}\n")
}

/// The first table of a configuration that loads.
fn table(lines: &str) -> TableConfig {
    load(&items(lines)).tables.swap_remove(0)
}

const COLUMNS: &str = "columns { id { type = int64 }, ts { type = string } }\n";
const CURSOR: &str = "pagination { style = cursor, cursor-path = \"/next\" }\n";

const GOOD: &str = r#"
base-url = "https://api.example.com/v1"   # comment
auth { type = bearer, token = ${TOKEN} }
http {
  timeout = 10s, rate-limit = "100 / minute", max-body-bytes = 1 MiB
  headers { X-Version = 2, X-Api-Key = "K3Y-secret" }
}
pagination { style = offset, max-page-size = 50 }
hadoop { fs.s3a.endpoint = "http://localhost:9000", "fs.s3a.secret.key" = abc }
schema { on-mismatch = null, rest-column = rest }
tables {
  events {
    endpoint = "/events"
    data-path = "/items"
    params { a = "007", b = 1e5, c = true, d = [x, 2], e = ${WHO}, f = ${?NOTHING} }
    columns {
      id { type = int64 }
      price { type = "decimal(10, 2)", path = "/a~1b/price" }
      at { type = timestamp, format = epoch-ms }
    }
    filters = [ { param = st, column = id, operators = [eq, gte] } ]
    checkpoint { enabled = true, path = "file:///ckpt", mode = timestamp, timestamp-path = "/at", timestamp-param = since, lag = 5 minutes }
  }
  "search things" {
    endpoint = search, method = POST
    body { kind = x, page { size = 2, f = 1.50 }, n = null }
    pagination { style = cursor, cursor-header = X-Next, cursor-body-path = "/page/after" }
    columns { id { type = string } }
  }
}
"#;

fn good(config: &str) -> Files {
    Files::new(config).env("TOKEN", "T0K3N").env("WHO", "0x10")
}

#[test]
fn r11_a_brace_that_closes_nothing_does_not_end_the_file() {
    let config = "base-url = \"http://h\"\ntables { t { endpoint = \"/x\" } } }\nhttp { bogus = 1 }\n";
    let error = Files::new(config).load().unwrap_err().to_string();
    assert!(error.contains(":2:") && error.contains("closes nothing"), "{error}");
}

#[test]
fn r11_blocks_without_a_comma_between_them_are_explained() {
    let error = Files::new(&items("pagination { style = none } checkpoint { enabled = false }")).load().unwrap_err();
    assert!(error.to_string().contains("put a comma or a new line"), "{error}");
}

#[test]
fn r23_a_block_written_as_a_text_is_not_shown() {
    for lines in ["headers = \"X-Api-Key: s3cret-x\"", "params = \"api_key=s3cret-x\""] {
        let error = Files::new(&items(lines)).load().unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret-x"), "{error:?}");
    }
}

#[test]
fn r09_a_relative_checkpoint_path_is_relative_to_the_configuration() {
    let table = table("pagination { style = offset }\ncheckpoint { enabled = true, path = state, mode = offset }");
    let Some(Location::Local(path)) = table.checkpoint.map(|c| c.location) else { panic!("no checkpoint") };
    assert!(path.is_absolute() && path.ends_with("state"), "{}", path.display());
}

#[test]
fn a_whole_configuration_becomes_the_model() {
    let source = good(GOOD).load().unwrap();
    let warned: Vec<&str> = source.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(warned, ["hadoop"], "no path leads to a store");
    assert!(matches!(&source.auth, Auth::Bearer(token) if token.expose() == "T0K3N"));
    assert_eq!(source.http.timeout, Duration::from_secs(10));
    assert_eq!(source.http.page_timeout, Duration::from_mins(5));
    assert_eq!((source.http.max_retries, source.http.read_ahead, source.http.max_body_bytes), (5, 4, 1 << 20));
    assert!((source.http.rate_limit.unwrap().per_second - 100.0 / 60.0).abs() < 1e-9);
    assert_eq!(source.http.headers.iter().map(|h| h.is_secret).collect::<Vec<_>>(), [false, true]);
    assert_eq!(
        format!("{:?}", source.storage),
        "Settings { properties: [\"fs.s3a.endpoint\", \"fs.s3a.secret.key\"], env: [], .. }"
    );

    let events = &source.tables[0];
    assert_eq!(events.url.as_str(), "https://api.example.com/v1/events");
    assert_eq!(events.pagination.page_size_param.as_deref(), Some("limit"));
    assert_eq!(events.pagination.max_page_size, 50);
    assert_eq!(events.columns[1].data_type, ColumnType::Decimal(10, 2));
    assert_eq!(events.columns[0].path.as_str(), "/id");
    assert_eq!(events.schema.mode, SchemaMode::Strict);
    assert_eq!(events.schema.on_mismatch, OnMismatch::Null);
    assert_eq!(events.schema.batch_rows, 8192);
    assert_eq!(events.filters[0].operators, [Operator::Eq, Operator::Gte]);
    let checkpoint = events.checkpoint.as_ref().unwrap();
    assert_eq!(checkpoint.location, Location::Local("/ckpt".into()));
    assert_eq!(checkpoint.lag, Duration::from_mins(5));
    assert_eq!(checkpoint.future, Future::Clamp);

    let search = &source.tables[1];
    assert_eq!(search.name, "search things");
    let body = search.body.as_ref().unwrap().to_string();
    assert_eq!(body, r#"{"kind":"x","page":{"size":2,"f":1.5},"n":null}"#);
    assert!(matches!(
        &search.pagination.style,
        Style::Cursor { from: CursorFrom::Header(_), to: CursorTo::Body(_), .. }
    ));
    assert_eq!(search.pagination.page_size_param, None);
}

#[test]
fn r11_strings_stay_strings_and_numbers_stay_as_written() {
    let source = good(GOOD).load().unwrap();
    let sent: Vec<String> = source.tables[0].params.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(sent, ["a=007", "b=1e5", "c=true", "d=x", "d=2", "e=0x10"]);
    for (text, value) in [("01.50", "01.50"), ("\"0x10\"", "0x10"), ("1 2", "1 2"), ("-0", "-0"), ("off", "off")] {
        assert_eq!(table(&format!("params {{ a = {text} }}")).params[0].1, value, "{text}");
    }
}

/// Broken lines of a table, and what one problem must name: its key, and words of its message.
#[test]
fn r11_broken_tables_name_key_and_reason() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("datapath = \"/x\"", "datapath", &["unknown key", "data-path"]),
        ("zzz = 1", "zzz", &["unknown key", "endpoint"]),
        ("endpoint = \"../x\"", "endpoint", &[".."]),
        ("endpoint = \"https://other/x\"", "endpoint", &["base-url"]),
        ("endpoint = \"/x?a=1\"", "endpoint", &["params"]),
        ("endpoint = \"/x/{id}\"", "endpoint", &["parent-table"]),
        ("endpoint = [a]", "endpoint", &["a list"]),
        ("method = DELETE", "method", &["GET", "POST", "DELETE"]),
        ("body { a = 1 }", "body", &["POST"]),
        ("method = POST, body { a = 123456789012345678901234567890 }", "body", &["quote"]),
        ("data-path = items", "data-path", &["begins with /"]),
        ("data-path = \"/a~2\"", "data-path", &["~0"]),
        ("params = 3", "params", &["a block"]),
        ("params { a { b = 1 } }", "params.a", &["quote"]),
        ("headers { \"a b\" = 1 }", "headers.\"a b\"", &["header name"]),
        ("headers { a = \"\"\"x\ny\"\"\" }", "headers.a", &["header value"]),
        ("headers { Ab = 1, aB = 2 }", "headers.aB", &["twice"]),
        ("columns { id { type = int65 } }", "columns.id.type", &["int64", "int65"]),
        ("columns { id { path = \"/id\" } }", "columns.id.type", &["required"]),
        ("columns { id = int64 }", "columns.id", &["a block"]),
        ("columns { id { type = \"decimal(39,0)\" } }", "columns.id.type", &["decimal"]),
        ("columns { id { type = \"decimal(5,6)\" } }", "columns.id.type", &["decimal"]),
        ("columns { t { type = date, format = yyyy-MM-dd } }", "columns.t.format", &["%Y-%m-%d"]),
        ("columns { t { type = int64, format = epoch-s } }", "columns.t.format", &["timestamp"]),
        ("pagination { style = pages }", "pagination.style", &["page", "link_header", "pages"]),
        ("pagination { style = cursor }", "pagination.cursor-path", &["required"]),
        (
            "pagination { style = cursor, cursor-path = \"/n\", cursor-header = N }",
            "pagination.cursor-header",
            &["cursor-path"],
        ),
        (
            "method = POST, pagination { style = cursor, cursor-path = \"/n\", cursor-param = c, cursor-body-path = \"/c\" }",
            "pagination.cursor-body-path",
            &["cursor-param"],
        ),
        (
            "pagination { style = cursor, cursor-path = \"/n\", cursor-body-path = \"/c\" }",
            "pagination.cursor-body-path",
            &["POST"],
        ),
        (
            "method = POST, body = [1], pagination { style = cursor, cursor-path = \"/n\", cursor-body-path = \"/c\" }",
            "body",
            &["cursor-body-path"],
        ),
        ("pagination { style = next_url }", "pagination.next-url-path", &["required"]),
        ("pagination { max-page-size = 0 }", "pagination.max-page-size", &["at least 1", "0"]),
        ("pagination { style = page, first-page = -1 }", "pagination.first-page", &["whole number", "-1"]),
        ("pagination { style = page, first-page = 1.5 }", "pagination.first-page", &["whole number"]),
        ("pagination { max-pages = 0 }", "pagination.max-pages", &["at least 1"]),
        ("filters = [ { param = a } ]", "filters[0].column", &["required"]),
        ("filters = [ { param = a, column = b, operators = [like] } ]", "filters[0].operators", &["gte", "like"]),
        ("filters = { param = a }", "filters", &["a list"]),
        ("checkpoint { enabled = maybe }", "checkpoint.enabled", &["true or false"]),
        ("checkpoint { enabled = true }", "checkpoint.path", &["required"]),
        ("checkpoint { lag = 5 }", "checkpoint.lag", &["unit", "5"]),
        ("checkpoint { lag = \"5 weeks\" }", "checkpoint.lag", &["unit"]),
        ("checkpoint { future = never }", "checkpoint.future", &["clamp", "follow"]),
        ("checkpoint { timestamp-format = HH:mm }", "checkpoint.timestamp-format", &["%H:%M"]),
        ("checkpoint { enabled = true, path = c, mode = watermark }", "checkpoint.mode", &["timestamp", "watermark"]),
        ("parent-key = id", "parent-key", &["parent-table"]),
        ("parent-table = nobody, parent-key = id", "parent-table", &["nobody"]),
        ("partition { size = 1 }", "partition.type", &["required", "date-range"]),
        ("partition { type = enum, param = a }", "partition.values", &["required"]),
        ("partition { type = enum, param = a, values = [x], size = 3 }", "partition.size", &["enum"]),
        ("partition { type = offset, size = 5, count = 2 }", "partition.type", &["style = offset", "none"]),
        ("aggregations { n { function = max } }", "aggregations.n.function", &["count", "max"]),
        (
            "aggregations { n { function = sum, endpoint = a, response-path = \"/n\" } }",
            "aggregations.n.column",
            &["sum"],
        ),
    ];
    for (lines, key, words) in cases {
        let problems = Files::new(&items(lines)).problems();
        let key = format!("tables.items.{key}");
        let named = problems.iter().any(|p| p.key == key && words.iter().all(|word| p.message.contains(word)));
        assert!(named, "{lines}\nshould name {key} and {words:?}, said {problems:#?}");
        assert!(problems.iter().all(|p| p.line.is_some() && p.file.is_some()), "{problems:#?}");
    }
}

#[test]
fn r11_broken_sources_name_key_and_reason() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("bse-url = x", "bse-url", &["base-url"]),
        ("base-url = api.example.com", "base-url", &["absolute"]),
        ("base-url = \"https://u:p@h\"", "base-url", &["auth"]),
        ("base-url = \"https://h/?k=v\"", "base-url", &["query"]),
        ("base-url = null", "base-url", &["required"]),
        ("auth { type = digest }", "auth.type", &["oauth2_client"]),
        ("auth { type = bearer }", "auth.token", &["token-file"]),
        ("auth { type = bearer, token = a, token-file = b }", "auth.token-file", &["token"]),
        ("auth { type = basic, username = u }", "auth.password", &["required", "basic"]),
        ("auth { type = basic, username = \"u:v\", password = p }", "auth.username", &["colon"]),
        ("auth { type = header, header-value = v }", "auth.header-name", &["required"]),
        ("auth { type = query, query-value = v }", "auth.query-param", &["required"]),
        ("auth { type = oauth2_client, client-id = a }", "auth.token-url", &["required"]),
        ("auth { type = oauth2_client, token = a, client-auth = both }", "auth.client-auth", &["body"]),
        ("auth { type = basic, username = u, password = p, token = t }", "auth.token", &["basic", "username"]),
        ("http = 3", "http", &["a block"]),
        ("http { timeout = 30 }", "http.timeout", &["unit"]),
        ("http { timeout = 0s }", "http.timeout", &["longer"]),
        ("http { max-retries = many }", "http.max-retries", &["whole number", "many"]),
        ("http { max-retries = -1 }", "http.max-retries", &["-1"]),
        ("http { read-ahead = 0 }", "http.read-ahead", &["at least 1"]),
        ("http { max-body-bytes = 0 }", "http.max-body-bytes", &["at least one byte"]),
        ("http { max-body-bytes = 3 cats }", "http.max-body-bytes", &["256 MiB"]),
        ("http { rate-limit = 0 }", "http.rate-limit", &["above zero"]),
        ("http { rate-limit = \"9 / week\" }", "http.rate-limit", &["minute"]),
        ("http { follow-redirects = always }", "http.follow-redirects", &["same-origin"]),
        ("http { response-format = xml }", "http.response-format", &["ndjson", "xml"]),
        ("http { compression = 1 }", "http.compression", &["true or false"]),
        ("schema { mode = strict }", "tables.items.columns", &["strict"]),
        ("schema { batch-rows = 0 }", "schema.batch-rows", &["at least 1"]),
        ("schema { on-mismatch = skip }", "schema.on-mismatch", &["null", "fail"]),
        ("schema { array-handling = split }", "schema.array-handling", &["keep_array"]),
        ("pagination { total-path = total }", "pagination.total-path", &["begins with /"]),
        ("hadoop { fs.s3a.endpoint = a, fs.s3a.endpoint.region = b }", "hadoop.fs.s3a.endpoint", &["quote"]),
        ("hadoop { fs.x = [1] }", "hadoop.fs.x", &["a text"]),
        ("tables = [a]", "tables", &["a block"]),
        ("tables { items = 3 }", "tables.items", &["a block"]),
    ];
    for (lines, key, words) in cases {
        let problems = Files::new(&format!("{}\n{lines}", items(""))).problems();
        let named = problems.iter().any(|p| p.key == *key && words.iter().all(|word| p.message.contains(word)));
        assert!(named, "{lines}\nshould name {key} and {words:?}, said {problems:#?}");
    }
    assert_eq!(Files::new("base-url = \"https://h\"").problems()[0].key, "tables");
    assert_eq!(Files::new("base-url = \"https://h\", tables {}").problems()[0].key, "tables");
}

#[test]
fn r11_all_problems_come_at_once_with_their_lines() {
    let files = Files::new(
        "base-url = \"https://h\"\nhttp { max-retries = \"many\" }\ntables {\n  items {\n    endpoint = \"/items\"\n    \
         datapath = \"/items\"\n    pagination { style = cursor }\n  }\n  orders {\n    data-path = \"items\"\n  }\n}\n",
    );
    let said: Vec<(String, usize)> = files.problems().into_iter().map(|p| (p.key, p.line.unwrap())).collect();
    let expected = [
        ("http.max-retries", 2),
        ("tables.items.datapath", 6),
        ("tables.items.pagination.cursor-path", 7),
        ("tables.orders.data-path", 10),
        ("tables.orders.endpoint", 9),
    ];
    for (key, line) in expected {
        assert!(said.contains(&(key.to_owned(), line)), "{key} at {line}: {said:?}");
    }
    assert_eq!(said.len(), expected.len(), "{said:?}");
}

#[test]
fn r11_problems_in_included_files_are_named_there() {
    let included = "# two\nendpoint = \"/items\"\nmethod = PUT\nmore { include \"deeper\" }\n";
    let files = Files::new(&format!("{}tables.items {{\n  include \"parts/table.conf\"\n}}\n", items("")))
        .and("parts/table.conf", included)
        .and("parts/deeper.conf", "\n\nmethod = 3");
    let problems = files.problems();
    let method = problems.iter().find(|p| p.key == "tables.items.method").unwrap();
    assert_eq!((method.file.clone().unwrap(), method.line), (files.dir.path().join("parts/table.conf"), Some(3)));
    let more = problems.iter().find(|p| p.key == "tables.items.more").unwrap();
    assert_eq!(more.line, Some(4));
}

#[test]
fn r11_a_missing_include_is_an_error_at_its_line() {
    for name in ["gone.conf", "gone"] {
        let problems = Files::new(&format!("{}\ninclude \"{name}\"\n", items(""))).problems();
        assert_eq!((problems.len(), problems[0].line), (1, Some(7)), "{problems:?}");
        assert!(problems[0].message.contains("gone"), "{problems:?}");
    }
    let circle = Files::new("include \"a.conf\"").and("a.conf", "\ninclude \"./x/../source.conf\"").and("x/y", "");
    let problems = circle.problems();
    assert!(problems[0].message.contains("includes itself") && problems[0].line == Some(2), "{problems:?}");
    assert!(Files::new(&items("")).dir.path().exists());
    let absent = load_with_env(std::path::Path::new("no/such.conf"), &HashMap::new()).unwrap_err();
    assert!(absent.to_string().contains("no/such.conf"), "{absent}");
}

#[test]
fn r11_variables_are_required_or_optional_and_all_missing_ones_are_named() {
    let config = format!(
        "{}\nauth {{ type = bearer, token = ${{TOKEN}} }}\nhttp {{\n max-retries = ${{N}}\n timeout = ${{?T}} }}",
        items("data-path = nope")
    );
    let problems = Files::new(&config).problems();
    let said: Vec<(&str, usize)> = problems.iter().map(|p| (p.key.as_str(), p.line.unwrap())).collect();
    assert_eq!(said, [("auth.token", 7), ("http.max-retries", 9), ("tables.items.data-path", 4)], "{problems:?}");
    assert!(problems[0].message.contains("${TOKEN}"), "{problems:?}");

    let files = Files::new(&config.replace("nope", "\"/x\"")).env("TOKEN", "abc").env("N", "7");
    assert_eq!(files.load().unwrap().http.max_retries, 7);
    let problems = files.env("N", "S3CR3T").problems();
    assert!(!format!("{problems:?}").contains("S3CR3T"), "a substituted value is not shown: {problems:?}");
}

#[test]
fn r23_secrets_never_stand_in_a_message() {
    let files = Files::new(&format!(
        "{}\nauth {{ type = basic, username = u, password = \"S3CR3T\", token = \"S3CR3T\", header-value = \"S3CR3T\", \
         client-secret = \"S3CR3T\", query-value = \"S3CR3T\" }}\nhttp {{ max-retries = \"S3CR3T\", headers {{ \
         X-Api-Key = \"S3CR3T\" }} }}\nhadoop {{ fs.s3a.secret.key = \"S3CR3T\" }}\nbase-url = \"ftp://S3CR3T/\"",
        items("headers { cookie = \"S3CR3T\nx\" }").replace("S3CR3T\nx", "S3CR3T")
    ));
    let problems = files.problems();
    assert!(problems.len() > 4 && !format!("{problems:?}").contains("S3CR3T"), "{problems:?}");
    for broken in
        ["token = \"S3CR3T", "token = S3CR3T+S3CR3T", "token = S3CR3T { = S3CR3T", "token = ${S3CR3T+}", "x = S3CR3T\\"]
    {
        let problems = Files::new(&format!("a = 1\nauth {{\n {broken}\n}}")).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(!format!("{problems:?}").contains("S3CR3T"), "{broken}: {problems:?}");
        assert!(problems[0].line.is_some_and(|line| line >= 3), "{broken}: {problems:?}");
    }
}

#[test]
fn r09_table_names_become_file_names() {
    for name in ["../items", "a/b", "a\\\\b", "", ".", "..", ".hidden", "c:x", "a\\u0000b", "a\\nb"] {
        let config = format!("base-url = \"https://h\"\ntables {{ \"{name}\" {{ endpoint = x }} }}");
        let problems = Files::new(&config).problems();
        assert!(
            problems.len() == 1 && problems[0].message.contains(&name.replace("\\u0000", "\\0")),
            "{name}: {problems:?}"
        );
    }
    assert_eq!(load("base-url = \"https://h\"\ntables { \"a b.c-ü\" { endpoint = x } }").tables[0].name, "a b.c-ü");
}

#[test]
fn r09_checkpoint_paths_go_to_a_known_store_or_are_refused() {
    let problems_of = |path: &str, enabled: bool| {
        let checkpoint = format!("{CURSOR} checkpoint {{ enabled = {enabled}, path = \"{path}\" }}");
        Files::new(&items(&checkpoint)).problems()
    };
    let problems = problems_of("s3x://b/c", false);
    assert!(problems[0].key == "tables.items.checkpoint.path" && problems[0].message.contains("s3x"), "{problems:?}");
    for scheme in ["viewfs", "abfs", "abfss", "wasb", "wasbs", "dbfs"] {
        let problems = problems_of(&format!("{scheme}://b/c"), true);
        assert!(problems[0].key == "tables.items.checkpoint.path" && problems[0].line == Some(5), "{problems:?}");
    }
    table("checkpoint { enabled = false, path = \"abfs://b/c\" }");
    for path in ["hdfs://b/c", "s3://b/c", "s3a://b/c", "s3n://b/c", "gs://b/c"] {
        let location = table(&format!("{CURSOR} checkpoint {{ enabled = true, path = \"{path}\" }}")).checkpoint;
        assert!(matches!(location.unwrap().location, Location::Remote(remote) if remote.to_string() == path));
    }
}

#[test]
fn r11_what_a_store_cannot_be_opened_with_is_a_problem_at_its_path() {
    let files = Files::new(&format!(
        "hadoop {{\n fs.s3a.access.key = \"AKIDxxxx\", fs.s3a.secret.key = ${{KEY}}, fs.s3a.endpoint = \"ftp://S3CR3T-x\"\n \
         fs.s3a.attempts.maximum = \"S3CR3T-x\"\n}}\n{}tables.other {{ endpoint = x\n \
         checkpoint {{ enabled = true, mode = offset, path = \"s3a://b/c\" }}\n pagination {{ style = offset }} }}\n\
         http.max-retries = x",
        items(&format!("{CURSOR} checkpoint {{ enabled = true, path = \"s3a://b/c\" }}"))
    ));
    let problems = files.env("KEY", "S3CR3T-x").problems();
    let said: Vec<String> = problems.iter().map(|p| format!("{}:{}", p.key, p.line.unwrap())).collect();
    let path = |table: &str, line: usize| format!("tables.{table}.checkpoint.path:{line}");
    let twice = |at: String| [at.clone(), at];
    let expected = [twice(path("items", 9)), twice(path("other", 12))].concat();
    assert_eq!(said, [vec!["http.max-retries:14".to_owned()], expected].concat(), "{problems:?}");
    assert!(!format!("{problems:?}").contains("S3CR3T"), "{problems:?}");
}

#[test]
fn r13_a_hadoop_block_that_nothing_uses_is_one_warning() {
    let config = |path: &str| {
        let lines = format!("{CURSOR} checkpoint {{ enabled = true, path = \"{path}\" }}");
        format!("{}hadoop {{ fs.s3a.access.key = AKIDxxxx, fs.s3a.secret.key = SKIDxxxx }}", items(&lines))
    };
    let warnings = load(&config("state")).warnings;
    assert!(warnings.len() == 1 && warnings[0].key == "hadoop" && warnings[0].message.contains("no effect"));
    assert!(load(&config("s3a://b/c")).warnings.is_empty());
}

#[test]
fn r23_a_source_shows_no_property() {
    let source = load(&format!("{}hadoop {{ fs.s3a.access.key = AKIDxxxx, fs.s3a.secret.key = S3CR3T }}", items("")));
    assert!(!format!("{source:?}").contains("S3CR3T"));
}

#[test]
fn a_table_inherits_pagination_of_the_same_style_only() {
    let source = "pagination { style = cursor, cursor-path = \"/next\", cursor-param = after, max-page-size = 7 }\n";
    let of = |lines: &str| load(&format!("{source}{}", items(lines))).tables.swap_remove(0).pagination;
    assert!(matches!(&of("").style, Style::Cursor { to: CursorTo::Query(p), .. } if p == "after"));
    let same = of("pagination { style = cursor, cursor-param = c, page-size-param = n }");
    assert!(matches!(&same.style, Style::Cursor { to: CursorTo::Query(p), .. } if p == "c"));
    assert_eq!((same.max_page_size, same.page_size_param.as_deref()), (7, Some("n")));
    assert_eq!(of("pagination { max-page-size = 9 }").max_page_size, 9);
    let other = of("pagination { style = page }");
    assert_eq!((other.style.name(), other.max_page_size, other.page_size_param), ("page", 100, None));
    let header = of("pagination { style = cursor, cursor-header = X-Next }");
    assert!(matches!(header.style, Style::Cursor { from: CursorFrom::Header(_), .. }), "the table's choice wins");
}

#[test]
fn schema_modes_and_mismatch_have_their_defaults() {
    let of = |before: &str, lines: &str| load(&format!("{before}\n{}", items(lines))).tables.swap_remove(0).schema;
    let parts = |schema: SchemaConfig| (schema.mode, schema.on_mismatch);
    assert_eq!(parts(of("", "")), (SchemaMode::Infer, OnMismatch::Fail));
    assert_eq!(parts(of("", COLUMNS)), (SchemaMode::Strict, OnMismatch::Null));
    assert_eq!(parts(of("schema.mode = variant", "")), (SchemaMode::Variant, OnMismatch::Null));
    assert_eq!(parts(of("schema.on-mismatch = null", "")), (SchemaMode::Infer, OnMismatch::Null));
    assert_eq!(parts(of("schema.on-mismatch = \"null\"", "")), (SchemaMode::Infer, OnMismatch::Null));
    assert_eq!(parts(of("schema.on-mismatch = fail", COLUMNS)), (SchemaMode::Strict, OnMismatch::Fail));
    assert_eq!(of("schema.flatten-depth = 0", "").flatten_depth, 0);
}

#[test]
fn a_token_file_is_relative_to_the_configuration() {
    let files = Files::new(&format!("{}\nauth {{ type = bearer, token-file = \"secret/token\" }}", items("")));
    let auth = files.load().unwrap().auth;
    assert!(matches!(auth, Auth::BearerFile(file) if file == files.dir.path().join("secret/token")));
}

#[test]
fn r11_the_reference_and_the_examples_hold() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config");
    let env: HashMap<String, String> =
        ["API_TOKEN", "CLIENT_ID", "CLIENT_SECRET"].iter().map(|k| ((*k).to_owned(), "x-y-z".to_owned())).collect();
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        let source = load_with_env(&entry.unwrap().path(), &env).unwrap();
        assert!(source.warnings.is_empty(), "{:?}", source.warnings);
        count += 1;
    }
    assert!(count >= 2);
    // The reference is not a configuration: it has no base URL. Its every key is known and of the right type.
    let problems = load_with_env(&root.join("reference.conf"), &env).unwrap_err();
    let unknown = problems.config_problems().iter().any(|p| p.message.contains("unknown key"));
    assert!(!unknown, "{problems:?}");
}

#[test]
fn r11_a_configuration_cut_anywhere_never_panics() {
    let bytes = GOOD.as_bytes();
    let files = good("");
    for end in 0..bytes.len() {
        std::fs::write(files.path(), &bytes[..end]).unwrap();
        let _ = files.load();
    }
}

#[test]
fn r11_garbage_is_refused_and_never_panics() {
    let deep = 50_000;
    let chain: Vec<String> = (1..1_500).map(|i| format!("a{i} = {{ b = ${{a{}}} }}", i - 1)).collect();
    for text in [
        "{".repeat(deep),
        "[".repeat(deep),
        "a{".repeat(deep),
        format!("{}x = 1", "a.".repeat(deep)),
        format!("x = ${{{}a}}", "a.".repeat(deep)),
        format!("a = {}", "[".repeat(deep)),
        format!("a0 = 1\n{}", chain.join("\n")),
        "a = ${b}\nb = ${a}".into(),
        "a = ${a}".into(),
        "a = [1] {b = 1}".into(),
        "a = {b = 1} x".into(),
        "[1, 2]".into(),
        "\u{feff}".into(),
        "include".into(),
        "include url(\"http://x\")".into(),
        "tables = ${tables}".into(),
        "\"\" = 1".into(),
        "a.\"\".b = 1".into(),
        "a = 1e999".into(),
        "}".into(),
    ] {
        let short: String = text.chars().take(40).collect();
        assert!(!Files::new(&text).problems().is_empty(), "{short}");
    }
    let files = Files::new("");
    std::fs::write(files.path(), [0xff, 0xfe, 0x00]).unwrap();
    assert_eq!(files.problems().len(), 1);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn r11_a_configuration_with_a_torn_piece_never_panics(at in 0..GOOD.len(), len in 0_usize..40, put in "[{}\\[\\]\",.=:$a0\n /#-]{0,6}") {
        let mut bytes = GOOD.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, put.bytes());
        let files = good("");
        std::fs::write(files.path(), bytes).unwrap();
        let _ = files.load();
    }
}
