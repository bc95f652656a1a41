//! Window functions that compute with numbers: slopes, areas, moving averages, gaps and covariances.
//!
//! They compute as expressions do: a decimal among their numbers makes the result a decimal, and integers keep
//! all their digits until a division.

use super::run::Context;
use crate::decimal::Decimal;
use crate::error::{Result, fail};
use crate::expression::{Expression, Sum, add, divide, multiply, subtract};
use crate::order;
use crate::sort::SortKey;
use crate::value::Value;

/// The documents of one partition in their order.
pub(super) struct Partition {
    pub rows: Vec<Value>,
    pub keys: Vec<SortKey>,
}

/// The input of a function, and the milliseconds of its unit where the order is by dates.
pub(super) type Input<'a> = (&'a Expression, Option<i64>);

fn product(left: Value, right: Value) -> Result<Value> {
    multiply(&[left, right])
}

fn sum(left: Value, right: Value) -> Result<Value> {
    add(&[left, right])
}

/// The place of a document on the axis: its sort key, a date where there is a unit.
fn abscissa(at: usize, partition: &Partition, unit: Option<i64>) -> Result<Value> {
    match (partition.keys[at].values().first(), unit) {
        (Some(date @ Value::Date(_)), Some(_)) => Ok(date.clone()),
        (Some(Value::Date(_)), None) => fail!(5624900, "a date as the sortBy needs a 'unit'"),
        (Some(value), None) if value.is_number() => Ok(value.clone()),
        _ => fail!(5624901, "the sortBy must be a date where a 'unit' is given, else a number"),
    }
}

/// The slope between the ends of the window.
pub(super) fn derivative(
    range: (usize, usize),
    partition: &Partition,
    input: Input<'_>,
    context: &mut Context<'_>,
) -> Result<Value> {
    let (start, end) = range;
    debug_assert!(start <= end && end <= partition.rows.len(), "a window lies in its partition");
    if end - start < 2 {
        return Ok(Value::Null);
    }
    let mut at = |place: usize| -> Result<(Value, Value)> {
        let value = input.0.evaluate_on(&mut context.env, &partition.rows[place])?;
        Ok((abscissa(place, partition, input.1)?, value))
    };
    let ((left, low), (right, high)) = (at(start)?, at(end - 1)?);
    if !low.is_number() || !high.is_number() {
        return Ok(Value::Null);
    }
    let run = subtract(&right, &left)?;
    if !run.is_true() {
        return Ok(Value::Null);
    }
    let slope = divide(&subtract(&high, &low)?, &run)?;
    match input.1 {
        Some(millis) => product(slope, Value::Long(millis)),
        None => Ok(slope),
    }
}

/// The area below the values of the window, by trapezoids.
pub(super) fn integral(
    range: (usize, usize),
    partition: &Partition,
    input: Input<'_>,
    context: &mut Context<'_>,
) -> Result<Value> {
    let mut points = Vec::new();
    for place in range.0..range.1 {
        let value = input.0.evaluate_on(&mut context.env, &partition.rows[place])?;
        if value.is_number() {
            points.push((abscissa(place, partition, input.1)?, value));
        }
    }
    if points.is_empty() {
        return Ok(Value::Null);
    }
    if points.iter().any(|(left, value)| left.is_nan() || value.is_nan()) {
        return Ok(Value::Double(f64::NAN));
    }
    let mut area = Sum::default();
    for pair in points.windows(2) {
        let ((left, low), (right, high)) = (&pair[0], &pair[1]);
        let double = product(sum(high.clone(), low.clone())?, subtract(right, left)?)?;
        area.add(&divide(&double, &Value::Double(2.0))?);
    }
    match input.1 {
        Some(millis) => divide(&area.value(), &Value::Long(millis)),
        None => Ok(area.value()),
    }
}

/// The weight of the newest value in a moving average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    double: f64,
    decimal: Decimal,
}

impl Weight {
    /// The weight that gives so many values most of the influence.
    pub fn of_count(count: i64) -> Weight {
        let (two, values) = (Decimal::from_i64(2), Decimal::from_i64(count).add(Decimal::from_i64(1)));
        Weight { double: 2.0 / (count as f64 + 1.0), decimal: two.divide(values) }
    }

