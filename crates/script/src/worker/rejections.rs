//! Rejected promises that no code handles, for orders that count them as exceptions.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rquickjs::{Ctx, Persistent, Result, Value};

/// Rejections without a handler at the same time; one more is an exception, even if it is handled later.
const UNHANDLED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Rejections {
    is_watching: Cell<bool>,
    /// By the promise's address, which no other promise has while this one is held.
    unhandled: RefCell<BTreeMap<u64, Rejection>>,
    count: Cell<u64>,
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
        } else if unhandled.len() <= UNHANDLED_MAX {
            let number = self.count.get();
            self.count.set(number + 1);
            let save = |value: &Value<'js>| Persistent::save(ctx, value.clone());
            unhandled.insert(address, Rejection { number, _promise: save(promise), reason: save(reason) });
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
            None => Ok(()),
        }
    }

    /// Releases the values of the order.
    pub(super) fn end(&self) {
        self.is_watching.set(false);
        self.count.set(0);
        let unhandled = self.unhandled.take();
        drop(unhandled);
    }
}
