//! The writes of a run, in order, and the items as these writes leave them.
//!
//! A read of an item that the run has written is answered here, without the server, unless the run has only
//! patched the item: then the stored item is read, and the patches are applied to it as a partition does it.
//! A write that cannot succeed after the earlier ones is refused at once.
//!
//! `replace` of an item that was read is conditional on the version that was read first. Where patches of the
//! run come before it, the first of them has the condition: all of them are one commit.

use std::collections::HashMap;
use std::rc::Rc;

use shardlake_document::{
    Body, NESTING_CEILING, ParseLimits, PatchOperation, Value, apply_patch, parse_document, write_json,
};
use shardlake_model::Numbers;

use crate::function_store::{
    FUNCTION_WRITE_BYTES_MAX, FUNCTION_WRITES_MAX, FunctionWriteKind, FunctionWriteOrder,
};

/// Stored items may be larger than functions may write them.
const STORED_LIMITS: ParseLimits =
    ParseLimits { nesting_max: NESTING_CEILING, size_max_bytes: 64 << 20, numbers: Numbers::Rounded };

/// An error that a function gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) number: u16,
    pub(super) message: String,
}

/// The item of a read or a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ItemName {
    /// The container's place.
    pub(super) container: usize,
    /// JSON text in one form.
    pub(super) partition_key: String,
    pub(super) id: String,
}

/// A write, parsed.
#[derive(Debug)]
pub(super) enum Write {
    Create(Body),
    Upsert(Body),
    Replace(Body),
    Patch(Vec<PatchOperation>),
    Delete,
}

/// Patches of this run on an item whose stored version is unknown.
pub(super) type Patches = Rc<Vec<PatchOperation>>;

/// The answer to a read, as far as the writes give it.
#[derive(Debug)]
pub(super) enum View {
    /// JSON text; `None` for an item that the run has deleted.
    Written(Option<String>),
    /// The stored item, with these patches.
    Stored(Patches),
}

#[derive(Debug, Default)]
pub(super) struct Writes {
    orders: Vec<FunctionWriteOrder>,
    bytes: usize,
    items: HashMap<ItemName, Item>,
}

#[derive(Debug, Default)]
struct Item {
    /// The etag of the version that was read first.
    etag: Option<String>,
    /// The place of the first write.
    first: Option<usize>,
    state: State,
}

/// An item after the writes of the run.
#[derive(Debug, Clone)]
enum State {
    Patched(Patches),
    Written(Body),
    Deleted,
}

impl Default for State {
    /// Without a write.
    fn default() -> State {
        State::Patched(Patches::default())
    }
}

impl Writes {
    /// Adds a write, or refuses it.
    pub(super) fn add(
        &mut self,
        name: ItemName,
        write: Write,
        order: FunctionWriteOrder,
    ) -> Result<(), Refusal> {
        let bytes = self.bytes + order.kind.bytes();
        self.check_room(bytes)?;
        let place = self.orders.len();
        let item = self.items.entry(name).or_default();
        let is_replace = matches!(write, Write::Replace(_));
        let state = item.state.after(write).map_err(|refusal| refusal.about(&order))?;
        self.orders.push(order);
        // An item that this run has written as a whole has no condition: the function knows it.
        if is_replace && let (State::Patched(_), Some(etag)) = (&item.state, &item.etag) {
            let first = item.first.unwrap_or(place);
            if self.orders[place].if_match.is_none() {
                self.orders[first].if_match.get_or_insert_with(|| etag.clone());
            }
        }
        item.first.get_or_insert(place);
        item.state = state;
        self.bytes = bytes;
        assert!(self.orders.len() <= FUNCTION_WRITES_MAX, "the writes of a run are bounded");
        Ok(())
    }

    fn check_room(&self, bytes: usize) -> Result<(), Refusal> {
        if self.orders.len() >= FUNCTION_WRITES_MAX {
            return Err(Refusal::too_large(format!(
                "a run of a function writes at most {FUNCTION_WRITES_MAX} times: give it fewer changes in one batch"
            )));
        }
        if bytes > FUNCTION_WRITE_BYTES_MAX {
            let megabytes = FUNCTION_WRITE_BYTES_MAX >> 20;
            return Err(Refusal::too_large(format!(
                "a run of a function writes at most {megabytes} MB: give it fewer changes in one batch"
            )));
        }
        Ok(())
    }

