//! What a read learns of its own end: the greatest instant (R4, R5) and the records of the boundary (`dedup-key`).
//!
//! Pure: records are shown to a [`Boundary`] one by one, time comes in with the policy.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::instant::{Instant, TimestampFormat, minus};
use super::{Window, hex};

/// The most identities that a checkpoint remembers.
pub const SEEN_MAX: usize = 10_000;

/// The delivered records of the boundary, as hashes, each with its instant in timestamp mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen(HashMap<String, Option<Instant>>);

impl Seen {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many records are remembered.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What both remember.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.0.iter().filter(|(hash, _)| other.0.contains_key(*hash));
        Self(both.map(|(hash, at)| (hash.clone(), *at)).collect())
    }

    /// The `seen` member of a checkpoint file: hash to RFC 3339 text, or null.
    pub fn to_json(&self) -> Value {
        let mut hashes: Vec<_> = self.0.iter().collect();
        hashes.sort();
        let pairs = hashes.into_iter().map(|(hash, at)| {
            (hash.clone(), at.map_or(Value::Null, |at| Value::String(TimestampFormat::Rfc3339.render(at))))
        });
        Value::Object(pairs.collect::<Map<_, _>>())
    }

    /// Reads the `seen` member.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let map = value.as_object().ok_or("its memory of delivered records is not an object")?;
        map.iter()
            .map(|(hash, at)| match at {
                Value::Null => Ok((hash.clone(), None)),
                at => {
                    let read = at.as_str().and_then(|text| TimestampFormat::Rfc3339.parse(text));
                    let at = read.ok_or("its memory of delivered records has an unreadable instant")?;
                    Ok((hash.clone(), Some(at)))
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// What a [`Boundary`] watches for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoundaryPolicy {
    /// Timestamp mode: how record timestamps are written. `None` in the other modes.
    pub format: Option<TimestampFormat>,
    /// The stored position's instant, in timestamp mode.
    pub stored: Option<Instant>,
    /// How far before the position the API is asked again; the memory covers it.
    pub lag: Duration,
    /// Records later than this never become the position (`future = clamp`); `None` is `follow`.
    pub not_after: Option<Instant>,
    /// Whether delivered records are remembered and dropped when they come again.
    pub dedup: bool,
    /// Of a stream: records outside it belong to another batch (R27). One without a readable timestamp belongs to each.
    pub window: Option<Window>,
    /// Of a stream: records before it are late.
    pub watermark: Option<Instant>,
}

/// A record as the decoder shows it: raw JSON texts, `None` where the pointer meets nothing.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The value at `timestamp-path`.
    pub timestamp: Option<&'a str>,
    /// The value at `dedup-key`.
    pub identity: Option<&'a str>,
    /// The whole record; only looked at with `dedup-key` outside timestamp mode.
    pub record: &'a str,
}

/// What was learned when the walk has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundaryEnd {
    /// The greatest timestamp that may become the position, as the API wrote it.
    pub timestamp: Option<String>,
    /// The memory for the next checkpoint.
    pub seen: Seen,
    /// Identities that did not fit the memory: these records may come again.
    pub not_remembered: u64,
}

/// Watches the records of one read. See [`Boundary::observe`].
#[derive(Debug, Clone)]
pub struct Boundary {
    policy: BoundaryPolicy,
    stored: Seen,
    page: usize,
    best: Option<(Instant, String)>,
    delivered: HashMap<String, Option<Instant>>,
    page_has_records: bool,
    not_remembered: u64,
    without_position: u64,
    first_without_position: Option<String>,
    duplicates_dropped: u64,
    /// Records dated after the read began, delivered but not allowed to become the position.
    in_future: u64,
    outside: u64,
    late: u64,
}

