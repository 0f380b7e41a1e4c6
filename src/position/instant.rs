//! Instants: parse what an API writes, compare as points in time, render as the API writes (R4).

use std::fmt::{self, Write as _};

use chrono::format::{Item, Parsed, StrftimeItems};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// A point in time, to the nanosecond, UTC.
pub type Instant = DateTime<Utc>;

/// How an API writes a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimestampFormat {
    /// RFC 3339: `Z` or an offset, `T` or a space, any fraction; without a zone it is UTC.
    Rfc3339,
    /// A day, `2026-01-31`: midnight UTC.
    Date,
    /// Seconds since 1970, fractions allowed.
    EpochS,
    /// Milliseconds since 1970.
    EpochMs,
    /// Microseconds since 1970.
    EpochUs,
    /// A strftime pattern; without a zone it is UTC.
    Strftime(String),
}

impl TimestampFormat {
    /// Reads a configured name or pattern. A text without `%` that is no known name is refused, with the reason.
    pub fn named(text: &str) -> Result<Self, String> {
        Ok(match text {
            "rfc3339" => Self::Rfc3339,
            "date" => Self::Date,
            "epoch-s" => Self::EpochS,
            "epoch-ms" => Self::EpochMs,
            "epoch-us" => Self::EpochUs,
            pattern => {
                if !pattern.contains('%') {
                    return Err(match java_pattern(pattern) {
                        Some(strftime) => format!("{pattern:?} is a Java pattern; write it as strftime: {strftime:?}"),
                        None => format!(
                            "unknown format {pattern:?}; valid: rfc3339, date, epoch-s, epoch-ms, epoch-us or a \
                             strftime pattern such as %Y-%m-%dT%H:%M:%SZ"
                        ),
                    });
                }
                if StrftimeItems::new(pattern).any(|item| item == Item::Error) {
                    return Err(format!("{pattern:?} is not a valid strftime pattern"));
                }
                if pattern.contains("%Z") {
                    return Err(format!("{pattern:?}: %Z is a zone's name and says no offset; use %z"));
                }
                if pattern.contains(".%f") {
                    let dotted = pattern.replace(".%f", "%.f");
                    return Err(format!("{pattern:?}: %f counts nanoseconds; a fraction is {dotted:?}"));
                }
                Self::Strftime(pattern.to_owned()).there_and_back()?
            }
        })
    }

    /// A pattern that cannot write an instant, or read what it wrote, would never give a position.
    fn there_and_back(self) -> Result<Self, String> {
        let mut text = String::new();
        let sample = DateTime::from_timestamp(1_770_127_506, 0).unwrap_or_default();
        let written = match &self {
            Self::Strftime(pattern) => write!(text, "{}", sample.format(pattern)).is_ok(),
            _ => true,
        };
        if written && self.parse(&text).is_some() {
            Ok(self)
        } else {
            Err(format!("{:?} does not name a point in time that can be written and read back", self.to_string()))
        }
    }

    /// The instant that `text` names, or `None` when it names none.
    pub fn parse(&self, text: &str) -> Option<Instant> {
        match self {
            Self::Rfc3339 => parse_rfc3339(text),
            Self::Date => Some(midnight(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?)),
            Self::EpochS => epoch(text, 9),
            Self::EpochMs => epoch(text, 6),
            Self::EpochUs => epoch(text, 3),
            Self::Strftime(pattern) => parse_pattern(text, pattern),
        }
    }

    /// The text of an instant in this format; digits the format cannot hold are cut off.
    pub fn render(&self, at: Instant) -> String {
        match self {
            Self::Rfc3339 => at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            Self::Date => at.format("%Y-%m-%d").to_string(),
            Self::EpochS => render_epoch(at, 9),
            Self::EpochMs => at.timestamp_millis().to_string(),
            Self::EpochUs => at.timestamp_micros().to_string(),
            Self::Strftime(pattern) => at.format(pattern).to_string(),
        }
    }

    /// Whether the API writes numbers rather than texts.
    pub fn is_epoch(&self) -> bool {
        matches!(self, Self::EpochS | Self::EpochMs | Self::EpochUs)
    }
}

impl fmt::Display for TimestampFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rfc3339 => "rfc3339",
            Self::Date => "date",
            Self::EpochS => "epoch-s",
            Self::EpochMs => "epoch-ms",
            Self::EpochUs => "epoch-us",
            Self::Strftime(pattern) => pattern,
        })
    }
}

