//! Calls of user-defined functions.
//!
//! One call costs a message to another process, so calls are made for many items at once. Before items are
//! processed, their calls are *gathered*: each item is evaluated as far as its values are known, and the
//! first unknown call is noted. Then all noted calls are made, and the items are evaluated again. So only
//! calls that a row reaches are made, inner ones before outer ones.
//!
//! Gathered results are a cache: when an item is processed, a call with a cached value answers at once, and
//! any other call is made by itself. A failed batch caches nothing, so an error is reported only if a row
//! needs the call that causes it.
//!
//! Functions are pure: within one item, equal calls are one call.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use shardlake_document::{ParseLimits, Value};
use shardlake_model::{ErrorKind, Result};

use crate::error::SqlError;
use crate::value::datum::{VALUE_SIZE_BYTES_MAX, value_size};

/// The arguments of one call as JSON text; `None` is undefined.
pub type Arguments = Vec<Option<String>>;

/// Caller of a container's functions for queries.
pub trait UserFunctions: Send {
    /// Calls one function for each row of arguments and returns its values as JSON text, `None` for undefined
    /// ones. Returns at least the first row's value; slow rows after it may be left to a later call.
    fn call(&mut self, name: &str, rows: &[Arguments]) -> Result<Vec<Option<String>>>;
}

/// Limit on the text of arguments in one batch.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Limit on the cached results of gathered items.
const KNOWN_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(crate) struct Calls {
    functions: Box<dyn UserFunctions>,
    /// Items that were gathered and not processed yet.
    gathered: VecDeque<ItemCalls>,
    current: ItemCalls,
    known_bytes: usize,
    /// Calls noted by the current round of gathering.
    batch: Option<Batch>,
    /// The number of calls whose value was needed.
    used: u64,
    used_before_item: u64,
    /// Whether batches are made; false once a batch was stopped by force.
    batches: bool,
}

/// Cached calls of one item.
#[derive(Default)]
pub(crate) struct ItemCalls {
    pub ordinal: u64,
    known: Vec<Known>,
    /// Where the next call is likely to be found.
    next: usize,
}

struct Known {
    name: Arc<str>,
    arguments: Arguments,
    value: Value,
    is_used: bool,
}

/// Calls to be made, one list for each function.
#[derive(Default)]
struct Batch {
    item: usize,
    lists: Vec<(Arc<str>, Vec<usize>, Vec<Arguments>)>,
    size_bytes: usize,
}

impl ItemCalls {
    fn find(&mut self, name: &str, arguments: &Arguments) -> Option<&mut Known> {
        let (before, after) = self.known.split_at(self.next.min(self.known.len()));
        let is_it = |known: &Known| &*known.name == name && known.arguments == *arguments;
        let found = match after.iter().position(is_it) {
            Some(place) => before.len() + place,
            None => before.iter().position(is_it)?,
        };
        self.next = found + 1;
        self.known.get_mut(found)
    }
}

impl Calls {
    pub fn new(functions: Box<dyn UserFunctions>) -> Calls {
        Calls {
            functions,
            gathered: VecDeque::new(),
            current: ItemCalls::default(),
            known_bytes: 0,
            batch: None,
            used: 0,
            used_before_item: 0,
            batches: true,
        }
    }

    /// How many calls rows have needed so far.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Starts an item: the following calls belong to it.
    pub fn begin(&mut self, ordinal: u64) {
        self.used_before_item = self.used;
        self.current = ItemCalls { ordinal, ..ItemCalls::default() };
        match self.gathered.pop_front() {
            Some(gathered) if gathered.ordinal == ordinal => self.current = gathered,
            // The caller that gathers processes the same items next.
            Some(_) => self.gathered.clear(),
            None => {}
        }
        self.current.next = 0;
    }

    /// The item will be processed again: its calls count then.
    pub fn take_back(&mut self) {
        self.used = self.used_before_item;
    }

    pub fn value(&mut self, name: &Arc<str>, arguments: Arguments) -> Result<Value, SqlError> {
        if let Some(batch) = &mut self.batch {
            let item = &mut self.gathered[batch.item];
            return match item.find(name, &arguments) {
                Some(known) => Ok(known.value.clone()),
                None => Err(batch.note(name, arguments)),
            };
        }
        if let Some(known) = self.current.find(name, &arguments) {
            self.used += u64::from(!std::mem::replace(&mut known.is_used, true));
            return Ok(known.value.clone());
        }
        let rows = [arguments];
        let answer = self.functions.call(name, &rows).map_err(failed)?;
        let value = parse(answer.into_iter().next().ok_or_else(unanswered)?)?;
        self.used += 1;
        let [arguments] = rows;
        self.current.next = self.current.known.len();
        if self.has_room(&arguments, &value) {
            let name = name.clone();
            self.current.known.push(Known { name, arguments, value: value.clone(), is_used: true });
        }
        Ok(value)
    }

