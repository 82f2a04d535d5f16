//! When a burst of edits is over: nothing more for the quiet time, or the limit since its first edit is reached.

use std::time::Duration;
use tokio::time::Instant;

/// A burst that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settle {
    first: Instant,
    last: Instant,
}

impl Settle {
    /// Begins with an edit.
    pub fn begin(now: Instant) -> Self {
        Self { first: now, last: now }
    }

    /// One more edit.
    pub fn again(&mut self, now: Instant) {
        self.last = now;
    }

    /// When it is over if nothing more comes.
    pub fn due(&self, quiet: Duration, limit: Duration) -> Instant {
        (self.last + quiet).min(self.first + limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(1);
    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn r_018_a_burst_is_one_change_and_an_endless_one_is_cut() {
        let start = Instant::now();
        let mut settle = Settle::begin(start);
        assert_eq!(settle.due(QUIET, LIMIT), start + QUIET);
        for tenth in 1..20 {
            settle.again(start + Duration::from_millis(tenth * 100));
        }
        assert_eq!(settle.due(QUIET, LIMIT), start + Duration::from_millis(2900));
        settle.again(start + Duration::from_millis(4900));
        assert_eq!(settle.due(QUIET, LIMIT), start + LIMIT);
    }
}