impl Boundary {
    /// Starts watching; `stored` is the memory of the loaded checkpoint.
    pub fn new(policy: BoundaryPolicy, stored: Seen) -> Self {
        Self {
            policy,
            stored,
            page: 0,
            best: None,
            delivered: HashMap::new(),
            page_has_records: false,
            not_remembered: 0,
            without_position: 0,
            first_without_position: None,
            duplicates_dropped: 0,
            in_future: 0,
            outside: 0,
            late: 0,
        }
    }

    /// Whether records need to be shown at all.
    pub fn is_idle(&self) -> bool {
        self.policy.format.is_none() && !self.policy.dedup
    }

    /// A new page begins.
    pub fn begin_page(&mut self) {
        self.page += 1;
        self.page_has_records = false;
    }

    /// Takes note of a record; `false` says it was delivered before and is to be dropped.
    pub fn observe(&mut self, record: Observed<'_>) -> bool {
        let at = self.policy.format.is_some().then(|| self.instant_of(record.timestamp)).flatten();
        if let Some((window, at)) = self.policy.window.zip(at) {
            let is_inside = window.holds(at);
            self.outside += u64::from(!is_inside);
            self.late += u64::from(is_inside && self.policy.watermark.is_some_and(|mark| at < mark));
            return is_inside;
        }
        if !self.policy.dedup {
            return true;
        }
        let Some(identity) = record.identity.filter(|raw| *raw != "null") else { return true };
        if self.policy.format.is_some() {
            // A record without a readable timestamp has no place on the boundary: it is always delivered.
            let Some(at) = at else { return true };
            let hash = hash_of(identity, &format!("{}.{:09}", at.timestamp(), at.timestamp_subsec_nanos()));
            let repeated = self.stored.0.contains_key(&hash);
            if self.floor().is_none_or(|floor| at >= floor) {
                self.delivered.insert(hash, Some(at));
                if self.delivered.len() > 4 * SEEN_MAX {
                    self.prune();
                }
            }
            self.duplicates_dropped += u64::from(repeated);
            return !repeated;
        }
        if !self.page_has_records {
            // The memory is of the last page that had records.
            self.delivered.clear();
            self.not_remembered = 0;
            self.page_has_records = true;
        }
        let hash = hash_of(identity, &squeezed(record.record));
        let repeated = self.page <= 1 && self.stored.0.contains_key(&hash);
        if self.delivered.len() < SEEN_MAX {
            self.delivered.insert(hash, None);
        } else if !self.delivered.contains_key(&hash) {
            self.not_remembered += 1;
        }
        self.duplicates_dropped += u64::from(repeated);
        !repeated
    }

    /// Records so far that had no readable timestamp, and the first of them.
    pub fn without_position(&self) -> (u64, Option<&str>) {
        (self.without_position, self.first_without_position.as_deref())
    }

    /// Records so far that were dropped as delivered before.
    pub fn duplicates_dropped(&self) -> u64 {
        self.duplicates_dropped
    }

    /// Records so far that were dated after the read began.
    pub fn in_future(&self) -> u64 {
        self.in_future
    }

    /// Records so far that belong to another window, and those of this one that are late.
    pub fn outside_and_late(&self) -> (u64, u64) {
        (self.outside, self.late)
    }

    /// The greatest timestamp so far, as the API wrote it.
    pub fn best(&self) -> Option<&str> {
        self.best.as_ref().map(|(_, text)| text.as_str())
    }

    /// Ends the watch: the position reached and the memory for the checkpoint.
    pub fn finish(mut self) -> BoundaryEnd {
        if self.policy.format.is_some() {
            for (hash, at) in std::mem::take(&mut self.stored.0) {
                self.delivered.entry(hash).or_insert(at);
            }
            self.prune();
        } else if self.delivered.is_empty() {
            self.delivered = std::mem::take(&mut self.stored.0);
        }
        BoundaryEnd {
            timestamp: self.best.map(|(_, text)| text),
            seen: Seen(if self.policy.dedup { self.delivered } else { HashMap::new() }),
            not_remembered: self.not_remembered,
        }
    }

