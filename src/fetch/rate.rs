//! The rate limit of a source: evenly spaced permits, the first at once (R21).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::config::Rate;
use crate::plan::Share;

/// How late a timer may wake before the schedule moves with it, instead of two permits close together.
const SLACK: Duration = Duration::from_millis(5);

/// How much further apart permits are than the rate says: a network that delays some requests more than others pushes
/// them together, and in no second may more than the rate arrive.
const MARGIN: f64 = 1.025;

/// Hands out permits no faster than the rate, in the order they were asked for.
///
/// Whoever gives up while waiting takes no permit with it.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl RateLimiter {
    /// A limiter whose first permit is free at once.
    pub(super) fn new(rate: Rate) -> Self {
        let interval = Duration::try_from_secs_f64(MARGIN / rate.per_second).unwrap_or(Duration::MAX);
        Self { interval, next: Mutex::new(None) }
    }

    /// A limiter of an equal part of a rate, which starts `at` a time. Parts take turns by the clock, which they have in
    /// common wherever and whenever each of them starts.
    pub(super) fn of(rate: Rate, share: Share, at: SystemTime) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "no plan has 2^53 partitions")]
        let of = share.of.max(1) as f64;
        let part = Self::new(Rate { per_second: rate.per_second / of });
        let round = part.interval.as_nanos().max(1);
        let turn = round / u128::from(share.of.max(1)) * u128::from(share.number);
        let passed = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() % round;
        let wait = Duration::from_nanos_u128((turn + round - passed) % round);
        Self { next: Mutex::new(Instant::now().checked_add(wait)), ..part }
    }

    /// Waits for the next permit.
    pub(super) async fn permit(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        let slot = next.map_or(now, |next| next.max(now));
        sleep_until(slot).await;
        let late = Instant::now().saturating_duration_since(slot).saturating_sub(SLACK);
        // An interval beyond the clock's end means that the first permit was the last.
        *next =
            (slot + late).checked_add(self.interval).or_else(|| now.checked_add(Duration::from_secs(u32::MAX.into())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn r21_permits_are_evenly_spaced_whoever_asks() {
        let limiter = Arc::new(RateLimiter::new(Rate { per_second: 4.0 }));
        let start = Instant::now();
        let tasks: Vec<_> = (0..9)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    limiter.permit().await;
                    start.elapsed()
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.push(task.await.unwrap());
        }
        times.sort();
        assert!(times[0] < Duration::from_millis(2), "{times:?}");
        for (i, at) in times.iter().enumerate() {
            let due = Duration::from_millis(256) * u32::try_from(i).unwrap();
            assert!(*at >= due && *at < due + Duration::from_millis(20), "{i}: {times:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r21_idle_time_saves_no_permits_and_an_abandoned_wait_takes_none() {
        let limiter = RateLimiter::new(Rate { per_second: 10.0 });
        limiter.permit().await;
        sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        limiter.permit().await;
        assert!(tokio::time::timeout(Duration::from_millis(50), limiter.permit()).await.is_err());
        limiter.permit().await;
        assert!(start.elapsed() >= Duration::from_millis(100) && start.elapsed() < Duration::from_millis(110));
    }

    /// When `count` permits were handed out, by limiters that start so far apart, each asked by `askers` that want no pause.
    async fn schedule(
        limiters: u64,
        apart: Duration,
        askers: u64,
        count: u64,
        limiter: impl Fn(u64, SystemTime) -> RateLimiter,
    ) -> Vec<Duration> {
        let start = Instant::now();
        let mut tasks = Vec::new();
        for number in 0..limiters {
            let limiter = Arc::new(limiter(number, UNIX_EPOCH + start.elapsed()));
            tasks.extend((0..askers).map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    for _ in 0..count / (limiters * askers) {
                        limiter.permit().await;
                        times.push(start.elapsed());
                    }
                    times
                })
            }));
            sleep(apart).await;
        }
        let mut times = Vec::new();
        for task in tasks {
            times.append(&mut task.await.unwrap());
        }
        assert_eq!(times.len() as u64, count);
        times.sort();
        times
    }

    /// In no second more than the rate arrive, though each request may take up to 20 ms longer than another.
    fn assert_keeps_to(times: &[Duration], rate: u32) {
        let rate = rate as usize;
        // More than `rate` in a second would have a first and a last of them that are at least so many apart.
        for pair in times.windows(rate + 1) {
            let apart = pair[rate].saturating_sub(pair[0] + Duration::from_millis(20));
            assert!(apart >= Duration::from_secs(1), "{:?} and {:?} at {rate} a second", pair[0], pair[rate]);
        }
    }

    /// At least 95 % of the rate was used.
    fn assert_uses(times: &[Duration], rate: u32) {
        let took = times[times.len() - 1];
        let most = Duration::from_secs(times.len() as u64) / rate;
        assert!(took.mul_f64(0.95) <= most, "{} permits took {took:?}", times.len());
    }

    #[tokio::test(start_paused = true)]
    async fn r21_in_no_second_more_than_the_rate_arrive_and_the_rate_is_used() {
        for rate in [1, 10, 50, 200, 333] {
            let limiter = |_, _| RateLimiter::new(Rate { per_second: f64::from(rate) });
            let times = schedule(1, Duration::ZERO, 8, 1_000, limiter).await;
            assert_keeps_to(&times, rate);
            assert_uses(&times, rate);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r21_parts_add_up_to_the_rate_and_no_more_whenever_they_start() {
        for (rate, of) in [(200, 2), (200, 8), (10, 8), (3, 8), (50, 20)] {
            let part = |number, at| RateLimiter::of(Rate { per_second: f64::from(rate) }, Share { number, of }, at);
            let together = schedule(of, Duration::ZERO, 2, 2_000, part).await;
            assert_keeps_to(&together, rate);
            assert_uses(&together, rate);
            for apart in [13, 370, 1_111] {
                assert_keeps_to(&schedule(of, Duration::from_millis(apart), 2, 2_000, part).await, rate);
            }
        }
    }
}
