//! Whether and when a failed request is asked again: one budget for all kinds of failure (R19).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::config::HttpConfig;
use crate::counts::Meter;
use crate::error::{Error, Result};

/// The back-off before the first retry, without jitter; it doubles with every further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);

/// Whether a status is asked again.
pub(super) fn is_retried(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// The mark of an error that may pass, kept as its cause: the budget reads it, nobody else needs to.
#[derive(Debug)]
struct Passing {
    why: String,
    retry_after: Option<Duration>,
}

impl std::fmt::Display for Passing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "may pass: {}", self.why)
    }
}

impl std::error::Error for Passing {}

/// Marks an error, already scrubbed, as one that may pass. `why` is a word or two for the progress display.
pub(super) fn passing(error: Error, why: impl Into<String>, retry_after: Option<Duration>) -> Error {
    error.caused_by(Passing { why: why.into(), retry_after })
}

fn mark_of(error: &Error) -> Option<&Passing> {
    std::error::Error::source(error)?.downcast_ref()
}

/// What to do after a failed attempt.
#[derive(Debug, PartialEq)]
enum Decision {
    /// Ask again after this time.
    Wait(Duration),
    /// The API wants to be left alone for longer than we are allowed to wait.
    ComeBack(Duration),
    /// Give up.
    Stop,
}

/// The limits of `http` that a budget obeys.
#[derive(Debug, Clone, Copy)]
struct Limits {
    retries: u32,
    backoff: Duration,
    retry_after: Duration,
}

impl Limits {
    /// Pure: `made` attempts failed, the last with `retry_after`; `jitter` is a random number in 0..1.
    fn decide(&self, made: u32, retry_after: Option<Duration>, jitter: f64) -> Decision {
        match retry_after {
            Some(after) if after > self.retry_after => Decision::ComeBack(after),
            _ if made > self.retries => Decision::Stop,
            after => Decision::Wait(self.backoff(made, jitter).max(after.unwrap_or_default())),
        }
    }

    /// Exponential with full jitter: anything from nothing to the doubled ceiling.
    fn backoff(&self, made: u32, jitter: f64) -> Duration {
        let doubled = FIRST_BACKOFF * 2_u32.saturating_pow(made.saturating_sub(1));
        doubled.min(self.backoff).mul_f64(jitter.clamp(0.0, 1.0))
    }
}

/// The attempts of one page: exactly 1 + `max-retries`, whatever goes wrong (R19).
#[derive(Debug)]
pub struct Attempts {
    limits: Limits,
    meter: Arc<Meter>,
    made: u32,
    renewed: bool,
}

impl Attempts {
    pub(super) fn new(http: &HttpConfig, meter: Arc<Meter>) -> Self {
        let limits = Limits { retries: http.max_retries, backoff: http.max_backoff, retry_after: http.max_retry_after };
        Self { limits, meter, made: 0, renewed: false }
    }

    /// Attempts begun so far.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// An attempt begins.
    pub(super) fn begin(&mut self) {
        if self.made > 0 {
            Meter::add(&self.meter.retries, 1);
        }
        self.made += 1;
    }

    /// Whether the credential was renewed for this page before: it is done once, on top of the budget (R22).
    pub(super) fn is_renewed(&self) -> bool {
        self.renewed
    }

    /// The page is asked again with a renewed credential.
    pub(super) fn renew(&mut self) {
        self.renewed = true;
        Meter::add(&self.meter.retries, 1);
    }

    /// Sleeps and returns when the request may be sent again after `error`.
    ///
    /// Pass the error on as it came from the client: what may pass is marked on it. Any other error comes back at once.
    ///
    /// # Errors
    /// The same error with the number of attempts, when it cannot pass, when the budget is spent, or when
    /// `Retry-After` lies beyond `max-retry-after`; then it says when to come back.
    pub async fn again(&mut self, error: Error) -> Result<()> {
        let Some(mark) = mark_of(&error) else { return Err(self.counted(error)) };
        match self.limits.decide(self.made, mark.retry_after, fastrand::f64()) {
            Decision::Stop => Err(self.counted(error)),
            Decision::ComeBack(after) => {
                let limit = seconds(self.limits.retry_after);
                let when = come_back(after, SystemTime::now());
                Err(self.counted(error).with("come back", format!("{when}; http.max-retry-after is {limit}")))
            }
            Decision::Wait(wait) => {
                tracing::info!(wait = %seconds(wait), attempt = self.made, "asking again: {error}");
                self.meter.say(format!("waiting {}: {}", seconds(wait), mark.why));
                let _quiet = Quiet(&self.meter);
                tokio::time::sleep(wait).await;
                Ok(())
            }
        }
    }

    fn counted(&self, error: Error) -> Error {
        if self.made == 0 { error } else { error.with("attempts", self.made) }
    }
}

/// Clears the note also when the wait is given up.
struct Quiet<'a>(&'a Meter);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.say("");
    }
}

/// `in 4000 s, at 2026-01-01T00:00:00Z`.
fn come_back(after: Duration, now: SystemTime) -> String {
    let at = i64::try_from(after.as_secs())
        .ok()
        .and_then(|s| DateTime::<Utc>::from(now).checked_add_signed(chrono::TimeDelta::try_seconds(s)?));
    match at {
        Some(at) => format!("in {}, at {}", seconds(after), at.to_rfc3339_opts(SecondsFormat::Secs, true)),
        None => "never".to_owned(),
    }
}

/// A duration as people write it.
pub(super) fn seconds(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// How long the API asks us to wait: seconds, fractions or HTTP dates, the greatest of all lines and values.
///
/// What cannot be read counts as absent; a date in the past is no time at all.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    headers.get_all(RETRY_AFTER).iter().filter_map(|line| line.to_str().ok()).flat_map(|line| times(line, now)).max()
}

