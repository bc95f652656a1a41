//! State of accumulators between documents.

use crate::error::{Result, fail};
use crate::expression::{Deviation, Percentiles, Sum};
use crate::order::{self, Key};
use crate::sort::{SortKey, SortPattern};
use crate::value::{Document, Value};
use shardlake_collation::Collation;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Average,
    Least,
    Greatest,
    First,
    Last,
    Push,
    AddToSet,
    Merge,
    Deviation { sample: bool },
    Concat,
    Union,
    FirstN,
    LastN,
    LeastN,
    GreatestN,
    Top { top: bool, many: bool },
    Percentile,
}

/// The state of one accumulator of one group.
#[derive(Debug)]
pub(crate) struct State {
    kind: Kind,
    count: usize,
    order: Option<SortPattern>,
    percentiles: Option<Percentiles>,
    sum: Sum,
    deviation: Deviation,
    best: Option<Value>,
    values: VecDeque<Value>,
    set: BTreeMap<Key, Value>,
    collation: Collation,
    merged: Document,
    sorted: Vec<(SortKey, Value)>,
    bytes: usize,
}

/// Bytes of a value that is kept, about.
fn bytes_of(value: &Value) -> usize {
    16 + value.size()
}

impl State {
    pub(super) fn new(
        kind: Kind,
        count: usize,
        order: Option<SortPattern>,
        percentiles: Option<Percentiles>,
        collation: Collation,
    ) -> State {
        State {
            kind,
            count,
            order,
            percentiles,
            sum: Sum::default(),
            deviation: Deviation::default(),
            best: None,
            values: VecDeque::new(),
            set: BTreeMap::new(),
            collation,
            merged: Document::new(),
            sorted: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes that the state takes, about.
    pub fn bytes(&self) -> usize {
        64 + self.bytes
    }

    fn keep(&mut self, value: Value) {
        self.bytes += bytes_of(&value);
        self.values.push_back(value);
    }

    fn keep_best(&mut self, value: Value) {
        self.bytes += bytes_of(&value);
        if let Some(former) = self.best.replace(value) {
            self.forget(&former);
        }
    }

    /// A value is not kept any more.
    fn forget(&mut self, value: &Value) {
        self.bytes = self.bytes.saturating_sub(bytes_of(value));
    }

    pub(super) fn add(&mut self, value: Value, document: &Value) -> Result<()> {
        match self.kind {
            Kind::Sum | Kind::Average => self.sum.add(&value),
            Kind::Deviation { .. } => self.deviation.add(&value),
            Kind::Least | Kind::Greatest => self.add_extreme(value),
            Kind::First if self.best.is_none() => self.keep_best(value),
            Kind::Last => self.keep_best(value),
            Kind::Push | Kind::Percentile if !value.is_missing() => self.keep(value),
            Kind::AddToSet if !value.is_missing() => self.add_to_set(value)?,
            Kind::Merge => self.add_merged(&value)?,
            Kind::Concat => match value {
                Value::Missing => {}
                Value::Array(items) => items.iter().cloned().for_each(|item| self.keep(item)),
                other => fail!(
                    14,
                    "$concatArrays requires array inputs, but input is of type {}",
                    other.type_name()
                ),
            },
            Kind::Union => match value {
                Value::Missing => {}
                Value::Array(items) => items.iter().try_for_each(|item| self.add_to_set(item.clone()))?,
                other => {
                    fail!(14, "$setUnion requires array inputs, but input is of type {}", other.type_name())
                }
            },
            Kind::FirstN if self.values.len() < self.count => self.keep(value.or_null()),
            Kind::LastN => {
                self.keep(value.or_null());
                if self.values.len() > self.count
                    && let Some(former) = self.values.pop_front()
                {
                    self.forget(&former);
                }
                assert!(
                    self.values.len() <= self.count,
                    "an accumulator keeps no more than it was asked for"
                );
            }
            Kind::LeastN | Kind::GreatestN if !value.is_nullish() => self.add_extreme_n(value),
            Kind::Top { .. } => self.add_top(value.or_null(), document)?,
            _ => {}
        }
        Ok(())
    }

    fn add_to_set(&mut self, value: Value) -> Result<()> {
        if let Entry::Vacant(free) = self.set.entry(Key::by(&self.collation, &value)?) {
            self.bytes += 16 + value.size() + free.key().bytes_beside(&self.collation);
            free.insert(value);
        }
        Ok(())
    }

    fn add_extreme(&mut self, value: Value) {
        if value.is_nullish() {
            return;
        }
        let wanted =
            if self.kind == Kind::Least { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
        if self.best.as_ref().is_none_or(|best| order::compare_by(&self.collation, &value, best) == wanted) {
            self.keep_best(value);
        }
    }

    fn add_merged(&mut self, value: &Value) -> Result<()> {
        match value {
            value if value.is_nullish() => Ok(()),
            Value::Document(document) => {
                for (name, member) in document.iter() {
                    if let Some(former) = self.merged.get(name) {
                        self.bytes = self.bytes.saturating_sub(name.len() + bytes_of(former));
                    }
                    self.bytes += name.len() + bytes_of(member);
                    self.merged.set(name, member.clone());
                }
                Ok(())
            }
            other => {
                fail!(
                    5911200,
                    "$mergeObjects requires object inputs, but input {other} is of type {}",
                    other.type_name()
                )
            }
        }
    }

    fn add_extreme_n(&mut self, value: Value) {
        let least = self.kind == Kind::LeastN;
        let at = self.values.partition_point(|known| {
            let order = order::compare_by(&self.collation, known, &value);
            if least { order.is_le() } else { order.is_ge() }
        });
        if at == self.count {
            return;
        }
        self.bytes += bytes_of(&value);
        self.values.insert(at, value);
        if self.values.len() > self.count
            && let Some(former) = self.values.pop_back()
        {
            self.forget(&former);
        }
        debug_assert!(self.values.len() <= self.count, "an accumulator keeps no more than it was asked for");
    }

    fn add_top(&mut self, value: Value, document: &Value) -> Result<()> {
        let Some(order) = &self.order else { return Ok(()) };
        let key = order.key(document)?;
        let at = self.sorted.partition_point(|(known, _)| order.compare_keys(known, &key).is_le());
        let bytes_of = |key: &SortKey, value: &Value| 16 + value.size() + order.key_bytes(key);
        self.bytes += bytes_of(&key, &value);
        self.sorted.insert(at, (key, value));
        if self.sorted.len() > self.count {
            let at = if matches!(self.kind, Kind::Top { top: true, .. }) { self.sorted.len() - 1 } else { 0 };
            let (key, value) = self.sorted.remove(at);
            self.bytes = self.bytes.saturating_sub(bytes_of(&key, &value));
        }
        debug_assert!(self.sorted.len() <= self.count, "an accumulator keeps no more than it was asked for");
        debug_assert!(
            self.sorted.is_sorted_by(|(left, _), (right, _)| order.compare_keys(left, right).is_le()),
            "the kept values are in their order"
        );
        Ok(())
    }

    /// The result so far.
    pub fn value(&self) -> Value {
        match self.kind {
            Kind::Sum => self.sum.value(),
            Kind::Average => self.sum.mean(),
            Kind::Deviation { sample } => self.deviation.value(sample),
            Kind::Least | Kind::Greatest => self.best.clone().unwrap_or(Value::Null),
            Kind::First | Kind::Last => self.best.clone().unwrap_or(Value::Null).or_null(),
            Kind::Merge => Value::document(self.merged.clone()),
            Kind::AddToSet | Kind::Union => Value::array(self.set.values().cloned().collect()),
            Kind::Top { many: false, .. } => {
                self.sorted.first().map_or(Value::Null, |(_, value)| value.clone())
            }
            Kind::Top { .. } => Value::array(self.sorted.iter().map(|(_, value)| value.clone()).collect()),
            Kind::Percentile => {
                let values: Vec<Value> = self.values.iter().cloned().collect();
                self.percentiles.as_ref().map_or(Value::Null, |percentiles| percentiles.of(&values))
            }
            _ => Value::array(self.values.iter().cloned().collect()),
        }
    }
}
