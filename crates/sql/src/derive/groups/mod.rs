//! Groups: definitions with GROUP BY, and the rows that an index holds for their groups.
//!
//! | file | contents |
//! |---|---|
//! | `argument.rs` | arguments of aggregates, for states and for the log |
//! | `state.rs` | the state of a group, which rows are added to and taken out of |
//! | `exact_sum.rs`, `extremes.rs` | states of SUM and AVG, of MIN and MAX |
//! | `coding.rs` | bytes of stored states |
//!
//! ```text
//! SELECT c.pk, COUNT(1) AS n, SUM(c.x) AS s FROM c GROUP BY c.pk
//! item {"pk":"a","x":2}   → contribution: group of "a", arguments (counted, 2)
//! row of the group        → {"id":"<hash>","pk":"a","n":1,"s":2,"_state":"<keys and state>"}
//! ```
//! The commit that ends a version records the version's contributions, unless its successor has the same. So
//! a row of a group follows from the former row, the ended contributions and those of the live items.

mod argument;
mod coding;
mod exact_sum;
mod extremes;
mod state;

use std::ops::ControlFlow::{Break, Continue};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use shardlake_document::{
    Body, ItemView, Value, decode_ordered, encode_ordered, is_system_property, partition_key_text,
};
use shardlake_model::PartitionKey;

pub use argument::{Argument, Lost};
use coding::{Reader, Writer};
pub use state::GroupState;

use super::derivation::{Derivation, item_path};
use super::types::{GROUP_STATE, ROWS_MAX, RowError};
use crate::bound::{Aggregate, Expression, Grouping, Projection};
use crate::error::SqlError;
use crate::evaluate::rows::{for_each_row, project};
use crate::evaluate::scope::GroupValues;
use crate::evaluate::{Scope, evaluate};
use crate::value::aggregate::identity;
use crate::value::context::{EvaluationContext, FunctionContext};
use crate::value::meter::Meter;

/// Bytes of the hash that names a group.
const HASH_BYTES: usize = 16;

/// One row of an item, as its group counts it.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// Id of the group's row.
    pub id: String,
    pub keys: Vec<Value>,
    pub arguments: Vec<Argument>,
}

impl Derivation {
    /// Whether rows are of groups, and not of items.
    pub fn is_grouped(&self) -> bool {
        self.query.grouping.is_some()
    }

    fn grouping(&self) -> &Grouping {
        self.query.grouping.as_ref().expect("only definitions with groups are asked for them")
    }

    /// The rows of a version of an item, as their groups count them.
    pub fn contributions(
        &self,
        item: &ItemView<'_>,
        key: &PartitionKey,
    ) -> Result<Vec<Contribution>, RowError> {
        let grouping = self.grouping();
        let functions = self.functions();
        let meter = Meter::default();
        meter.begin_item();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        let (mut found, mut has_too_many) = (Vec::new(), false);
        let step = for_each_row(&self.query, &Scope::of_item(&context, item), &mut |row| {
            if found.len() == ROWS_MAX {
                has_too_many = true;
                return Ok(Break(()));
            }
            let key_of = |key| evaluate(key, row).map(|value| canonical(value.into_value()));
            let keys = grouping.keys.iter().map(key_of).collect::<Result<Vec<_>, _>>()?;
            let argument = |aggregate: &Aggregate| {
                let value = evaluate(&aggregate.argument, row)?;
                Ok::<_, SqlError>(Argument::of(aggregate.function, &value))
            };
            let arguments = grouping.aggregates.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
            found.push(Contribution { id: id_of(key, &keys), keys, arguments });
            Ok(Continue(()))
        });
        let _ = step.map_err(RowError::Evaluation)?;
        if has_too_many { Err(RowError::TooManyRows) } else { Ok(found) }
    }

    /// The state of a group without rows.
    pub fn new_group(&self) -> GroupState {
        GroupState::new(&self.grouping().aggregates)
    }

    /// The outputs of a group that do not change with its items: they have the partition key of its row.
    pub fn group_outputs(&self, id: &str, keys: &[Value]) -> Result<Body, RowError> {
        let results = vec![Value::Undefined; self.grouping().aggregates.len()];
        self.body(id, keys, &results, None)
    }

    /// The row of a group.
    pub fn group_row(&self, id: &str, keys: &[Value], state: &GroupState) -> Result<Body, RowError> {
        self.body(id, keys, &state.results(), Some(stored_state(keys, state)?))
    }