    fn instant_of(&mut self, raw: Option<&str>) -> Option<Instant> {
        let text = raw.and_then(text_of);
        let at = text.as_deref().and_then(|text| self.policy.format.as_ref()?.parse(text));
        let (Some(at), Some(text)) = (at, text) else {
            self.without_position += 1;
            if self.first_without_position.is_none() {
                self.first_without_position =
                    Some(raw.map_or_else(|| "missing".to_owned(), |raw| raw.chars().take(80).collect()));
            }
            return None;
        };
        if self.policy.window.is_some_and(|window| !window.holds(at)) {
            return Some(at);
        }
        if self.policy.not_after.is_some_and(|limit| at > limit) {
            self.in_future += 1;
        } else if self.best.as_ref().is_none_or(|(best, _)| at > *best) {
            self.best = Some((at, text.into_owned()));
        }
        Some(at)
    }

    /// The earliest instant that the next read can ask for again.
    fn floor(&self) -> Option<Instant> {
        let best = self.best.as_ref().map(|(at, _)| *at);
        best.max(self.policy.stored).map(|at| minus(at, self.policy.lag))
    }

    fn prune(&mut self) {
        if let Some(floor) = self.floor() {
            self.delivered.retain(|_, at| at.is_some_and(|at| at >= floor));
        }
        if self.delivered.len() > SEEN_MAX {
            let mut all: Vec<_> = std::mem::take(&mut self.delivered).into_iter().collect();
            all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            self.not_remembered += (all.len() - SEEN_MAX) as u64;
            all.truncate(SEEN_MAX);
            self.delivered = all.into_iter().collect();
        }
    }
}

/// The text of a JSON string or number; nothing else can be a timestamp.
fn text_of(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'"' => {
            let inner = raw.get(1..raw.len().checked_sub(1)?)?;
            if inner.contains('\\') {
                serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
            } else {
                Some(Cow::Borrowed(inner))
            }
        }
        b'-' | b'0'..=b'9' => Some(Cow::Borrowed(raw)),
        _ => None,
    }
}

fn hash_of(identity: &str, rest: &str) -> String {
    let digest = Sha256::new().chain_update(identity).chain_update([0]).chain_update(rest).finalize();
    hex(&digest[..16])
}

