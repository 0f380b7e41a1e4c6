//! A table's committed position as one JSON object, `type` and `value` first (R6, R7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::instant::{Instant, TimestampFormat};
use super::{Position, Seen};

/// The version of the file that this release writes and the newest it reads.
pub const VERSION: u64 = 1;

/// Edits kept in the file; older ones fall out.
const EDITS_KEPT: usize = 20;

/// Plans kept in the file beside the last; older ones fall out.
pub(crate) const PLANS_KEPT: usize = 16;

/// A hand edit of a checkpoint, kept in the file so that it can be accounted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// User and host.
    pub who: String,
    /// When.
    pub at: Instant,
    /// The value that stood there before, as text.
    pub from: Option<String>,
}

/// A table's committed position and what proves where it came from.
///
/// A file with only `type` and `value`, as the Spark connector writes it, is valid: everything else is optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where the next read starts.
    pub position: Position,
    /// Counts the commits of this table.
    pub generation: u64,
    /// The fingerprint of the read that the position belongs to (R6).
    pub fingerprint: Option<String>,
    /// When it was committed.
    pub committed_at: Option<Instant>,
    /// The plan that committed it: a second commit of the same plan is recognised by it (R8).
    pub plan: Option<String>,
    /// The plans before it, newest first: an acknowledgement may be missed for longer than the next run takes.
    pub earlier: Vec<String>,
    /// The records of the boundary that were delivered (`dedup-key`).
    pub seen: Seen,
    /// Hand edits, oldest first.
    pub edits: Vec<Edit>,
}

impl Checkpoint {
    /// A bare position, as `checkpoint set` makes it on an empty place.
    pub fn at(position: Position) -> Self {
        Self {
            position,
            generation: 0,
            fingerprint: None,
            committed_at: None,
            plan: None,
            earlier: Vec::new(),
            seen: Seen::default(),
            edits: Vec::new(),
        }
    }

    /// Reads a checkpoint file. The error text says what is wrong with it; the caller names the file (R6).
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("it is not whole JSON: {e}"))?;
        let Value::Object(map) = value else { return Err("it is not a JSON object".into()) };
        if let Some(version) = map.get("version") {
            match version.as_u64() {
                Some(VERSION) => {}
                _ => return Err(format!("its version is {version}, this release reads version {VERSION}")),
            }
        }
        let kind = map.get("type").and_then(Value::as_str).ok_or("it has no text \"type\"")?;
        let value = map.get("value").ok_or("it has no \"value\"")?;
        let text =
            || value.as_str().map(str::to_owned).ok_or_else(|| format!("its value of type {kind} is not a text"));
        let position = match kind {
            "cursor" => Position::Cursor(text()?),
            "offset" => Position::Offset(value.as_u64().ok_or("its offset is not a whole number")?),
            "timestamp" => Position::Timestamp(text()?),
            "token" => Position::Token(text()?),
            other => return Err(format!("its type {other:?} is unknown")),
        };
        let optional = |key: &str| -> Result<Option<String>, String> {
            match map.get(key) {
                None | Some(Value::Null) => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(_) => Err(format!("its {key} is not a text")),
            }
        };
        Ok(Self {
            position,
            generation: match map.get("generation") {
                None => 0,
                Some(n) => n.as_u64().ok_or("its generation is not a whole number")?,
            },
            fingerprint: optional("fingerprint")?,
            committed_at: optional("committed-at")?.and_then(|t| TimestampFormat::Rfc3339.parse(&t)),
            plan: optional("plan")?,
            earlier: map.get("earlier").map_or(Ok(Vec::new()), texts)?,
            seen: map.get("seen").map_or(Ok(Seen::default()), Seen::from_json)?,
            edits: map.get("edits").map_or(Ok(Vec::new()), edits_from_json)?,
        })
    }

    /// The bytes of the file, ending with a newline.
    pub fn render(&self) -> Vec<u8> {
        let rfc = |at: Instant| Value::String(TimestampFormat::Rfc3339.render(at));
        let mut map = Map::new();
        map.insert("type".into(), Value::String(self.position.mode().to_string()));
        map.insert(
            "value".into(),
            match &self.position {
                Position::Offset(n) => Value::from(*n),
                other => Value::String(other.text()),
            },
        );
        map.insert("version".into(), Value::from(VERSION));
        map.insert("generation".into(), Value::from(self.generation));
        if let Some(fingerprint) = &self.fingerprint {
            map.insert("fingerprint".into(), Value::String(fingerprint.clone()));
        }
        if let Some(at) = self.committed_at {
            map.insert("committed-at".into(), rfc(at));
        }
        if let Some(plan) = &self.plan {
            map.insert("plan".into(), Value::String(plan.clone()));
        }
        if !self.earlier.is_empty() {
            map.insert("earlier".into(), self.earlier.clone().into());
        }
        if !self.seen.is_empty() {
            map.insert("seen".into(), self.seen.to_json());
        }
        if !self.edits.is_empty() {
            let edits = self.edits.iter().map(|edit| {
                let mut one = Map::new();
                one.insert("who".into(), Value::String(edit.who.clone()));
                one.insert("at".into(), rfc(edit.at));
                one.insert("from".into(), edit.from.clone().map_or(Value::Null, Value::String));
                Value::Object(one)
            });
            map.insert("edits".into(), Value::Array(edits.collect()));
        }
        let mut bytes = Value::Object(map).to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// The plans that led here, the last one first.
    pub fn plans(&self) -> impl Iterator<Item = &String> {
        self.plan.iter().chain(&self.earlier)
    }

    /// Names the plan that commits this, and those before it; only the newest are kept.
    pub(crate) fn committed_by(&mut self, plan: &str, before: &[String]) {
        self.plan = Some(plan.to_owned());
        self.earlier = before.iter().take(PLANS_KEPT).cloned().collect();
    }

    /// Adds a hand edit; only the newest are kept.
    pub fn edited(&mut self, edit: Edit) {
        self.edits.push(edit);
        let extra = self.edits.len().saturating_sub(EDITS_KEPT);
        self.edits.drain(..extra);
    }
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().ok_or("its earlier plans are not a list")?;
    list.iter().map(|one| one.as_str().map(str::to_owned).ok_or("an earlier plan is not a text".to_owned())).collect()
}

