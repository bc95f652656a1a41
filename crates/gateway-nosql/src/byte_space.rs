//! Memory budget of a bounded number of bytes: requests take bytes, wait for them in order, and give them back.
//!
//! Pages may take three quarters of the budget, a connection's first page an eighth more, and single items all of it: clients that
//! leave many pages unread leave memory for one page of another client, and for items. Each kind has its own queue; only the first
//! request in it is woken when bytes are given back. Taking without waiting is one atomic operation, giving back is one and a look
//! at the queues.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Page,
    /// A page for a connection that has none.
    FirstPage,
    Item,
}

#[derive(Debug)]
pub(crate) struct ByteSpace {
    bytes_max: u64,
    held: AtomicU64,
    pages: Queue,
    first_pages: Queue,
    items: Queue,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: AtomicUsize,
    /// Held by the first.
    first: Mutex<()>,
    freed: Notify,
}

impl ByteSpace {
    pub fn new(bytes_max: u64) -> ByteSpace {
        ByteSpace {
            bytes_max,
            held: AtomicU64::new(0),
            pages: Queue::default(),
            first_pages: Queue::default(),
            items: Queue::default(),
        }
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::SeqCst)
    }

    /// Whether pages have to wait, or soon will.
    pub fn is_short(&self) -> bool {
        self.held() > self.mark(Lane::Page) || self.is_waited_for()
    }

    fn is_waited_for(&self) -> bool {
        self.queues().iter().any(|queue| queue.waiting.load(Ordering::SeqCst) > 0)
    }

    fn queues(&self) -> [&Queue; 3] {
        [&self.pages, &self.first_pages, &self.items]
    }

    fn mark(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Page => self.bytes_max / 8 * 6,
            Lane::FirstPage => self.bytes_max / 8 * 7,
            Lane::Item => self.bytes_max,
        }
    }

    fn queue(&self, lane: Lane) -> &Queue {
        match lane {
            Lane::Page => &self.pages,
            Lane::FirstPage => &self.first_pages,
            Lane::Item => &self.items,
        }
    }

    /// Takes bytes if they are free and no request waits for them.
    pub fn try_take(&self, bytes: u64, lane: Lane) -> bool {
        self.queue(lane).waiting.load(Ordering::SeqCst) == 0 && self.try_take_first(bytes, lane)
    }

    /// Takes bytes if they are free, before all waiting requests. More bytes than the space has are granted when nothing else is held.
    pub fn try_take_first(&self, bytes: u64, lane: Lane) -> bool {
        let mark = self.mark(lane);
        let taken = |held: u64| (held == 0 || held + bytes <= mark).then_some(held + bytes);
        self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken).is_ok()
    }

    /// Takes bytes when they are free and all earlier requests have theirs. Dropping the future leaves the queue.
    pub async fn take(&self, bytes: u64, lane: Lane) {
        if self.try_take(bytes, lane) {
            return;
        }
        let queue = self.queue(lane);
        // Counted before the first look: a request that gives bytes back after that look sees a waiting one.
        let _waiting = Waiting::enter(&queue.waiting);
        let _first = queue.first.lock().await;
        while !self.try_take_first(bytes, lane) {
            queue.freed.notified().await;
        }
    }

    /// Counts bytes that are in use already, even beyond the maximum.
    pub fn add(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    pub fn give_back(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::SeqCst);
        debug_assert!(before >= bytes, "more is given back than was taken");
        for queue in self.queues() {
            if queue.waiting.load(Ordering::SeqCst) > 0 {
                queue.freed.notify_one();
            }
        }
    }
}

/// One more that waits, until it is dropped.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    pub fn enter(count: &'a AtomicUsize) -> Waiting<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn bytes_are_handed_out_in_the_order_of_asking_and_within_the_bound() {
        let space = ByteSpace::new(100);
        space.take(60, Lane::Page).await;
        let (mut second, mut third) = (pin!(space.take(60, Lane::Page)), pin!(space.take(10, Lane::Page)));
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending(), "the second comes first, though the third has room");
        assert!(!space.try_take(1, Lane::Page));
        assert!(space.try_take_first(10, Lane::Page), "one whose turn it is does not wait");
        space.give_back(70);
        assert!(poll!(third.as_mut()).is_pending());
        assert!(poll!(second.as_mut()).is_ready());
        assert!(poll!(third.as_mut()).is_ready());
        assert_eq!(space.held(), 70);
        space.give_back(70);
        assert!(!space.is_short());
    }

    #[tokio::test]
    async fn one_that_leaves_the_queue_does_not_hold_up_those_behind_it() {
        let space = ByteSpace::new(100);
        space.take(60, Lane::Page).await;
        let mut second = Box::pin(space.take(70, Lane::Page));
        let mut third = pin!(space.take(20, Lane::Page));
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        space.give_back(10);
        // The second was notified, and is dropped without having looked.
        drop(second);
        assert!(poll!(third.as_mut()).is_ready());
        assert_eq!(space.held(), 70);
    }

    #[tokio::test]
    async fn pages_leave_room_for_items() {
        let space = ByteSpace::new(80);
        space.take(60, Lane::Page).await;
        let mut page = pin!(space.take(1, Lane::Page));
        assert!(poll!(page.as_mut()).is_pending());
        assert!(space.try_take(20, Lane::Item));
        let mut item = pin!(space.take(1, Lane::Item));
        assert!(poll!(item.as_mut()).is_pending());
        space.give_back(1);
        assert!(poll!(page.as_mut()).is_pending());
        assert!(poll!(item.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn many_pages_leave_room_for_the_first_of_a_connection() {
        let space = ByteSpace::new(80);
        space.take(60, Lane::Page).await;
        let mut page = pin!(space.take(10, Lane::Page));
        assert!(poll!(page.as_mut()).is_pending());
        assert!(space.try_take(10, Lane::FirstPage));
        let mut first = pin!(space.take(10, Lane::FirstPage));
        assert!(poll!(first.as_mut()).is_pending());
        space.give_back(10);
        assert!(poll!(page.as_mut()).is_pending());
        assert!(poll!(first.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn what_is_larger_than_the_space_has_room_alone() {
        let space = ByteSpace::new(100);
        space.take(500, Lane::Page).await;
        let mut next = pin!(space.take(1, Lane::Item));
        assert!(poll!(next.as_mut()).is_pending());
        space.give_back(500);
        assert!(poll!(next.as_mut()).is_ready());
    }
}
