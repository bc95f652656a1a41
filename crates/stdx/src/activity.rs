//! Activities: named work in progress that takes or waits long.
//!
//! A long start reports its activities in the log, so that an operator sees its progress without a debugger.
//! An activity lasts as long as its guard, on one thread or over awaits. Beginning and ending one takes a
//! lock briefly: for work that happens a few times in a start, and not for requests.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Clock;

static AT_WORK: Mutex<AtWork> = Mutex::new(AtWork { last: 0, activities: Vec::new() });

struct AtWork {
    last: u64,
    /// In the order in which they began.
    activities: Vec<(u64, Cow<'static, str>, Duration)>,
}

/// Lasts until it is dropped.
#[derive(Debug)]
#[must_use = "an activity ends when its guard is dropped"]
pub struct Activity(u64);

impl Activity {
    /// `name` completes "the process …", such as `replays the journals`.
    pub fn begin(name: impl Into<Cow<'static, str>>) -> Activity {
        let began = Clock::System.elapsed();
        let mut at_work = lock();
        at_work.last += 1;
        let number = at_work.last;
        at_work.activities.push((number, name.into(), began));
        Activity(number)
    }

    /// The activities of now, the longest first, and how long each has lasted.
    pub fn all() -> Vec<(String, Duration)> {
        let now = Clock::System.elapsed();
        let at_work = lock();
        let lasted = |began: &Duration| now.saturating_sub(*began);
        at_work.activities.iter().map(|(_, name, began)| (name.to_string(), lasted(began))).collect()
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        lock().activities.retain(|(number, _, _)| *number != self.0);
    }
}

fn lock() -> MutexGuard<'static, AtWork> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_listed_from_their_beginning_to_their_end() {
        let names = || -> Vec<String> {
            let of_this_test = |(name, _): (String, Duration)| name.starts_with("test ").then_some(name);
            Activity::all().into_iter().filter_map(of_this_test).collect()
        };
        let outer = Activity::begin("test outer");
        let inner = Activity::begin(format!("test inner {}", 1));
        assert_eq!(names(), ["test outer", "test inner 1"]);
        drop(outer);
        assert_eq!(names(), ["test inner 1"]);
        drop(inner);
        assert!(names().is_empty());
    }
}