    fn body(
        &self,
        id: &str,
        keys: &[Value],
        results: &[Value],
        state: Option<String>,
    ) -> Result<Body, RowError> {
        let functions = self.functions();
        let meter = Meter::default();
        meter.begin_item();
        let context = EvaluationContext::new(&functions, &|| false, &meter);
        let scope = Scope::new(&context);
        let scope = scope.with_group(GroupValues { keys, aggregates: results });
        let projected = project(&self.query.projection, &scope).map_err(RowError::Evaluation)?;
        let Value::Object(outputs) = projected.into_value() else {
            unreachable!("definitions have objects as rows")
        };
        let mut members = vec![("id".to_owned(), Value::String(id.to_owned()))];
        members.extend(outputs);
        members.extend(state.map(|state| (GROUP_STATE.to_owned(), Value::String(state))));
        Value::Object(members).to_body().map_err(RowError::Document)
    }

    /// The keys and the state of a stored group; `None` where the text is not of this definition.
    pub fn read_group(&self, text: &str) -> Option<(Vec<Value>, GroupState)> {
        let grouping = self.grouping();
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let mut reader = Reader::new(&bytes);
        let state = GroupState::read(&mut reader, &grouping.aggregates)?;
        let keys = Body::from_stored(reader.bytes()?.to_vec()).ok()?;
        let keys = Value::from_document(keys.raw());
        let key = |place: usize| keys.get(&place.to_string()).cloned().unwrap_or(Value::Undefined);
        let keys = (0..grouping.keys.len()).map(key).collect();
        reader.is_over().then_some((keys, state))
    }

    /// Whether the keys of groups contain all of these paths of the source, so that a group lies in one
    /// logical partition where these are the partition key.
    pub fn groups_have<S: AsRef<str>>(&self, paths: &[&[S]]) -> bool {
        let keys: Vec<Vec<String>> = self.grouping().keys.iter().filter_map(item_path).collect();
        let is_key = |path: &&[S]| keys.iter().any(|key| key.iter().eq(path.iter().map(AsRef::as_ref)));
        paths.iter().all(is_key)
    }

    /// Whether the output at this path changes with the items of a group.
    pub fn is_aggregate<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let (Some(first), true) = (path.first(), self.is_grouped()) else { return false };
        match &self.query.projection {
            Projection::Object(members) | Projection::Value(Expression::Object(members)) => {
                members.iter().any(|(name, value)| name == first.as_ref() && has_aggregate(value))
            }
            _ => false,
        }
    }

    fn functions(&self) -> FunctionContext {
        FunctionContext { geometry: self.geometry, ..FunctionContext::default() }
    }
}

fn has_aggregate(expression: &Expression) -> bool {
    matches!(expression, Expression::Aggregate(_)) || expression.children().into_iter().any(has_aggregate)
}

/// The same for equal keys. The partition key of the source is a part of it, so that a row is never of two
/// logical partitions.
fn id_of(key: &PartitionKey, keys: &[Value]) -> String {
    let mut hash = Sha256::new().chain_update(partition_key_text(key));
    for key in keys {
        let identity = identity(key);
        hash.update((identity.len() as u64).to_le_bytes());
        hash.update(identity);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..HASH_BYTES])
}

/// Equal values in one form: whole numbers as integers, members by name.
fn canonical(value: Value) -> Value {
    match value {
        Value::Int(_) | Value::Double(_) => {
            let mut bytes = Vec::new();
            encode_ordered(&value, &mut bytes).expect("numbers have an ordered encoding");
            decode_ordered(&bytes).map_or(value, |(value, _)| value)
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(canonical).collect()),
        Value::Object(mut members) => {
            members.retain(|(_, value)| !value.is_undefined());
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(members.into_iter().map(|(name, value)| (name, canonical(value))).collect())
        }
        other => other,
    }
}

/// `state | keys as a document`, in base64.
fn stored_state(keys: &[Value], state: &GroupState) -> Result<String, RowError> {
    let members = keys.iter().enumerate().filter(|(_, key)| !key.is_undefined());
    let members: Vec<_> = members.map(|(place, key)| (place.to_string(), key.clone())).collect();
    debug_assert!(members.iter().all(|(name, _)| !is_system_property(name)), "numbers are their names");
    let keys = Value::Object(members).to_body().map_err(RowError::Document)?;
    let mut out = Writer::default();
    state.write(&mut out);
    out.bytes(keys.as_bytes());
    Ok(URL_SAFE_NO_PAD.encode(out.finish()))
}