/// The readable values of one header line; an HTTP date has a comma inside.
fn times(line: &str, now: SystemTime) -> Vec<Duration> {
    let parts: Vec<&str> = line.split(',').map(str::trim).collect();
    let single = parts.iter().filter_map(|part| delay(part).or_else(|| until(part, now)));
    let paired = parts.windows(2).filter_map(|pair| until(&pair.join(", "), now));
    single.chain(paired).collect()
}

fn delay(text: &str) -> Option<Duration> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

    const LIMITS: Limits = Limits { retries: 2, backoff: Duration::from_secs(3), retry_after: Duration::from_mins(5) };

    fn asked(lines: &[&str], now: SystemTime) -> Option<f64> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(RETRY_AFTER, line.parse().unwrap());
        }
        retry_after(&headers, now).map(|d| d.as_secs_f64())
    }

    #[test]
    fn r19_retry_after_is_read_in_every_form_and_the_greatest_counts() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(asked(&[], now), None);
        assert_eq!(asked(&["3"], now), Some(3.0));
        assert_eq!(asked(&[" 0.25 "], now), Some(0.25));
        assert_eq!(asked(&["1", "7", "3"], now), Some(7.0));
        assert_eq!(asked(&["1, 7,3"], now), Some(7.0));
        assert_eq!(asked(&["Sun, 06 Nov 1994 08:50:37 GMT"], now), Some(60.0));
        assert_eq!(asked(&["Sunday, 06-Nov-94 08:49:47 GMT"], now), Some(10.0));
        assert_eq!(asked(&["Sun Nov  6 08:49:57 1994"], now), Some(20.0));
        assert_eq!(asked(&["2, Sun, 06 Nov 1994 08:50:37 GMT, 5"], now), Some(60.0));
        assert_eq!(asked(&["Sun, 06 Nov 1994 08:40:00 GMT"], now), Some(0.0));
        for junk in ["soon", "-5", "NaN", "inf", "", "1h"] {
            assert_eq!(asked(&[junk], now), None, "{junk}");
        }
        assert!(asked(&["99999999999999999999999"], now).unwrap() > 1e15);
    }

    #[test]
    fn r19_the_budget_is_one_plus_max_retries() {
        assert!(matches!(LIMITS.decide(2, None, 0.5), Decision::Wait(_)));
        assert_eq!(LIMITS.decide(3, None, 0.5), Decision::Stop);
        let long = Duration::from_secs(20);
        assert_eq!(LIMITS.decide(1, Some(long), 0.9), Decision::Wait(long), "also above max-backoff");
        let hour = Duration::from_hours(1);
        assert_eq!(LIMITS.decide(1, Some(hour), 0.0), Decision::ComeBack(hour));
    }

    proptest! {
        #[test]
        fn r19_backoff_grows_and_never_passes_its_ceiling(made in 1_u32..10_000, jitter in 0.0..1.0_f64) {
            let wait = LIMITS.backoff(made, jitter);
            prop_assert!(wait <= LIMITS.backoff);
            prop_assert!(LIMITS.backoff(made, 1.0) >= LIMITS.backoff(made.saturating_sub(1), 1.0));
            prop_assert_eq!(LIMITS.backoff(made, 0.0), Duration::ZERO);
        }

        #[test]
        fn r19_any_retry_after_line_is_survived(line in "[ -~]{0,40}") {
            let _ = times(&line, SystemTime::UNIX_EPOCH);
        }

        #[test]
        fn r19_an_asked_time_is_never_cut(made in 1_u32..3, asked in 0_u64..300, jitter in 0.0..1.0_f64) {
            let asked = Duration::from_secs(asked);
            let Decision::Wait(wait) = LIMITS.decide(made, Some(asked), jitter) else { panic!() };
            prop_assert!(wait >= asked);
        }
    }

    fn attempts() -> Attempts {
        Attempts { limits: LIMITS, meter: Arc::default(), made: 0, renewed: false }
    }

    #[tokio::test(start_paused = true)]
    async fn r19_only_marked_errors_are_asked_again() {
        let mut budget = attempts();
        budget.begin();
        let plain = budget.again(Error::new(ErrorKind::Decode, "no JSON")).await.unwrap_err();
        assert_eq!(plain.to_string(), "no JSON (attempts: 1)");
        let mark = |after| passing(Error::new(ErrorKind::Http, "503"), "503", after);
        budget.again(mark(None)).await.unwrap();
        budget.begin();
        budget.again(mark(None)).await.unwrap();
        budget.begin();
        assert_eq!(budget.again(mark(None)).await.unwrap_err().to_string(), "503 (attempts: 3)");
        assert_eq!(Meter::get(&budget.meter.retries), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn r19_the_wait_is_said_and_then_no_more() {
        let mut budget = attempts();
        let meter = budget.meter.clone();
        budget.begin();
        let error = passing(Error::new(ErrorKind::Http, "429"), "429", Some(Duration::from_mins(1)));
        let waiting = tokio::spawn(async move { budget.again(error).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(meter.note(), "waiting 60 s: 429");
        waiting.await.unwrap().unwrap();
        assert_eq!(meter.note(), "");
    }

    #[test]
    fn r19_the_time_to_come_back_is_named_twice() {
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(come_back(Duration::from_secs(4000), now), "in 4000 s, at 1970-01-01T01:06:40Z");
        assert_eq!(come_back(Duration::MAX, now), "never");
        assert_eq!(seconds(Duration::from_millis(250)), "0.25 s");
    }
}
