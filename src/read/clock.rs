//! Whether the API's clock goes with ours: the windows of a stream end by ours, and its records are dated by another.

use std::time::Duration;

use chrono::TimeDelta;
use http::HeaderMap;
use http::header::DATE;
use tokio::time::Instant as Moment;

use crate::plan::Partition;
use crate::position::Instant;

/// What a `Date` may lie behind beside the lag: it has whole seconds, and a window ends one before now.
const BEHIND: TimeDelta = TimeDelta::seconds(2);

const AHEAD: TimeDelta = TimeDelta::minutes(5);

/// Our clock while a batch of a stream is read.
#[derive(Debug)]
pub(super) struct Clock {
    /// The time of the batch, and the moment when that was.
    began: Instant,
    then: Moment,
    lag: TimeDelta,
}

impl Clock {
    /// `None` where no window ends by it.
    pub(super) fn of(partition: &Partition, lag: Duration) -> Option<Self> {
        partition.batch.map(|_| Self {
            began: partition.began,
            then: Moment::now(),
            lag: TimeDelta::from_std(lag).unwrap_or(TimeDelta::MAX),
        })
    }

    /// What an answer says of the API's clock, if that is worth a warning.
    pub(super) fn hear(&self, headers: &HeaderMap, asked: Moment) -> Option<String> {
        let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
        // When it was sent: however long it took, it was not dated before.
        let since = TimeDelta::from_std(asked.saturating_duration_since(self.then)).ok()?;
        judge(date.into(), self.began.checked_add_signed(since)?, self.lag)
    }
}

fn judge(date: Instant, now: Instant, lag: TimeDelta) -> Option<String> {
    let behind = now - date;
    if behind > lag.checked_add(&BEHIND).unwrap_or(TimeDelta::MAX) {
        let (by, lag) = (behind.num_seconds(), lag.num_seconds());
        return Some(format!(
            "the API's clock is {by} seconds behind ours and lag is {lag}: records may be dated into windows that were \
             read; set lag to more than that"
        ));
    }
    let ahead = -behind;
    let said = || {
        let by = ahead.num_seconds();
        format!("the API's clock is {by} seconds ahead of ours: its records come that much later")
    };
    (ahead > AHEAD).then(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r27_a_clock_is_behind_beyond_the_lag_and_ahead_beyond_minutes() {
        let (now, lag) = (Instant::UNIX_EPOCH + TimeDelta::days(9), TimeDelta::seconds(10));
        let said = |seconds: i64| judge(now + TimeDelta::seconds(seconds), now, lag).unwrap_or_default();
        for fine in [-12, 0, 300] {
            assert_eq!(said(fine), "", "{fine}");
        }
        assert!(said(-13).contains("13 seconds behind ours and lag is 10"), "{}", said(-13));
        assert!(said(301).contains("301 seconds ahead"), "{}", said(301));
        assert_eq!(judge(Instant::UNIX_EPOCH, now, TimeDelta::MAX), None);
    }

    #[test]
    fn r27_time_that_passed_before_a_request_was_sent_counts() {
        let then = Moment::now();
        let clock = Clock { began: Instant::UNIX_EPOCH, then, lag: TimeDelta::zero() };
        let dated = |text: &str| HeaderMap::from_iter([(DATE, text.parse().unwrap())]);
        let headers = dated("Thu, 01 Jan 1970 00:01:00 GMT");
        assert_eq!(clock.hear(&headers, then + Duration::from_secs(61)), None);
        assert!(clock.hear(&headers, then + Duration::from_secs(63)).is_some());
        assert_eq!(clock.hear(&dated("yesterday"), then + Duration::from_secs(63)), None);
        assert_eq!(clock.hear(&HeaderMap::new(), then), None);
    }
}
