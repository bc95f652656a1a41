//! What a worker and the pool say to each other.
//!
//! A new worker says first how the operating system confines it. Then the pool sends an [`Order`] and reads [`Report`]s until one ends the order. A running script sends its calls of the
//! data as one [`Report::Store`] per batch; each is answered by one reply frame, in order, and a worker sends no
//! further batch before it has read all replies to the last: so neither side ever writes while the other one does.
//!
//! A run that may foresee answers takes writes whose callbacks look at nothing but errors as done, and tells of them later in one
//! [`Report::Foreseen`], at the latest before the report that ends the order and in the same write as that. Nothing answers it: where a
//! write fails after all, the pool gives the run up, and it is made again without foresight.
//!
//! Both sides are the same program; there is no version. The pool trusts nothing that a worker says beyond its length.

mod codec;
mod frame;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::confined::Confined;
use crate::settings::ScriptLimits;
use crate::store::{StoreReply, StoreRequest};

pub(crate) use codec::{Encoder, Malformed, decode_order, decode_report};
pub(crate) use frame::{HEADER_BYTES, frame_length, read_frame, write_frame};

/// Calls of the data that go out together at most.
pub(crate) const BATCH_CALLS_MAX: usize = 64;
/// Calls in a batch that answer with a page at most: their answers are large.
pub(crate) const BATCH_PAGES_MAX: usize = 4;
/// Calls of a run whose answers are foreseen before they are told.
pub(crate) const FORESEEN_CALLS_MAX: usize = 256;
/// Bytes of a batch after which it goes out.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// How long calls of one function go on without an answer, if more than one row is to be answered.
pub(crate) const PORTION_TIME: Duration = Duration::from_millis(50);

/// Sub-statuses of a refused query after which clients fetch definitions, addresses or a plan, and ask again.
const ACTED_ON_BY_CLIENTS: [u16; 3] = [1001, 1004, 1024];

/// What the pool asks of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order<'r> {
    Check {
        source: String,
    },
    Run(RunOrder),
    /// Prepare functions for the calls that follow, until [`Order::Release`].
    Functions {
        definitions: Vec<(String, String)>,
        limits: ScriptLimits,
    },
    /// `function` counts the definitions, `time` is what its calls may take.
    Call {
        function: u32,
        time: Duration,
        rows: Cow<'r, [Vec<Option<String>>]>,
    },
    Release,
    /// The answer to one request of a batch.
    Reply(StoreReply),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunOrder {
    pub name: String,
    pub source: String,
    pub role: OrderedRole,
    pub self_link: String,
    pub alt_link: String,
    /// The use of the container's storage, and its limit.
    pub usage: String,
    pub quota: String,
    pub logs: bool,
    /// Whether answers may be foreseen.
    pub foresees: bool,
    pub limits: ScriptLimits,
}

/// [`crate::Role`] with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OrderedRole {
    Procedure { arguments: String },
    PreTrigger { operation: String, request_body: Option<String> },
    PostTrigger { operation: String, request_body: Option<String>, response_body: Option<String> },
}

/// What a worker tells the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Store(Vec<StoreRequest>),
    /// Calls that the script believes to have succeeded: not answered.
    Foreseen(Vec<StoreRequest>),
    /// The end of a check, or of preparing functions.
    Ready,
    /// Of the first rows of a call, one at least: the worker answers what is ready after [`PORTION_TIME`].
    Results {
        values: Vec<Option<String>>,
        processor: Duration,
    },
    Completed {
        response_body: Option<String>,
        request_body: Option<String>,
        log: String,
        used: Used,
    },
    Failed {
        failure: Failure,
        used: Used,
    },
    /// The first of a new worker: what it is confined by.
    Confined(Confined),
    /// Before [`Report::Failed`]: what the script had printed by then, if that was to be kept.
    Log(String),
}

/// What an order took of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub processor: Duration,
    /// The worker is not to be used again.
    pub is_spent: bool,
}

/// Why a script did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

impl Failure {
    /// Of a function in a query: a number that clients of queries act on is left out.
    pub fn of_query(mut self) -> Failure {
        if let FailureKind::Numbered(number) = self.kind
            && ACTED_ON_BY_CLIENTS.contains(&number)
        {
            self.kind = FailureKind::Script;
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FailureKind {
    /// It threw, or is no script.
    Script,
    /// It threw an error with this number, which clients are told.
    Numbered(u16),
    /// Past its time, steps or memory.
    Limit,
    /// Past the size of a response.
    Size,
    /// Not the script's fault.
    Worker,
}
