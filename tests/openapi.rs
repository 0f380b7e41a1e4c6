//! `openapi` from outside: real documents whole, and a document at a URL from its first request to its errors.

use std::path::Path;

use restmark::{Event, Source};
use serde_json::{Value, json};

use crate::support::servers::Cache;
use crate::support::{Api, Place, Reply, Route, get};

/// The columns of a table, as `name type`.
fn columns(place: &Place, table: &str) -> Vec<String> {
    let shown = place.run(&["schema", "CONFIG", table]).output().expect(0).stdout;
    let lines = shown.lines().filter_map(|line| line.trim().split_once(" { type = "));
    lines.map(|(name, rest)| format!("{name} {}", rest.split([',', ' ']).next().unwrap_or_default())).collect()
}

fn place(document: &Path, tables: &str) -> Place {
    Place::new("", &format!("openapi = {:?}\n{tables}", document.display().to_string()))
}

#[test]
fn r24_the_document_of_github_gives_the_columns_of_its_tables() {
    let Some(cache) = Cache::with(&["openapi"]) else { return };
    let github = cache.path("openapi/api.github.com.json");
    let tables = r#"
schema { flatten-depth = 0 }
tables {
  issues { endpoint = "/repos/apache/arrow/issues", pagination { style = link_header } }
  found { endpoint = "/search/repositories", data-path = "/items", pagination { style = link_header } }
  user { endpoint = "/users/octocat" }
}"#;
    let github_place = place(&github, tables);
    let issues = columns(&github_place, "issues");
    for column in ["id int64", "title string", "locked boolean", "closed_at timestamp", "user json", "labels json"] {
        assert!(issues.contains(&column.to_owned()), "{column}: {issues:?}");
    }
    assert_eq!(issues[0], "id int64");
    assert!(columns(&github_place, "found").contains(&"stargazers_count int64".to_owned()));
    // One of two kinds of user: the columns of both.
    let user = columns(&github_place, "user");
    assert!(["login string", "plan json"].iter().all(|c| user.contains(&(*c).to_owned())), "{user:?}");
    let tables = github_place.run(&["tables", "CONFIG"]).output().expect(0);
    assert!(tables.stdout.contains("https://api.github.com/search/repositories"), "{}", tables.stdout);

    // By default `repository_url` and `repository { url }` would be one column.
    let meeting = place(&github, "tables { issues { endpoint = \"/repos/apache/arrow/issues\" } }");
    meeting.run(&["check", "CONFIG"]).output().expect(2).says("/repository_url and /repository/url");
    let wrong = place(&github, "tables { issues { endpoint = \"/repos/apache/arrow/isues\" } }");
    wrong.run(&["check", "CONFIG"]).output().expect(2).says("has no path /repos/apache/arrow/isues; it has ");
}

#[test]
fn r24_one_api_in_three_dialects_and_two_notations_has_the_same_columns() {
    let Some(cache) = Cache::with(&["openapi"]) else { return };
    let tables = r#"
base-url = "http://127.0.0.1:1/v2"
tables { pets { endpoint = "/pet/findByStatus" }, order { endpoint = "/store/order/7" } }"#;
    for dialect in ["2.0", "3.0", "3.1"] {
        for notation in ["json", "yaml"] {
            let document = cache.path(&format!("openapi/{dialect}/{notation}/petstore.{notation}"));
            let place = place(&document, tables);
            assert_eq!(
                columns(&place, "pets"),
                [
                    "id int64",
                    "category_id int64",
                    "category_name string",
                    "name string",
                    "photoUrls json",
                    "tags json",
                    "status string"
                ],
                "{dialect} {notation}"
            );
            assert_eq!(
                columns(&place, "order")[2..4],
                ["quantity int32", "shipDate timestamp"],
                "{dialect} {notation}"
            );
        }
    }
    let train = cache.path("openapi/3.1/yaml/train-travel.yaml");
    let place = place(&train, "tables { trips { endpoint = \"/trips\", data-path = \"/data\" } }");
    assert!(columns(&place, "trips").contains(&"departure_time timestamp".to_owned()));
}

/// A document of one endpoint, at `/docs/spec`.
fn document() -> Value {
    json!({"openapi": "3.1.0", "servers": [{"url": "../api"}], "paths": {"/things": {"get": {"responses": {"200":
        {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "object", "properties":
            {"id": {"type": "integer"}, "at": {"type": ["string", "null"], "format": "date-time"}}}}}}}}}}}})
}

