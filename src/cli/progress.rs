//! How far long work is, shown on a terminal.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rondo_compiler::auto::Watch;

use super::OutputFormat;

/// A spinner or a bar on a terminal, nothing elsewhere; gone when dropped.
pub struct Progress {
    shown: bool,
    bar: Mutex<ProgressBar>,
}

impl Progress {
    /// For work that says itself how far it is. Nothing is shown in a pipe, beside a report that is not for people, or where `CI` is set.
    pub fn new(format: OutputFormat) -> Self {
        let shown = std::io::stderr().is_terminal() && format == OutputFormat::Text && std::env::var_os("CI").is_none();
        Self { shown, bar: Mutex::new(ProgressBar::hidden()) }
    }

    /// For this work, in so many pieces.
    pub fn of(format: OutputFormat, what: &'static str, pieces: usize) -> Self {
        let progress = Self::new(format);
        progress.begin(what, pieces);
        progress
    }

    /// Prints something without the bar in its way.
    pub fn aside(&self, print: impl FnOnce()) {
        self.bar().suspend(print);
    }

    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Progress {
    /// A bar; for one piece, of which nobody knows how long it is, a spinner.
    fn begin(&self, what: &'static str, pieces: usize) {
        if !self.shown {
            return;
        }
        let template = if pieces < 2 { "{spinner} {msg}" } else { "{spinner} {msg} [{bar:30}] {pos} of {len}" };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(pieces as u64), ProgressDrawTarget::hidden());
        let bar = bar.with_style(style.progress_chars("=> ")).with_message(what);
        let mut shown = self.bar();
        shown.finish_and_clear();
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.tick();
        bar.enable_steady_tick(Duration::from_millis(120));
        *shown = bar;
    }

    fn done(&self) {
        self.bar().inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar().finish_and_clear();
    }
}
