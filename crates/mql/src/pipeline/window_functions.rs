//! Functions over windows: accumulators, and those that know places and neighbours.

use super::run::Context;
use super::window::{Partition, operand_document, window_rows};
use crate::accumulator::{self, Accumulator};
use crate::error::{FAILED_TO_PARSE, Result, error, fail};
use crate::expression::{DateUnit, Expression, Scope, parse as parse_expression};
use crate::order;
use crate::sort::SortPattern;
use crate::value::Value;

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
    /// Of an array of two numbers; documents for which it is anything else do not count.
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
        alpha: f64,
    },
    /// The last value before that is there.
    CarryForward(Expression),
    LinearFill(Expression),
    Scale {
        input: Expression,
        least: f64,
        most: f64,
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
    let alpha = match (document.get("N"), document.get("alpha")) {
        (Some(count), None) => match count.to_i64_exact() {
            Some(count) if count > 0 => 2.0 / (count as f64 + 1.0),
            _ => fail!(FAILED_TO_PARSE, "'N' field must be an integer greater than 0, but found {count}"),
        },
        (None, Some(alpha)) => match alpha.to_f64() {
            Some(alpha) if alpha > 0.0 && alpha < 1.0 => alpha,
            _ => fail!(FAILED_TO_PARSE, "'alpha' must be between 0 and 1 (exclusive), found {alpha}"),
        },
        _ => fail!(FAILED_TO_PARSE, "$expMovingAvg requires exactly one of 'N' and 'alpha'"),
    };
    Ok(Function::MovingAverage { input: parse_expression(input, scope)?, alpha })
}

fn parse_scaler(operand: &Value, scope: &Scope) -> Result<Function> {
    let document = operand_document(operand, "$minMaxScaler", FAILED_TO_PARSE)?;
    let input = document
        .get("input")
        .ok_or_else(|| error!(FAILED_TO_PARSE, "$minMaxScaler requires an 'input' expression"))?;
    let number = |name: &str, default: f64| document.get(name).map_or(Some(default), Value::to_f64);
    match (number("min", 0.0), number("max", 1.0)) {
        (Some(least), Some(most)) if least < most => {
            Ok(Function::Scale { input: parse_expression(input, scope)?, least, most })
        }
        _ => fail!(FAILED_TO_PARSE, "$minMaxScaler requires 'min' to be less than 'max'"),
    }
}