    /// The weight that a number states; `None` where it is not between 0 and 1.
    pub fn of_number(weight: &Value) -> Option<Weight> {
        let double = weight.to_f64().filter(|weight| *weight > 0.0 && *weight < 1.0)?;
        Some(Weight { double, decimal: weight.to_decimal()? })
    }

    fn mean(self, newest: &Value, before: &Value) -> Result<Value> {
        let is_decimal = |value: &Value| matches!(value, Value::Decimal(_));
        let (own, rest) = if is_decimal(newest) || is_decimal(before) {
            (Value::Decimal(self.decimal), Value::Decimal(Decimal::from_i64(1).subtract(self.decimal)))
        } else {
            (Value::Double(self.double), Value::Double(1.0 - self.double))
        };
        sum(product(newest.clone(), own)?, product(before.clone(), rest)?)
    }
}

/// Replaces each value by the moving average up to it; values that are no numbers repeat the average.
pub(super) fn average_moving(values: &mut [Value], weight: Weight) -> Result<()> {
    let mut average: Option<Value> = None;
    for value in values {
        if value.is_number() {
            average = Some(match &average {
                None => one_width(value),
                Some(before) => weight.mean(value, before)?,
            });
        }
        *value = average.clone().unwrap_or(Value::Null);
    }
    Ok(())
}

/// A number as a double, but a decimal as it is.
fn one_width(value: &Value) -> Value {
    match value {
        Value::Decimal(_) => value.clone(),
        value => value.to_f64().map_or(Value::Null, Value::Double),
    }
}

/// Fills gaps between numbers on a line from one to the next.
pub(super) fn fill_linearly(values: &mut [Value], partition: &Partition) -> Result<()> {
    assert_eq!(values.len(), partition.keys.len(), "each document of a partition has its value");
    let place = |at: usize| match partition.keys[at].values().first() {
        Some(date @ Value::Date(_)) => Ok(date.clone()),
        Some(value) if value.is_number() => Ok(value.clone()),
        _ => fail!(605002, "Expected the sortBy field to be a number or a date"),
    };
    let known: Vec<usize> = (0..values.len()).filter(|at| values[*at].is_number()).collect();
    for pair in known.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let (left, right) = (place(start)?, place(end)?);
        let (low, high) = (values[start].clone(), values[end].clone());
        let (rise, run) = (subtract(&high, &low)?, subtract(&right, &left)?);
        for (at, value) in values.iter_mut().enumerate().take(end).skip(start + 1) {
            let share = product(rise.clone(), subtract(&place(at)?, &left)?)?;
            *value = sum(low.clone(), divide(&share, &run)?)?;
        }
    }
    Ok(())
}

/// A number on the line that leads the least of some numbers to one bound and the greatest to the other.
pub(super) fn scaled(own: &Value, values: &[Value], (least, most): (&Value, &Value)) -> Result<Value> {
    let by_order = |left: &&Value, right: &&Value| order::compare(left, right);
    let numbers = || values.iter().filter(|value| value.is_number());
    let (Some(low), Some(high)) = (numbers().min_by(by_order), numbers().max_by(by_order)) else {
        return Ok(Value::Null);
    };
    if !own.is_number() {
        return Ok(Value::Null);
    }
    if order::equal(low, high) {
        return Ok(one_width(least));
    }
    let share = divide(&subtract(own, low)?, &subtract(high, low)?)?;
    sum(product(share, subtract(most, least)?)?, least.clone())
}

/// Standard deviations of a window that documents enter and leave. As in MongoDB, the state is carried from one window to
/// the next, which decides the last digits, and an infinity or NaN in the window makes the result null.
pub(super) fn moving_deviations(
    ranges: &[(usize, usize)],
    partition: &Partition,
    (input, is_sample): (&Expression, bool),
    context: &mut Context<'_>,
) -> Result<Vec<Value>> {
    let values: Result<Vec<Value>> =
        partition.rows.iter().map(|row| input.evaluate_on(&mut context.env, row)).collect();
    let values = values?;
    let (mut deviation, mut start, mut end) = (MovingDeviation::default(), 0, 0);
    let mut results = Vec::with_capacity(ranges.len());
    for range in ranges {
        values[end.min(range.1)..range.1].iter().for_each(|value| deviation.update(value, 1.0));
        end = end.max(range.1);
        values[start.min(range.0)..range.0].iter().for_each(|value| deviation.update(value, -1.0));
        start = start.max(range.0);
        results.push(deviation.value(is_sample));
    }
    Ok(results)
}

