//! From a path to the schema of its good answer: method, status, media type.

use serde_json::Value;

use super::{Dialect, Spec, listed, shown};

/// The keys of a path item that are methods.
const METHODS: [&str; 9] = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// What stands at a method of a path.
pub(super) fn operation<'a>(
    spec: &'a Spec,
    template: &str,
    item: &'a Value,
    method: &str,
) -> Result<&'a Value, String> {
    if let Some(operation) = item.get(method.to_ascii_lowercase()) {
        return spec.resolve(operation);
    }
    let has: Vec<String> = METHODS.iter().filter(|m| item.get(**m).is_some()).map(|m| m.to_ascii_uppercase()).collect();
    let has = listed(has.iter().map(String::as_str));
    Err(format!("the document has no {method} of {}; it has {has}", shown(template, 200)))
}

/// The schema of the first good answer that is JSON: 200 before any other 2xx.
pub(super) fn schema<'a>(spec: &'a Spec, operation: &'a Value) -> Result<&'a Value, String> {
    let Some(responses) = operation.get("responses").and_then(Value::as_object) else {
        return Err("has no responses in the document".into());
    };
    let is_other = |status: &&String| status.len() == 3 && status.starts_with('2') && *status != "200";
    let others = responses.keys().filter(is_other).map(String::as_str);
    for status in std::iter::once("200").chain(others) {
        let Some(response) = responses.get(status) else { continue };
        if let Some(schema) = of(spec, spec.resolve(response)?) {
            return Ok(schema);
        }
    }
    let has: Vec<String> = responses.iter().map(|(status, response)| described(spec, status, response)).collect();
    let has = listed(has.iter().map(String::as_str));
    Err(format!("has no 2xx response of JSON with a schema in the document; it has {has}"))
}

fn of<'a>(spec: &'a Spec, response: &'a Value) -> Option<&'a Value> {
    match spec.dialect {
        Dialect::Swagger2 => response.get("schema"),
        Dialect::OpenApi3 => {
            let content = response.get("content")?.as_object()?;
            let media = content.iter().filter_map(|(name, media)| Some((rank(name)?, media.get("schema")?)));
            // Of equals the first.
            media.reduce(|best, next| if next.0 < best.0 { next } else { best }).map(|(_, schema)| schema)
        }
    }
}

/// How good a media type is for records, 0 best; `None` if it is no JSON. Parameters do not count.
fn rank(media: &str) -> Option<u8> {
    let name = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match name.as_str() {
        "application/json" => Some(0),
        "text/json" | "application/x-json" => Some(1),
        _ if name.ends_with("+json") => Some(1),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => Some(2),
        "application/*" | "*/*" => Some(3),
        _ => None,
    }
}

fn described(spec: &Spec, status: &str, response: &Value) -> String {
    let response = spec.resolve(response).unwrap_or(response);
    let content = response.get("content").and_then(Value::as_object);
    let names: Vec<&str> = content.into_iter().flat_map(|content| content.keys()).map(String::as_str).take(3).collect();
    if names.is_empty() { status.to_owned() } else { format!("{status} ({})", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chosen(root: &Value) -> Result<String, String> {
        let spec = Spec::new(root.clone()).unwrap();
        let item = &spec.root["paths"]["/a"];
        let operation = operation(&spec, "/a", item, "GET")?;
        schema(&spec, operation).map(|schema| schema["title"].as_str().unwrap().to_owned())
    }

    fn three(responses: &Value) -> Value {
        json!({"openapi": "3.0.0", "paths": {"/a": {"get": {"responses": responses}}}, "components": {"responses": {
            "R": {"content": {"application/json": {"schema": {"title": "ref"}}}}, "S": {"$ref": "#/components/responses/S"}}}})
    }

    fn json_of(title: &str) -> Value {
        json!({"content": {"application/json": {"schema": {"title": title}}}})
    }

    #[test]
    fn the_json_of_a_good_answer_is_taken() {
        let media = |name: &str| json!({"200": {"content": {"text/csv": {"schema": {"title": "no"}}, name: {"schema": {"title": name}}}}});
        for name in [
            "application/json; charset=utf-8",
            "application/vnd.api+json",
            "Application/JSON",
            "application/geo+json;v=1",
            "*/*",
            "application/x-ndjson",
        ] {
            assert_eq!(chosen(&three(&media(name))).as_deref(), Ok(name));
        }
        for (responses, title) in [
            (json!({"404": json_of("no"), "201": json_of("201"), "200": json_of("200")}), "200"),
            (json!({"default": json_of("no"), "2XX": json_of("2XX")}), "2XX"),
            (json!({"200": {"description": "empty"}, "203": json_of("203")}), "203"),
            (json!({"200": {"$ref": "#/components/responses/R"}}), "ref"),
            (
                json!({"200": {"content": {"a/b+json": {"schema": {"title": "b"}}, "application/json": {"schema": {"title": "j"}}}}}),
                "j",
            ),
        ] {
            assert_eq!(chosen(&three(&responses)).as_deref(), Ok(title), "{responses}");
        }
        let two =
            json!({"swagger": "2.0", "paths": {"/a": {"get": {"responses": {"200": {"schema": {"title": "two"}}}}}}});
        assert_eq!(chosen(&two).as_deref(), Ok("two"));
    }

    #[test]
    fn what_there_is_instead_is_named() {
        for (responses, said) in [
            (
                json!({"404": json_of("no"), "200": {"content": {"text/csv": {"schema": {}}}}}),
                "it has 404 (application/json), 200 (text/csv)",
            ),
            (json!({"default": json_of("no")}), "it has default (application/json)"),
            (json!({}), "it has none"),
            (json!({"200": {"$ref": "#/components/responses/S"}}), "more than 32 $refs"),
            (json!({"200": {"$ref": "#/nowhere"}}), "leads nowhere"),
            (json!({"200": {"$ref": "other.yaml#/a"}}), "another document"),
        ] {
            let error = chosen(&three(&responses)).unwrap_err();
            assert!(error.contains(said), "{responses}: {error}");
        }
        let post = json!({"openapi": "3.1.0", "paths": {"/a": {"post": {}, "parameters": [], "delete": {}}}});
        let error = chosen(&post).unwrap_err();
        assert_eq!(error, "the document has no GET of /a; it has POST, DELETE");
    }
}