impl Function {
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
                let own = input.evaluate_on(&mut context.env, own)?.to_f64();
                let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
                for row in rows {
                    if let Some(value) = input.evaluate_on(&mut context.env, row)?.to_f64() {
                        (low, high) = (low.min(value), high.max(value));
                    }
                }
                let scaled = |own: f64| {
                    if high > low { (own - low) / (high - low) * (most - least) + least } else { *least }
                };
                Ok(own.map_or(Value::Null, |own| Value::Double(scaled(own))))
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
            Function::MovingAverage { alpha, .. } => {
                let mut average: Option<f64> = None;
                for value in &mut values {
                    if let Some(number) = value.to_f64() {
                        average =
                            Some(average.map_or(number, |average| number * alpha + average * (1.0 - alpha)));
                    }
                    *value = average.map_or(Value::Null, Value::Double);
                }
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

fn covariance(rows: &[Value], pair: &Expression, sample: bool, context: &mut Context<'_>) -> Result<Value> {
    let (mut count, mut mean_left, mut mean_right, mut sum) = (0.0, 0.0, 0.0, 0.0);
    let (mut values, mut decimal) = (Vec::new(), false);
    for row in rows {
        let pair = pair.evaluate_on(&mut context.env, row)?;
        let Some([left, right]) = pair.as_array().map(|pair| pair.as_slice()) else { continue };
        let (Some(x), Some(y)) = (left.to_f64(), right.to_f64()) else { continue };
        decimal |= matches!(left, Value::Decimal(_)) || matches!(right, Value::Decimal(_));
        count += 1.0;
        let distance = x - mean_left;
        mean_left += distance / count;
        mean_right += (y - mean_right) / count;
        sum += distance * (y - mean_right);
        values.push((left.clone(), right.clone()));
    }
    let divisor = if sample { count - 1.0 } else { count };
    if divisor <= 0.0 {
        return Ok(Value::Null);
    }
    if decimal {
        return Ok(decimal_covariance(&values, divisor as i64));
    }
    Ok(Value::Double(sum / divisor))
}

fn decimal_covariance(values: &[(Value, Value)], divisor: i64) -> Value {
    use crate::decimal::Decimal;
    let of = |value: &Value| value.to_decimal().unwrap_or(Decimal::NAN);
    let (mut count, mut mean_left, mut mean_right, mut sum) =
        (0, Decimal::ZERO, Decimal::ZERO, Decimal::ZERO);
    for (left, right) in values {
        count += 1;
        let number = Decimal::from_i64(count);
        let distance = of(left).subtract(mean_left);
        mean_left = mean_left.add(distance.divide(number));
        mean_right = mean_right.add(of(right).subtract(mean_right).divide(number));
        sum = sum.add(distance.multiply(of(right).subtract(mean_right)));
    }
    Value::Decimal(sum.divide(Decimal::from_i64(divisor)))
}

type Input<'a> = (&'a Expression, Option<i64>);

/// The place of a document on the axis: its sort key, dates in units.
fn abscissa(at: usize, partition: &Partition, unit: Option<i64>) -> Result<f64> {
    match (partition.keys[at].values().first(), unit) {
        (Some(Value::Date(millis)), Some(unit)) => Ok(*millis as f64 / unit as f64),
        (Some(Value::Date(_)), None) => fail!(5624900, "a date as the sortBy needs a 'unit'"),
        (Some(value), None) if value.is_number() => Ok(value.to_f64().unwrap_or(f64::NAN)),
        _ => fail!(5624901, "the sortBy must be a date where a 'unit' is given, else a number"),
    }
}

fn derivative(
    range: (usize, usize),
    partition: &Partition,
    input: Input<'_>,
    context: &mut Context<'_>,
) -> Result<Value> {
    let (start, end) = range;
    if end - start < 2 {
        return Ok(Value::Null);
    }
    let mut at = |place: usize| -> Result<(f64, Option<f64>)> {
        let value = input.0.evaluate_on(&mut context.env, &partition.rows[place])?;
        Ok((abscissa(place, partition, input.1)?, value.to_f64()))
    };
    let ((left, low), (right, high)) = (at(start)?, at(end - 1)?);
    Ok(match (low, high) {
        (Some(low), Some(high)) if right != left => Value::Double((high - low) / (right - left)),
        _ => Value::Null,
    })
}

fn integral(
    range: (usize, usize),
    partition: &Partition,
    input: Input<'_>,
    context: &mut Context<'_>,
) -> Result<Value> {
    let mut points = Vec::new();
    for place in range.0..range.1 {
        if let Some(value) = input.0.evaluate_on(&mut context.env, &partition.rows[place])?.to_f64() {
            points.push((abscissa(place, partition, input.1)?, value));
        }
    }
    if points.is_empty() {
        return Ok(Value::Null);
    }
    let area = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0;
    // The sum of no areas is zero, and not the negative zero that sums begin with.
    Ok(Value::Double(points.windows(2).map(area).sum::<f64>() + 0.0))
}

fn fill_linearly(values: &mut [Value], partition: &Partition) -> Result<()> {
    let place = |at: usize| match partition.keys[at].values().first() {
        Some(Value::Date(millis)) => Ok(*millis as f64),
        Some(value) if value.is_number() => Ok(value.to_f64().unwrap_or(f64::NAN)),
        _ => fail!(605002, "Expected the sortBy field to be a number or a date"),
    };
    let known: Vec<usize> = (0..values.len()).filter(|at| values[*at].is_number()).collect();
    for pair in known.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let (left, right) = (place(start)?, place(end)?);
        let (low, high) = (values[start].to_f64().unwrap_or(0.0), values[end].to_f64().unwrap_or(0.0));
        for (at, value) in values.iter_mut().enumerate().take(end).skip(start + 1) {
            *value = Value::Double(low + (high - low) * (place(at)? - left) / (right - left));
        }
    }
    Ok(())
}
