//! Injected faults of requests: in the bucket of this process, and at a proxy in front of another store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This status, and nothing is done.
    Status(u16),
    /// It is done, and the connection breaks before the answer.
    AnswerLost,
    /// The connection breaks, and nothing is done.
    Reset,
    /// It is done, and the answer is that its condition did not hold.
    ClaimsFailure,
}

/// How the bucket treats requests from now on.
#[derive(Debug, Clone, Default)]
pub struct Weather {
    /// Before each answer.
    pub delay: Duration,
    /// One of so many requests has a fault, one after the other of the list; 0: none.
    pub one_in: u64,
    pub faults: Vec<Fault>,
    /// Requests are taken, and not answered until the weather changes.
    pub is_silent: bool,
}

/// The weather, and its effects so far.
#[derive(Default)]
pub(crate) struct Sky {
    weather: Mutex<Weather>,
    requests: AtomicU64,
    faults: AtomicU64,
    is_closed: AtomicBool,
}

impl Sky {
    pub fn set(&self, weather: Weather) {
        *self.weather() = weather;
    }

    /// Requests so far, and how many of them a fault befell.
    pub fn counts(&self) -> (u64, u64) {
        (self.requests.load(Ordering::SeqCst), self.faults.load(Ordering::SeqCst))
    }

    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the weather's delay, and returns the fault of the request.
    pub fn wait_and_choose(&self) -> Option<Fault> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let mut weather = self.weather().clone();
        if !weather.delay.is_zero() {
            thread::sleep(weather.delay);
        }
        while weather.is_silent && !self.is_closed() {
            thread::sleep(Duration::from_millis(10));
            weather = self.weather().clone();
        }
        if weather.one_in == 0 || weather.faults.is_empty() || !number.is_multiple_of(weather.one_in) {
            return None;
        }
        let befallen = self.faults.fetch_add(1, Ordering::SeqCst);
        weather.faults.get(befallen as usize % weather.faults.len()).copied()
    }
}