    pub(super) fn view(&self, name: &ItemName) -> View {
        match self.items.get(name).map(|item| &item.state) {
            None => View::Stored(Patches::default()),
            Some(State::Patched(patches)) => View::Stored(Rc::clone(patches)),
            Some(State::Written(body)) => View::Written(Some(json(body))),
            Some(State::Deleted) => View::Written(None),
        }
    }

    /// The item of a read: the stored one, with the patches that came before the read.
    pub(super) fn read(
        &mut self,
        name: ItemName,
        patches: &[PatchOperation],
        stored: Option<String>,
    ) -> Result<Option<String>, Refusal> {
        let Some(stored) = stored else {
            if patches.is_empty() {
                return Ok(None);
            }
            let message = format!("this run has patched the item '{}', which does not exist", name.id);
            return Err(Refusal { number: 404, message });
        };
        let id = name.id.clone();
        let item = self.items.entry(name).or_default();
        item.etag = item.etag.take().or_else(|| etag_of(&stored));
        if patches.is_empty() {
            return Ok(Some(stored));
        }
        let failed = |why: String| Refusal {
            number: 400,
            message: format!("the item '{id}' cannot be read with the patches of this run: {why}"),
        };
        let body =
            parse_document(stored.as_bytes(), &STORED_LIMITS).map_err(|error| failed(error.to_string()))?;
        let patched = apply_patch(body.raw(), patches).map_err(|error| failed(error.to_string()))?;
        Ok(Some(json(&patched)))
    }

    /// The writes, in the order of the calls.
    pub(super) fn into_orders(self) -> Vec<FunctionWriteOrder> {
        self.orders
    }
}

impl State {
    fn after(&self, write: Write) -> Result<State, Refusal> {
        let is_written = match self {
            State::Patched(patches) => !patches.is_empty(),
            State::Written(_) => true,
            State::Deleted => false,
        };
        Ok(match (self, write) {
            (_, Write::Create(_)) if is_written => {
                return Err(Refusal { number: 409, message: "this run has written it already".into() });
            }
            (State::Deleted, Write::Replace(_) | Write::Patch(_) | Write::Delete) => {
                return Err(Refusal { number: 404, message: "this run has deleted it".into() });
            }
            (_, Write::Create(body) | Write::Upsert(body) | Write::Replace(body)) => State::Written(body),
            (_, Write::Delete) => State::Deleted,
            (State::Patched(patches), Write::Patch(more)) => {
                let mut patches = Rc::clone(patches);
                Rc::make_mut(&mut patches).extend(more);
                State::Patched(patches)
            }
            (State::Written(body), Write::Patch(patches)) => {
                let patched = apply_patch(body.raw(), &patches);
                State::Written(patched.map_err(|error| Refusal { number: 400, message: error.to_string() })?)
            }
        })
    }
}

impl Refusal {
    pub(super) fn too_large(message: String) -> Refusal {
        Refusal { number: 413, message }
    }

    /// Names the write.
    fn about(self, order: &FunctionWriteOrder) -> Refusal {
        let method = match &order.kind {
            FunctionWriteKind::Create { .. } => "create",
            FunctionWriteKind::Upsert { .. } => "upsert",
            FunctionWriteKind::Replace { .. } => "replace",
            FunctionWriteKind::Patch { .. } => "patch",
            FunctionWriteKind::Delete { .. } => "delete",
        };
        let message = format!("{method} of an item of '{}' is refused: {}", order.container, self.message);
        Refusal { message, ..self }
    }
}

fn json(body: &Body) -> String {
    let mut text = Vec::new();
    write_json(body.raw(), &mut text);
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// The etag in the text of a stored item.
fn etag_of(item: &str) -> Option<String> {
    let item = Value::from_json(item.as_bytes(), &STORED_LIMITS).ok()?;
    item.get("_etag").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests;
