//! The greatest use of memory of a query, as its operators reserve it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// A pool that remembers the most that was reserved at a time.
#[derive(Debug)]
pub(super) struct MeasuredPool<P> {
    inner: P,
    most: Arc<AtomicUsize>,
}

impl<P: MemoryPool> MeasuredPool<P> {
    pub fn new(inner: P) -> (MeasuredPool<P>, Arc<AtomicUsize>) {
        let most = Arc::new(AtomicUsize::new(0));
        (MeasuredPool { inner, most: most.clone() }, most)
    }

    fn note(&self) {
        self.most.fetch_max(self.inner.reserved(), Ordering::Relaxed);
    }
}

impl<P: MemoryPool> fmt::Display for MeasuredPool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

impl<P: MemoryPool> MemoryPool for MeasuredPool<P> {
    fn name(&self) -> &str {
        "measured"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.note();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.inner.try_grow(reservation, additional)?;
        self.note();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}