fn edits_from_json(value: &Value) -> Result<Vec<Edit>, String> {
    let list = value.as_array().ok_or("its edits are not a list")?;
    list.iter()
        .map(|edit| {
            let text = |key: &str| edit.get(key).and_then(Value::as_str);
            Ok(Edit {
                who: text("who").ok_or("an edit has no \"who\"")?.to_owned(),
                at: text("at")
                    .and_then(|t| TimestampFormat::Rfc3339.parse(t))
                    .ok_or("an edit has no readable \"at\"")?,
                from: text("from").map(str::to_owned),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r07_a_file_survives_the_round_trip_and_bare_ones_are_read() {
        let mut full = Checkpoint::at(Position::Token("zz+/=9".into()));
        full.generation = 3;
        full.fingerprint = Some("f".into());
        full.committed_by("p", &["o".into(), "n".into()]);
        full.edited(Edit { who: "a@b".into(), at: Instant::default(), from: None });
        assert_eq!(Checkpoint::parse(&full.render()), Ok(full.clone()));
        assert!(full.render().starts_with(br#"{"type":"token","value":"zz+/=9""#));
        let bare = Checkpoint::parse(br#"{"type":"offset","value":12}"#);
        assert_eq!(bare, Ok(Checkpoint::at(Position::Offset(12))));
    }

    #[test]
    fn r06_nothing_unreadable_is_a_first_run() {
        for text in [
            "",
            "{",
            "[]",
            "7",
            "{\"type\":\"cur",
            r#"{"value":"x"}"#,
            r#"{"type":"cursor"}"#,
            r#"{"type":"cursor","value":3}"#,
            r#"{"type":"offset","value":"3"}"#,
            r#"{"type":"offset","value":-1}"#,
            r#"{"type":"mark","value":"x"}"#,
            r#"{"type":"cursor","value":"x","version":2}"#,
            r#"{"type":"cursor","value":"x","generation":"many"}"#,
            r#"{"type":"cursor","value":"x","seen":7}"#,
        ] {
            assert!(Checkpoint::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
