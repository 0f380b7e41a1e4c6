//! Exploded tables from outside: read, previewed, listed, and what their rows do to paging and positions (R31).

use serde_json::{Value, json};

use crate::support::{Api, Place, get};

const CONFIG: &str = r#"
base-url = "{{BASE}}"
http { max-retries = 0, timeout = 5s }
schema { array-handling = explode_view, batch-rows = 2 }
tables {
  orders {
    endpoint = "/orders"
    data-path = "/items"
    pagination { style = offset, max-page-size = 2 }
  }
  kept {
    endpoint = "/orders"
    data-path = "/items"
    pagination { style = offset, max-page-size = 2 }
    checkpoint { enabled = true, path = "{{DIR}}/ckpt", mode = offset }
  }
  declared {
    endpoint = "/orders"
    data-path = "/items"
    pagination { style = offset, max-page-size = 2 }
    columns { id { type = int64 }, all { type = json, path = "/lines" } }
  }
}
"#;

/// Three orders, two a page.
fn api() -> Api {
    let page = |offset: u64, items: Value| get(&format!("/orders?offset={offset}&limit=2"), &json!({ "items": items }));
    Api::new(vec![
        page(
            0,
            json!([{ "id": 1, "lines": [{ "sku": "a" }, { "sku": "b" }, { "sku": "c" }] }, { "id": 2, "lines": [] }]),
        ),
        page(2, json!([{ "id": 3, "lines": [{ "sku": "d" }] }])),
        page(3, json!([])),
    ])
}

#[test]
fn r14_offsets_go_by_records_and_not_by_exploded_rows() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    let read = place.read("orders_lines").output().expect(0).says("3 rows read, 4 emitted");
    let want = [(1, "a"), (1, "b"), (1, "c"), (3, "d")].map(|(id, sku)| json!({ "id": id, "lines_sku": sku }));
    assert_eq!(read.rows(), want);
    assert_eq!(api.asked().len(), 3);
}

#[test]
fn r31_a_limit_counts_rows_and_a_view_leaves_the_array_out() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    assert_eq!(place.read("orders_lines").args(["--limit", "2"]).output().expect(0).ids(), [1, 1]);
    assert_eq!(api.asked().len(), 1);
    assert_eq!(place.read("orders").output().expect(0).rows(), [1, 2, 3].map(|id| json!({ "id": id })));
    let chosen = place.read("orders_lines").args(["--select", "lines_sku", "--where", "id = 3"]).output().expect(0);
    assert_eq!(chosen.rows(), [json!({ "lines_sku": "d" })]);
}

#[test]
fn r31_exploded_tables_are_listed_previewed_and_described() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    let listed = place.run(&["tables", "CONFIG"]).output().expect(0).stdout;
    assert!(listed.contains("orders_<field>") && listed.contains("declared_all "), "{listed}");
    assert!(!listed.contains("kept_"), "{listed}");
    let checked = place.run(&["check", "CONFIG"]).output().expect(0).stdout;
    assert!(checked.contains("exploded    declared_all: the elements of all in declared"), "{checked}");
    assert_eq!(api.asked(), [""; 0]);
    let shown = place.run(&["preview", "CONFIG", "orders_lines"]).output().expect(0).stdout;
    assert!(shown.contains("lines_sku"), "{shown}");
    let schema = |table: &str| place.run(&["schema", "CONFIG", table]).output().expect(0).stdout;
    assert_eq!(
        schema("orders").trim_end(),
        "# exploded table: orders_lines; with declared columns it needs lines { type = json }\ncolumns {\n  id { type = int64 }\n}"
    );
    assert!(schema("orders_lines").contains("  lines_sku { type = string }  # /sku of each element\n"));
    assert!(schema("declared").starts_with("# exploded table: declared_all\n"));
    assert!(schema("declared_all").contains("  all_sku { type = string }  # /sku of each element\n"));
}

#[test]
fn r31_declared_json_columns_explode_and_stay() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    assert_eq!(place.read("declared_all").output().expect(0).rows()[3], json!({ "id": 3, "all_sku": "d" }));
    assert_eq!(place.read("declared").output().expect(0).rows()[1], json!({ "id": 2, "all": "[]" }));
    place.read("declared_id").output().expect(2).says("there is no table").says("declared_all");
}

#[test]
fn r31_a_table_with_a_checkpoint_keeps_its_arrays_and_has_no_exploded_tables() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    for command in ["read", "preview", "schema"] {
        place
            .run(&[command, "CONFIG", "kept_lines"])
            .output()
            .expect(2)
            .says("\"lines\" of table kept")
            .says("checkpoint");
    }
    assert_eq!(api.asked(), [""; 0]);
    let kept = place.read("kept").output().expect(0).says("its arrays stay columns");
    assert_eq!(kept.rows()[2], json!({ "id": 3, "lines": "[{\"sku\":\"d\"}]" }));
}

#[test]
fn r31_a_name_that_no_array_has_fails_with_the_arrays_there_are() {
    let api = api();
    let place = Place::new(&api.base(), CONFIG);
    place.read("orders_nothing").output().expect_failure().says("lines");
}

#[test]
fn r24_a_printed_block_is_the_schema_that_printed_it() {
    let item = json!({ "id": 1, "a.b": 1.5, "x/y~z": true, "user": { "full name": "n", "include": null }, "v": [1], "\u{e9}": "" });
    let api = Api::new(vec![get("/items", &json!({ "items": [item] }))]);
    let config = |columns: &str| {
        format!(
            "base-url = \"{{{{BASE}}}}\"\ntables {{ items {{\nendpoint = \"/items\"\ndata-path = \"/items\"\n{columns}\n}} }}\n"
        )
    };
    let place = Place::new(&api.base(), &config(""));
    let printed = place.run(&["schema", "CONFIG", "items"]).output().expect(0).stdout;
    let rows = place.read("items").output().expect(0).rows();
    let pasted = Place::new(&api.base(), &config(&printed));
    assert_eq!(pasted.run(&["schema", "CONFIG", "items"]).output().expect(0).stdout, printed);
    assert_eq!(pasted.read("items").output().expect(0).rows(), rows);
}
