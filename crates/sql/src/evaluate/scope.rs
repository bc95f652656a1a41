//! Variables during evaluation: a chain of stack frames, one for each variable that has a value, innermost
//! first. Entering a scope copies and allocates nothing, and leaving it is returning from a function.

use std::cell::RefCell;

use shardlake_document::{ItemView, Value};

use crate::bound::Slot;
use crate::error::SqlError;
use crate::value::context::EvaluationContext;
use crate::value::datum::Datum;
use crate::value::user_functions::Calls;

/// The values of one group of a grouped query, by their places in [`crate::bound::Grouping`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupValues<'s> {
    pub keys: &'s [Value],
    pub aggregates: &'s [Value],
}

pub(crate) struct Scope<'s> {
    context: &'s EvaluationContext<'s>,
    outer: Option<&'s Scope<'s>>,
    frame: Frame<'s>,
}

enum Frame<'s> {
    Empty,
    Variable(Slot, Datum<'s>),
    Group(GroupValues<'s>),
}

impl<'s> Scope<'s> {
    /// No variable has a value.
    pub fn new(context: &'s EvaluationContext<'s>) -> Self {
        Scope { context, outer: None, frame: Frame::Empty }
    }

    /// Slot 0 is the item.
    pub fn of_item(context: &'s EvaluationContext<'s>, item: &'s ItemView<'s>) -> Self {
        Scope { context, outer: None, frame: Frame::Variable(0, Datum::Item(item)) }
    }

    pub fn with(&'s self, slot: Slot, value: Datum<'s>) -> Scope<'s> {
        Scope { context: self.context, outer: Some(self), frame: Frame::Variable(slot, value) }
    }

    /// The scope in which a grouped query's projection is evaluated, once for each group.
    pub fn with_group(&'s self, group: GroupValues<'s>) -> Scope<'s> {
        Scope { context: self.context, outer: Some(self), frame: Frame::Group(group) }
    }

    pub fn calls(&self) -> Option<&'s RefCell<Calls>> {
        self.context.calls()
    }

    /// Whether a row awaited a call since the flag was last set; sets the flag to `awaits`.
    pub fn swap_awaits(&self, awaits: bool) -> bool {
        self.context.swap_awaits(awaits)
    }

    /// The value of a variable, borrowed; undefined without a value, as in a group without rows.
    pub fn variable(&'s self, slot: Slot) -> Datum<'s> {
        let mut scope = self;
        loop {
            if let Frame::Variable(found, value) = &scope.frame
                && *found == slot
            {
                return value.view();
            }
            match scope.outer {
                Some(outer) => scope = outer,
                None => return Datum::Undefined,
            }
        }
    }

    /// The item, if no other variable has a value yet.
    pub fn item_alone(&self) -> Option<&'s ItemView<'s>> {
        match (&self.frame, self.outer) {
            (Frame::Variable(0, Datum::Item(item)), None) => Some(*item),
            _ => None,
        }
    }

    /// The innermost group's values.
    pub fn group(&'s self) -> Option<GroupValues<'s>> {
        let mut scope = self;
        loop {
            if let Frame::Group(values) = &scope.frame {
                return Some(*values);
            }
            scope = scope.outer?;
        }
    }

    pub fn context(&self) -> &'s EvaluationContext<'s> {
        self.context
    }

    /// Called for every node, row, element and group, so that no loop outlives the query's time.
    #[inline]
    pub fn step(&self, steps: u64) -> Result<(), SqlError> {
        self.context.step(steps)
    }
}