/// Subtracts `lag`, staying inside what an instant can hold.
pub fn minus(at: Instant, lag: std::time::Duration) -> Instant {
    TimeDelta::from_std(lag).ok().and_then(|d| at.checked_sub_signed(d)).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

fn midnight(day: NaiveDate) -> Instant {
    day.and_time(NaiveTime::MIN).and_utc()
}

fn parse_rfc3339(text: &str) -> Option<Instant> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.to_utc());
    }
    // `+0200`, a space before the offset, or no zone at all.
    for pattern in ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f %#z"] {
        if let Ok(at) = DateTime::parse_from_str(text, pattern) {
            return Some(at.to_utc());
        }
    }
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"]
        .iter()
        .find_map(|pattern| NaiveDateTime::parse_from_str(text, pattern).ok())
        .map(|at| at.and_utc())
}

fn parse_pattern(text: &str, pattern: &str) -> Option<Instant> {
    let mut parsed = Parsed::new();
    chrono::format::parse(&mut parsed, text, StrftimeItems::new(pattern)).ok()?;
    if parsed.offset().is_some() || parsed.timestamp().is_some() {
        return parsed.to_datetime().ok().map(|at| at.to_utc()).or_else(|| {
            let seconds = parsed.timestamp()?;
            DateTime::from_timestamp(seconds, parsed.nanosecond().unwrap_or(0))
        });
    }
    // A pattern of a month or a year names its first day.
    if parsed.day().is_none() && parsed.ordinal().is_none() && parsed.timestamp().is_none() {
        if parsed.month().is_none() && parsed.isoweek().is_none() {
            parsed.set_month(1).ok()?;
        }
        parsed.set_day(1).ok()?;
    }
    let day = parsed.to_naive_date().ok()?;
    let time = if parsed.hour_div_12().is_none() && parsed.hour_mod_12().is_none() {
        NaiveTime::MIN
    } else {
        if parsed.minute().is_none() {
            parsed.set_minute(0).ok()?;
        }
        parsed.to_naive_time().ok()?
    };
    Some(day.and_time(time).and_utc())
}

/// A decimal number of units of 10^`places` nanoseconds.
fn epoch(text: &str, places: u32) -> Option<Instant> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || whole.len() + fraction.len() > 30 {
        return None;
    }
    let all = format!("{whole}{fraction}");
    if !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let shift = i32::try_from(places).ok()? + exponent - i32::try_from(fraction.len()).ok()?;
    let value: i128 = all.parse().ok()?;
    let nanos = if shift >= 0 {
        value.checked_mul(10_i128.checked_pow(shift.unsigned_abs())?)?
    } else {
        value / 10_i128.checked_pow(shift.unsigned_abs())?
    } * sign;
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?)
}

fn render_epoch(at: Instant, places: usize) -> String {
    let nanos = at.timestamp_subsec_nanos();
    if nanos == 0 {
        return at.timestamp().to_string();
    }
    let total = i128::from(at.timestamp()) * 1_000_000_000 + i128::from(nanos);
    let (sign, total) = if total < 0 { ("-", -total) } else { ("", total) };
    let text = format!("{total:010}");
    let (whole, fraction) = text.split_at(text.len() - places);
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
}

