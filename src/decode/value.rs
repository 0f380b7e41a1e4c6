//! What a JSON value means in a column of some type: the same value, one exact other reading, or none (R24).
//!
//! Pure functions over one [`Token`]. Null is not seen here. Strings stand for numbers, booleans and instants where
//! there is exactly one reading of them; nothing goes through a float on its way to an integer or a decimal.

use std::borrow::Cow;

use chrono::Timelike as _;

use super::scan::{Kind, Token};
use crate::position::{Instant, TimestampFormat};

/// How a value reads as a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading<T> {
    /// It is of the type.
    Exact(T),
    /// It is of another type, or longer than the type holds, and has one reading.
    Converted(T),
    /// It has none.
    Mismatch,
}

use Reading::{Converted, Exact, Mismatch};

impl<T> Reading<T> {
    fn of(value: Option<T>, exact: bool) -> Self {
        match value {
            Some(value) if exact => Exact(value),
            Some(value) => Converted(value),
            None => Mismatch,
        }
    }
}

/// A decimal number: `mantissa * 10^exponent`, without trailing zeros in the mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    negative: bool,
    mantissa: u128,
    exponent: i64,
    digits: u32,
}

/// Reads digits, fraction and exponent exactly; `None` beyond 38 significant digits or when it is no number.
///
/// A string may also have leading zeros (`"007"`), which JSON numbers may not.
fn number(text: &str) -> Option<Number> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (digits, mut exponent) = match rest.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, parse_exponent(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    exponent -= i64::try_from(fraction.len()).ok()?;
    let (mut mantissa, mut count, mut zeros) = (0_u128, 0_u32, 0_u32);
    for digit in whole.bytes().chain(fraction.bytes()) {
        if digit == b'0' {
            zeros += u32::from(mantissa != 0);
            continue;
        }
        count += zeros + 1;
        if count > 38 {
            return None;
        }
        mantissa = mantissa * 10_u128.pow(zeros + 1) + u128::from(digit - b'0');
        zeros = 0;
    }
    // The zeros after the last other digit are not in the mantissa.
    exponent = if mantissa == 0 { 0 } else { exponent + i64::from(zeros) };
    Some(Number { negative, mantissa, exponent, digits: count })
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // An exponent beyond what is ever used only has to stay beyond it.
    Some(
        text.parse::<i64>()
            .map_or(if text.starts_with('-') { -1_000_000 } else { 1_000_000 }, |e| e.clamp(-1_000_000, 1_000_000)),
    )
}

impl Number {
    /// The value times 10^`scale`, when that is an integer of at most 38 digits.
    fn scaled(self, scale: i64) -> Option<i128> {
        let shift = u32::try_from(self.exponent + scale).ok().or((self.mantissa == 0).then_some(0))?;
        let value = i128::try_from(self.mantissa.checked_mul(10_u128.checked_pow(shift)?)?).ok()?;
        Some(if self.negative { -value } else { value })
    }
}

/// The text of a number, or of a string that may hold one; with whether it is a number.
fn numeric<'a>(token: &Token<'a>) -> Option<(Cow<'a, str>, bool)> {
    match token.kind {
        Kind::Integer | Kind::Fraction => Some((Cow::Borrowed(token.raw), true)),
        _ => token.text().map(|text| (text, false)),
    }
}

/// `int64`: integers in range; `3.0`, `3e0` and `"3"` are converted.
#[inline]
pub(crate) fn int64(token: &Token<'_>) -> Reading<i64> {
    if token.kind == Kind::Integer {
        return Reading::of(token.raw.parse().ok(), true);
    }
    let number = numeric(token).and_then(|(text, _)| number(&text));
    Reading::of(number.and_then(|n| n.scaled(0)).and_then(|n| i64::try_from(n).ok()), false)
}

/// `int32`: as [`int64`], in the smaller range.
#[inline]
pub(crate) fn int32(token: &Token<'_>) -> Reading<i32> {
    match int64(token) {
        Exact(n) => Reading::of(i32::try_from(n).ok(), true),
        Converted(n) => Reading::of(i32::try_from(n).ok(), false),
        Mismatch => Mismatch,
    }
}

