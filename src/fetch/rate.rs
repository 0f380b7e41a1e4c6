//! The rate limit of a source: evenly spaced permits, the first at once (R21).

use std::time::Duration;

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

    /// A limiter of an equal part of a rate. Parts that start together take turns.
    pub(super) fn of(rate: Rate, share: Share) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "no plan has 2^53 partitions")]
        let (number, of) = (share.number as f64, share.of.max(1) as f64);
        let part = Self::new(Rate { per_second: rate.per_second / of });
        let turn = part.interval.mul_f64(number / of);
        Self { next: Mutex::new(Instant::now().checked_add(turn)), ..part }
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
        tokio::time::sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        limiter.permit().await;
        assert!(tokio::time::timeout(Duration::from_millis(50), limiter.permit()).await.is_err());
        limiter.permit().await;
        assert!(start.elapsed() >= Duration::from_millis(100) && start.elapsed() < Duration::from_millis(110));
    }

    /// When `count` permits were handed out that `askers` of each limiter ask for as fast as they can.
    async fn schedule(limiters: Vec<RateLimiter>, askers: usize, count: usize) -> Vec<Duration> {
        let start = Instant::now();
        let each = count / (limiters.len() * askers);
        let mut tasks = Vec::new();
        for limiter in limiters.into_iter().map(Arc::new) {
            tasks.extend((0..askers).map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    for _ in 0..each {
                        limiter.permit().await;
                        times.push(start.elapsed());
                    }
                    times
                })
            }));
        }
        let mut times = Vec::new();
        for task in tasks {
            times.append(&mut task.await.unwrap());
        }
        assert_eq!(times.len(), count);
        times.sort();
        times
    }

    /// In no second more than the rate arrive, though each request may take up to 20 ms longer than another, and at
    /// least 95 % of the rate is used.
    fn assert_keeps_to(times: &[Duration], rate: usize) {
        // More than `rate` in a second would have a first and a last of them that are at least so many apart.
        for pair in times.windows(rate + 1) {
            let apart = pair[rate].saturating_sub(pair[0] + Duration::from_millis(20));
            assert!(apart >= Duration::from_secs(1), "{:?} and {:?} at {rate} a second", pair[0], pair[rate]);
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let (count, rate) = (times.len() as f64, rate as f64);
        let took = times[times.len() - 1].as_secs_f64();
        assert!(took <= count / rate / 0.95, "{count} permits took {took} s");
    }

    #[tokio::test(start_paused = true)]
    async fn r21_in_no_second_more_than_the_rate_arrive_and_the_rate_is_used() {
        for rate in [1, 10, 50, 200, 333] {
            let limiter = RateLimiter::new(Rate { per_second: f64::from(rate) });
            assert_keeps_to(&schedule(vec![limiter], 8, 1_000).await, rate.try_into().unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r21_parts_that_start_together_add_up_to_the_rate() {
        for (rate, of) in [(200, 2), (200, 8), (10, 8), (3, 8), (50, 20)] {
            let part = |number| RateLimiter::of(Rate { per_second: f64::from(rate) }, Share { number, of });
            let times = schedule((0..of).map(part).collect(), 2, 2_000).await;
            assert_keeps_to(&times, rate.try_into().unwrap());
        }
    }
}
