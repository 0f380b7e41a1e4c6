//! YAML 1.2 becomes a JSON value, without recursion; nesting and what aliases copy are bounded.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use super::shown;

/// The levels of a document, as many as JSON may have.
const LEVELS_MAX: usize = 128;

/// What anchors and aliases may copy, in bytes.
const COPIED_MAX: usize = 64 << 20;

/// What a value takes in memory, about, without its text.
const VALUE_BYTES: usize = 64;

/// The first and only document of a text.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut build = Build::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| broken(*e.marker(), e.info()))?;
        build.event(event).map_err(|why| broken(span.start, &why))?;
    }
    Ok(build.root.unwrap_or(Value::Null))
}

fn broken(at: Marker, why: &str) -> String {
    format!("is no YAML: line {}, column {}: {why}", at.line(), at.col() + 1)
}

/// A finished value, the levels it has and the memory it takes.
struct Node {
    value: Value,
    height: usize,
    bytes: usize,
}

impl Node {
    fn scalar(value: Value) -> Self {
        let text = value.as_str().map_or(0, str::len);
        Self { value, height: 0, bytes: VALUE_BYTES + text }
    }
}

/// A mapping or sequence that is not finished.
struct Frame {
    anchor: usize,
    holder: Holder,
    height: usize,
    bytes: usize,
}

enum Holder {
    Map { members: Map<String, Value>, merged: Vec<Map<String, Value>>, key: Option<String> },
    List(Vec<Value>),
}

#[derive(Default)]
struct Build {
    frames: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    root: Option<Value>,
}

impl Build {
    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => return Err("the text holds a second document".into()),
            Event::Scalar(text, style, anchor, tag) => return self.scalar(text, style, anchor, tag.as_deref()),
            Event::Alias(anchor) => return self.alias(anchor),
            Event::MappingStart(anchor, _) => {
                self.open(anchor, Holder::Map { members: Map::new(), merged: Vec::new(), key: None })?;
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, Holder::List(Vec::new()))?,
            Event::MappingEnd | Event::SequenceEnd => return self.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), String> {
        let is_plain = style == ScalarStyle::Plain;
        if let Some(Frame { holder: Holder::Map { key: key @ None, .. }, .. }) = self.frames.last_mut() {
            // A key is a text as written: `200:` is "200".
            *key = Some(text.into_owned());
            return Ok(());
        }
        let is_text = !is_plain || tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
        let value = if is_text { Value::String(text.into_owned()) } else { plain(&text) };
        self.put(anchor, Node::scalar(value))
    }

    fn alias(&mut self, anchor: usize) -> Result<(), String> {
        let node = self.anchors.get(&anchor).ok_or("the alias stands inside what it names")?;
        let (height, bytes) = (node.height, node.bytes);
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > COPIED_MAX {
            return Err("its aliases copy too much".into());
        }
        if let Some(Frame { holder: Holder::Map { key: key @ None, .. }, .. }) = self.frames.last_mut() {
            *key = Some(node.value.as_str().ok_or("a key must be a text")?.to_owned());
            return Ok(());
        }
        if self.frames.len() + height > LEVELS_MAX {
            return Err(too_deep());
        }
        self.put(0, Node { value: node.value.clone(), height, bytes })
    }

    fn open(&mut self, anchor: usize, holder: Holder) -> Result<(), String> {
        if let Some(Frame { holder: Holder::Map { key: None, .. }, .. }) = self.frames.last() {
            return Err("a key must be a text".into());
        }
        if self.frames.len() >= LEVELS_MAX {
            return Err(too_deep());
        }
        self.frames.push(Frame { anchor, holder, height: 1, bytes: VALUE_BYTES });
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(frame) = self.frames.pop() else { return Err("an end without a beginning".into()) };
        let value = match frame.holder {
            Holder::List(items) => Value::Array(items),
            Holder::Map { mut members, merged, .. } => {
                for (key, value) in merged.into_iter().flatten() {
                    members.entry(key).or_insert(value);
                }
                Value::Object(members)
            }
        };
        self.put(frame.anchor, Node { value, height: frame.height, bytes: frame.bytes })
    }

    /// A finished value takes its place, and is kept if it has an anchor.
    fn put(&mut self, anchor: usize, node: Node) -> Result<(), String> {
        if anchor > 0 {
            self.copied = self.copied.saturating_add(node.bytes);
            if self.copied > COPIED_MAX {
                return Err("its anchors copy too much".into());
            }
            self.anchors.insert(anchor, Node { value: node.value.clone(), ..node });
        }
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node.value);
            return Ok(());
        };
        frame.height = frame.height.max(node.height + 1);
        frame.bytes = frame.bytes.saturating_add(node.bytes);
        match &mut frame.holder {
            Holder::List(items) => items.push(node.value),
            Holder::Map { members, merged, key } => {
                let key = key.take().unwrap_or_default();
                frame.bytes = frame.bytes.saturating_add(key.len());
                match node.value {
                    // The merge key of YAML 1.1: what stands in the mapping itself wins.
                    Value::Object(map) if key == "<<" => merged.push(map),
                    Value::Array(maps) if key == "<<" && maps.iter().all(Value::is_object) => {
                        merged.extend(maps.into_iter().filter_map(|map| match map {
                            Value::Object(map) => Some(map),
                            _ => None,
                        }));
                    }
                    _ if members.contains_key(&key) => {
                        return Err(format!("the key {} stands twice", shown(&key, 100)));
                    }
                    value => {
                        members.insert(key, value);
                    }
                }
            }
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("it nests more than {LEVELS_MAX} levels")
}

