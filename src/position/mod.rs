//! Where to ask next: a cursor, an offset, a timestamp or a token. Never compared across kinds (R4-R6).

pub mod boundary;
pub mod checkpoint;
pub mod instant;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use boundary::{Boundary, BoundaryPolicy, Observed, Seen};
pub(crate) use checkpoint::PLANS_KEPT;
pub use checkpoint::{Checkpoint, Edit};
pub use instant::{Instant, TimestampFormat};

/// The kind of position a table keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The cursor that fetched the last page.
    Cursor,
    /// Start plus records received.
    Offset,
    /// The greatest record timestamp of the whole read.
    Timestamp,
    /// The continuation that the last page handed out.
    Token,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cursor => "cursor",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::Token => "token",
        })
    }
}

/// A committed or starting position, as it is stored: `{"type": ..., "value": ...}` (R7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Position {
    /// The cursor text that fetched the last page.
    Cursor(String),
    /// Records received so far, from the first record of the endpoint.
    Offset(u64),
    /// The greatest timestamp as the API wrote it; compared as an instant, never as text.
    Timestamp(String),
    /// A continuation, verbatim and uncompared; a URL token is stored without its credential.
    Token(String),
}

/// A window of a stream: `start < timestamp <= end`, whole seconds UTC (R27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Exclusive; `None` is from the earliest record.
    pub start: Option<Instant>,
    /// Inclusive.
    pub end: Instant,
}

impl Window {
    /// Whether a record of this instant belongs to it.
    pub fn holds(&self, at: Instant) -> bool {
        self.start.is_none_or(|start| at > start) && at <= self.end
    }
}

impl Position {
    /// The kind of this position.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Cursor(_) => Mode::Cursor,
            Self::Offset(_) => Mode::Offset,
            Self::Timestamp(_) => Mode::Timestamp,
            Self::Token(_) => Mode::Token,
        }
    }

    /// The stored value as text (an offset in decimal digits).
    pub fn text(&self) -> String {
        match self {
            Self::Offset(n) => n.to_string(),
            Self::Cursor(text) | Self::Timestamp(text) | Self::Token(text) => text.clone(),
        }
    }

    /// The greater of what is stored and what was reached; never backwards where that has a meaning (R5).
    ///
    /// Offsets and timestamps are compared; cursors and tokens have no order, so the reached one wins. A stored
    /// timestamp that no longer reads under `format` gives way.
    #[must_use]
    pub fn forward(stored: Option<&Self>, reached: Self, format: Option<&TimestampFormat>) -> Self {
        match (stored, &reached) {
            (Some(Self::Offset(old)), Self::Offset(new)) if old > new => Self::Offset(*old),
            (Some(Self::Timestamp(old)), Self::Timestamp(new)) => {
                let read = |text: &str| format.and_then(|f| f.parse(text));
                match (read(old), read(new)) {
                    (Some(a), Some(b)) if a >= b => Self::Timestamp(old.clone()),
                    _ => reached,
                }
            }
            _ => reached,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode(), self.text().replace(char::is_control, "\u{fffd}"))
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        for nibble in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r05_forward_never_goes_back() {
        let rfc = TimestampFormat::Rfc3339;
        let old = Position::Timestamp("2026-01-02T10:00:00Z".into());
        let earlier = Position::Timestamp("2026-01-02T11:00:00+02:00".into());
        assert_eq!(Position::forward(Some(&old), earlier.clone(), Some(&rfc)), old);
        assert_eq!(Position::forward(Some(&earlier), old.clone(), Some(&rfc)), old);
        assert_eq!(Position::forward(Some(&Position::Offset(7)), Position::Offset(3), None), Position::Offset(7));
        assert_eq!(
            Position::forward(Some(&Position::Cursor("b".into())), Position::Cursor("a".into()), None),
            Position::Cursor("a".into())
        );
    }

    #[test]
    fn r07_type_and_value_come_first() {
        let text = serde_json::to_string(&Position::Offset(5)).unwrap_or_default();
        assert_eq!(text, r#"{"type":"offset","value":5}"#);
    }
}
