//! The notebook of concurrent clients.
//!
//! A request takes its number before the operation starts and an answer takes its number after it ended, both
//! from one atomic counter. So if one answer's number is below another request's, the first operation was
//! over before the second began, on whatever threads they ran. An operation that is dropped without an answer
//! (a timeout, a killed server, a cancelled task) is recorded as possibly done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::history::{Action, Reply};

/// One operation as a client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub client: u32,
    /// The logical partition that it addresses.
    pub logical: String,
    /// Item ids with the requested actions. More than one is a transaction; none is a look at the
    /// whole logical partition.
    pub actions: Vec<(String, Action)>,
    pub asked: u64,
    pub answered: u64,
    pub reply: Reply,
}

/// Clones write into the same notebook.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Notebook>);

#[derive(Debug, Default)]
struct Notebook {
    moments: AtomicU64,
    calls: Mutex<Vec<Call>>,
}

/// An operation that has begun.
#[derive(Debug)]
#[must_use = "without an answer the operation counts as one that may not have happened"]
pub struct Pending {
    recorder: Recorder,
    call: Option<Call>,
}

impl Recorder {
    /// Notes that an operation begins now.
    pub fn asks(&self, client: u32, logical: impl Into<String>, actions: Vec<(String, Action)>) -> Pending {
        let logical = logical.into();
        let call = Call {
            client,
            logical,
            actions,
            asked: self.moment(),
            answered: u64::MAX,
            reply: Reply::Unknown,
        };
        Pending { recorder: self.clone(), call: Some(call) }
    }

    /// The calls recorded so far.
    pub fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().expect("no holder panics").clone()
    }

    fn moment(&self) -> u64 {
        self.0.moments.fetch_add(1, Ordering::SeqCst)
    }
}

impl Pending {
    /// Records the end of the operation.
    pub fn answered(mut self, reply: Reply) {
        let mut call = self.call.take().expect("answered once");
        // The end of an operation with unknown outcome is unknown, too.
        if reply != Reply::Unknown {
            call.answered = self.recorder.moment();
        }
        call.reply = reply;
        self.write(call);
    }

    fn write(&self, call: Call) {
        self.recorder.0.calls.lock().expect("no holder panics").push(call);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.write(call);
        }
    }
}