/// A scalar without quotes, by the core schema of YAML 1.2.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    let number = || {
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
        whole.ok().or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
    };
    is_number.then(number).flatten().map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "{a: 1, b: '1', c: 1.5, d: -3e2, e: yes, f: TRUE, g: ~, h: , i: 2020-01-01, j: 3.0.3, k: !!str 7, \
                    l: 18446744073709551615, m: ., n: -x, o: 0x1F, p: .inf}";
        let want = json!({"a": 1, "b": "1", "c": 1.5, "d": -300.0, "e": "yes", "f": true, "g": null, "h": null,
            "i": "2020-01-01", "j": "3.0.3", "k": "7", "l": u64::MAX, "m": ".", "n": "-x", "o": "0x1F", "p": ".inf"});
        assert_eq!(read(text).unwrap(), want);
    }

    #[test]
    fn keys_keep_their_order_and_their_text() {
        let value = read("z: 1\n200: 2\na:\n  - x\n  -\n    y: |\n      two\n      lines\n~: 0\n").unwrap();
        assert_eq!(value.to_string(), r#"{"z":1,"200":2,"a":["x",{"y":"two\nlines\n"}],"~":0}"#);
    }

    #[test]
    fn aliases_copy_and_merge() {
        let text = "base: &b {x: 1, y: 2}\nmore: &m {z: 3}\nsame: *b\none: {<<: *b, y: 9}\nboth: {<<: [*b, *m], w: 0}";
        let value = read(text).unwrap();
        assert_eq!(value["same"], json!({"x": 1, "y": 2}));
        assert_eq!(value["one"], json!({"x": 1, "y": 9}));
        assert_eq!(value["both"], json!({"w": 0, "x": 1, "y": 2, "z": 3}));
    }

    #[test]
    fn hostile_texts_are_errors() {
        let laughs: Vec<String> =
            (1..12).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))).collect();
        let text = format!("a0: &a0 lol\n{}", laughs.concat());
        assert!(read(&text).unwrap_err().contains("copy too much"));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 1_000].join(","));
        assert!(read(&long).unwrap_err().contains("copy too much"));
        // Each alias is flat; what they make together is not.
        let deep: Vec<String> =
            (1..9).map(|n| format!("a{n}: &a{n} {}*a{}{}\n", "[".repeat(20), n - 1, "]".repeat(20))).collect();
        assert!(read(&format!("a0: &a0 1\n{}", deep.concat())).unwrap_err().contains("128 levels"));
        assert!(read("a: &a [*a]").unwrap_err().contains("inside what it names"));
        assert!(read("? [a]\n: 1").unwrap_err().contains("must be a text"));
        assert!(read("a: 1\n---\nb: 2").unwrap_err().contains("second document"));
    }

    #[test]
    fn any_json_is_yaml_of_the_same_value() {
        use proptest::prelude::*;

        let text = "[a-z\"\\\\ :#{}\\[\\],'&*!|>%@`-]{0,8}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 30, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((text, inner), 0..5)
                    .prop_map(|all| Value::Object(all.into_iter().collect::<Map<_, _>>())),
            ]
        });
        proptest!(|(value in value)| {
            prop_assert_eq!(read(&value.to_string()), Ok(value.clone()));
            prop_assert_eq!(read(&format!("{value:#}")), Ok(value));
        });
    }
}
