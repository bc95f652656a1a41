//! The state behind the objects that a function sees.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use rquickjs::{Ctx, Object, Persistent, Promise, Value};

use super::containers::Container;
use super::lines::Lines;
use super::reads::Reads;
use super::writes::{Refusal, Writes};
use crate::worker::model::throw;

#[derive(Default)]
pub(super) struct Model {
    pub(super) containers: RefCell<Vec<Container>>,
    pub(super) reads: RefCell<Option<Reads>>,
    pub(super) writes: RefCell<Writes>,
    /// The changes of the run, in their order, and their places by their addresses.
    pub(super) changes: RefCell<Vec<Persistent<Value<'static>>>>,
    pub(super) places: RefCell<HashMap<u64, u32>>,
    pub(super) letters: RefCell<BTreeMap<u32, String>>,
    pub(super) log: Rc<RefCell<Lines>>,
    /// The promise of the function, if it returned one.
    pub(super) promise: RefCell<Option<Persistent<Promise<'static>>>>,
    // The fields below belong to the engine, and stay for as long as it does.
    pub(super) methods: RefCell<Option<Persistent<Object<'static>>>>,
}

pub(super) fn refused(ctx: &Ctx<'_>, refusal: &Refusal) -> rquickjs::Error {
    throw(ctx, refusal.number, &refusal.message)
}
