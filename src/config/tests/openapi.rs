//! `openapi`: what a document at a path gives, what is refused with its key and line, what is left to a URL.

use super::*;

const DOCUMENT: &str = r#"
openapi: 3.0.3
servers: [{ url: "https://api.example.com/v1" }]
paths:
  /things:
    get:
      responses:
        200:
          content:
            application/json; charset=utf-8:
              schema:
                properties:
                  items: { type: array, items: { $ref: '#/components/schemas/Thing' } }
                  next: { type: string }
  /others/{id}:
    post: { responses: { 200: { description: nothing } } }
components:
  schemas:
    Thing:
      properties:
        z: { type: string, format: date-time, nullable: true }
        id: { type: integer, format: int32 }
        user: { properties: { name: { type: string } } }
"#;

fn files(config: &str) -> Files {
    Files::new(config).and("specs/api.yaml", DOCUMENT)
}

fn columns(table: &TableConfig) -> Vec<String> {
    table.columns.iter().map(|c| format!("{} {} {:?}", c.name, c.path, c.data_type)).collect()
}

const THINGS: &str = "openapi = \"specs/api.yaml\"\ntables { things { endpoint = things, data-path = \"/items\" } }";

#[test]
fn r24_a_document_at_a_path_gives_columns_and_base_url() {
    let source = files(THINGS).load().unwrap();
    assert_eq!(source.base_url.as_str(), "https://api.example.com/v1");
    assert!(matches!(&source.openapi, Some(SpecPlace::File(path)) if path.ends_with("specs/api.yaml")));
    let table = &source.tables[0];
    assert_eq!(columns(table), ["z /z Timestamp", "id /id Int32", "user_name /user/name String"]);
    let schema = &table.schema;
    assert_eq!((schema.mode, schema.on_mismatch, table.is_from_spec), (SchemaMode::Strict, OnMismatch::Null, true));
    assert!(!table.awaits_columns() && source.warnings.is_empty());

    let elsewhere = files(&format!("base-url = \"http://127.0.0.1:1/mock\"\nschema.flatten-depth = 0\n{THINGS}"));
    let source = elsewhere.load().unwrap();
    assert_eq!(source.tables[0].url.as_str(), "http://127.0.0.1:1/mock/things");
    assert_eq!(columns(&source.tables[0])[2], "user /user Json");
}

#[test]
fn r24_own_columns_and_other_modes_win() {
    let own = "openapi = \"specs/api.yaml\"\ntables { gone { endpoint = gone, columns { a { type = string } } } }";
    let source = files(own).load().unwrap();
    assert_eq!((columns(&source.tables[0]), source.tables[0].is_from_spec), (vec!["a /a String".into()], false));
    for mode in ["infer", "variant"] {
        let source = files(&format!("schema.mode = {mode}\n{THINGS}")).load().unwrap();
        assert!(source.tables[0].columns.is_empty() && !source.tables[0].is_from_spec);
        let idle = files(&format!("base-url = \"https://h\"\nschema.mode = {mode}\n{THINGS}")).load().unwrap();
        assert_eq!(idle.warnings.iter().map(|w| w.key.as_str()).collect::<Vec<_>>(), ["openapi"]);
    }
}

