//! Progress of long commands on standard error: a bar at a terminal, a line every ten seconds elsewhere.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use shardlake_stdx::Clock;

use crate::number_text::{bytes, printable, thousands};

/// Between two lines where standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Before this time, a rate is more chance than measurement.
const RATE_AFTER: Duration = Duration::from_millis(500);

/// The option of commands that show their plan and progress.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Quiet {
    /// Print nothing but errors on standard error
    #[arg(long)]
    pub quiet: bool,
}

/// The thing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Items,
    Rows,
    Bytes,
}

/// A piece of work with a known or unknown total. [`Progress::advance`] may be called from several threads.
#[derive(Debug)]
pub struct Progress {
    title: String,
    unit: Unit,
    total: Option<u64>,
    done: AtomicU64,
    begun: Duration,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Bar(ProgressBar),
    /// Time of the last line, since [`Progress::begun`].
    Lines(Mutex<Duration>),
}

impl Quiet {
    /// Work that shows nothing with `--quiet`.
    pub fn begin(self, title: &str, unit: Unit, total: Option<u64>) -> Progress {
        match self.quiet {
            true => Progress::new(title, unit, total, Shown::Nothing),
            false => Progress::begin(title, unit, total),
        }
    }

    /// Prints a line, but not with `--quiet`.
    pub fn report(self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
}

impl Progress {
    pub fn begin(title: &str, unit: Unit, total: Option<u64>) -> Progress {
        let shown = match io::stderr().is_terminal() {
            true => Shown::Bar(bar(title, unit, total)),
            false => Shown::Lines(Mutex::new(Duration::ZERO)),
        };
        Progress::new(title, unit, total, shown)
    }

    fn new(title: &str, unit: Unit, total: Option<u64>, shown: Shown) -> Progress {
        let begun = Clock::System.elapsed();
        Progress { title: title.to_owned(), unit, total, done: AtomicU64::new(0), begun, shown }
    }

    /// Counts `number` more items or bytes as done.
    pub fn advance(&self, number: u64) {
        let done = self.done.fetch_add(number, Ordering::Relaxed) + number;
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.inc(number),
            Shown::Lines(last) => {
                let elapsed = self.elapsed();
                let mut last = last.lock().expect("no holder panics");
                if is_due(&mut last, elapsed) {
                    say(&format!("{}: {}", self.title, words(self.unit, done, self.total, elapsed)));
                }
            }
        }
    }

    /// Replaces the bar by a last line; an empty text prints none.
    pub fn finish(self, text: &str) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
        if !matches!(self.shown, Shown::Nothing) && !text.is_empty() {
            say(text);
        }
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn elapsed(&self) -> Duration {
        Clock::System.elapsed().saturating_sub(self.begun)
    }
}

impl Drop for Progress {
    /// An error ends the command without a last line: its message stands alone.
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// Whether a line is due, which then counts as printed.
fn is_due(last: &mut Duration, elapsed: Duration) -> bool {
    let is_due = elapsed >= *last + LINE_EVERY;
    if is_due {
        *last = elapsed;
    }
    is_due
}

fn bar(title: &str, unit: Unit, total: Option<u64>) -> ProgressBar {
    let template = match (unit, total) {
        (Unit::Items | Unit::Rows, Some(_)) => {
            "{prefix} [{bar:28}] {percent:>3} %  {human_pos} of {human_len}  {rate}  {eta} left"
        }
        (Unit::Items | Unit::Rows, None) => "{prefix} {spinner} {human_pos}  {rate}",
        (Unit::Bytes, Some(_)) => {
            "{prefix} [{bar:28}] {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left"
        }
        (Unit::Bytes, None) => "{prefix} {spinner} {binary_bytes}  {binary_bytes_per_sec}",
    };
    let rate = |state: &ProgressState, to: &mut dyn fmt::Write| {
        let _infallible = write!(to, "{}/s", thousands(state.per_sec() as u64));
    };
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let style = style.with_key("rate", rate).progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr()).with_style(style);
    bar.with_prefix(title.to_owned())
}

/// `1,200 of 4,800 items (25 %), 300/s, 12 s left`.
fn words(unit: Unit, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let counted = |number: u64| match unit {
        Unit::Items | Unit::Rows => thousands(number),
        Unit::Bytes => bytes(number),
    };
    let noun = match unit {
        Unit::Items => " items",
        Unit::Rows => " rows",
        Unit::Bytes => "",
    };
    let mut text = match total {
        Some(total) => {
            let percent = done.min(total) * 100 / total.max(1);
            format!("{} of {}{noun} ({percent} %)", counted(done), counted(total))
        }
        None => format!("{}{noun}", counted(done)),
    };
    if elapsed >= RATE_AFTER {
        let rate = done as f64 / elapsed.as_secs_f64();
        text.push_str(&format!(", {}/s", counted(rate as u64)));
        if let Some(left) = total.map(|total| total.saturating_sub(done)).filter(|_| rate > 0.0) {
            text.push_str(&format!(", {} left", time(left as f64 / rate)));
        }
    }
    text
}

/// A time for people, from seconds.
pub fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Standard error may be closed.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_count_share_rate_and_time_left() {
        let after = Duration::from_secs(4);
        assert_eq!(
            words(Unit::Items, 1_200, Some(4_800), after),
            "1,200 of 4,800 items (25 %), 300/s, 12 s left"
        );
        assert_eq!(words(Unit::Bytes, 4096, None, after), "4.0 KiB, 1.0 KiB/s");
        assert_eq!(words(Unit::Items, 0, Some(10), Duration::ZERO), "0 of 10 items (0 %)");
        assert_eq!(words(Unit::Items, 0, Some(0), after), "0 of 0 items (0 %), 0/s");
        assert_eq!(words(Unit::Items, 9, Some(8), after), "9 of 8 items (100 %), 2/s, 0 s left");
    }

    #[test]
    fn a_line_is_due_every_ten_seconds_and_none_before() {
        let mut last = Duration::ZERO;
        let due: Vec<u64> =
            (0..35_000).step_by(100).filter(|ms| is_due(&mut last, Duration::from_millis(*ms))).collect();
        assert_eq!(due, [10_000, 20_000, 30_000]);
        assert!(is_due(&mut last, Duration::from_secs(90)) && !is_due(&mut last, Duration::from_secs(99)));
    }

    #[test]
    fn every_kind_of_work_has_a_bar() {
        for unit in [Unit::Items, Unit::Rows, Unit::Bytes] {
            for total in [None, Some(10)] {
                let bar = bar("import", unit, total);
                bar.set_draw_target(ProgressDrawTarget::hidden());
                bar.inc(4);
                assert_eq!((bar.position(), bar.length(), bar.prefix().as_str()), (4, total, "import"));
            }
        }
    }

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(
            [time(0.2), time(61.0), time(7_320.0)],
            ["1 s".to_owned(), "1 min 1 s".to_owned(), "2 h 2 min".to_owned()]
        );
    }

    #[test]
    fn quiet_work_is_counted_and_not_shown() {
        let progress = Quiet { quiet: true }.begin("import", Unit::Items, Some(3));
        progress.advance(2);
        progress.advance(1);
        assert!(matches!(progress.shown, Shown::Nothing));
        assert_eq!(progress.done(), 3);
        progress.finish("done");
    }
}
