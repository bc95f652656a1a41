//! Rejected promises that no code handles, for orders that count them as exceptions.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rquickjs::{Ctx, Persistent, Result, Value};

use super::model::refuse;

/// Rejections without a handler at the same time; more are an exception, even if they are handled later.
const UNHANDLED_MAX: usize = 10_000;
const TOO_MANY: &str = "more than 10000 promises were rejected at the same time without a handler";

#[derive(Default)]
pub(super) struct Rejections {
    is_watching: Cell<bool>,
    /// By the promise's address, which no other promise has while this one is held.
    unhandled: RefCell<BTreeMap<u64, Rejection>>,
    count: Cell<u64>,
    /// There were too many to note them all.
    has_more: Cell<bool>,
}

struct Rejection {
    /// The order of the rejections.
    number: u64,
    _promise: Persistent<Value<'static>>,
    reason: Persistent<Value<'static>>,
}

impl Rejections {
    /// Notes rejections until the order ends.
    pub(super) fn watch(&self) {
        assert!(self.unhandled.borrow().is_empty(), "nothing of an earlier order is left");
        self.is_watching.set(true);
    }

    /// The engine's report: a rejection without a handler, or a handler for one.
    pub(super) fn note<'js>(
        &self,
        ctx: &Ctx<'js>,
        promise: &Value<'js>,
        reason: &Value<'js>,
        is_handled: bool,
    ) {
        if !self.is_watching.get() {
            return;
        }
        let mut hasher = DefaultHasher::new();
        promise.hash(&mut hasher);
        let address = hasher.finish();
        let mut unhandled = self.unhandled.borrow_mut();
        if is_handled {
            // A held value may be the last of its kind: it is released after the borrow.
            let handled = unhandled.remove(&address);
            drop(unhandled);
            drop(handled);
        } else if unhandled.len() < UNHANDLED_MAX {
            let number = self.count.get();
            self.count.set(number + 1);
            let save = |value: &Value<'js>| Persistent::save(ctx, value.clone());
            unhandled.insert(address, Rejection { number, _promise: save(promise), reason: save(reason) });
        } else {
            self.has_more.set(true);
        }
    }

    /// Throws the reason of the first rejection that has no handler.
    pub(super) fn check(&self, ctx: &Ctx<'_>) -> Result<()> {
        let first = {
            let unhandled = self.unhandled.borrow();
            unhandled
                .values()
                .min_by_key(|rejection| rejection.number)
                .map(|rejection| rejection.reason.clone())
        };
        match first {
            Some(reason) => {
                let reason = reason.restore(ctx)?;
                Err(ctx.throw(reason))
            }
            None if self.has_more.get() => Err(refuse(ctx, TOO_MANY)),
            None => Ok(()),
        }
    }

    /// Releases the values of the order.
    pub(super) fn end(&self) {
        self.is_watching.set(false);
        self.count.set(0);
        self.has_more.set(false);
        let unhandled = self.unhandled.take();
        drop(unhandled);
    }
}
