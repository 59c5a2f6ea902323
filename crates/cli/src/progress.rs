//! The progress bar of a long statement, on standard error, and only on a terminal.
//!
//! The connection calls [`Display::update`] about every 50 ms on our own thread. The bar is not
//! drawn in the first half second, nor once result rows go to the same terminal.

use crate::output::pretty::thousands;
use hypostyle::Progress;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const DELAY: Duration = Duration::from_millis(500);
const BAR_STEPS: u64 = 1000;

#[derive(Debug, Default)]
pub struct Display(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    started: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Display {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a statement.
    pub fn begin(&self) {
        self.state().started = stderr().is_terminal().then(Instant::now);
    }

    /// Ends the bar, because the statement has ended or its rows need the terminal.
    pub fn end(&self) {
        let mut state = self.state();
        state.started = None;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }

    pub fn update(&self, progress: &Progress) {
        let mut state = self.state();
        if state.started.is_none_or(|started| started.elapsed() < DELAY) {
            return;
        }
        let bar = state.bar.get_or_insert_with(new_bar);
        match progress.fraction() {
            Some(fraction) => {
                bar.set_length(BAR_STEPS);
                bar.set_position((fraction.clamp(0.0, 1.0) * BAR_STEPS as f64) as u64);
            }
            None => bar.unset_length(),
        }
        bar.set_message(describe(progress));
    }
}

fn new_bar() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10)).with_style(style)
}

/// Returns the text beside the bar: share, rows, and the remaining time; without a share, the time
/// until now.
fn describe(progress: &Progress) -> String {
    let rows = thousands(progress.rows_done);
    match progress.fraction().zip(progress.remaining) {
        Some((fraction, left)) => {
            format!("{:.0}%  {rows} rows, {} left", fraction * 100.0, HumanDuration(left))
        }
        None => format!("{rows} rows, {}", HumanDuration(progress.elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_share_done() {
        let after =
            |rows, total, seconds| describe(&Progress::computing(rows, total, Duration::from_secs(seconds)));
        assert_eq!(after(1_500_000, Some(6_000_000), 10), "25%  1,500,000 rows, 30 seconds left");
        assert_eq!(after(7, None, 2), "7 rows, 2 seconds");
        assert_eq!(after(0, Some(7), 2), "0 rows, 2 seconds");
    }
}
