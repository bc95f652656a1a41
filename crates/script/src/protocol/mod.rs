//! The protocol between the pool and a worker.
//!
//! The first message of a new worker reports its confinement by the operating system. Then the pool sends an
//! [`Order`] and reads [`Report`]s until one ends the order. A running script sends its data calls as one
//! [`Report::Store`] per batch. Each call is answered by one reply frame, in order, and a worker sends no
//! further batch before it has read all replies to the last, so the two sides never write at the same time.
//!
//! A run that may foresee answers assumes that writes succeed if their callbacks look at nothing but errors.
//! It reports these writes later in one [`Report::Foreseen`], at the latest before the report that ends the
//! order and in the same write. This report has no answer: if a write fails after all, the pool abandons the
//! run and repeats it without foresight.
//!
//! A function over changes asks with [`Report::Reads`] in the same way, and each read is answered by one
//! [`Order::Answer`].
//!
//! Both sides are the same program, so the protocol has no version. The pool trusts only the length of a
//! worker's message.

mod changes;
mod codec;
mod frame;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::confined::Confined;
use crate::settings::ScriptLimits;
use crate::store::{StoreFailure, StoreReply, StoreRequest};

pub(crate) use changes::{ChangesDone, ChangesOrder, FunctionAsk, OrderedContainer};
pub(crate) use codec::{Encoder, Malformed, decode_order, decode_report};
pub(crate) use frame::{HEADER_BYTES, frame_length, read_frame, write_frame};

/// Limit on data calls in one batch.
pub(crate) const BATCH_CALLS_MAX: usize = 64;
/// Limit on calls in a batch whose answers are pages: such answers are large.
pub(crate) const BATCH_PAGES_MAX: usize = 4;
/// Foreseen calls of a run before they are reported.
pub(crate) const FORESEEN_CALLS_MAX: usize = 256;
/// Size of a batch at which it is sent.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// Time after which calls of one function are answered, if more than one row is to be answered.
pub(crate) const PORTION_TIME: Duration = Duration::from_millis(50);

/// Sub-statuses of a refused query after which clients fetch definitions, addresses or a plan, and ask again.
const ACTED_ON_BY_CLIENTS: [u16; 3] = [1001, 1004, 1024];

/// A request of the pool to a worker.
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
    /// `function` counts the definitions, `time` limits the calls.
    Call {
        function: u32,
        time: Duration,
        rows: Cow<'r, [Vec<Option<String>>]>,
    },
    Release,
    /// The answer to one request of a batch.
    Reply(StoreReply),
    /// A run of a function over changes.
    Changes(ChangesOrder),
    /// The answer to one read of a batch: an item, or rows.
    Answer(Result<Option<String>, StoreFailure>),
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

/// A message of a worker to the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Store(Vec<StoreRequest>),
    /// Calls that the script believes to have succeeded: not answered.
    Foreseen(Vec<StoreRequest>),
    /// The end of a check, or of preparing functions.
    Ready,
    /// Results of the first rows of a call, at least one: the worker sends the results that are ready after
    /// [`PORTION_TIME`].
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
    /// The first message of a new worker: its confinement.
    Confined(Confined),
    /// Before [`Report::Failed`]: the script's output so far, if it was to be kept.
    Log(String),
    /// Reads of a function over changes.
    Reads(Vec<FunctionAsk>),
    /// The end of a run over changes.
    Changes {
        ended: Result<ChangesDone, Failure>,
        log: Vec<String>,
        used: Used,
    },
}

/// The cost of an order for its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub processor: Duration,
    /// The worker must not be reused.
    pub is_spent: bool,
}

/// The failure of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

impl Failure {
    /// The failure of a function in a query: numbers that clients of queries act on are left out.
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
    /// It threw, or is not a script.
    Script,
    /// It threw an error with this number, which is returned to clients.
    Numbered(u16),
    /// Past its time, steps or memory.
    Limit,
    /// Past the size of a response.
    Size,
    /// Not the script's fault.
    Worker,
}
