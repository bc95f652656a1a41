//! A store that writes no faster than it may, so that tables leave the disk to the data.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardlake_analytical_table::store::{StoreError, StoreWriter, StoredFile, TableStore};
use shardlake_stdx::Clock;

/// Bytes that are written before the first pause, as the time that they take.
const BURST: Duration = Duration::from_millis(250);

/// Bytes that all tables together may write in a second.
#[derive(Debug)]
pub struct Pace {
    rate: u64,
    /// In terms of the clock's elapsed time: the time for which the written bytes suffice at this rate.
    paid_until: Mutex<Duration>,
}

impl Pace {
    pub fn new(rate: u64) -> Pace {
        assert!(rate > 0, "something may be written");
        Pace { rate, paid_until: Mutex::default() }
    }

    /// The pause that a write owes.
    fn pause_of(&self, bytes: usize, now: Duration) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paid_until = (*paid_until).max(now) + cost;
        paid_until.saturating_sub(now).saturating_sub(BURST)
    }

    /// Pauses this thread, which is the follower's own, where the rate asks for it. Real time decides and not the clock of
    /// the account: it is about a disk.
    fn note(&self, bytes: usize) {
        let pause = self.pause_of(bytes, Clock::System.elapsed());
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// A store whose writes keep a pace.
#[derive(Debug)]
pub struct PacedStore<S> {
    inner: S,
    pace: Arc<Pace>,
}

impl<S> PacedStore<S> {
    pub fn new(inner: S, pace: Arc<Pace>) -> PacedStore<S> {
        PacedStore { inner, pace }
    }
}

impl<S: TableStore> TableStore for PacedStore<S> {
    fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        self.inner.read(path)
    }

    fn read_range(&self, path: &str, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        self.inner.read_range(path, offset, length)
    }

    fn size(&self, path: &str) -> Result<u64, StoreError> {
        self.inner.size(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.pace.note(bytes.len());
        self.inner.write(path, bytes)
    }

    fn writer(&self, path: &str) -> Result<Box<dyn StoreWriter>, StoreError> {
        Ok(Box::new(PacedWriter { inner: self.inner.writer(path)?, pace: self.pace.clone() }))
    }

    fn create_if_absent(&self, path: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.pace.note(bytes.len());
        self.inner.create_if_absent(path, bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, StoreError> {
        self.inner.list(folder)
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.inner.delete(path)
    }
}

struct PacedWriter {
    inner: Box<dyn StoreWriter>,
    pace: Arc<Pace>,
}

impl Write for PacedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pace.note(bytes.len());
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl StoreWriter for PacedWriter {
    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_beyond_the_burst_owe_a_pause() {
        let pace = Pace::new(1000);
        let at = Duration::from_secs;
        assert_eq!(pace.pause_of(250, at(5)), Duration::ZERO);
        assert_eq!(pace.pause_of(500, at(5)), Duration::from_millis(500));
        assert_eq!(pace.pause_of(100, at(9)), Duration::ZERO, "what was not written is not saved up");
        assert_eq!(pace.pause_of(1150, at(9)), at(1));
    }
}
