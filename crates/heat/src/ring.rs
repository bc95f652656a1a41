//! Rings of periods, from seconds to hours.
//!
//! An operation is counted in the open second only. A completed second is folded into the open minute, a
//! minute into the open ten minutes, and so on, so that counting costs the same however many rings there are.
//! Rows exist only for periods with operations; a ring never holds more than its length.
use std::collections::VecDeque;

use super::row::{Counts, OpenRow, Row};

/// Length of a period in seconds, and how many periods a ring reaches back.
pub(super) const RINGS: [(u32, u32); 4] = [(1, 600), (60, 360), (600, 576), (3600, 672)];

const _: () = {
    let mut at = 1;
    while at < RINGS.len() {
        let ((finer, slots), (coarser, _)) = (RINGS[at - 1], RINGS[at]);
        assert!(coarser.is_multiple_of(finer), "a period of one ring is whole periods of the ring before");
        assert!(finer * slots >= coarser, "a ring reaches at least as far as one period of the next");
        at += 1;
    }
};

#[derive(Debug, Clone)]
pub(super) struct Rings {
    rings: [Ring; RINGS.len()],
}

/// Where a view of the rings ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Now,
    LastSecond,
}

#[derive(Debug, Clone)]
pub(super) struct Ring {
    pub period_seconds: u32,
    slots: u32,
    open: Option<OpenRow>,
    /// Oldest first.
    closed: VecDeque<Row>,
}

impl Default for Rings {
    fn default() -> Self {
        let ring =
            |(period_seconds, slots)| Ring { period_seconds, slots, open: None, closed: VecDeque::new() };
        Rings { rings: RINGS.map(ring) }
    }
}

impl Rings {
    /// A second, not before the last one asked for.
    pub fn at(&mut self, second: u32) -> &mut OpenRow {
        debug_assert!(self.rings[0].open.as_ref().is_none_or(|row| row.period <= second), "time goes on");
        if self.rings[0].open.as_ref().is_none_or(|row| row.period != second) {
            self.close_second();
        }
        self.rings[0].open.get_or_insert_with(|| OpenRow::new(second))
    }

    fn close_second(&mut self) {
        let Some(mut row) = self.rings[0].open.take() else { return };
        row.counts.busiest_second_centi = row.counts.total_centi();
        let mut folded = Some(row);
        let mut rings = self.rings.iter_mut().peekable();
        while let (Some(row), Some(ring)) = (folded.take(), rings.next()) {
            ring.push(&row);
            // The next ring adds the row to its open period; only a completed period is passed on.
            let Some(next) = rings.peek_mut() else { break };
            let begin = u64::from(row.period) * u64::from(ring.period_seconds);
            let period = (begin / u64::from(next.period_seconds)) as u32;
            folded = next.open.take_if(|open| open.period != period);
            next.open.get_or_insert_with(|| OpenRow::new(period)).add(&row);
        }
    }

    /// The rings for a reader at one point in time: nothing is open in the finer ones that the coarser do not show.
    pub fn view(&self, second: u32) -> [RingView<'_>; RINGS.len()] {
        self.view_of(second, Until::Now)
    }

    /// The rings without the second that is still counted, which has no length yet: for rates.
    pub fn whole(&self, second: u32) -> [RingView<'_>; RINGS.len()] {
        self.view_of(second, Until::LastSecond)
    }

    fn view_of(&self, second: u32, until: Until) -> [RingView<'_>; RINGS.len()] {
        let mut finer: Vec<OpenRow> = vec![];
        std::array::from_fn(|index| {
            let ring = &self.rings[index];
            let period_of = |row: &OpenRow, seconds: u32| {
                (u64::from(row.period) * u64::from(seconds) / u64::from(ring.period_seconds)) as u32
            };
            let mut open: Vec<OpenRow> = ring.open.iter().cloned().collect();
            if index == 0 {
                open.retain(|row| until == Until::Now || row.period < second);
                for row in &mut open {
                    row.counts.busiest_second_centi = row.counts.total_centi();
                }
            }
            for row in &finer {
                let period = period_of(row, RINGS[index - 1].0);
                if open.last().is_none_or(|last| last.period != period) {
                    open.push(OpenRow::new(period));
                }
                open.last_mut().expect("pushed above").add(row);
            }
            finer.clone_from(&open);
            let current = second / ring.period_seconds;
            RingView {
                period_seconds: ring.period_seconds,
                reach_seconds: ring.period_seconds * ring.slots,
                first: match until {
                    Until::Now => current.saturating_sub(ring.slots - 1),
                    // All slots are before the second that is left out.
                    Until::LastSecond => current.saturating_sub(ring.slots),
                },
                closed: &ring.closed,
                open,
            }
        })
    }

    /// Drops the closed periods of the finest ring that has some; false if none has. Coarser rings have them, too.
    pub fn shed(&mut self) -> bool {
        let finest = self.finest();
        finest.map(|finest| self.rings[finest].closed = VecDeque::new()).is_some()
    }

    /// The place of the finest ring with closed periods.
    pub fn finest(&self) -> Option<usize> {
        self.rings.iter().position(|ring| ring.closed.capacity() > 0)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.closed.capacity() * size_of::<Row>()).sum()
    }
}

impl Ring {
    fn push(&mut self, row: &OpenRow) {
        let is_later = self.closed.back().is_none_or(|last| last.period < row.period);
        debug_assert!(is_later, "a ring's periods ascend, and each is closed once");
        let first = row.period.saturating_sub(self.slots - 1);
        while self.closed.front().is_some_and(|oldest| oldest.period < first) {
            self.closed.pop_front();
        }
        if self.closed.is_empty() {
            // After a long silence.
            self.closed.shrink_to(self.slots as usize / 8);
        }
        if self.closed.len() == self.closed.capacity() {
            // By eighths and not by doubling: the whole ring is never larger than its length.
            let room = self.slots as usize - self.closed.len();
            self.closed.reserve_exact(room.min(self.slots as usize / 8));
        }
        self.closed.push_back(row.pack());
        debug_assert!(self.closed.len() <= self.slots as usize, "a ring holds no more than its periods");
    }
}

/// One ring at one point in time, oldest period first.
#[derive(Debug)]
pub(super) struct RingView<'a> {
    pub period_seconds: u32,
    /// How far back the ring goes.
    pub reach_seconds: u32,
    /// The oldest period that it still shows.
    first: u32,
    closed: &'a VecDeque<Row>,
    open: Vec<OpenRow>,
}

impl RingView<'_> {
    /// The second in which its oldest period begins.
    pub fn start(&self) -> u32 {
        self.first.saturating_mul(self.period_seconds)
    }

    /// Period, counts and buckets of the periods that end after a given second.
    pub fn since(&self, start: u32) -> impl Iterator<Item = (u32, &Counts, [u64; super::BUCKETS])> {
        let first = (start / self.period_seconds).max(self.first);
        let closed = self.closed.iter().map(|row| (row.period, &row.counts, row.buckets_centi()));
        let open = self.open.iter().map(|row| (row.period, &row.counts, row.all_buckets_centi()));
        closed.chain(open).filter(move |(period, ..)| *period >= first)
    }
}