/// `decimal`: exact from the digits; what does not fit scale and precision has no reading.
pub(crate) fn decimal(token: &Token<'_>, precision: u8, scale: i8) -> Reading<i128> {
    let Some((text, exact)) = numeric(token) else { return Mismatch };
    let value = number(&text).and_then(|n| n.scaled(i64::from(scale)));
    let limit = 10_i128.checked_pow(u32::from(precision));
    Reading::of(value.filter(|v| limit.is_none_or(|limit| v.abs() < limit)), exact)
}

/// `float64`: the nearest float. Integers that it does not hold, and fractions of more digits than a float has (17),
/// are converted; what would be infinite has no reading.
#[inline]
pub(crate) fn float64(token: &Token<'_>) -> Reading<f64> {
    let (text, mut exact) = match token.kind {
        Kind::Integer | Kind::Fraction => (Cow::Borrowed(token.raw), true),
        _ => match token.text() {
            // `str::parse` knows `NaN`, `inf` and `+1`, which are no numbers here.
            Some(text) if number_like(&text) => (text, false),
            _ => return Mismatch,
        },
    };
    let Some(value) = text.parse::<f64>().ok().filter(|v| v.is_finite()) else { return Mismatch };
    if exact && text.len() > 15 {
        exact = holds(value, &text, token.kind);
    } else if value == 0.0 {
        exact &= !text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| matches!(b, b'1'..=b'9'));
    }
    Reading::of(Some(value), exact)
}

fn number_like(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
}

fn holds(value: f64, text: &str, kind: Kind) -> bool {
    match number(text) {
        Some(n) if value == 0.0 => n.mantissa == 0,
        #[allow(clippy::cast_possible_truncation, reason = "compared with the digits right away")]
        Some(n) if kind == Kind::Integer => n.scaled(0).is_some_and(|n| value.abs() < 1.7e38 && value as i128 == n),
        // 17 digits tell any two floats apart, but not any two whole numbers.
        #[allow(clippy::cast_possible_truncation, reason = "compared with the digits right away")]
        Some(n) if n.exponent == 0 && n.digits > 15 => n.digits <= 17 && n.scaled(0) == Some(value as i128),
        Some(n) => n.digits <= 17,
        None => false,
    }
}

/// `boolean`: `true` and `false`; as strings in any case they are converted.
#[inline]
pub(crate) fn boolean(token: &Token<'_>) -> Reading<bool> {
    match token.kind {
        Kind::True => Exact(true),
        Kind::False => Exact(false),
        _ => match token.text() {
            Some(text) if text.eq_ignore_ascii_case("true") => Converted(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Converted(false),
            _ => Mismatch,
        },
    }
}

/// `string`: the text; anything else is converted to its JSON text.
#[inline]
pub(crate) fn string<'a>(token: &Token<'a>) -> Reading<Cow<'a, str>> {
    match token.kind {
        Kind::Plain | Kind::Escaped => Reading::of(token.text(), true),
        _ => Converted(Cow::Borrowed(token.raw)),
    }
}

/// `timestamp`, in microseconds: RFC 3339, or what the format says.
///
/// Converted: digits beyond a microsecond (cut), a day without a time (midnight UTC; RFC 3339 only), a string in an
/// epoch format. A number is an instant in epoch formats (and numeric patterns) only.
#[inline]
pub(crate) fn timestamp(token: &Token<'_>, format: Option<&TimestampFormat>) -> Reading<i64> {
    if format.is_none_or(|f| *f == TimestampFormat::Rfc3339) {
        if token.kind == Kind::Plain
            && let Some(micros) = utc_micros(token.raw.as_bytes())
        {
            return Exact(micros);
        }
        return match token.text() {
            Some(text) => match TimestampFormat::Rfc3339.parse(&text) {
                Some(at) => Reading::of(Some(at.timestamp_micros()), whole_micros(at, &text, 6)),
                None => Reading::of(TimestampFormat::Date.parse(&text).map(|at| at.timestamp_micros()), false),
            },
            None => Mismatch,
        };
    }
    let Some((text, at, exact)) = instant(token, format) else { return Mismatch };
    let places = match format {
        Some(TimestampFormat::EpochMs) => 3,
        Some(TimestampFormat::EpochUs) => 0,
        _ => 6,
    };
    Reading::of(Some(at.timestamp_micros()), exact && whole_micros(at, &text, places))
}

