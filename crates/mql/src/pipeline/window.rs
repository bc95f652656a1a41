//! `$setWindowFields`: values computed from the documents around each document.
//!
//! The stage holds all documents, cuts them into partitions, sorts each, and computes every output over the window of
//! every document anew.

use super::options::Options;
use super::run::{Context, Operator, Stage};
use super::simple::with_member;
use super::window_functions::{Function, parse_function};
use super::window_numbers::Partition;
use crate::error::{FAILED_TO_PARSE, Result, error, fail};
use crate::expression::{DateUnit, Expression, Scope, add_units, parse as parse_expression};
use crate::order::{self, Key};
use crate::path::field_path;
use crate::sort::{SortKey, SortPattern};
use crate::time::Zone;
use crate::value::{Str, Value};
use shardlake_collation::Collation;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct SetWindowFields {
    partition_by: Option<Expression>,
    sort_by: Option<SortPattern>,
    outputs: Vec<(Vec<Str>, Function, Window)>,
    collation: Collation,
}

/// The documents that an output is computed from.
#[derive(Clone, Debug)]
pub(super) enum Window {
    Documents(Bound, Bound),
    /// Values of the sort key around that of the document.
    Range(Bound, Bound, Option<DateUnit>),
}

#[derive(Clone, Debug)]
pub(super) enum Bound {
    Unbounded,
    Current,
    By(Value),
}

pub(super) fn parse_window_fields(options: &Options<'_>, scope: &Scope) -> Result<SetWindowFields> {
    let partition_by = options.get("partitionBy").map(|value| parse_expression(value, scope)).transpose()?;
    let sort_by = options.inner("sortBy").filter(|pattern| !pattern.is_empty());
    let sort_by = sort_by.map(|pattern| SortPattern::parse(pattern, scope.collation())).transpose()?;
    let outputs = options.inner("output").cloned().unwrap_or_default();
    let output = |(path, value): (&Str, &Value)| {
        let (function, window) = parse_output(value, sort_by.as_ref(), scope)?;
        Ok((field_path(path)?, function, window))
    };
    let outputs: Result<Vec<_>> = outputs.iter().map(output).collect();
    Ok(SetWindowFields { partition_by, outputs: outputs?, sort_by, collation: scope.collation().clone() })
}

fn parse_output(value: &Value, sort_by: Option<&SortPattern>, scope: &Scope) -> Result<(Function, Window)> {
    let Value::Document(document) = value else {
        fail!(
            FAILED_TO_PARSE,
            "The field must be an object that names a window function, found {}",
            value.type_name()
        );
    };
    let mut function = None;
    for (name, operand) in document.iter() {
        match &**name {
            "window" => {}
            name if name.starts_with('$') && function.is_none() => function = Some((name, operand)),
            other => fail!(FAILED_TO_PARSE, "Window function found an unknown argument: {other}"),
        }
    }
    let Some((name, operand)) = function else {
        fail!(FAILED_TO_PARSE, "Expected a $-prefixed window function, {document}");
    };
    let window = match document.get("window") {
        None => Window::Documents(Bound::Unbounded, Bound::Unbounded),
        Some(window) => parse_bounds(window, sort_by)?,
    };
    let function = parse_function(name, operand, sort_by, document.has("window"), scope)?;
    Ok((function, window))
}

