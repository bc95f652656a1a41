//! The reads that a function waits for: collected, sent in batches, and answered in order.
//!
//! A read is sent when the function has nothing else to do, so reads that are made together travel together.
//! Its promise is settled as soon as its answer arrives. The next batch is sent when every answer to the
//! last one was read.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use rquickjs::{Ctx, Function, Persistent, Result, Value};

use super::writes::{ItemName, Patches, Refusal};
use crate::protocol::{BATCH_BYTES_MAX, BATCH_CALLS_MAX, BATCH_PAGES_MAX, FunctionAsk, Order, Report};
use crate::store::StoreFailure;
use crate::worker::budget::Budget;
use crate::worker::channel::Channel;

/// Reads and queries of one run.
const READS_MAX: usize = 10_000;
/// Bytes of reads and queries that wait to be sent.
const QUEUE_BYTES_MAX: usize = 8 << 20;

pub(super) struct Reads {
    channel: Channel,
    budget: Rc<Budget>,
    queue: VecDeque<(FunctionAsk, Waiting)>,
    queue_bytes: usize,
    /// Sent and not answered.
    sent: VecDeque<Waiting>,
    made: usize,
    /// The stream is broken: the worker ends.
    broken: Option<io::Error>,
}

/// A promise of the host.
pub(super) struct Waiting {
    pub(super) wanted: Wanted,
    pub(super) resolve: Persistent<Function<'static>>,
    pub(super) reject: Persistent<Function<'static>>,
}

pub(super) enum Wanted {
    Item(ItemName, Patches),
    Rows {
        /// A maximum that the function gave; without one a query with too many rows is refused.
        rows_max: Option<u32>,
    },
}

pub(super) type Answer = std::result::Result<Option<String>, StoreFailure>;

impl Reads {
    pub(super) fn new(channel: Channel, budget: Rc<Budget>) -> Reads {
        Reads {
            channel,
            budget,
            queue: VecDeque::new(),
            queue_bytes: 0,
            sent: VecDeque::new(),
            made: 0,
            broken: None,
        }
    }

    /// Counts a read; refuses one too many.
    pub(super) fn count(&mut self) -> std::result::Result<(), Refusal> {
        self.made += 1;
        if self.made <= READS_MAX {
            return Ok(());
        }
        Err(Refusal::too_large(format!(
            "a run of a function reads at most {READS_MAX} times: give it fewer changes in one batch, or query \
             several items at once"
        )))
    }

    pub(super) fn check_room(&self, ask: &FunctionAsk) -> std::result::Result<(), Refusal> {
        if self.queue_bytes + size(ask) <= QUEUE_BYTES_MAX {
            return Ok(());
        }
        let megabytes = QUEUE_BYTES_MAX >> 20;
        Err(Refusal::too_large(format!(
            "more than {megabytes} MB of queries wait to be sent: await some of them first"
        )))
    }

    /// Takes a read; its promise is settled with the answer.
    pub(super) fn ask(&mut self, ask: FunctionAsk, waiting: Waiting) {
        self.queue_bytes += size(&ask);
        self.queue.push_back((ask, waiting));
    }

    /// The next answer; `None` when the function waits for none.
    pub(super) fn next_answer(&mut self) -> Option<(Waiting, Answer)> {
        if self.sent.is_empty() {
            self.send();
        }
        if self.sent.is_empty() {
            return None;
        }
        let answer = self.receive()?;
        self.sent.pop_front().map(|waiting| (waiting, answer))
    }

    /// Reads the remaining answers, so that the next message is the next order; returns the channel.
    pub(super) fn finish(mut self) -> io::Result<Channel> {
        while self.sent.pop_front().is_some() {
            self.receive();
        }
        self.broken.map_or(Ok(self.channel), Err)
    }

    fn send(&mut self) {
        let (mut batch, mut bytes, mut pages) = (Vec::new(), 0, 0);
        while let Some((ask, _)) = self.queue.front() {
            pages += usize::from(matches!(ask, FunctionAsk::Query(_)));
            bytes += size(ask);
            let is_full =
                batch.len() >= BATCH_CALLS_MAX || pages > BATCH_PAGES_MAX || bytes > BATCH_BYTES_MAX;
            if is_full && !batch.is_empty() {
                break;
            }
            let (ask, waiting) = self.queue.pop_front().expect("it is the front");
            assert!(self.queue_bytes >= size(&ask), "the queue knows its size");
            self.queue_bytes -= size(&ask);
            batch.push(ask);
            self.sent.push_back(waiting);
        }
        if batch.is_empty() || self.broken.is_some() {
            return;
        }
        assert!(self.sent.len() == batch.len(), "every answer to the last batch was read");
        let batch = Report::Reads(batch);
        let channel = &mut self.channel;
        if let Err(error) = self.budget.pause(|| channel.send(&batch)) {
            self.fail(error);
        }
    }

    fn receive(&mut self) -> Option<Answer> {
        if self.broken.is_some() {
            return None;
        }
        let channel = &mut self.channel;
        match self.budget.pause(|| channel.receive()) {
            Ok(Some(Order::Answer(answer))) => return Some(answer),
            Ok(_) => self.fail(io::ErrorKind::InvalidData.into()),
            Err(error) => self.fail(error),
        }
        None
    }

    fn fail(&mut self, error: io::Error) {
        self.broken.get_or_insert(error);
    }
}

impl Waiting {
    pub(super) fn resolve<'js>(self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<()> {
        self.resolve.restore(ctx)?.call((value,))
    }

    pub(super) fn reject<'js>(self, ctx: &Ctx<'js>, reason: Value<'js>) -> Result<()> {
        self.reject.restore(ctx)?.call((reason,))
    }
}

fn size(ask: &FunctionAsk) -> usize {
    match ask {
        FunctionAsk::Read(read) => read.container.len() + read.id.len() + read.partition_key.len(),
        FunctionAsk::Query(query) => query.container.len() + query.text.len() + query.parameters.len(),
    }
}