/// `date`: `2026-01-31`, or what the format says. A timestamp at midnight UTC is converted; with a format, the time
/// of day is cut (converted).
pub(crate) fn date(token: &Token<'_>, format: Option<&TimestampFormat>) -> Reading<i32> {
    let day = |at: Instant| i32::try_from(at.timestamp().div_euclid(86_400)).ok();
    let midnight = |at: &Instant| at.num_seconds_from_midnight() == 0 && at.nanosecond() == 0;
    if let Some(format) = format.filter(|f| **f != TimestampFormat::Date) {
        let Some((_, at, exact)) = instant(token, Some(format)) else { return Mismatch };
        return Reading::of(day(at), exact && midnight(&at));
    }
    let Some(text) = token.text() else { return Mismatch };
    if text.len() == 10
        && let Some(at) = TimestampFormat::Date.parse(&text)
    {
        return Reading::of(day(at), true);
    }
    // `2026-01-31T00:00:00+02:00` is another day in UTC: only where both agree there is one reading.
    let at = TimestampFormat::Rfc3339.parse(&text).filter(midnight);
    Reading::of(at.filter(|at| text.starts_with(&TimestampFormat::Date.render(*at))).and_then(day), false)
}

/// The instant of a value in a format that is not RFC 3339, and whether it is written as the format writes it.
fn instant<'a>(token: &Token<'a>, format: Option<&TimestampFormat>) -> Option<(Cow<'a, str>, Instant, bool)> {
    let format = format?;
    let (text, is_number) = numeric(token)?;
    let numbers = format.is_epoch() || matches!(format, TimestampFormat::Strftime(_));
    if is_number && !numbers {
        return None;
    }
    let at = format.parse(&text)?;
    Some((text, at, is_number == format.is_epoch()))
}

/// Whether nothing is lost when an instant is cut to microseconds; `places` digits of a fraction fit.
fn whole_micros(at: Instant, text: &str, places: usize) -> bool {
    let nanos = at.timestamp_subsec_nanos();
    // A leap second (nanos beyond 10^9) becomes the first of the next minute.
    if !nanos.is_multiple_of(1_000) || nanos >= 1_000_000_000 {
        return false;
    }
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    fraction.bytes().take_while(u8::is_ascii_digit).skip(places).all(|b| b == b'0')
}

/// The usual `"2026-01-31T12:30:00Z"`, in microseconds.
#[inline]
pub(crate) fn utc_seconds(quoted: &[u8; 22]) -> Option<i64> {
    utc_micros(quoted)
}

/// The usual `"2026-01-31"`, in days.
#[inline]
pub(crate) fn day(quoted: &[u8; 12]) -> Option<i32> {
    let [b'"', y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'"'] = *quoted else { return None };
    let two = |a: u8, b: u8| -> Option<u32> {
        (a.is_ascii_digit() && b.is_ascii_digit()).then(|| u32::from(a - b'0') * 10 + u32::from(b - b'0'))
    };
    i32::try_from(days(two(y0, y1)? * 100 + two(y2, y3)?, two(m0, m1)?, two(d0, d1)?)?).ok()
}

/// `"2026-01-31T12:30:00Z"`, with its quotes, with a fraction of at most six digits or none.
#[inline]
fn utc_micros(quoted: &[u8]) -> Option<i64> {
    let [b'"', text @ .., b'Z', b'"'] = quoted else { return None };
    let (head, tail) = text.split_first_chunk::<19>()?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b':', i0, i1, b':', s0, s1] = *head else {
        return None;
    };
    let two = |a: u8, b: u8| -> Option<u32> {
        (a.is_ascii_digit() && b.is_ascii_digit()).then(|| u32::from(a - b'0') * 10 + u32::from(b - b'0'))
    };
    let (year, month, day) = (two(y0, y1)? * 100 + two(y2, y3)?, two(m0, m1)?, two(d0, d1)?);
    let (hour, minute, second) = (two(h0, h1)?, two(i0, i1)?, two(s0, s1)?);
    let micros = match tail {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            let mut micros = 0;
            for place in 0..6 {
                let digit = digits.get(place).copied().unwrap_or(b'0');
                if !digit.is_ascii_digit() {
                    return None;
                }
                micros = micros * 10 + i64::from(digit - b'0');
            }
            micros
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days(year, month, day)? * 86_400 + i64::from(hour * 3_600 + minute * 60 + second);
    Some(seconds * 1_000_000 + micros)
}

