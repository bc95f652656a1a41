//! Functions over windows: accumulators, and those that know places and neighbours.

use super::run::Context;
use super::window_numbers::{
    self, Partition, Weight, covariance, derivative, fill_linearly, integral, scaled,
};
use crate::accumulator::{self, Accumulator};
use crate::error::{FAILED_TO_PARSE, Result, error, fail};
use crate::expression::{DateUnit, Expression, Scope, parse as parse_expression};
use crate::order;
use crate::sort::SortPattern;
use crate::value::{Document, Value};

pub(super) enum Function {
    Accumulate(Accumulator),
    DocumentNumber,
    Rank {
        dense: bool,
    },
    Shift {
        output: Expression,
        by: i64,
        default: Value,
    },
    /// For an array of two numbers; documents with another value do not count.
    Covariance {
        pair: Expression,
        sample: bool,
    },
    /// The slope or the area between the ends of the window, per so many milliseconds of a date.
    Derivative {
        input: Expression,
        unit: Option<i64>,
    },
    Integral {
        input: Expression,
        unit: Option<i64>,
    },
    MovingAverage {
        input: Expression,
        weight: Weight,
    },
    /// The last preceding value that is neither null nor missing.
    CarryForward(Expression),
    LinearFill(Expression),
    Scale {
        input: Expression,
        least: Value,
        most: Value,
    },
}

pub(super) fn parse_function(
    name: &str,
    operand: &Value,
    sort_by: Option<&SortPattern>,
    has_window: bool,
    scope: &Scope,
) -> Result<Function> {
    let no_window = || {
        if has_window {
            fail!(5371601, "{name} does not accept a 'window' field");
        }
        Ok(())
    };
    let sorted = |code: i32| {
        if sort_by.is_none() {
            fail!(code, "{name} requires a sortBy");
        }
        Ok(())
    };
    Ok(match name {
        "$rank" | "$denseRank" | "$documentNumber" => {
            no_window()?;
            if sort_by.is_none_or(|order| order.len() != 1) {
                fail!(
                    5371602,
                    "{name} must be specified with a top level sortBy expression with exactly one element"
                );
            }
            if !matches!(operand, Value::Document(document) if document.is_empty()) {
                fail!(5371603, "{name} must be specified with '{{}}' as the value");
            }
            match name {
                "$documentNumber" => Function::DocumentNumber,
                _ => Function::Rank { dense: name == "$denseRank" },
            }
        }
        "$shift" => {
            sorted(FAILED_TO_PARSE)?;
            parse_shift(operand, scope)?
        }
        "$covariancePop" | "$covarianceSamp" => Function::Covariance {
            pair: parse_expression(operand, scope)?,
            sample: name == "$covarianceSamp",
        },
        "$derivative" | "$integral" => {
            sorted(if name == "$derivative" { 5490700 } else { 5558800 })?;
            let (input, unit) = parse_with_unit(name, operand, scope)?;
            match name {
                "$derivative" => Function::Derivative { input, unit },
                _ => Function::Integral { input, unit },
            }
        }
        "$expMovingAvg" => {
            no_window()?;
            sorted(FAILED_TO_PARSE)?;
            parse_moving_average(operand, scope)?
        }
        "$locf" => {
            no_window()?;
            Function::CarryForward(parse_expression(operand, scope)?)
        }
        "$linearFill" => {
            no_window()?;
            if sort_by.is_none_or(|order| order.len() != 1) {
                fail!(
                    605001,
                    "$linearFill must be specified with a top level sortBy expression with exactly one element"
                );
            }
            Function::LinearFill(parse_expression(operand, scope)?)
        }
        "$minMaxScaler" => parse_scaler(operand, scope)?,
        _ => match accumulator::parse(name, operand, scope)? {
            Some(accumulator) => Function::Accumulate(accumulator),
            None => fail!(FAILED_TO_PARSE, "Unrecognized window function, {name}"),
        },
    })
}

