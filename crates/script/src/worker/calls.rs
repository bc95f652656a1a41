//! The data calls of a running script: collected, sent in batches, and their answers kept in order.
//!
//! A call is accepted at once and answered after the function that made it has returned, so calls can wait
//! for each other. A batch is sent when it is full or when the script has nothing else to do, and only after
//! every answer to the previous batch was read.
//!
//! In a run that may foresee, a batch of writes whose callbacks can look at nothing but errors is not sent:
//! each write is answered as if it had succeeded, and the script continues. The batch is sent before the next
//! batch that needs answers, or with the report that ends the run. Until then only this worker has seen the
//! script's results.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use super::budget::Budget;
use super::channel::Channel;
use crate::protocol::{BATCH_BYTES_MAX, BATCH_CALLS_MAX, BATCH_PAGES_MAX, FORESEEN_CALLS_MAX, Order, Report};
use crate::store::{StoreReply, StoreRequest};

/// Limit on calls that wait for their callbacks; further ones are not accepted.
const WAITING_MAX: usize = 10_000;
/// Limit on the bytes of waiting answers.
const ANSWER_BYTES_MAX: usize = 32 << 20;

pub(super) struct Calls {
    /// `None` once the invocation has ended.
    channel: Option<Channel>,
    budget: Rc<Budget>,
    queue: Vec<StoreRequest>,
    queue_bytes: usize,
    queue_pages: usize,
    foresees: bool,
    /// Batches that were assumed to succeed and not sent.
    foreseen: Vec<StoreRequest>,
    foreseen_bytes: usize,
    /// The number of foreseen calls that the script has no answer to yet.
    unanswered: usize,
    /// The number of calls sent and not answered.
    outstanding: usize,
    answers: VecDeque<StoreReply>,
    answer_bytes: usize,
    accepts_more: bool,
    /// The stream is broken: the worker ends.
    broken: Option<io::Error>,
}

impl Calls {
    pub(super) fn new(channel: Channel, budget: Rc<Budget>, foresees: bool) -> Calls {
        Calls {
            channel: Some(channel),
            budget,
            queue: Vec::new(),
            queue_bytes: 0,
            queue_pages: 0,
            foresees,
            foreseen: Vec::new(),
            foreseen_bytes: 0,
            unanswered: 0,
            outstanding: 0,
            answers: VecDeque::new(),
            answer_bytes: 0,
            accepts_more: true,
            broken: None,
        }
    }

    /// Returns whether the call is accepted; accepted calls are answered in order.
    pub(super) fn submit(&mut self, request: StoreRequest) -> bool {
        let waiting = self.queue.len() + self.unanswered + self.outstanding + self.answers.len();
        // Time of the store does not count as the script's, but an invocation blocks others: past its time it
        // must end.
        if !self.accepts_more
            || self.budget.is_past_time()
            || waiting >= WAITING_MAX
            || self.answer_bytes > ANSWER_BYTES_MAX
        {
            return false;
        }
        self.queue_bytes += request.body.as_ref().map_or(0, String::len);
        self.queue_pages += usize::from(request.operation.answers_page());
        self.queue.push(request);
        if self.queue.len() >= BATCH_CALLS_MAX
            || self.queue_pages >= BATCH_PAGES_MAX
            || self.queue_bytes >= BATCH_BYTES_MAX
        {
            self.flush();
            // The answers decide whether more calls are accepted.
            self.collect();
        }
        true
    }

    /// The answer to the earliest unanswered call, if there is one.
    pub(super) fn next_answer(&mut self) -> Option<StoreReply> {
        let is_idle = self.answers.is_empty() && self.outstanding == 0;
        if self.unanswered > 0 || (is_idle && self.foresee()) {
            self.unanswered -= 1;
            return Some(StoreReply::foreseen());
        }
        if is_idle {
            self.flush();
        }
        if self.answers.is_empty() && self.outstanding > 0 {
            self.receive();
        }
        let answer = self.answers.pop_front()?;
        self.answer_bytes -= size(&answer);
        Some(answer)
    }

    /// Assumes that the next batch succeeds, if its answers can be foreseen.
    fn foresee(&mut self) -> bool {
        let calls = self.foreseen.len() + self.queue.len();
        let is_foreseen = self.foresees
            && self.broken.is_none()
            && !self.queue.is_empty()
            && calls <= FORESEEN_CALLS_MAX
            && self.foreseen_bytes + self.queue_bytes < BATCH_BYTES_MAX
            && self.queue.iter().all(StoreRequest::is_foreseeable);
        if is_foreseen {
            self.unanswered = self.queue.len();
            self.foreseen_bytes += self.queue_bytes;
            self.foreseen.append(&mut self.queue);
            (self.queue_bytes, self.queue_pages) = (0, 0);
        }
        is_foreseen
    }

    /// Calls from now on are refused: nothing will answer them.
    pub(super) fn accept_no_more(&mut self) {
        self.accepts_more = false;
    }

    /// Reads the remaining replies of the pool, so that the next message is the next order. No calls are
    /// possible afterwards.
    pub(super) fn finish(&mut self) -> io::Result<Channel> {
        self.collect();
        self.tell_foreseen();
        self.accepts_more = false;
        let channel = self.channel.take().ok_or(io::ErrorKind::NotConnected);
        self.broken.take().map_or_else(|| Ok(channel?), Err)
    }

    fn flush(&mut self) {
        self.collect();
        if self.queue.is_empty() || self.broken.is_some() {
            return;
        }
        self.tell_foreseen();
        self.outstanding = self.queue.len();
        let batch = Report::Store(std::mem::take(&mut self.queue));
        (self.queue_bytes, self.queue_pages) = (0, 0);
        let Some(channel) = &mut self.channel else { return };
        if let Err(error) = self.budget.pause(|| channel.send(&batch)) {
            self.fail(error);
        }
    }

    /// Reports the foreseen calls before the next message.
    fn tell_foreseen(&mut self) {
        let foreseen = std::mem::take(&mut self.foreseen);
        self.foreseen_bytes = 0;
        if let Some(channel) = self.channel.as_mut().filter(|_| !foreseen.is_empty()) {
            channel.put(&Report::Foreseen(foreseen));
        }
    }

    fn collect(&mut self) {
        while self.outstanding > 0 {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let Some(channel) = &mut self.channel else { return self.fail(io::ErrorKind::NotConnected.into()) };
        match self.budget.pause(|| channel.receive()) {
            Ok(Some(Order::Reply(reply))) => {
                self.outstanding -= 1;
                self.accepts_more &= reply.accepts_more;
                self.answer_bytes += size(&reply);
                self.answers.push_back(reply);
            }
            Ok(_) => self.fail(io::ErrorKind::InvalidData.into()),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.broken.get_or_insert(error);
        self.accepts_more = false;
        self.outstanding = 0;
    }
}

fn size(reply: &StoreReply) -> usize {
    match &reply.outcome {
        Ok(answer) => answer.body.as_ref().map_or(0, String::len),
        Err(failure) => failure.message.len(),
    }
}
