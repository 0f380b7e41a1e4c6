//! Literals, and where they stand among the values that a column can hold.

use std::cmp::Ordering;
use std::fmt;

use super::show::Quoted;
use crate::position::{Instant, TimestampFormat};

/// A literal of a predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `NULL`.
    Null,
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// Any number, exactly as it was written.
    Number(Number),
    /// A text; beside a date or timestamp column, an instant or day.
    Text(String),
    /// `DATE '...'` or `TIMESTAMP '...'`.
    Instant(Instant),
}

impl Literal {
    /// The instant that a date or timestamp column is compared with; a day is its midnight, no zone is UTC.
    pub fn instant(&self) -> Option<Instant> {
        match self {
            Self::Instant(at) => Some(*at),
            Self::Text(text) => parse_instant(text),
            _ => None,
        }
    }
}

/// A text that names an instant or a day.
pub(super) fn parse_instant(text: &str) -> Option<Instant> {
    TimestampFormat::Rfc3339.parse(text).or_else(|| TimestampFormat::Date.parse(text))
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => Quoted(text, '\'').fmt(f),
            Self::Instant(at) => write!(f, "TIMESTAMP '{}'", TimestampFormat::Rfc3339.render(*at)),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A decimal number as it was written, of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

impl Number {
    /// Digits with an optional sign, point and exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let number = Self(text.to_owned());
        number.parts().map(|_| ()).map(|()| number)
    }

    /// Its plain digits, if it is a whole number.
    pub fn whole(&self) -> Option<String> {
        let mark = self.mark(0);
        let fits = mark.exact && mark.floor.unsigned_abs() < i128::MAX.unsigned_abs();
        fits.then(|| mark.floor.to_string())
    }

    /// How many whole 10^-`scale` it holds, and whether it holds nothing else; a size beyond 38 digits is not exact.
    pub fn units(&self, scale: i8) -> (i128, bool) {
        let mark = self.mark(scale);
        (mark.floor, mark.exact)
    }

    /// The nearest double.
    pub(super) fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Sign, digits, and the power of ten of the last digit.
    fn parts(&self) -> Option<(bool, String, i64)> {
        let (negative, rest) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.0.strip_prefix('+').unwrap_or(&self.0)),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let places = i64::try_from(fraction.len()).ok()?;
        valid.then(|| (negative, digits.trim_start_matches('0').to_owned(), i64::from(exponent) - places))
    }

    /// Where it stands among the multiples of 10^-`scale`.
    pub(super) fn mark(&self, scale: i8) -> Mark {
        let Some((negative, digits, exponent)) = self.parts() else { return Mark { floor: 0, exact: false } };
        let shift = exponent + i64::from(scale);
        let (size, exact) = shifted(&digits, shift);
        match (negative, exact) {
            (false, _) => Mark { floor: size, exact },
            (true, true) => Mark { floor: -size, exact },
            (true, false) => Mark { floor: (-size).saturating_sub(1), exact },
        }
    }
}

/// `digits` times 10^`shift`, cut to a whole number (the greatest there is if it is beyond all columns).
fn shifted(digits: &str, shift: i64) -> (i128, bool) {
    /// More digits than any column holds.
    const TOO_LONG: usize = 40;
    if digits.is_empty() {
        return (0, true);
    }
    let (whole, rest) = match usize::try_from(shift) {
        Ok(zeros) if digits.len().saturating_add(zeros) > TOO_LONG => return (i128::MAX, false),
        Ok(zeros) => (format!("{digits}{}", "0".repeat(zeros)), ""),
        Err(_) => {
            let cut = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
            let (whole, rest) = digits.split_at(digits.len().saturating_sub(cut));
            (whole.to_owned(), rest)
        }
    };
    let exact = rest.bytes().all(|b| b == b'0');
    match whole.parse::<i128>() {
        Ok(size) => (size, exact),
        Err(_) if whole.is_empty() => (0, exact),
        Err(_) => (i128::MAX, false),
    }
}

/// A literal in the whole units of a column: it is `floor`, or lies between `floor` and the next unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) floor: i128,
    pub(super) exact: bool,
}

impl Mark {
    /// How a value of the column compares with the literal.
    pub(super) fn order(self, value: i128) -> Ordering {
        match value.cmp(&self.floor) {
            Ordering::Equal if !self.exact => Ordering::Less,
            order => order,
        }
    }

    /// An instant in microseconds.
    pub(super) fn micros(at: Instant) -> Self {
        Self { floor: i128::from(at.timestamp_micros()), exact: at.timestamp_subsec_nanos().is_multiple_of(1_000) }
    }

    /// An instant in days.
    pub(super) fn days(at: Instant) -> Self {
        let seconds = at.timestamp();
        Self {
            floor: i128::from(seconds.div_euclid(86_400)),
            exact: seconds.rem_euclid(86_400) == 0 && at.timestamp_subsec_nanos() == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_marked_exactly_at_any_scale() {
        let mark = |text: &str, scale| Number::parse(text).map(|n| n.mark(scale)).map(|m| (m.floor, m.exact));
        assert_eq!(mark("4.5", 0), Some((4, false)));
        assert_eq!(mark("-4.5", 0), Some((-5, false)));
        assert_eq!(mark("4.50", 1), Some((45, true)));
        assert_eq!(mark("-1e2", 2), Some((-10_000, true)));
        assert_eq!(mark("1e-9", 2), Some((0, false)));
        assert_eq!(mark("-1e-99", 2), Some((-1, false)));
        assert_eq!(mark("0e999", 2), Some((0, true)));
        assert_eq!(mark("1e2000000000", 0), Some((i128::MAX, false)));
        assert_eq!(mark("9007199254740993", 0), Some((9_007_199_254_740_993, true)));
        assert_eq!(mark(".5", 0), Some((0, false)));
        assert_eq!(mark("12345678901234567890123456789012345678901", 0), Some((i128::MAX, false)));
        for text in ["", ".", "1e", "1x", "--1", "0x10"] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }
}