fn parse_shift(operand: &Value, scope: &Scope) -> Result<Function> {
    let document = operand_document(operand, "$shift", FAILED_TO_PARSE)?;
    if let Some((other, _)) =
        document.iter().find(|(name, _)| !matches!(&***name, "output" | "by" | "default"))
    {
        fail!(FAILED_TO_PARSE, "Unknown argument in $shift: {other}");
    }
    let output = document
        .get("output")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "$shift requires an 'output' expression."))?;
    let by = document
        .get("by")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "$shift requires 'by' as an integer value."))?;
    let Some(by) = by.to_i32_exact() else {
        fail!(FAILED_TO_PARSE, "'$shift:by' field must be an integer, but found {by}")
    };
    let default = match document.get("default") {
        None => Value::Null,
        Some(value) => match parse_expression(value, scope)?.as_constant() {
            Some(value) => value.clone(),
            None => fail!(FAILED_TO_PARSE, "'$shift:default' expression must yield a constant value."),
        },
    };
    Ok(Function::Shift { output: parse_expression(output, scope)?, by: i64::from(by), default })
}

fn parse_with_unit(name: &str, operand: &Value, scope: &Scope) -> Result<(Expression, Option<i64>)> {
    let document = operand_document(operand, name, FAILED_TO_PARSE)?;
    if let Some((other, _)) = document.iter().find(|(name, _)| !matches!(&***name, "input" | "unit")) {
        fail!(FAILED_TO_PARSE, "{name} got unexpected argument: {other}");
    }
    let input = document
        .get("input")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "{name} requires an 'input' expression"))?;
    let unit = match document.get("unit") {
        None => None,
        Some(unit) => {
            let unit = unit.as_str().and_then(DateUnit::parse).and_then(DateUnit::millis);
            Some(unit.ok_or_else(|| error!(5490704, "unit must be 'week' or smaller"))?)
        }
    };
    Ok((parse_expression(input, scope)?, unit))
}

fn parse_moving_average(operand: &Value, scope: &Scope) -> Result<Function> {
    let document = operand_document(operand, "$expMovingAvg", FAILED_TO_PARSE)?;
    let input = document
        .get("input")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "$expMovingAvg requires an 'input' expression"))?;
    let weight = match (document.get("N"), document.get("alpha")) {
        (Some(count), None) => match count.to_i64_exact() {
            Some(count) if count > 0 => Weight::of_count(count),
            _ => fail!(FAILED_TO_PARSE, "'N' field must be an integer greater than 0, but found {count}"),
        },
        (None, Some(alpha)) => match Weight::of_number(alpha) {
            Some(weight) => weight,
            None => fail!(FAILED_TO_PARSE, "'alpha' must be between 0 and 1 (exclusive), found {alpha}"),
        },
        _ => fail!(FAILED_TO_PARSE, "$expMovingAvg requires exactly one of 'N' and 'alpha'"),
    };
    Ok(Function::MovingAverage { input: parse_expression(input, scope)?, weight })
}

fn parse_scaler(operand: &Value, scope: &Scope) -> Result<Function> {
    let document = operand_document(operand, "$minMaxScaler", FAILED_TO_PARSE)?;
    let input = document
        .get("input")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "$minMaxScaler requires an 'input' expression"))?;
    let number = |name: &str, default: i32| document.get(name).cloned().unwrap_or(Value::Int(default));
    match (number("min", 0), number("max", 1)) {
        (least, most) if least.is_number() && most.is_number() && order::compare(&least, &most).is_lt() => {
            Ok(Function::Scale { input: parse_expression(input, scope)?, least, most })
        }
        _ => fail!(FAILED_TO_PARSE, "$minMaxScaler requires 'min' to be less than 'max'"),
    }
}

