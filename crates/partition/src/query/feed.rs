//! Items on their way to the executor, with the place where the query continues behind each.
//!
//! Where a query calls user-defined functions, items wait for one another, so that calls are made
//! for many at once: up to as many as may still be returned, or as were looked at before. Places of
//! items looked at between them wait with them.

use std::time::Duration;

use shardlake_document::{Envelope, ItemView, RawDocument};
use shardlake_model::Result;
use shardlake_sql::{Execution, Flow, Tested};
use shardlake_stdx::Clock;

use super::reader::{Ended, Last, Reader};
use super::request::TimeTest;
use super::work::QueryStatistics;

/// Bodies that wait at a time.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// The executor and the last key that it is done with.
pub(super) struct Feed<'q> {
    pub execution: Execution,
    is_interrupted: TimeTest<'q>,
    /// The last key dealt with, if no item waits; else the last one looked at behind the waiting
    /// items.
    pub last: Option<Last>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    seen: usize,
    clock: Option<&'q Clock>,
    /// The time for pushing items, where it is measured.
    pub evaluation: Duration,
}

/// An item whose bytes are kept, and the state of the page if it ends with this item.
struct Waiting {
    body: Vec<u8>,
    envelope: Envelope,
    filtered: bool,
    /// The place behind the items looked at between the item before and this one.
    last_before: Option<Last>,
    last: Last,
    before: QueryStatistics,
    after: QueryStatistics,
}

impl<'q> Feed<'q> {
    pub fn new(execution: Execution, is_interrupted: TimeTest<'q>, clock: Option<&'q Clock>) -> Feed<'q> {
        Feed {
            execution,
            is_interrupted,
            last: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            seen: 0,
            clock,
            evaluation: Duration::ZERO,
        }
    }

    /// The properties that [`Execution::test`] needs, where no item waits for another and
    /// evaluation is not timed.
    pub fn tested_properties(&self) -> Option<&[Box<str>]> {
        if self.clock.is_some() || self.gathers() { None } else { self.execution.tested_properties() }
    }

    /// Deals with an item that the filter leaves out.
    #[inline]
    pub fn leave_out(&mut self, body_bytes: usize, tested: Tested) -> Result<Option<Ended>> {
        Ok(match self.execution.push_left_out(body_bytes, tested, self.is_interrupted)? {
            Flow::More => None,
            Flow::PageFull => Some(Ended::Cut),
            Flow::Complete => Some(Ended::Complete),
        })
    }

    fn push(&mut self, item: &ItemView<'_>, filtered: bool) -> Result<Flow> {
        let Some(clock) = self.clock else {
            return Ok(self.execution.push(item, filtered, self.is_interrupted)?);
        };
        let started = clock.elapsed();
        let pushed = self.execution.push(item, filtered, self.is_interrupted);
        self.evaluation += clock.elapsed().saturating_sub(started);
        Ok(pushed?)
    }

    /// Offers an item; `last` is where the query continues once the item is dealt with, `before` the
    /// statistics from before the item was read: an item that has no room is read, and counted,
    /// again. `Some` ends the feeding.
    pub fn offer(
        &mut self,
        reader: &mut Reader<'_>,
        item: &ItemView<'_>,
        filtered: bool,
        before: QueryStatistics,
        last: impl FnOnce() -> Last,
    ) -> Result<Option<Ended>> {
        let together = self.execution.items_to_gather(self.seen);
        if together > 0 {
            let body = item.body.as_bytes().to_vec();
            self.waiting_bytes += body.len();
            let (envelope, last_before) = (*item.envelope, self.last.take());
            let (last, after) = (last(), reader.statistics);
            self.waiting.push(Waiting { body, envelope, filtered, last_before, last, before, after });
            let is_enough = self.waiting.len() >= together || self.waiting_bytes >= WAITING_BYTES_MAX;
            return if is_enough { self.flush(reader) } else { Ok(None) };
        }
        let pushed = self.push(item, filtered)?;
        let ended = end_of(pushed, reader, before);
        if ended.is_none() {
            self.last = Some(last());
        }
        Ok(ended)
    }

    /// Whether items may wait for one another.
    pub fn gathers(&self) -> bool {
        self.execution.items_to_gather(self.seen) > 0
    }

    /// [`Feed::offer`] of an item that waits for no other, and perhaps was tested. Where this does not end the feeding, the caller sets
    /// [`Feed::last`].
    pub fn offer_at_once(
        &mut self,
        reader: &mut Reader<'_>,
        item: &ItemView<'_>,
        tested: Option<Tested>,
        before: QueryStatistics,
    ) -> Result<Option<Ended>> {
        let pushed = match tested {
            Some(tested) => self.execution.push_tested(item, tested, self.is_interrupted)?,
            None => self.push(item, false)?,
        };
        Ok(end_of(pushed, reader, before))
    }

    /// Between two reads: ends the page if its time is spent. `examined` is the last key looked at.
    pub fn pause(&mut self, reader: &mut Reader<'_>, examined: Option<Last>) -> Result<Option<Ended>> {
        reader.check_interrupted()?;
        reader.request.work.note(&reader.statistics);
        if !self.execution.streams() || !(reader.request.is_page_time_spent)() {
            return Ok(None);
        }
        if let Some(ended) = self.flush(reader)? {
            return Ok(Some(ended));
        }
        self.last = examined.or(self.last.take());
        Ok(Some(Ended::Cut))
    }

    /// Deals with the items that wait.
    pub fn flush(&mut self, reader: &mut Reader<'_>) -> Result<Option<Ended>> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(None);
        }
        self.waiting_bytes = 0;
        self.seen += waiting.len();
        let looked_at = self.last.take();
        let items: Vec<(ItemView<'_>, bool)> =
            waiting.iter().map(|waiting| (waiting.view(reader), waiting.filtered)).collect();
        self.execution.gather_calls(&items, self.is_interrupted);
        drop(items);
        for mut waiting in waiting {
            self.last = waiting.last_before.take().or(self.last.take());
            match self.push(&waiting.view(reader), waiting.filtered)? {
                Flow::More => self.last = Some(waiting.last),
                Flow::PageFull => {
                    reader.statistics = waiting.before;
                    return Ok(Some(Ended::Cut));
                }
                Flow::Complete => {
                    reader.statistics = waiting.after;
                    return Ok(Some(Ended::Complete));
                }
            }
            if self.execution.streams() && (reader.request.is_page_time_spent)() {
                reader.statistics = waiting.after;
                return Ok(Some(Ended::Cut));
            }
        }
        reader.check_interrupted()?;
        self.last = looked_at.or(self.last.take());
        Ok(None)
    }
}

/// Whether an item ends the feeding. `before` are the statistics from before the item was read.
fn end_of(pushed: Flow, reader: &mut Reader<'_>, before: QueryStatistics) -> Option<Ended> {
    match pushed {
        Flow::More => None,
        Flow::PageFull => {
            reader.statistics = before;
            Some(Ended::Cut)
        }
        Flow::Complete => Some(Ended::Complete),
    }
}

impl Waiting {
    fn view<'w>(&'w self, reader: &Reader<'w>) -> ItemView<'w> {
        ItemView {
            body: RawDocument::assume_valid(&self.body),
            envelope: &self.envelope,
            container: reader.shape.rid,
            items_link: &reader.shape.items_link,
        }
    }
}
