//! The bytes of a document become a value: JSON if they begin with a brace, else YAML. Keys keep their order.

use serde_json::Value;

use super::{Spec, yaml};

/// Reads a document. What is wrong is said with its line; JSON may nest 128 levels, YAML too.
pub fn parse(bytes: &[u8]) -> Result<Spec, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = simdutf8::basic::from_utf8(bytes).map_err(|_| "is not UTF-8: save it as UTF-8")?;
    let root = if text.trim_start().starts_with('{') { json(text)? } else { yaml::read(text)? };
    Spec::new(root)
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| {
        let said = e.to_string();
        let what = said.split(" at line ").next().unwrap_or(&said);
        format!("is no JSON: line {}, column {}: {what}", e.line(), e.column())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("{\n\"openapi\": \"3.0.0\",\n\"paths\": }", "line 3, column 10"),
            ("{\"openapi\": \"3.0.0\", \"paths\": {}", "line 1"),
            ("openapi: 3.0.0\npaths:\n  /a: [1\n", "line 4"),
            ("openapi: 3.0.0\npaths: {}\npaths: {}\n", "line 3"),
            ("openapi: 3.0.0\npaths: *gone\n", "line 2"),
            ("a: \"\\q\"", "is no YAML: line 1"),
            ("", "neither openapi nor swagger"),
            ("hello", "neither openapi nor swagger"),
            ("{}", "neither openapi nor swagger"),
            ("openapi: 4.0.0\npaths: {}", "version 4.0.0"),
            ("swagger: '1.2'\npaths: {}", "version 1.2"),
            ("openapi: 3.0.0", "no paths"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
        assert!(parse(b"openapi: \xff").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn a_version_may_be_written_as_a_number() {
        for text in
            ["swagger: 2.0\npaths: {}", "openapi: 3.1\npaths: {}", "\u{feff}{\"openapi\": \"3.0.3\", \"paths\": {}}"]
        {
            assert!(parse(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        for open in ["{\"a\":", "["] {
            let json = format!("{{\"a\": {}", open.repeat(100_000));
            assert!(parse(json.as_bytes()).unwrap_err().contains("is no JSON"));
            let yaml = format!("a: {}", open.repeat(100_000));
            let said = parse(yaml.as_bytes()).unwrap_err();
            assert!(said.contains("128 levels") || said.contains("limit"), "{said}");
        }
        let block: Vec<String> = (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        assert!(parse(block.concat().as_bytes()).unwrap_err().contains("128 levels"));
    }
}