fn parse_bounds(window: &Value, sort_by: Option<&SortPattern>) -> Result<Window> {
    let Value::Document(window) = window else {
        fail!(FAILED_TO_PARSE, "'window' field must be an object");
    };
    if let Some((name, _)) =
        window.iter().find(|(name, _)| !matches!(&***name, "documents" | "range" | "unit"))
    {
        fail!(FAILED_TO_PARSE, "'window' field has an unknown member: {name}");
    }
    match (window.get("documents"), window.get("range")) {
        (Some(_), Some(_)) => {
            fail!(FAILED_TO_PARSE, "Window bounds can specify either 'documents' or 'range', not both.")
        }
        (None, None) if window.has("unit") => {
            fail!(FAILED_TO_PARSE, "Window bounds can only specify 'unit' with 'range'")
        }
        (None, None) => Ok(Window::Documents(Bound::Unbounded, Bound::Unbounded)),
        (Some(bounds), None) => {
            if window.has("unit") {
                fail!(FAILED_TO_PARSE, "Window bounds can only specify 'unit' with 'range'");
            }
            let (low, high) = pair(bounds)?;
            for bound in [&low, &high] {
                if let Bound::By(value) = bound
                    && value.to_i32_exact().is_none()
                {
                    fail!(FAILED_TO_PARSE, "Numeric document-based bounds must be an integer: {value}");
                }
            }
            if sort_by.is_none() && !matches!((&low, &high), (Bound::Unbounded, Bound::Unbounded)) {
                fail!(5339901, "Document-based bounds require a sortBy");
            }
            Ok(Window::Documents(low, high))
        }
        (None, Some(bounds)) => {
            let unit = match window.get("unit") {
                None => None,
                Some(Value::String(name)) => match DateUnit::parse(name) {
                    Some(unit) => Some(unit),
                    None => fail!(FAILED_TO_PARSE, "unknown time unit value: {name}"),
                },
                Some(_) => fail!(FAILED_TO_PARSE, "'unit' must be a string"),
            };
            if sort_by.is_none_or(|order| order.single_ascending().is_none()) {
                fail!(5339902, "Range-based bounds require sortBy a single field, ascending");
            }
            let (low, high) = pair(bounds)?;
            Ok(Window::Range(low, high, unit))
        }
    }
}

fn pair(bounds: &Value) -> Result<(Bound, Bound)> {
    let Value::Array(items) = bounds else {
        fail!(FAILED_TO_PARSE, "Window bounds must be a 2-element array: {bounds}")
    };
    let [low, high] = &items[..] else {
        fail!(FAILED_TO_PARSE, "Window bounds must be a 2-element array: {bounds}")
    };
    let bound = |value: &Value| match value {
        Value::String(text) if &**text == "unbounded" => Ok(Bound::Unbounded),
        Value::String(text) if &**text == "current" => Ok(Bound::Current),
        value if value.is_number() => Ok(Bound::By(value.clone())),
        other => fail!(FAILED_TO_PARSE, "Window bounds must be 'unbounded', 'current', or a number: {other}"),
    };
    let (low, high) = (bound(low)?, bound(high)?);
    let place = |bound: &Bound| match bound {
        Bound::By(value) => value.to_f64(),
        Bound::Current => Some(0.0),
        Bound::Unbounded => None,
    };
    if let (Some(low), Some(high)) = (place(&low), place(&high))
        && low > high
    {
        fail!(5339900, "Lower bound must not exceed upper bound: {bounds}");
    }
    Ok((low, high))
}

impl Stage for SetWindowFields {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(WindowRun { stage: self, rows: Vec::new(), bytes: 0 })
    }
}

/// The name of the stage in errors.
const SET_WINDOW_FIELDS: &str = "$setWindowFields";

struct WindowRun {
    stage: Arc<SetWindowFields>,
    rows: Vec<Value>,
    bytes: usize,
}

impl Operator for WindowRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        self.bytes += document.size();
        context.check_memory(SET_WINDOW_FIELDS, self.bytes)?;
        self.rows.push(document);
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let mut partitions: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        for row in self.rows.drain(..) {
            let key = match &self.stage.partition_by {
                Some(expression) => expression.evaluate_on(&mut context.env, &row)?.or_null(),
                None => Value::Null,
            };
            if matches!(key, Value::Array(_)) {
                fail!(14, "An expression used to partition cannot evaluate to value of type array");
            }
            let place = Key::by(&self.stage.collation, &key)?;
            if !partitions.contains_key(&place) {
                self.bytes += place.bytes_beside(&self.stage.collation);
                context.check_memory(SET_WINDOW_FIELDS, self.bytes)?;
            }
            partitions.entry(place).or_default().push(row);
        }
        for (_, rows) in partitions {
            self.stage.compute((rows, self.bytes), context, out)?;
        }
        Ok(())
    }
}