impl Function {
    /// The values for all documents, of functions that carry their state from one window to the next.
    pub fn compute_all(
        &self,
        ranges: &[(usize, usize)],
        partition: &Partition,
        context: &mut Context<'_>,
    ) -> Option<Result<Vec<Value>>> {
        let Function::Accumulate(accumulator) = self else { return None };
        let (input, is_sample) = accumulator.deviation()?;
        Some(window_numbers::moving_deviations(ranges, partition, (input, is_sample), context))
    }

    /// The value for one document; for some functions only its input, until `complete`.
    pub fn compute(
        &self,
        at: usize,
        range: (usize, usize),
        partition: &Partition,
        context: &mut Context<'_>,
    ) -> Result<Value> {
        let rows = window_rows(partition, range);
        let own = &partition.rows[at];
        match self {
            Function::Accumulate(accumulator) => {
                let mut state = accumulator.start(&mut context.env)?;
                for row in rows {
                    context.env.set_root(row.clone());
                    accumulator.add(&mut state, row, &mut context.env)?;
                }
                Ok(state.value())
            }
            Function::DocumentNumber => Ok(place_value(at as i64 + 1)),
            Function::Rank { dense } => Ok(place_value(rank(at, *dense, partition))),
            Function::Shift { output, by, default } => {
                let place = usize::try_from(at as i64 + by).ok().and_then(|place| partition.rows.get(place));
                place.map_or_else(
                    || Ok(default.clone()),
                    |row| output.evaluate_on(&mut context.env, row).map(Value::or_null),
                )
            }
            Function::Covariance { pair, sample } => covariance(rows, pair, *sample, context),
            Function::Derivative { input, unit } => derivative(range, partition, (input, *unit), context),
            Function::Integral { input, unit } => integral(range, partition, (input, *unit), context),
            Function::Scale { input, least, most } => {
                let own = input.evaluate_on(&mut context.env, own)?;
                let values: Result<Vec<Value>> =
                    rows.iter().map(|row| input.evaluate_on(&mut context.env, row)).collect();
                scaled(&own, &values?, (least, most))
            }
            Function::MovingAverage { input, .. }
            | Function::CarryForward(input)
            | Function::LinearFill(input) => input.evaluate_on(&mut context.env, own).map(Value::or_null),
        }
    }

    /// Finishes functions that carry something from document to document.
    pub fn complete(&self, mut values: Vec<Value>, partition: &Partition) -> Result<Vec<Value>> {
        match self {
            Function::CarryForward(_) => {
                let mut last = Value::Null;
                for value in &mut values {
                    if value.is_nullish() {
                        *value = last.clone();
                    } else {
                        last = value.clone();
                    }
                }
            }
            Function::MovingAverage { weight, .. } => {
                window_numbers::average_moving(&mut values, *weight)?;
            }
            Function::LinearFill(_) => fill_linearly(&mut values, partition)?,
            _ => {}
        }
        Ok(values)
    }
}

/// A place among documents, in the narrower type where it fits.
fn place_value(place: i64) -> Value {
    i32::try_from(place).map_or(Value::Long(place), Value::Int)
}

fn rank(at: usize, dense: bool, partition: &Partition) -> i64 {
    let same = |left: usize, right: usize| {
        let (left, right) = (partition.keys[left].values(), partition.keys[right].values());
        left.iter().zip(right).all(|(left, right)| order::equal(left, right))
    };
    if dense {
        return 1 + (1..=at).filter(|place| !same(place - 1, *place)).count() as i64;
    }
    (0..=at).find(|place| same(*place, at)).unwrap_or(at) as i64 + 1
}

/// The documents of a window.
fn window_rows(partition: &Partition, (start, end): (usize, usize)) -> &[Value] {
    assert!(start <= end && end <= partition.rows.len(), "a window lies in its partition");
    &partition.rows[start..end]
}

/// The operand of an operator that takes a document.
fn operand_document(value: &Value, name: &str, code: i32) -> Result<Document> {
    match value {
        Value::Document(document) => Ok((**document).clone()),
        other => fail!(code, "{name} expects an object, found {}", other.type_name()),
    }
}