    fn has_room(&mut self, arguments: &Arguments, value: &Value) -> bool {
        self.known_bytes += size_of::<Known>() + size(arguments) + value_size(value);
        self.known_bytes <= KNOWN_BYTES_MAX
    }
}

/// Gathers the calls of items before the items are processed. `evaluate` evaluates the item with a number as
/// far as possible: it fails with [`SqlError::AwaitsUserFunction`] as long as there is more to gather.
pub(crate) fn gather(
    calls: &RefCell<Calls>,
    ordinals: impl Iterator<Item = u64>,
    mut evaluate: impl FnMut(usize) -> Result<(), SqlError>,
) {
    let mut items: VecDeque<ItemCalls> =
        ordinals.map(|ordinal| ItemCalls { ordinal, ..ItemCalls::default() }).collect();
    if !calls.borrow().batches {
        return;
    }
    let mut open: Vec<usize> = (0..items.len()).collect();
    {
        let mut calls = calls.borrow_mut();
        calls.known_bytes = 0;
        std::mem::swap(&mut calls.gathered, &mut items);
    }
    while !open.is_empty() {
        calls.borrow_mut().batch = Some(Batch::default());
        open.retain(|&item| {
            let mut calls_of_item = calls.borrow_mut();
            if let Some(batch) = &mut calls_of_item.batch {
                batch.item = item;
            }
            calls_of_item.gathered[item].next = 0;
            drop(calls_of_item);
            // Other errors are reported when the item is processed.
            evaluate(item) == Err(SqlError::AwaitsUserFunction)
        });
        let mut calls = calls.borrow_mut();
        let batch = calls.batch.take().unwrap_or_default();
        if !calls.make(batch) {
            return;
        }
    }
}

impl Batch {
    /// Calls that do not fit this batch are noted again in the next round.
    fn note(&mut self, name: &Arc<str>, arguments: Arguments) -> SqlError {
        let size_bytes = size(&arguments);
        if self.size_bytes > 0 && self.size_bytes + size_bytes > BATCH_BYTES_MAX {
            return SqlError::AwaitsUserFunction;
        }
        let place = self.lists.iter().position(|(listed, ..)| listed == name).unwrap_or_else(|| {
            self.lists.push((name.clone(), vec![], vec![]));
            self.lists.len() - 1
        });
        let (_, items, rows) = &mut self.lists[place];
        let is_last = items.last() == Some(&self.item) && rows.last() == Some(&arguments);
        if !is_last {
            self.size_bytes += size_bytes + size_of::<Arguments>();
            items.push(self.item);
            rows.push(arguments);
            assert_eq!(items.len(), rows.len(), "each gathered call belongs to one item");
        }
        SqlError::AwaitsUserFunction
    }
}

impl Calls {
    /// False when gathering should stop.
    fn make(&mut self, batch: Batch) -> bool {
        let mut goes_on = !batch.lists.is_empty();
        for (name, items, rows) in batch.lists {
            let wanted = rows.len();
            assert_eq!(items.len(), wanted, "each gathered call belongs to one item");
            let answers = match self.functions.call(&name, &rows) {
                Ok(answers) => answers,
                Err(error) => {
                    self.batches &= error.kind() == ErrorKind::BadRequest;
                    return false;
                }
            };
            goes_on &= answers.len() == wanted;
            for ((item, arguments), answer) in items.into_iter().zip(rows).zip(answers) {
                let Ok(value) = parse(answer) else { return false };
                if !self.has_room(&arguments, &value) {
                    return false;
                }
                let known = Known { name: name.clone(), arguments, value, is_used: false };
                self.gathered[item].known.push(known);
            }
        }
        goes_on
    }
}

fn unanswered() -> SqlError {
    let message = "a user-defined function was called and did not answer".to_owned();
    SqlError::UserFunction { kind: ErrorKind::Internal, message, substatus: None }
}

fn failed(error: shardlake_model::Error) -> SqlError {
    SqlError::UserFunction {
        kind: error.kind(),
        message: error.message().to_owned(),
        substatus: error.substatus(),
    }
}

fn parse(answer: Option<String>) -> Result<Value, SqlError> {
    let Some(text) = answer else { return Ok(Value::Undefined) };
    if text.len() > VALUE_SIZE_BYTES_MAX {
        return Err(SqlError::ResultTooLarge { size_bytes_max: VALUE_SIZE_BYTES_MAX });
    }
    let limits = ParseLimits { size_max_bytes: VALUE_SIZE_BYTES_MAX, ..ParseLimits::default() };
    Value::from_json(text.as_bytes(), &limits).map_err(|error| SqlError::UserFunction {
        kind: ErrorKind::BadRequest,
        message: format!("a user-defined function answers a value that cannot be kept: {error}"),
        substatus: None,
    })
}

fn size(arguments: &Arguments) -> usize {
    arguments.iter().flatten().map(String::len).sum()
}