/// A JSON text without the whitespace between its tokens.
fn squeezed(raw: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(raw.len()), false, false);
    for c in raw.chars() {
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            quoted = c == '"';
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        TimestampFormat::Rfc3339.parse(text).unwrap_or_default()
    }

    fn policy(dedup: bool) -> BoundaryPolicy {
        BoundaryPolicy {
            format: Some(TimestampFormat::Rfc3339),
            stored: None,
            lag: Duration::ZERO,
            not_after: Some(at("2026-06-01T00:00:00Z")),
            dedup,
            window: None,
            watermark: None,
        }
    }

    fn show(boundary: &mut Boundary, id: &str, ts: &str) -> bool {
        let raw = format!("{ts:?}");
        boundary.observe(Observed { timestamp: Some(&raw), identity: Some(id), record: "{}" })
    }

    #[test]
    fn r04_the_greatest_instant_of_the_whole_read_wins_as_its_own_text() {
        let mut boundary = Boundary::new(policy(false), Seen::default());
        for ts in ["2026-01-02T11:00:00+02:00", "2026-01-02T10:00:00Z", "2026-01-02T09:59:59.9Z"] {
            assert!(show(&mut boundary, "1", ts));
        }
        assert_eq!(boundary.finish().timestamp.as_deref(), Some("2026-01-02T10:00:00Z"));
    }

    #[test]
    fn r05_future_and_unreadable_values_are_counted_and_never_win() {
        let mut boundary = Boundary::new(policy(false), Seen::default());
        show(&mut boundary, "1", "n/a");
        show(&mut boundary, "2", "2099-01-01T00:00:00Z");
        show(&mut boundary, "3", "2026-01-01T00:00:00Z");
        boundary.observe(Observed { timestamp: None, identity: None, record: "{}" });
        assert_eq!(boundary.without_position(), (2, Some("\"n/a\"")));
        assert_eq!(boundary.in_future(), 1);
        assert_eq!(boundary.finish().timestamp.as_deref(), Some("2026-01-01T00:00:00Z"));
    }

    #[test]
    fn r03_delivered_boundary_records_are_dropped_updates_and_new_ones_are_not() {
        let mut first = Boundary::new(policy(true), Seen::default());
        show(&mut first, "1", "2026-01-01T00:00:00Z");
        show(&mut first, "2", "2026-01-02T00:00:00Z");
        let end = first.finish();
        assert_eq!(end.seen.len(), 1, "only the greatest timestamp is the boundary");
        let stored = Some(at("2026-01-02T00:00:00Z"));
        let mut second = Boundary::new(BoundaryPolicy { stored, ..policy(true) }, end.seen);
        assert!(!show(&mut second, "2", "2026-01-02T00:00:00Z"));
        assert!(show(&mut second, "3", "2026-01-02T00:00:00Z"));
        assert!(show(&mut second, "2", "2026-01-02T00:00:01Z"), "an update is never dropped");
        assert_eq!(second.duplicates_dropped(), 1);
    }

    #[test]
    fn r05_a_future_record_is_remembered_so_that_it_does_not_come_again() {
        let mut first = Boundary::new(policy(true), Seen::default());
        show(&mut first, "1", "2026-01-01T00:00:00Z");
        show(&mut first, "9", "2999-01-01T00:00:00.1Z");
        let stored = Some(at("2026-01-01T00:00:00Z"));
        let mut second = Boundary::new(BoundaryPolicy { stored, ..policy(true) }, first.finish().seen);
        assert!(!show(&mut second, "9", "2999-01-01T00:00:00.1Z"));
        let seen = second.finish().seen;
        assert_eq!(seen.len(), 2, "an idle read keeps the memory");
        let stored = Seen::from_json(&seen.to_json()).unwrap();
        let mut third =
            Boundary::new(BoundaryPolicy { stored: Some(at("2026-01-01T00:00:00Z")), ..policy(true) }, stored);
        assert!(!show(&mut third, "9", "2999-01-01T00:00:00.1Z"), "so does an idle one that was stored in between");
        assert!(show(&mut third, "9", "2999-01-01T00:00:00.7Z"), "an update is never dropped, however far its date");
    }

    #[test]
    fn r03_outside_timestamp_mode_the_same_content_on_the_first_page_is_the_repeat() {
        let policy = BoundaryPolicy { format: None, ..policy(true) };
        let mut first = Boundary::new(policy.clone(), Seen::default());
        let record = |boundary: &mut Boundary, text: &str| {
            boundary.observe(Observed { timestamp: None, identity: Some("1"), record: text })
        };
        first.begin_page();
        assert!(record(&mut first, r#"{"id": 1, "v": "a b"}"#));
        let seen = first.finish().seen;
        let mut second = Boundary::new(policy, seen);
        second.begin_page();
        assert!(!record(&mut second, r#"{"id":1,"v":"a b"}"#), "whitespace is no content");
        assert!(record(&mut second, r#"{"id":1,"v":"ab"}"#), "an update is never dropped");
        second.begin_page();
        assert!(record(&mut second, r#"{"id":1,"v":"a b"}"#), "only the boundary page repeats");
    }

    #[test]
    fn r03_the_memory_is_bounded_and_says_what_it_forgot() {
        let mut boundary = Boundary::new(policy(true), Seen::default());
        for id in 0..SEEN_MAX + 5 {
            show(&mut boundary, &id.to_string(), "2026-01-01T00:00:00Z");
        }
        let end = boundary.finish();
        assert_eq!((end.seen.len(), end.not_remembered), (SEEN_MAX, 5));
        let json = end.seen.to_json();
        assert_eq!(Seen::from_json(&json), Ok(end.seen));
    }
}