/// Days since 1970 of a day that exists, in the years 0 to 9999 of the Gregorian calendar.
#[inline]
fn days(year: u32, month: u32, day: u32) -> Option<i64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    // Years that begin in March have their leap day last; 400 of them come before the year 0, which keeps all positive.
    let (year, month) = if month > 2 { (year + 400, month - 3) } else { (year + 399, month + 9) };
    let of_years = year * 365 + year / 4 - year / 100 + year / 400;
    Some(i64::from(of_years + (month * 153 + 2) / 5 + day - 1) - 719_468 - 146_097)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, NaiveDate};
    use proptest::prelude::*;

    use super::super::scan::Scanner;
    use super::*;

    fn rendered(micros: i64) -> String {
        TimestampFormat::Rfc3339.render(DateTime::from_timestamp_micros(micros).unwrap())
    }

    fn token(text: &str) -> Token<'_> {
        Scanner::new(text).value().unwrap()
    }

    #[test]
    fn r24_integers_are_exact_or_have_one_reading() {
        for (text, want) in [
            ("9007199254740993", Exact(9_007_199_254_740_993)),
            ("-9223372036854775808", Exact(i64::MIN)),
            ("9223372036854775808", Mismatch),
            ("18446744073709551616", Mismatch),
            ("3.0", Converted(3)),
            ("3e0", Converted(3)),
            ("1.5e1", Converted(15)),
            ("-0.0", Converted(0)),
            ("9007199254740993.0", Converted(9_007_199_254_740_993)),
            ("1e400", Mismatch),
            ("1e-99999999999999999999", Mismatch),
            ("0e99999999999999999999", Converted(0)),
            ("4.2", Mismatch),
            ("\"5\"", Converted(5)),
            ("\"-5\"", Converted(-5)),
            ("\"007\"", Converted(7)),
            ("\"4.2\"", Mismatch),
            ("\"\"", Mismatch),
            ("\" 5\"", Mismatch),
            ("\"5.\"", Mismatch),
            ("\"\\u0035\"", Converted(5)),
            ("true", Mismatch),
            ("[1]", Mismatch),
        ] {
            assert_eq!(int64(&token(text)), want, "{text}");
        }
        assert_eq!(int32(&token("2147483647")), Exact(i32::MAX));
        assert_eq!(int32(&token("2147483648")), Mismatch);
        assert_eq!(int32(&token("\"-2147483648\"")), Converted(i32::MIN));
    }

    #[test]
    fn r24_floats_say_when_they_cannot_hold_the_digits() {
        for (text, want) in [
            ("7", Exact(7.0)),
            ("1.5", Exact(1.5)),
            ("-0.1", Exact(-0.1)),
            ("0.12345678901234567", Exact(0.123_456_789_012_345_67)),
            ("0.123456789012345678", Converted(0.123_456_789_012_345_68)),
            ("9007199254740992", Exact(9_007_199_254_740_992.0)),
            ("9007199254740993", Converted(9_007_199_254_740_992.0)),
            ("12345678901234567168", Exact(12_345_678_901_234_567_168.0)),
            ("9007199254740993.0", Converted(9_007_199_254_740_992.0)),
            ("9007199254740994.0", Exact(9_007_199_254_740_994.0)),
            ("18446744073709551616", Exact(18_446_744_073_709_551_616.0)),
            ("-0.0", Exact(-0.0)),
            ("1e400", Mismatch),
            ("-1e400", Mismatch),
            ("\"2.5\"", Converted(2.5)),
            ("\"NaN\"", Mismatch),
            ("\"inf\"", Mismatch),
            ("\"-infinity\"", Mismatch),
            ("\"+1\"", Mismatch),
            ("\"1.\"", Mismatch),
            ("1e999", Mismatch),
            ("1e-999", Converted(0.0)),
            ("0.0", Exact(0.0)),
            ("0e7", Exact(0.0)),
            ("false", Mismatch),
        ] {
            assert_eq!(float64(&token(text)), want, "{text}");
        }
    }

    #[test]
    fn r24_decimals_come_from_the_digits() {
        let big = "1234567890123456789012345678.0123456789";
        assert_eq!(decimal(&token(big), 38, 10), Exact(12_345_678_901_234_567_890_123_456_780_123_456_789));
        for (text, want) in [
            ("1.10", Exact(110)),
            ("1.1000", Exact(110)),
            ("1.101", Mismatch),
            ("-12e-1", Exact(-120)),
            ("1e2", Exact(10_000)),
            ("99999.99", Mismatch),
            ("9999.99", Exact(999_999)),
            ("0.00", Exact(0)),
            ("\"0.1\"", Converted(10)),
            ("\"x\"", Mismatch),
            ("true", Mismatch),
            ("1e30", Mismatch),
        ] {
            assert_eq!(decimal(&token(text), 6, 2), want, "{text}");
        }
        assert_eq!(decimal(&token("12345678901234567890123456789"), 38, 10), Mismatch);
        let most = "9".repeat(38);
        assert_eq!(decimal(&token(&most), 38, 0), Exact(10_i128.pow(38) - 1));
        assert_eq!(decimal(&token(&format!("{most}.0")), 38, 0), Exact(10_i128.pow(38) - 1));
        assert_eq!(decimal(&token(&format!("1{}", "0".repeat(38))), 38, 0), Mismatch);
        assert_eq!(decimal(&token("18446744073709551616"), 20, 0), Exact(18_446_744_073_709_551_616));
    }

    #[test]
    fn r24_booleans_are_words_in_any_case() {
        for (text, want) in [
            ("true", Exact(true)),
            ("false", Exact(false)),
            ("\"TRUE\"", Converted(true)),
            ("\"False\"", Converted(false)),
            ("\"yes\"", Mismatch),
            ("1", Mismatch),
            ("{}", Mismatch),
        ] {
            assert_eq!(boolean(&token(text)), want, "{text}");
        }
    }

    #[test]
    fn r24_strings_are_exact_and_everything_else_is_its_own_text() {
        let read = |text| match string(&token(text)) {
            Exact(text) => ("exact", text.into_owned()),
            Converted(text) => ("converted", text.into_owned()),
            Mismatch => ("mismatch", String::new()),
        };
        assert_eq!(read(r#""a\n\ud83d\ude00\u00e9""#), ("exact", "a\n😀é".into()));
        assert_eq!(read("1.10"), ("converted", "1.10".into()));
        assert_eq!(read("true"), ("converted", "true".into()));
        assert_eq!(read(r#"{"a": [1]}"#), ("converted", r#"{"a": [1]}"#.into()));
        assert_eq!(read(r#""\ud800""#), ("mismatch", String::new()), "half a character is no text");
    }

    #[test]
    fn r24_timestamps_have_one_reading_or_none() {
        let read = |text: &str, format: Option<&TimestampFormat>| match timestamp(&token(text), format) {
            Exact(at) => format!("={}", rendered(at)),
            Converted(at) => format!("~{}", rendered(at)),
            Mismatch => "none".into(),
        };
        for (text, want) in [
            ("\"2026-01-01T00:00:00Z\"", "=2026-01-01T00:00:00Z"),
            ("\"2026-01-01T05:30:00+05:30\"", "=2026-01-01T00:00:00Z"),
            ("\"2026-01-01 00:00:00\"", "=2026-01-01T00:00:00Z"),
            ("\"2026-01-01T00:00:00.5Z\"", "=2026-01-01T00:00:00.500Z"),
            ("\"2026-01-01T00:00:00.123456000Z\"", "=2026-01-01T00:00:00.123456Z"),
            ("\"2026-01-01T00:00:00.1234567Z\"", "~2026-01-01T00:00:00.123456Z"),
            ("\"2026-01-01T00:00:00.1234560000001Z\"", "~2026-01-01T00:00:00.123456Z"),
            ("\"2026-01-01\"", "~2026-01-01T00:00:00Z"),
            ("\"1969-12-31T23:59:59.5Z\"", "=1969-12-31T23:59:59.500Z"),
            ("\"2026-02-30T00:00:00Z\"", "none"),
            ("\"2026-01-01T24:00:00Z\"", "none"),
            ("\"2026-01-01T00:00:60Z\"", "~2026-01-01T00:01:00Z"),
            ("\"soon\"", "none"),
            ("1767225600", "none"),
            ("{}", "none"),
        ] {
            assert_eq!(read(text, None), want, "{text}");
        }
        let format = TimestampFormat::named("%d/%m/%Y %H:%M").unwrap();
        assert_eq!(read("\"01/02/2026 00:00\"", Some(&format)), "=2026-02-01T00:00:00Z");
        assert_eq!(read("\"2026-02-01\"", Some(&format)), "none");
        assert_eq!(read("\"\"", Some(&format)), "none");
        for (text, format, want) in [
            ("1767225600", TimestampFormat::EpochS, "=2026-01-01T00:00:00Z"),
            ("\"1767225600\"", TimestampFormat::EpochS, "~2026-01-01T00:00:00Z"),
            ("\"1767225600123\"", TimestampFormat::EpochMs, "~2026-01-01T00:00:00.123Z"),
            ("1767225600123.4", TimestampFormat::EpochMs, "=2026-01-01T00:00:00.123400Z"),
            ("1767225600123456.7", TimestampFormat::EpochUs, "~2026-01-01T00:00:00.123456Z"),
            ("\"soon\"", TimestampFormat::EpochS, "none"),
            ("\"\"", TimestampFormat::EpochMs, "none"),
            ("true", TimestampFormat::EpochMs, "none"),
        ] {
            assert_eq!(read(text, Some(&format)), want, "{text}");
        }
    }

    #[test]
    fn r24_dates_exist_or_are_null() {
        let day = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").unwrap().to_epoch_days();
        for (text, want) in [
            ("\"2026-02-28\"", Exact(day("2026-02-28"))),
            ("\"2026-02-30\"", Mismatch),
            ("\"\"", Mismatch),
            ("\"2026-02-28T00:00:00Z\"", Converted(day("2026-02-28"))),
            ("\"2026-02-28 00:00:00\"", Converted(day("2026-02-28"))),
            ("\"2026-02-28T00:00:00+02:00\"", Mismatch),
            ("\"2026-02-28T10:00:00Z\"", Mismatch),
            ("20260228", Mismatch),
        ] {
            assert_eq!(date(&token(text), None), want, "{text}");
        }
        let format = TimestampFormat::named("%d.%m.%Y").unwrap();
        assert_eq!(date(&token("\"28.02.2026\""), Some(&format)), Exact(day("2026-02-28")));
        assert_eq!(date(&token("1767225600"), Some(&TimestampFormat::EpochS)), Exact(day("2026-01-01")));
        assert_eq!(date(&token("1767225601"), Some(&TimestampFormat::EpochS)), Converted(day("2026-01-01")));
        let compact = TimestampFormat::named("%Y%m%d").unwrap();
        assert_eq!(date(&token("20260228"), Some(&compact)), Converted(day("2026-02-28")));
    }

    proptest! {
        #[test]
        fn r24_the_fast_timestamp_reads_like_the_slow_one(seconds in -62_135_596_800_i64..253_402_300_799, micros in 0_u32..1_000_000) {
            let at = DateTime::from_timestamp(seconds, micros * 1_000).unwrap();
            let text = format!("\"{}\"", at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true));
            prop_assert_eq!(timestamp(&token(&text), None), Exact(at.timestamp_micros()));
        }

        #[test]
        fn r24_days_are_those_of_the_calendar(year in 0_u32..10_000, month in 0_u32..14, day in 0_u32..33) {
            let want = NaiveDate::from_ymd_opt(i32::try_from(year).unwrap(), month, day);
            prop_assert_eq!(days(year, month, day), want.map(|d| i64::from(d.to_epoch_days())));
        }

        #[test]
        fn r24_decimal_digits_survive(mantissa in any::<i64>(), scale in 0_usize..12) {
            let digits = format!("{:0>width$}", mantissa.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if mantissa < 0 { "-" } else { "" };
            let text = if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") };
            prop_assert_eq!(decimal(&token(&text), 38, i8::try_from(scale).unwrap()), Exact(i128::from(mantissa)));
            let moved = format!("{mantissa}e-{scale}");
            prop_assert_eq!(decimal(&token(&moved), 38, i8::try_from(scale).unwrap()), Exact(i128::from(mantissa)));
        }
    }
}