impl SetWindowFields {
    fn compute(
        &self,
        (rows, mut bytes): (Vec<Value>, usize),
        context: &mut Context<'_>,
        out: &mut Vec<Value>,
    ) -> Result<()> {
        let pattern = self.sort_by.clone().unwrap_or_default();
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows {
            let key = pattern.key(&row)?;
            bytes += pattern.key_bytes(&key);
            context.check_memory(SET_WINDOW_FIELDS, bytes)?;
            keyed.push((key, row));
        }
        pattern.sort(&mut keyed);
        let (keys, rows): (Vec<SortKey>, Vec<Value>) = keyed.into_iter().unzip();
        let partition = Partition { rows, keys };
        assert_eq!(partition.rows.len(), partition.keys.len(), "each document has its sort key");
        let mut results = partition.rows.clone();
        for (path, function, window) in &self.outputs {
            let places = 0..partition.rows.len();
            let ranges: Result<Vec<_>> = places.map(|at| window.range(at, &partition)).collect();
            let ranges = ranges?;
            let carried = window.moves_start().then(|| function.compute_all(&ranges, &partition, context));
            let values = match carried.flatten() {
                Some(values) => values?,
                None => {
                    let each = ranges.iter().enumerate();
                    let values: Result<Vec<Value>> =
                        each.map(|(at, range)| function.compute(at, *range, &partition, context)).collect();
                    values?
                }
            };
            let values = function.complete(values, &partition)?;
            assert_eq!(values.len(), results.len(), "each document has its value of a window");
            for (result, value) in results.iter_mut().zip(values) {
                *result = with_member(result, path, value);
            }
        }
        out.extend(results);
        Ok(())
    }
}

impl Window {
    /// Whether documents leave the window as it moves.
    fn moves_start(&self) -> bool {
        !matches!(self, Window::Documents(Bound::Unbounded, _) | Window::Range(Bound::Unbounded, ..))
    }

    /// The places of the window of a document.
    fn range(&self, at: usize, partition: &Partition) -> Result<(usize, usize)> {
        let length = partition.rows.len();
        match self {
            Window::Documents(low, high) => {
                let place = |bound: &Bound, open: i64| match bound {
                    Bound::Unbounded => open,
                    Bound::Current => at as i64,
                    Bound::By(value) => at as i64 + value.to_i64_exact().unwrap_or(0),
                };
                let start = place(low, 0).clamp(0, length as i64);
                let end = (place(high, length as i64 - 1) + 1).clamp(0, length as i64);
                Ok((start as usize, end.max(start) as usize))
            }
            Window::Range(low, high, unit) => {
                let key = |at: usize| partition.keys[at].values().first().cloned().unwrap_or_default();
                let own = key(at);
                let start = match edge(&own, low, *unit)? {
                    None => 0,
                    Some(edge) => {
                        (0..length).find(|at| order::compare(&key(*at), &edge).is_ge()).unwrap_or(length)
                    }
                };
                let end = match edge(&own, high, *unit)? {
                    None => length,
                    Some(edge) => (0..length)
                        .rfind(|at| order::compare(&key(*at), &edge).is_le())
                        .map_or(0, |at| at + 1),
                };
                Ok((start, end.max(start)))
            }
        }
    }
}

/// The value of the sort key where a range ends; `None` for no end.
fn edge(own: &Value, bound: &Bound, unit: Option<DateUnit>) -> Result<Option<Value>> {
    let by = match bound {
        Bound::Unbounded => return Ok(None),
        Bound::Current => return Ok(Some(own.clone())),
        Bound::By(by) => by,
    };
    match (own, unit) {
        (Value::Date(millis), Some(unit)) => {
            let by = by.to_i64_exact().ok_or_else(|| {
                error!(FAILED_TO_PARSE, "With 'unit', range-based bounds must be an integer")
            })?;
            add_units(*millis, unit, by, &Zone::UTC).map(|millis| Some(Value::Date(millis)))
        }
        (own, None) if own.is_number() => Ok(Some(crate::expression::add_numbers(own, by))),
        (other, _) => fail!(
            5429413,
            "Invalid range: Expected the sortBy field to be a number or a date, but it was {}",
            other.type_name()
        ),
    }
}
