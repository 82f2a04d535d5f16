//! Waiting longer after each failure, never twice as long as anybody else: exponential with jitter.

use k8s_openapi::jiff::Timestamp;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Delays that double from `first` up to `most`, each shortened by a random part of up to one half.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins at `first`.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// For watches that broke: soon, and at most 10 s apart.
    pub fn for_watches() -> Self {
        Self::new(Duration::from_millis(400), Duration::from_secs(10))
    }

    /// After a success the next delay is the first one again.
    pub fn succeed(&mut self) {
        self.next = self.first;
    }

    /// The delay after a failure.
    pub fn fail(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        jitter(delay, random())
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.fail())
    }
}

impl kube::runtime::utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.succeed();
    }
}

/// Between half of `delay` and `delay`; `random` decides where.
pub fn jitter(delay: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 1024).unwrap_or_default();
    delay / 2 + delay / 2 * part / 1024
}

/// The time from `since` to `now`, both by this process's wall clock. Where that was set back meanwhile nobody waits for it
/// to come to where it was: for ever.
pub fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or(Duration::MAX)
}

/// Good enough to spread clients, for nothing else: the standard library seeds its hashers from the system.
pub fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_begin_anew_after_success() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(first, most);
        let delays: Vec<Duration> = backoff.by_ref().take(8).collect();
        assert!(delays[0] >= first / 2 && delays[0] <= first);
        assert!(delays[7] >= most / 2 && delays[7] <= most, "{delays:?}");
        backoff.succeed();
        assert!(backoff.fail() <= first);
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_for_it() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(elapsed(at(100), at(103)), Duration::from_secs(3));
        assert_eq!(elapsed(at(100), at(100)), Duration::ZERO);
        assert_eq!(elapsed(at(100_000_000), at(103)), Duration::MAX);
    }

    #[test]
    fn clients_that_fail_together_do_not_return_together() {
        let delay = Duration::from_secs(1);
        assert_eq!(jitter(delay, 0), delay / 2);
        assert!(jitter(delay, 1023) > delay * 9 / 10 && jitter(delay, 1023) <= delay);
        assert!((0..64).map(|_| random()).collect::<std::collections::BTreeSet<_>>().len() > 1);
    }
}