#[test]
fn r11_problems_of_a_document_stand_with_all_others() {
    let config = r#"
openapi = "specs/api.yaml"
schema { rest-column = id }
tables {
  things { endpoint = things, data-path = "/item" }
  rest { endpoint = things, data-path = "/items", columsn = 1 }
  thing { endpoint = thing }
  others { endpoint = "others/7" }
  empty { endpoint = "others/7", method = POST }
  paged { endpoint = things, pagination { style = link_header } }
}"#;
    let problems = files(config).problems();
    let said: Vec<String> = problems.iter().map(|p| format!("{} {}: {}", p.line.unwrap(), p.key, p.message)).collect();
    for (start, end) in [
        ("5 tables.things.data-path: specs/api.yaml: ", "has no item there; it has items, next"),
        ("3 schema.rest-column: ", "is also a column of tables.rest"),
        ("6 tables.rest.columsn: ", "did you mean columns?"),
        ("7 tables.thing.endpoint: specs/api.yaml: ", "has no path /thing; it has /things, /others/{id}"),
        ("8 tables.others.endpoint: specs/api.yaml: ", "has no GET of /others/{id}; it has POST"),
        (
            "9 tables.empty.endpoint: specs/api.yaml: ",
            "has no 2xx response of JSON with a schema in the document; it has 200",
        ),
        ("10 tables.paged.endpoint: specs/api.yaml: ", "set data-path; it has items, next"),
    ] {
        assert!(said.iter().any(|s| s.starts_with(start) && s.ends_with(end)), "{start} {end}\n{}", said.join("\n"));
    }
    assert_eq!(said.len(), 7, "{}", said.join("\n"));
}

#[test]
fn r11_a_document_that_cannot_be_read_is_one_problem() {
    let table = "tables { t { endpoint = t } }";
    for (name, text, said) in [
        ("gone.yaml", None, "gone.yaml cannot be read: "),
        ("a.json", Some("{\"openapi\": \"3.0.0\",\n\"paths\": {]}"), "a.json is no JSON: line 2, column 11: "),
        ("a.yaml", Some("openapi: 3.0.0\npaths: [\n"), "a.yaml is no YAML: line 3"),
        ("a.yaml", Some("openapi: 1.0\npaths: {}\n"), "a.yaml is of version 1.0"),
        ("a.yaml", Some("a: 1"), "a.yaml is no OpenAPI document"),
        ("ftp://h/a", None, "must be a path, or an http or https URL"),
        ("https://u:SECRET@h/a", None, "must not hold a user name"),
        ("https://h/a#b", None, "must not have a fragment"),
    ] {
        let files = Files::new(&format!("\nopenapi = \"{name}\"\n{table}"));
        let files = if let Some(text) = text { files.and(name, text) } else { files };
        let problems = files.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!((problems[0].key.as_str(), problems[0].line), ("openapi", Some(2)));
        assert!(problems[0].message.contains(said) && !problems[0].message.contains("SECRET"), "{problems:?}");
    }
    let large = files(&format!("http.max-body-bytes = 100\n{THINGS}")).problems();
    assert!(large[0].message.contains("larger than http.max-body-bytes (100)"), "{large:?}");
}

#[test]
fn r11_a_base_url_that_the_document_does_not_give_is_required() {
    let document = |servers: &str| DOCUMENT.replace("https://api.example.com/v1", servers);
    for (server, said) in [
        ("/v1", "required: openapi does not say it, its first server is /v1, which names no host"),
        ("https://{host}/", "no default for {host}"),
        ("ftp://h/", "required: the first server of openapi must be an absolute http or https URL"),
        ("https://u:SECRET@h/", "required: the first server of openapi must not hold a user name"),
    ] {
        let problems = Files::new(THINGS).and("specs/api.yaml", &document(server)).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].key, "base-url");
        assert!(problems[0].message.contains(said) && !problems[0].message.contains("SECRET"), "{problems:?}");
    }
}

#[test]
fn a_document_at_a_url_is_left_for_later() {
    let config = "openapi = \"https://docs.example.com/openapi?format=json\"\ntables { things { endpoint = things } }";
    let problems = Files::new(config).problems();
    assert_eq!((problems.len(), problems[0].key.as_str()), (1, "base-url"), "{problems:?}");
    assert!(problems[0].message.starts_with("required: openapi is a URL"), "{problems:?}");

    let source = load(&format!("base-url = \"https://h\"\n{config}"));
    let table = &source.tables[0];
    assert!(matches!(&source.openapi, Some(SpecPlace::Url(url)) if url.query() == Some("format=json")));
    assert!(table.awaits_columns() && table.schema.mode == SchemaMode::Strict && source.warnings.is_empty());
}
