//! A cell of a CSV record as the JSON token that its column reads (R24).
//!
//! Cells have no types, so what a cell is depends on who reads it: what is written as its column's type writes it is of
//! that type, anything else is a text, which [`value`](super::value) converts where it has exactly one reading. An empty
//! cell is NULL, except in a string column: there it is the empty text.

use super::scan::{Kind, Scanner, Token};
use super::value::{self, Reading};
use crate::config::ColumnType;
use crate::position::TimestampFormat;

/// The token; its text may be put into `room`. `None` where a JSON column meets what is no JSON.
pub(super) fn token<'a>(
    data_type: ColumnType,
    format: Option<&TimestampFormat>,
    cell: &'a str,
    room: &'a mut String,
) -> Option<Token<'a>> {
    if cell.is_empty() && data_type != ColumnType::String {
        return Some(Token { kind: Kind::Null, raw: "null" });
    }
    let own = match data_type {
        ColumnType::String => None,
        ColumnType::Int32 | ColumnType::Int64 | ColumnType::Float64 | ColumnType::Decimal(..) => number(cell),
        ColumnType::Boolean => whole(cell).filter(|token| matches!(token.kind, Kind::True | Kind::False)),
        ColumnType::Date | ColumnType::Timestamp => format.filter(|f| f.is_epoch()).and_then(|_| number(cell)),
        // Around a document there may be space; it is no part of it.
        ColumnType::Json => return whole(cell.trim_matches([' ', '\t', '\n', '\r'])),
    };
    Some(own.unwrap_or_else(|| text(cell, room)))
}

/// A text as a whole number, where it has one reading as one, and whether it is written as such.
pub(crate) fn whole_number(text: &str) -> Option<(i64, bool)> {
    let mut room = String::new();
    match value::int64(&token(ColumnType::Int64, None, text, &mut room)?) {
        Reading::Exact(number) => Some((number, true)),
        Reading::Converted(number) => Some((number, false)),
        Reading::Mismatch => None,
    }
}

/// A cell as a JSON string.
pub(super) fn text<'a>(cell: &str, room: &'a mut String) -> Token<'a> {
    room.clear();
    let kind = quote(cell, room);
    Token { kind, raw: room }
}

/// Appends a JSON string.
pub(super) fn quote(text: &str, out: &mut String) -> Kind {
    if text.bytes().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        // A string always becomes JSON.
        out.push_str(&serde_json::Value::from(text).to_string());
        return Kind::Escaped;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
    Kind::Plain
}

fn number(cell: &str) -> Option<Token<'_>> {
    whole(cell).filter(|token| matches!(token.kind, Kind::Integer | Kind::Fraction))
}

/// The cell as one JSON value, without any space around it.
fn whole(cell: &str) -> Option<Token<'_>> {
    let token = Scanner::new(cell).value().ok()?;
    (token.raw.len() == cell.len()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r24_a_cell_written_as_its_type_is_of_that_type() {
        let read = |data_type, cell: &str| {
            let mut room = String::new();
            let token = token(data_type, None, cell, &mut room);
            token.map_or_else(|| "none".to_owned(), |token| format!("{:?} {}", token.kind, token.raw))
        };
        for (data_type, cell, want) in [
            (ColumnType::Int64, "12", "Integer 12"),
            (ColumnType::Int64, "", "Null null"),
            (ColumnType::Int64, "007", "Plain \"007\""),
            (ColumnType::Int64, " 7", "Plain \" 7\""),
            (ColumnType::Int64, "true", "Plain \"true\""),
            (ColumnType::Float64, "2e3", "Fraction 2e3"),
            (ColumnType::Decimal(5, 2), "1.10", "Fraction 1.10"),
            (ColumnType::Boolean, "true", "True true"),
            (ColumnType::Boolean, "FALSE", "Plain \"FALSE\""),
            (ColumnType::Boolean, "1", "Plain \"1\""),
            (ColumnType::String, "", "Plain \"\""),
            (ColumnType::String, "null", "Plain \"null\""),
            (ColumnType::String, "a\"\n", "Escaped \"a\\\"\\n\""),
            (ColumnType::Timestamp, "2026-01-01T00:00:00Z", "Plain \"2026-01-01T00:00:00Z\""),
            (ColumnType::Timestamp, "1767225600", "Plain \"1767225600\""),
            (ColumnType::Json, "{\"a\":[1]}", "Object {\"a\":[1]}"),
            (ColumnType::Json, " 1.50\n", "Fraction 1.50"),
            (ColumnType::Json, "abc", "none"),
            (ColumnType::Json, "1 2", "none"),
            (ColumnType::Json, "", "Null null"),
        ] {
            assert_eq!(read(data_type, cell), want, "{data_type:?} {cell:?}");
        }
    }

    #[test]
    fn r24_instants_in_cells_are_read_as_their_format_writes_them() {
        let read = |cell: &str, format: &str| {
            let format = TimestampFormat::named(format).unwrap();
            let mut room = String::new();
            value::timestamp(&token(ColumnType::Timestamp, Some(&format), cell, &mut room).unwrap(), Some(&format))
        };
        assert_eq!(read("1767225600", "epoch-s"), Reading::Exact(1_767_225_600_000_000));
        assert_eq!(read("20260101", "%Y%m%d"), Reading::Exact(1_767_225_600_000_000));
        assert_eq!(read("soon", "epoch-s"), Reading::Mismatch);
    }
}