const CONFIG: &str = r#"
base-url = "{{BASE}}/api"
openapi = "{{DOCS}}/docs/spec?format=json"
auth { type = bearer, token = "T0K3N-abc" }
http { max-retries = 1, max-backoff = 1ms }
tables {
  things { endpoint = "/things" }
  gone { endpoint = "/gone" }
  own { endpoint = "/things", columns { id { type = string } } }
}
"#;

fn rows() -> Route {
    get("/api/things", &json!([{"id": 1, "at": "2026-01-01T00:00:00Z"}, {"id": "2"}]))
}

fn spec(reply: Reply) -> Route {
    Route::new("GET", "/docs/spec?format=json", reply)
}

fn at(api: &Api, docs: &Api) -> Place {
    Place::new(&api.base(), &CONFIG.replace("{{DOCS}}", &docs.base()))
}

#[test]
fn r24_a_document_at_a_url_is_asked_once_and_only_when_it_is_needed() {
    let (api, docs) = (Api::new(vec![rows()]), Api::new(vec![spec(Reply::json(&document()))]));
    let place = at(&api, &docs);
    let checked = place.run(&["check", "CONFIG"]).output().expect(0);
    assert!(checked.stdout.contains(&format!("of {}/docs/spec", docs.base())), "{}", checked.stdout);
    place.run(&["tables", "CONFIG"]).output().expect(0);
    place.read("own").output().expect(0);
    assert!(docs.asked().is_empty(), "{:?}", docs.asked());

    let read = place.read("things").output().expect(0);
    assert_eq!(read.rows()[1], json!({"id": 2, "at": null}));
    let asked = docs.requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(!asked[0].headers.contains_key("authorization"), "the document is of another origin (R17)");
    assert_eq!(columns(&place, "things"), ["id int64", "at timestamp"]);
    place.read("things").args(["--where", "nope = 1"]).output().expect(2).says("nope");
}

#[test]
fn r17_a_document_of_the_apis_own_origin_is_asked_with_its_credentials() {
    let api = Api::new(vec![rows(), spec(Reply::json(&document()).gzip())]);
    at(&api, &api).read("things").output().expect(0);
    let asked = api.requests();
    assert_eq!(asked[0].target, "/docs/spec?format=json");
    assert!(asked.iter().all(|request| request.headers.contains_key("authorization")));
}

#[test]
fn r24_a_document_that_cannot_be_had_fails_the_read_and_names_its_url() {
    let api = Api::new(vec![rows()]);
    for (reply, said, times) in [
        (Reply::status(404), "cannot be had: the API answered 404", 1),
        (Reply::status(503), "cannot be had: the API answered 503", 2),
        (Reply::text("openapi: [\n"), "is no YAML: line 2", 1),
        (Reply::text("<html>"), "is no OpenAPI document", 1),
    ] {
        let docs = Api::new(vec![spec(reply)]);
        let failed = at(&api, &docs).read("things").output().expect(2).says(said);
        assert!(failed.stderr.contains(&format!("{}/docs/spec", docs.base())), "{}", failed.stderr);
        assert_eq!(docs.asked().len(), times, "{said}");
    }
    let docs = Api::new(vec![spec(Reply::json(&document()))]);
    let place = at(&api, &docs);
    place.read("gone").output().expect(2).says("has no path /gone; it has /things");
    let checked = place.run(&["check", "CONFIG", "--connect"]).output().expect(2);
    let checked = checked.says("things: ").says("gives 2 columns").says("has no path /gone");
    assert!(!checked.stderr.contains("T0K3N"), "{}", checked.stderr);
    assert!(api.asked().is_empty(), "{:?}", api.asked());
}

/// A partition that travels to another process carries its columns: there nobody asks for the document.
#[tokio::test(flavor = "multi_thread")]
async fn r24_the_columns_travel_with_the_partition() {
    let (api, docs) = (Api::new(vec![rows()]), Api::new(vec![spec(Reply::json(&document()))]));
    let place = at(&api, &docs);
    let planner = Source::open(place.path("source.conf")).expect("a source");
    assert!(planner.table("things").expect("a table").schema().is_none());
    let plan = planner.plan(planner.table("things").expect("a table").scan()).await.expect("a plan");
    let text = serde_json::to_string(&plan.partitions()[0]).expect("JSON");
    planner.plan(planner.table("things").expect("a table").scan()).await.expect("another plan");
    assert_eq!(docs.asked().len(), 1);

    docs.script(vec![]);
    let task = Source::open(place.path("source.conf")).expect("a source");
    let mut read = task.read(&serde_json::from_str(&text).expect("a partition")).expect("a read");
    let Some(Event::Batch(batch)) = read.try_next().await.expect("no error") else { panic!("no batch") };
    assert_eq!(batch.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["id", "at"]);
    assert!(docs.asked().is_empty());
}
