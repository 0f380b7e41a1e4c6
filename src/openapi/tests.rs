//! Columns of whole documents, honest and hostile.

use serde_json::{Map, json};

use super::*;

/// The columns of `/a`, as `name type`, with `data-path` and `flatten-depth`.
fn of(root: Value, data_path: &str, depth: usize) -> Result<Vec<String>, Fault> {
    let url = Url::parse("https://h/a").unwrap();
    let path = PointerBuf::parse(data_path).unwrap();
    let ask = Ask {
        url: &url,
        base: &url.join("/").unwrap(),
        origin: None,
        method: "GET",
        data_path: Some(&path).filter(|path| !path.is_root()),
        is_paged: false,
        is_streamed: false,
        flatten_depth: depth,
    };
    let columns = Spec::new(root).unwrap().columns(&ask)?;
    Ok(columns.iter().map(|c| format!("{} {:?}", c.name, c.data_type)).collect())
}

fn spec(schema: &Value, schemas: &Value) -> Value {
    json!({"openapi": "3.1.0", "components": {"schemas": schemas}, "paths": {"/a": {"get": {"responses": {"200":
        {"content": {"application/json": {"schema": schema}}}}}}}})
}

/// The columns of an array of records with these properties.
fn record(properties: &Value, schemas: &Value) -> String {
    let schema = json!({"type": "array", "items": {"type": "object", "properties": properties}});
    of(spec(&schema, schemas), "", 2).unwrap().join(", ")
}

#[test]
fn r24_types_of_a_document_are_types_of_columns() {
    for (schema, want) in [
        (json!({"type": "integer", "format": "int32"}), "Int32"),
        (json!({"type": "integer", "format": "int64"}), "Int64"),
        (json!({"type": "integer", "format": "unix-time"}), "Int64"),
        (json!({"type": "integer"}), "Int64"),
        (json!({"type": "number"}), "Float64"),
        (json!({"type": "number", "format": "float"}), "Float64"),
        (json!({"type": "number", "format": "double"}), "Float64"),
        (json!({"type": "boolean"}), "Boolean"),
        (json!({"type": "string"}), "String"),
        (json!({"type": "string", "format": "date"}), "Date"),
        (json!({"type": "string", "format": "date-time"}), "Timestamp"),
        (json!({"type": "string", "format": "uuid"}), "String"),
        (json!({"type": "string", "nullable": true}), "String"),
        (json!({"type": ["string", "null"], "format": "date"}), "Date"),
        (json!({"type": ["null", "integer", "number"]}), "Float64"),
        (json!({"type": ["string", "integer"]}), "Json"),
        (json!({"type": "array", "items": {"type": "string"}}), "Json"),
        (json!({"type": "object"}), "Json"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "Json"),
        (json!({}), "Json"),
        (json!(true), "Json"),
        (json!({"type": "file"}), "Json"),
        (json!({"enum": ["a", "b", null]}), "String"),
        (json!({"const": 1}), "Int64"),
        (json!({"oneOf": [{"type": "string"}, {"type": "null"}]}), "String"),
        (json!({"anyOf": [{"$ref": "#/components/schemas/Day"}, {"type": "null"}]}), "Date"),
        (json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}), "Json"),
        (json!({"anyOf": [{"type": "integer", "format": "int32"}, {"type": "integer"}]}), "Int64"),
        (json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}), "Float64"),
        (json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}), "String"),
        (json!({"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "x"}]}), "String"),
        (json!({"anyOf": [{"minLength": 1}, {"type": "string"}]}), "Json"),
        (json!({"allOf": [{"$ref": "#/components/schemas/Day"}], "nullable": true}), "Date"),
        (json!({"allOf": [{"type": "number"}, {"type": "integer", "format": "int32"}]}), "Int32"),
        (json!({"$ref": "#/components/schemas/A~1b~0%20c"}), "Boolean"),
    ] {
        let schemas = json!({"Day": {"type": "string", "format": "date"}, "A/b~ c": {"type": "boolean"}});
        assert_eq!(record(&json!({"v": schema}), &schemas), format!("v {want}"), "{schema}");
    }
}

#[test]
fn r24_objects_of_a_document_flatten_as_inferred_ones_do() {
    let schema = json!({"type": "object", "properties": {
        "z": {"type": "string"},
        "a": {"properties": {"b": {"type": "object", "properties": {"c": {"type": "object", "properties": {"d": {}}}}}}},
        "y": {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "null"}]},
        "x": {"oneOf": [{"type": "object", "properties": {"n": {}}}, {"type": "string"}]}}});
    let columns = |depth| of(spec(&schema, &json!({})), "", depth).unwrap().join(", ");
    assert_eq!(columns(0), "z String, a Json, y Json, x Json");
    assert_eq!(columns(1), "z String, a_b Json, y_n Int64, x Json");
    assert_eq!(columns(2), "z String, a_b_c Json, y_n Int64, x Json");
    assert_eq!(columns(usize::MAX), "z String, a_b_c_d Json, y_n Int64, x Json");
}