/// Sum and sum of squared distances of the numbers in a window.
#[derive(Default)]
struct MovingDeviation {
    count: f64,
    infinite: f64,
    sum: Sum,
    squares: Sum,
}

impl MovingDeviation {
    /// Adds a number (1) or removes an added one (-1).
    fn update(&mut self, value: &Value, sign: f64) {
        let Some(number) = value.to_f64() else { return };
        if !number.is_finite() {
            self.infinite += sign;
            return;
        }
        if self.count == 0.0 {
            self.count = 1.0;
            self.sum.add(value);
            return;
        }
        if self.count + sign == 0.0 {
            *self = MovingDeviation { infinite: self.infinite, ..MovingDeviation::default() };
            return;
        }
        let distance = self.count * number - self.sum.as_f64();
        self.count += sign;
        self.sum.add(&Value::Double(number * sign));
        self.squares.add(&Value::Double(distance * distance * sign / (self.count * (self.count - sign))));
    }

    fn value(&self, is_sample: bool) -> Value {
        let divisor = if is_sample { self.count - 1.0 } else { self.count };
        let squares = self.squares.as_f64();
        if self.infinite > 0.0 || divisor <= 0.0 {
            return Value::Null;
        }
        // Rounding may leave less than nothing.
        match squares < 0.0 || (self.count == 1.0 && !is_sample) {
            true => Value::Int(0),
            false => Value::Double((squares / divisor).sqrt()),
        }
    }
}

/// The covariance of pairs of numbers; pairs of anything else do not count.
pub(super) fn covariance(
    rows: &[Value],
    pair: &Expression,
    sample: bool,
    context: &mut Context<'_>,
) -> Result<Value> {
    let mut pairs = Covariance::default();
    for row in rows {
        let pair = pair.evaluate_on(&mut context.env, row)?;
        if let Some([left, right]) = pair.as_array().map(|pair| pair.as_slice())
            && left.is_number()
            && right.is_number()
        {
            pairs.add(left, right)?;
        }
    }
    pairs.value(sample)
}

/// Sums of a covariance: the means are those of the pairs so far (Welford).
#[derive(Default)]
struct Covariance {
    count: u64,
    left: Sum,
    right: Sum,
    products: Sum,
    /// Pairs with an infinity or NaN, which outweigh all others.
    infinite: Sum,
}

impl Covariance {
    fn add(&mut self, left: &Value, right: &Value) -> Result<()> {
        let is_finite = |value: &Value| match value {
            Value::Decimal(value) => value.is_finite(),
            value => value.to_f64().is_some_and(f64::is_finite),
        };
        if !is_finite(left) || !is_finite(right) {
            [left, right].into_iter().filter(|value| !is_finite(value)).for_each(|value| {
                self.infinite.add(&Value::Double(value.to_f64().unwrap_or(f64::NAN)));
            });
            return Ok(());
        }
        self.count += 1;
        // The first pair has no mean before it, and no product: null is not added.
        let distance = subtract(left, &self.left.mean())?;
        self.left.add(left);
        self.right.add(right);
        self.products.add(&product(distance, subtract(right, &self.right.mean())?)?);
        Ok(())
    }

    fn value(&self, sample: bool) -> Result<Value> {
        let divisor = if sample { self.count.saturating_sub(1) } else { self.count };
        if self.infinite.count() > 0 {
            return Ok(Value::Double(self.infinite.as_f64()));
        }
        match (self.count, sample) {
            (1, false) => Ok(Value::Double(0.0)),
            _ if divisor == 0 => Ok(Value::Null),
            // The divisor is a double, which decides the exponents of decimals.
            _ => divide(&self.products.value(), &Value::Double(divisor as f64)),
        }
    }
}
