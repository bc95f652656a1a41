//! `$densify`: documents for the places of a sequence of numbers or dates that have none.
//!
//! The stage holds all documents. Values of a step lie at whole steps from the beginning of the sequence, so that a document between two
//! of them stands between them and does not move them.

use super::options::Options;
use super::run::{Context, Operator, Stage};
use super::simple::{member_at, with_member};
use crate::error::{FAILED_TO_PARSE, Result, fail};
use crate::expression::{DateUnit, Scope, add_numbers, add_units};
use crate::order::{self, Key};
use crate::path::field_path;
use crate::time::Zone;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Documents that one stage may make.
const MADE_MAX: usize = 500_000;

pub(super) struct Densify {
    field: Vec<Str>,
    partitions: Vec<Vec<Str>>,
    step: Value,
    unit: Option<DateUnit>,
    bounds: Bounds,
    collation: Collation,
}

enum Bounds {
    /// From the least to the greatest value of all documents.
    Full,
    /// From those of each partition.
    Partition,
    /// The first is made, the second is not.
    Between(Value, Value),
}

pub(super) fn parse_densify(options: &Options<'_>, scope: &Scope) -> Result<Densify> {
    let field = path_of(options.text("field").map_or("", |field| field))?;
    let names = options.items("partitionByFields").unwrap_or_default();
    let partitions: Vec<Vec<Str>> =
        names.iter().filter_map(Value::as_str).map(path_of).collect::<Result<_>>()?;
    if partitions.iter().any(|path| path.starts_with(&field) || field.starts_with(path)) {
        fail!(8_993_000, "the field that $densify fills may not be one that it partitions by");
    }
    let range = options.inner("range").cloned().unwrap_or_default();
    let (step, unit) = step_of(&range)?;
    let bounds = bounds_of(&range, unit)?;
    if matches!(bounds, Bounds::Partition) && partitions.is_empty() {
        fail!(
            5_733_408,
            "one may not specify the bounds as 'partition' without specifying a non-empty array of partitionByFields"
        );
    }
    Ok(Densify { field, partitions, step, unit, bounds, collation: scope.collation().clone() })
}

fn path_of(name: &str) -> Result<Vec<Str>> {
    if name.is_empty() {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    field_path(name)
}

fn step_of(range: &Document) -> Result<(Value, Option<DateUnit>)> {
    let step = range.value("step");
    let unit = match range.get("unit").and_then(Value::as_str) {
        None => None,
        Some(name) => match DateUnit::parse(name) {
            Some(unit) => Some(unit),
            None => fail!(FAILED_TO_PARSE, "unknown time unit value: {name}"),
        },
    };
    if unit.is_some() && step.to_i64_exact().is_none() {
        fail!(
            6_586_400,
            "The step parameter in a range statement must be a whole number when densifying a date range"
        );
    }
    Ok((step, unit))
}

fn bounds_of(range: &Document, unit: Option<DateUnit>) -> Result<Bounds> {
    let bounds = range.value("bounds");
    let pair: &[Value] = match &bounds {
        Value::Array(pair) => pair,
        word if word.as_str() == Some("full") => return Ok(Bounds::Full),
        _ => return Ok(Bounds::Partition),
    };
    let [low, high] = pair else {
        fail!(5_733_403, "a bounding array in a range statement must have exactly two elements");
    };
    let are_numbers = low.is_number() && high.is_number();
    let are_dates = matches!((low, high), (Value::Date(_), Value::Date(_)));
    if order::compare(low, high).is_gt() || !(are_numbers || are_dates) {
        fail!(
            5_733_402,
            "a bounding array must be an ascending array of either two dates or two numbers: {range}"
        );
    }
    match unit {
        Some(_) if are_numbers => fail!(5_733_409, "numeric bounds may not have unit parameter"),
        None if are_dates => fail!(5_733_501, "date bounds must have a unit"),
        _ => Ok(Bounds::Between(low.clone(), high.clone())),
    }
}

impl Stage for Densify {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(DensifyRun { stage: self, rows: Vec::new(), bytes: 0, made: 0 })
    }
}

struct DensifyRun {
    stage: Arc<Densify>,
    /// Documents, each with the value of the field.
    rows: Vec<(Value, Value)>,
    bytes: usize,
    made: usize,
}