#[test]
fn r24_parts_are_put_together_in_the_order_of_the_document() {
    let schemas = json!({
        "Base": {"type": "object", "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}}},
        "Cat": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"properties": {"id": {"format": "int32"}, "lives": {"type": "integer"}}}]},
        "Dog": {"properties": {"tail": {"type": "boolean"}}, "allOf": [{"$ref": "#/components/schemas/Base"}]},
        "Pet": {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]},
        "Strict": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": []}]},
    });
    let columns = |name: &str| {
        let schema = json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}});
        of(spec(&schema, &schemas), "", 2).unwrap().join(", ")
    };
    assert_eq!(columns("Cat"), "id Int32, kind String, lives Int64");
    assert_eq!(columns("Dog"), "tail Boolean, id Int64, kind String");
    assert_eq!(columns("Pet"), "id Int64, kind String, lives Int64, tail Boolean");
    assert_eq!(columns("Strict"), "a String");
}

#[test]
fn r24_records_are_found_as_they_are_when_read() {
    let item = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let list = json!({"type": "array", "items": item});
    let page =
        json!({"type": "object", "properties": {"data": {"properties": {"a/b": list}}, "next": {"type": "string"}}});
    let schemas = json!({});
    for (schema, path) in [
        (&list, ""),
        (&item, ""),
        (&page, "/data/a~1b"),
        (&json!([page]), ""),
        (&json!(page["properties"]["data"]), "/a~1b"),
    ] {
        if schema.is_object() {
            assert_eq!(of(spec(schema, &schemas), path, 2).unwrap(), ["n Int64"], "{schema} {path}");
        }
    }
    let either = json!({"oneOf": [{"type": "object", "properties": {"x": {}}}, list]});
    assert_eq!(of(spec(&either, &schemas), "", 2).unwrap(), ["n Int64"]);

    let fault = of(spec(&page, &schemas), "/dat", 2).unwrap_err();
    assert_eq!((fault.about, fault.message.contains("has no dat there; it has data, next")), (About::DataPath, true));
    let fault = of(spec(&page, &schemas), "/next", 2).unwrap_err();
    assert_eq!((fault.about, fault.message.as_str()), (About::DataPath, "leads to no array in the document"));
    for free in
        [json!({"type": "object"}), json!({"type": "array", "items": {"type": "string"}}), json!({"type": "array"})]
    {
        let fault = of(spec(&free, &schemas), "", 2).unwrap_err();
        assert!(fault.message.contains("says nothing of the fields"), "{free}: {}", fault.message);
    }
    let fault = of(spec(&json!({"type": "string"}), &schemas), "", 2).unwrap_err();
    assert!(fault.message.contains("neither array nor object"), "{}", fault.message);
}

#[test]
fn r16_a_table_that_pages_needs_an_array() {
    let root = spec(&json!({"type": "object", "properties": {"items": {}, "next": {}}}), &json!({}));
    let url = Url::parse("https://h/a").unwrap();
    let mut ask = Ask {
        url: &url,
        base: &url,
        origin: None,
        method: "GET",
        data_path: None,
        is_paged: true,
        is_streamed: false,
        flatten_depth: 2,
    };
    let root = Spec::new(root).unwrap();
    let fault = root.columns(&ask).unwrap_err();
    assert!(fault.message.contains("set data-path; it has "), "{}", fault.message);
    ask.is_streamed = true;
    assert!(root.columns(&ask).is_ok());
}

#[test]
fn r24_two_fields_of_a_document_with_one_column_name_are_both_named() {
    let properties = json!({"user_name": {"type": "string"}, "user": {"properties": {"name": {"type": "string"}}}});
    let fault = of(spec(&json!({"properties": properties}), &json!({})), "", 2).unwrap_err();
    assert!(fault.message.contains("/user_name") && fault.message.contains("/user/name"), "{}", fault.message);
}

