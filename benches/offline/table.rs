//! The table of figures that a bench prints, each with its bound.

use std::time::Duration;

/// The figures, printed as they come.
pub(crate) struct Table {
    /// A figure was over its bound.
    pub(crate) missed: bool,
}

impl Table {
    pub(crate) fn new() -> Self {
        println!("{:<58} {:>12} {:>8} {:>8}", "", "figure", "ratio", "bound");
        Self { missed: false }
    }

    pub(crate) fn row(&mut self, what: &str, figure: &str, ratio: Option<f64>, bound: &str, is_missed: bool) {
        let ratio = ratio.map(|r| format!("{r:.2}")).unwrap_or_default();
        let missed = if is_missed { "  MISSED" } else { "" };
        println!("{what:<58} {figure:>12} {ratio:>8} {bound:>8}{missed}");
        self.missed |= is_missed;
    }

    pub(crate) fn plain(&mut self, what: &str, time: Duration) {
        self.row(what, &milliseconds(time), None, "", false);
    }

    pub(crate) fn ratio(&mut self, what: &str, figure: &str, ratio: f64, bound: f64) {
        self.row(what, figure, Some(ratio), &format!("{bound}"), ratio > bound);
    }

    pub(crate) fn absolute(&mut self, what: &str, time: Duration, bound: Duration) {
        self.row(what, &milliseconds(time), None, &format!("{} ms", bound.as_millis()), time > bound);
    }
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