impl Operator for DensifyRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        let value = member_at(&document, &self.stage.field);
        match (&value, self.stage.unit) {
            // A value outside of sequences passes unchanged.
            (value, _) if value.is_nullish() => {
                out.push(document);
                return Ok(true);
            }
            (Value::Date(_), Some(_)) => {}
            (Value::Date(_), None) => fail!(
                6_053_600,
                "Encountered date densify value in collection when step does not have a date unit."
            ),
            (value, None) if value.is_number() => {}
            (value, Some(_)) if value.is_number() => {
                fail!(6_053_601, "Encountered numeric densify value in collection when step has a date unit.")
            }
            (other, _) => {
                fail!(5_733_201, "Densify field type must be numeric or a date, found {}", other.type_name())
            }
        }
        self.bytes += document.size();
        context.check_memory("$densify", self.bytes)?;
        self.rows.push((value, document));
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|(left, _), (right, _)| order::compare(left, right));
        let ends = rows.first().zip(rows.last()).map(|(low, high)| (low.0.clone(), high.0.clone()));
        let mut partitions: BTreeMap<Key, (Value, Vec<(Value, Value)>)> = BTreeMap::new();
        for row in rows {
            let partition = self.partition_of(&row.1);
            let place = Key::by(&self.stage.collation, &partition)?;
            if !partitions.contains_key(&place) {
                self.bytes += place.bytes_beside(&self.stage.collation);
                context.check_memory("$densify", self.bytes)?;
            }
            partitions.entry(place).or_insert_with(|| (partition, Vec::new())).1.push(row);
        }
        if let Bounds::Between(..) = self.stage.bounds
            && self.stage.partitions.is_empty()
        {
            let whole = Value::document(Document::new());
            partitions.entry(Key(whole.clone())).or_insert_with(|| (whole, Vec::new()));
        }
        for (partition, rows) in partitions.into_values() {
            let Some((low, high, has_end)) = self.ends_of(&rows, &ends) else { continue };
            self.fill(&partition, rows, (low, high, has_end), context, out)?;
        }
        Ok(())
    }
}

impl DensifyRun {
    /// The members that a document is partitioned by.
    fn partition_of(&self, document: &Value) -> Value {
        self.stage.partitions.iter().fold(Value::document(Document::new()), |members, path| {
            match member_at(document, path) {
                Value::Missing => members,
                value => with_member(&members, path, value),
            }
        })
    }

    /// Where the sequence of a partition begins and ends, and whether the end is part of it.
    fn ends_of(&self, rows: &[(Value, Value)], all: &Option<(Value, Value)>) -> Option<(Value, Value, bool)> {
        match &self.stage.bounds {
            Bounds::Full => all.clone().map(|(low, high)| (low, high, true)),
            Bounds::Partition => Some((rows.first()?.0.clone(), rows.last()?.0.clone(), true)),
            Bounds::Between(low, high) => Some((low.clone(), high.clone(), false)),
        }
    }

    /// The documents of a partition, and one for each place between the ends that has none.
    fn fill(
        &mut self,
        partition: &Value,
        rows: Vec<(Value, Value)>,
        (low, high, has_end): (Value, Value, bool),
        context: &Context<'_>,
        out: &mut Vec<Value>,
    ) -> Result<()> {
        let mut rows = rows.into_iter().peekable();
        debug_assert!(
            rows.clone().is_sorted_by(|left, right| order::compare(&left.0, &right.0).is_le()),
            "the documents of a sequence are in its order"
        );
        let (mut steps, mut before) = (0, Value::MinKey);
        loop {
            let place = self.place(&low, steps)?;
            if order::compare(&place, &before).is_le() {
                fail!(5_733_401, "the step of $densify is too small to lead on from {place}");
            }
            before = place.clone();
            let to_end = order::compare(&place, &high);
            if to_end.is_gt() || (to_end.is_eq() && !has_end) {
                break;
            }
            while let Some((_, row)) = rows.next_if(|(value, _)| order::compare(value, &place).is_lt()) {
                out.push(row);
            }
            if rows.peek().is_none_or(|(value, _)| !order::equal(value, &place)) {
                let made = with_member(partition, &self.stage.field, place);
                self.made += 1;
                if self.made > MADE_MAX {
                    fail!(5_897_900, "Generated {MADE_MAX} documents in $densify, which is over the limit");
                }
                self.bytes += made.size();
                context.check_memory("$densify", self.bytes)?;
                out.push(made);
            }
            steps += 1;
        }
        out.extend(rows.map(|(_, row)| row));
        Ok(())
    }

    /// The place so many steps behind the first.
    fn place(&self, first: &Value, steps: i64) -> Result<Value> {
        match (first, self.stage.unit) {
            (Value::Date(millis), Some(unit)) => {
                let step = self.stage.step.to_i64_exact().unwrap_or(1);
                add_units(*millis, unit, step.saturating_mul(steps), &Zone::UTC).map(Value::Date)
            }
            _ => {
                let by = match &self.stage.step {
                    Value::Double(step) => Value::Double(step * steps as f64),
                    Value::Decimal(step) => {
                        Value::Decimal(step.multiply(crate::decimal::Decimal::from_i64(steps)))
                    }
                    step => {
                        let step = step.to_i64_exact().unwrap_or(1);
                        crate::value::int_or_long(step.saturating_mul(steps))
                    }
                };
                Ok(add_numbers(first, &by))
            }
        }
    }
}