#[test]
fn circles_end() {
    let schemas = json!({
        "Node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/components/schemas/Node"},
            "all": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}},
        "Self": {"$ref": "#/components/schemas/Self"},
        "A": {"allOf": [{"$ref": "#/components/schemas/B"}, {"properties": {"a": {"type": "string"}}}]},
        "B": {"allOf": [{"$ref": "#/components/schemas/A"}, {"properties": {"b": {"type": "string"}}}]},
        "Or": {"oneOf": [{"$ref": "#/components/schemas/Or"}, {"type": "string"}]},
        "Wide": {"properties": (0..10).map(|n| (format!("w{n}"), json!({"$ref": "#/components/schemas/Wide"}))).collect::<Map<_, _>>()},
    });
    let columns = |name: &str, depth| {
        let schema =
            json!({"properties": {"f": {"$ref": format!("#/components/schemas/{name}")}, "id": {"type": "integer"}}});
        of(spec(&schema, &schemas), "", depth).map(|columns| columns.join(", "))
    };
    assert_eq!(columns("Node", 1).unwrap(), "f_v Int64, f_next Json, f_all Json, id Int64");
    assert_eq!(
        columns("Node", 2).unwrap(),
        "f_v Int64, f_next_v Int64, f_next_next Json, f_next_all Json, f_all Json, id Int64"
    );
    assert!(columns("Node", usize::MAX).is_ok());
    assert_eq!(columns("Self", 2).unwrap(), "f Json, id Int64");
    assert_eq!(columns("A", 2).unwrap(), "f_b String, f_a String, id Int64");
    assert_eq!(columns("Or", 2).unwrap(), "f String, id Int64");
    assert!(columns("Wide", usize::MAX).unwrap_err().message.contains("flatten less"));
}

/// Schemas `S0` to `S{count}`, each made of the next one.
fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut schemas: Map<String, Value> = (0..count)
        .map(|n| (format!("S{n}"), link(json!({"$ref": format!("#/components/schemas/S{}", n + 1)}))))
        .collect();
    schemas.insert(format!("S{count}"), json!({"type": "object", "properties": {"end": {"type": "string"}}}));
    Value::Object(schemas)
}

#[test]
fn depth_and_size_are_no_danger() {
    let first = json!({"$ref": "#/components/schemas/S0"});
    for link in [
        |next: Value| next,
        |next: Value| json!({"allOf": [next]}),
        |next: Value| json!({"oneOf": [next, {"type": "null"}]}),
        |next: Value| json!({"allOf": [next.clone(), next]}),
    ] {
        assert_eq!(of(spec(&first, &chain(10_000, link)), "", 2).unwrap(), ["end String"]);
    }
    // Each object holds the next: what is deeper than any record that can be read is JSON.
    let nested = chain(10_000, |next| json!({"properties": {"n": next}}));
    assert_eq!(of(spec(&first, &nested), "", usize::MAX).unwrap().len(), 1);
    // Twice as many with every step.
    let twice = chain(64, |next| json!({"properties": {"a": next, "b": next}}));
    assert!(of(spec(&first, &twice), "", usize::MAX).unwrap_err().message.contains("flatten less"));
    let words: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    assert_eq!(record(&json!({"huge": {"enum": words}}), &json!({})), "huge String");
    let many: Map<String, Value> = (0..3_000).map(|n| (format!("k{n}"), json!({}))).collect();
    let fault = of(spec(&json!({"properties": many}), &json!({})), "", 2).unwrap_err();
    assert!(fault.message.contains("more than 2000 fields"), "{}", fault.message);
    let alternatives: Vec<Value> = (0..200_001).map(|n| json!({"title": n})).collect();
    assert!(of(spec(&json!({"anyOf": alternatives}), &json!({})), "", 2).unwrap_err().message.contains("parts"));
}

#[test]
fn references_that_lead_nowhere_are_named() {
    for reference in ["#/components/schemas/Gone", "other.json#/a", "https://h/x", "#anchor"] {
        let fault = of(spec(&json!({"items": {"$ref": reference}}), &json!({})), "", 2).unwrap_err();
        assert!(fault.message.contains(reference), "{}", fault.message);
    }
}

#[test]
fn any_schema_at_all_is_columns_or_an_error() {
    use proptest::prelude::*;

    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(null)),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"type": 7, "properties": [], "allOf": {}, "items": 1})),
        "[S0-3]{2}".prop_map(|name| json!({"$ref": format!("#/components/schemas/{name}")})),
    ];
    let schema = leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| json!({"allOf": all})),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| json!({"oneOf": all, "nullable": true})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            prop::collection::vec(("[abc_]{1,2}", inner), 0..4)
                .prop_map(|all| json!({"type": "object", "properties": all.into_iter().collect::<Map<_, _>>()})),
        ]
    });
    proptest!(|(answer in schema.clone(), parts in prop::collection::vec(schema, 4), depth in 0_usize..200)| {
        let schemas: Map<String, Value> = parts.into_iter().enumerate().map(|(n, s)| (format!("S{n}"), s)).collect();
        if let Ok(columns) = of(spec(&answer, &Value::Object(schemas)), "", depth) {
            prop_assert!(!columns.is_empty());
        }
    });
}
