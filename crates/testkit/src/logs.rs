//! Warnings and errors logged in the process of a test: those that the test did not announce fail it.
//!
//! [`Logs::watch`] is held by the fixtures that open an account, a gateway or a shard. The first one installs the subscriber
//! of the process, which keeps each event of level WARN and ERROR. A fixture's end is the end of its [`Logs`]: it panics when
//! there is an event that no [`expects_log`] announced before.
//!
//! The tokio runtime in which an event was logged identifies its test, because each test has a
//! runtime of its own, and its tasks, workers and blocking threads all know it. Threads outside a
//! runtime, such as the committer's, belong to no test: their events fail the test whose fixture
//! ends next, unless any test of the process announced them. Under nextest, which runs each test in
//! a process of its own, that is the test that provoked them.
//!
//! An event that is logged after the last fixture of a test ended is not seen.

use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use tokio::runtime::{Handle, Id};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// The runtime in which an event is logged or announced; none on threads outside of every runtime.
type Place = Option<Id>;

#[derive(Debug, Default)]
struct Book {
    events: Vec<(Place, String)>,
    announced: Vec<(Place, String)>,
}

static BOOK: Mutex<Book> = Mutex::new(Book { events: Vec::new(), announced: Vec::new() });

/// Announces warnings and errors that hold these words: the test provokes them. Outside a runtime: for the whole process.
pub fn expects_log(words: &str) {
    book().announced.push((here(), words.to_owned()));
}

/// Fails the test when it ends with warnings or errors that were not announced.
#[derive(Debug)]
#[must_use = "the warnings and errors are looked at when it is dropped"]
pub struct Logs {
    place: Place,
}

impl Logs {
    /// # Panics
    /// When the process has another subscriber, which would hide the events.
    pub fn watch() -> Logs {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let recorder = tracing_subscriber::registry().with(Recorder.with_filter(LevelFilter::WARN));
            tracing::subscriber::set_global_default(recorder).expect("tests install no other subscriber");
        });
        Logs { place: here() }
    }
}

impl Logs {
    /// The warnings and errors so far that hold these words and were logged in the test's own runtime.
    pub fn lines_with(&self, words: &str) -> Vec<String> {
        let book = book();
        let is_it = |event: &&(Place, String)| event.0 == self.place && event.1.contains(words);
        book.events.iter().filter(is_it).map(|(_, line)| line.clone()).collect()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let unexpected = book().take_unexpected(self.place);
        assert!(
            unexpected.is_empty(),
            "this was logged, and no test announced it:\n{}",
            unexpected.join("\n")
        );
    }
}

impl Book {
    /// The unannounced events of this place and of no place. Announcements are forgotten, too.
    fn take_unexpected(&mut self, place: Place) -> Vec<String> {
        let is_mine = |event: &mut (Place, String)| event.0.is_none() || event.0 == place;
        let mut unexpected = Vec::new();
        for (place, line) in self.events.extract_if(.., is_mine) {
            if !self.announced.iter().any(|(by, words)| may_announce(*by, place) && line.contains(words)) {
                unexpected.push(line);
            }
        }
        unexpected
    }
}

fn may_announce(by: Place, event: Place) -> bool {
    by.is_none() || event.is_none() || by == event
}

fn here() -> Place {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

fn book() -> MutexGuard<'static, Book> {
    BOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorder;

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line(format!("{} {}:", metadata.level(), metadata.target()));
        event.record(&mut line);
        book().events.push((here(), line.0));
    }
}

/// `WARN shardlake_account::purge: removing … stopped partition=3 error=…`, as in the log of a server.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    fn in_a_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        runtime.expect("a runtime").block_on(test);
    }

    fn verdict(logs: Logs) -> String {
        let outcome = catch_unwind(|| drop(logs));
        outcome.map_or_else(
            |panic| panic.downcast_ref::<String>().cloned().expect("a message"),
            |()| String::new(),
        )
    }

    fn warn(words: &str) {
        tracing::warn!(partition = 3, "{words}");
    }

    #[test]
    fn a_warning_or_an_error_that_the_test_did_not_announce_fails_it() {
        in_a_runtime(async {
            let logs = Logs::watch();
            warn("logged by the test");
            tokio::spawn(async { warn("logged by a task") }).await.expect("ends");
            tokio::task::spawn_blocking(|| tracing::error!(words = "w", "logged beside"))
                .await
                .expect("ends");
            tracing::info!("of no concern");
            let target = module_path!();
            let expected = format!(
                "this was logged, and no test announced it:\n\
                 WARN {target}: logged by the test partition=3\n\
                 WARN {target}: logged by a task partition=3\n\
                 ERROR {target}: logged beside words=\"w\""
            );
            assert_eq!(verdict(logs), expected);
            assert_eq!(verdict(Logs::watch()), "", "once");
        });
    }

    #[test]
    fn a_warning_that_the_test_announced_does_not_fail_it_and_need_not_come() {
        in_a_runtime(async {
            let logs = Logs::watch();
            expects_log("as announced partition=3");
            expects_log("never logged");
            tokio::spawn(async { warn("as announced") }).await.expect("ends");
            assert_eq!(verdict(logs), "");
        });
    }

    #[test]
    fn neither_warnings_nor_announcements_of_another_test_matter() {
        in_a_runtime(async {
            let logs = Logs::watch();
            let other = std::thread::spawn(|| {
                in_a_runtime(async {
                    expects_log("of mine");
                    warn("of the other");
                });
            });
            other.join().expect("ends");
            warn("of mine");
            let verdict = verdict(logs);
            assert!(verdict.contains("of mine") && !verdict.contains("of the other"), "{verdict}");
        });
    }

    #[test]
    fn a_warning_outside_every_runtime_fails_any_test_unless_one_announced_it() {
        in_a_runtime(async {
            let event = |words: &str| (None, words.to_owned());
            let mut book = Book { events: vec![event("one"), event("two")], announced: Vec::new() };
            book.announced.push((here(), "two".to_owned()));
            let other = std::thread::spawn(move || (book.take_unexpected(None), book));
            let (unexpected, mut book) = other.join().expect("ends");
            assert_eq!(unexpected, ["one"]);
            assert_eq!(book.take_unexpected(here()), [""; 0]);
        });
    }

    #[test]
    fn a_test_that_fails_already_says_its_own_words() {
        in_a_runtime(async {
            let outcome = catch_unwind(|| {
                let _logs = Logs::watch();
                warn("beside the failure");
                panic!("of its own");
            });
            let panic = outcome.expect_err("it panics");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"of its own"));
        });
    }
}