/// The strftime twin of a Java `DateTimeFormatter` pattern, when it is one.
fn java_pattern(pattern: &str) -> Option<String> {
    if !pattern.contains("yy") && !pattern.contains("HH") && !pattern.contains("dd") {
        return None;
    }
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let mut count = 1;
        while c.is_ascii_alphabetic() && chars.peek() == Some(&c) {
            chars.next();
            count += 1;
        }
        match (c, count) {
            ('y' | 'u', 2) => out.push_str("%y"),
            ('y' | 'u', _) => out.push_str("%Y"),
            ('M' | 'L', 1 | 2) => out.push_str("%m"),
            ('M' | 'L', 3) => out.push_str("%b"),
            ('d', _) => out.push_str("%d"),
            ('D', _) => out.push_str("%j"),
            ('H', _) => out.push_str("%H"),
            ('h', _) => out.push_str("%I"),
            ('m', _) => out.push_str("%M"),
            ('s', _) => out.push_str("%S"),
            ('S', n) => out.extend(["%", &n.to_string(), "f"]),
            ('a', _) => out.push_str("%p"),
            ('X' | 'x' | 'Z', _) => out.push_str("%:z"),
            ('\'', _) => {
                let mut quoted = String::new();
                for q in chars.by_ref() {
                    if q == '\'' {
                        break;
                    }
                    quoted.push(q);
                }
                out.push_str(if quoted.is_empty() { "'" } else { &quoted });
            }
            (c, _) if c.is_ascii_alphabetic() => return None,
            (c, _) => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        TimestampFormat::Rfc3339.parse(text).unwrap_or_default()
    }

    #[test]
    fn r04_all_ways_of_writing_rfc3339_are_one_instant() {
        for text in [
            "2024-10-20T13:30:00Z",
            "2024-10-20t13:30:00z",
            "2024-10-20 13:30:00",
            "2024-10-20T15:30:00+02:00",
            "2024-10-20T15:30:00+0200",
            "2024-10-20 15:30:00.000+02:00",
            "2024-10-20T13:30:00.000000000",
        ] {
            assert_eq!(TimestampFormat::Rfc3339.parse(text), Some(at("2024-10-20T13:30:00Z")), "{text}");
        }
        for text in ["", "n/a", "unknown", "2024-10-20", "2024-13-01T00:00:00Z", "1700000000"] {
            assert_eq!(TimestampFormat::Rfc3339.parse(text), None, "{text}");
        }
    }

    #[test]
    fn r04_epochs_are_exact() {
        let ms = TimestampFormat::EpochMs;
        assert_eq!(ms.parse("1700000000123").map(|t| ms.render(t)), Some("1700000000123".into()));
        assert_eq!(
            TimestampFormat::EpochS.parse("1700000000.25").map(|t| TimestampFormat::EpochS.render(t)),
            Some("1700000000.25".into())
        );
        assert_eq!(TimestampFormat::EpochS.parse("1.7e9"), TimestampFormat::EpochS.parse("1700000000"));
        assert_eq!(TimestampFormat::EpochS.parse("-1").map(|t| t.timestamp()), Some(-1));
        assert_eq!(
            TimestampFormat::EpochUs.parse("1700000000123456").map(|t| t.timestamp_subsec_micros()),
            Some(123_456)
        );
        for text in ["", "-", ".", "1e999", "abc", "1.2.3"] {
            assert_eq!(TimestampFormat::EpochS.parse(text), None, "{text}");
        }
    }

    #[test]
    fn r04_patterns_parse_with_and_without_time_and_zone() {
        let day = TimestampFormat::Strftime("%d.%m.%Y".into());
        assert_eq!(day.parse("31.01.2026"), Some(at("2026-01-31T00:00:00Z")));
        let zoned = TimestampFormat::Strftime("%Y-%m-%d %H:%M %z".into());
        assert_eq!(zoned.parse("2026-01-31 10:00 +0200"), Some(at("2026-01-31T08:00:00Z")));
        assert_eq!(
            TimestampFormat::Strftime("%Y-%m-%dT%H".into()).parse("2026-01-31T10"),
            Some(at("2026-01-31T10:00:00Z"))
        );
        assert_eq!(
            TimestampFormat::Strftime("%s".into()).parse("1700000000"),
            DateTime::from_timestamp(1_700_000_000, 0)
        );
    }

    #[test]
    fn r11_a_java_pattern_is_refused_with_its_translation() {
        let said = TimestampFormat::named("yyyy-MM-dd'T'HH:mm:ss").unwrap_err();
        assert!(said.contains("%Y-%m-%dT%H:%M:%S"), "{said}");
        for pattern in
            ["soon", "%Q", "%H:%M", "%Y-%m-%d %H:%M:%S %Z", "%Y-%m-%dT%H:%M:%S%#z", "%S.%fZ", "%Y-%m-%d %I:%M"]
        {
            assert!(TimestampFormat::named(pattern).is_err(), "{pattern}");
        }
        for pattern in [
            "%Y-%m-%dT%H:%M:%SZ",
            "%d.%m.%Y",
            "%Y-%m-%d %H:%M %z",
            "%s",
            "%Y-%m-%dT%H:%M:%S%.fZ",
            "%Y%m%d",
            "%e %b %Y %I:%M:%S %p",
        ] {
            assert!(TimestampFormat::named(pattern).is_ok(), "{pattern}");
        }
    }
}
