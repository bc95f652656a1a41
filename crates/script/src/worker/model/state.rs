//! The state behind the objects that scripts see.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use rquickjs::{Function, Object, Persistent, Promise, Value};

use super::console::Log;
use super::message::{Access, Body};
use crate::protocol::OrderedRole;
use crate::worker::calls::Calls;

/// The state behind the objects.
pub(in crate::worker) struct Model {
    pub(super) calls: RefCell<Option<Calls>>,
    /// The callbacks of accepted calls, in order.
    pub(super) callbacks: RefCell<VecDeque<Callback>>,
    /// Unsettled promises of asynchronous functions.
    pub(super) promises: RefCell<Vec<Persistent<Promise<'static>>>>,
    /// The reason of the script's abort.
    pub(super) aborted: RefCell<Option<Persistent<Value<'static>>>>,
    pub(super) has_aborted: Cell<bool>,
    pub(super) request: Rc<Body>,
    pub(super) response: Rc<Body>,
    pub(super) quotas: RefCell<Quotas>,
    pub(super) log: Rc<RefCell<Log>>,
    pub(super) links: RefCell<Links>,
    pub(super) part: Cell<Part>,
    /// The operation of a trigger.
    pub(super) operation: RefCell<String>,
    /// Made when a run first asks for it.
    pub(super) extension: RefCell<Slot>,
    // The fields below belong to the engine, and stay for as long as it does.
    pub(super) collection: RefCell<Slot>,
    pub(super) faces: RefCell<Vec<Face>>,
    pub(super) needed: RefCell<Option<Needed>>,
    /// The engine's own `Function.prototype.toString`, which scripts may replace.
    pub(super) print: RefCell<Option<Persistent<Function<'static>>>>,
}

pub(super) type Slot = Option<Persistent<Object<'static>>>;

/// Links of the collection.
#[derive(Default)]
pub(super) struct Links {
    /// `dbs/{rid}/colls/{rid}/`.
    pub(super) own: String,
    /// `dbs/{name}/colls/{name}`.
    pub(super) alt: String,
}

/// Texts of the container's storage: its use and its limit.
#[derive(Default)]
pub(super) struct Quotas {
    pub(super) usage: String,
    pub(super) max: String,
}

pub(super) type QuotaText = fn(&Quotas) -> &String;

/// The role that a script runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Procedure,
    PreTrigger,
    PostTrigger,
}

/// The objects that scripts of one part see.
#[derive(Default)]
pub(super) struct Face {
    pub(super) context: Slot,
    pub(super) shorthand: Slot,
    pub(super) request: Slot,
    pub(super) response: Slot,
}

pub(super) struct Callback {
    pub(super) function: Option<Persistent<Function<'static>>>,
    pub(super) has_resource: bool,
}

/// The functions of the model that the extension needs: its own copies, since a script may have replaced
/// those of its objects.
pub(super) struct Needed {
    pub(super) query: Persistent<Function<'static>>,
    pub(super) link: Persistent<Function<'static>>,
    pub(super) append: Persistent<Function<'static>>,
    pub(super) fail: Persistent<Function<'static>>,
}

impl Part {
    /// In the order of [`Model::faces`].
    pub(super) const ALL: [Part; 3] = [Part::Procedure, Part::PreTrigger, Part::PostTrigger];

    pub(super) fn of(role: &OrderedRole) -> Part {
        match role {
            OrderedRole::Procedure { .. } => Part::Procedure,
            OrderedRole::PreTrigger { .. } => Part::PreTrigger,
            OrderedRole::PostTrigger { .. } => Part::PostTrigger,
        }
    }

    pub(super) fn request(self) -> Option<Access> {
        match self {
            Part::Procedure => None,
            Part::PreTrigger => Some(Access::Write),
            Part::PostTrigger => Some(Access::Read),
        }
    }

    pub(super) fn has_response(self) -> bool {
        self != Part::PreTrigger
    }
}
