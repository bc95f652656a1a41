//! Sums of numbers of several types, as `$sum` and `$avg` make them.

use crate::decimal::Decimal;
use crate::value::Value;

/// A sum that keeps the digits that rounding of doubles would lose, and the widest type of its parts.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The integers, for sums that are integers.
    integers: i128,
    /// All numbers that are no decimals: the nearest double, and the rest that its rounding cut off.
    nearest: f64,
    rest: f64,
    /// The plain sum, which distinguishes infinities from NaN.
    plain: f64,
    decimal: Decimal,
    widest: Width,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Int,
    Long,
    Double,
    Decimal,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            integers: 0,
            nearest: 0.0,
            rest: 0.0,
            plain: 0.0,
            decimal: Decimal::ZERO,
            widest: Width::Int,
            count: 0,
        }
    }
}

impl Sum {
    /// Adds a number; anything else changes nothing.
    pub fn add(&mut self, value: &Value) {
        let width = match value {
            Value::Int(value) => {
                self.integers += i128::from(*value);
                self.add_double(f64::from(*value));
                Width::Int
            }
            Value::Long(value) => {
                self.integers += i128::from(*value);
                self.add_long(*value);
                Width::Long
            }
            Value::Double(value) => {
                self.add_double(*value);
                Width::Double
            }
            Value::Decimal(value) => {
                self.decimal = self.decimal.add(*value);
                Width::Decimal
            }
            _ => return,
        };
        self.count += 1;
        self.widest = self.widest.max(width);
    }

    /// Adds an integer in two halves, each of which a double holds exactly.
    fn add_long(&mut self, value: i64) {
        const HALF: i64 = 1 << 32;
        let high = value / HALF * HALF;
        self.add_double((value - high) as f64);
        self.add_double(high as f64);
    }

    /// Adds a double and the rest of the sum first, then the nearest double (Dekker; Møller and Knuth).
    /// The order of the operations decides the last digit of results, so it is that of MongoDB.
    fn add_double(&mut self, value: f64) {
        self.plain += value;
        let part = value + self.rest;
        let kept = self.rest - (part - value);
        let sum = self.nearest + part;
        let moved = sum - part;
        let lost = (self.nearest - moved) + (part - (sum - moved));
        (self.nearest, self.rest) = (sum, kept + lost);
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum as a double.
    pub fn as_f64(&self) -> f64 {
        if self.nearest.is_nan() { self.plain } else { self.nearest }
    }

    fn as_decimal(&self) -> Decimal {
        if !self.nearest.is_finite() {
            return self.decimal.add(Decimal::from_f64(self.plain));
        }
        let [nearest, rest] = [self.nearest, self.rest].map(Decimal::from_f64_exact);
        self.decimal.add(nearest.add(rest))
    }

    /// The sum in the widest type of its parts; integers that do not fit grow.
    pub fn value(&self) -> Value {
        match self.widest {
            Width::Int => self.integer(true),
            Width::Long => self.integer(false),
            Width::Double => Value::Double(self.as_f64()),
            Width::Decimal => Value::Decimal(self.as_decimal()),
        }
    }

    fn integer(&self, narrow: bool) -> Value {
        match (i32::try_from(self.integers), i64::try_from(self.integers)) {
            (Ok(value), _) if narrow => Value::Int(value),
            (_, Ok(value)) => Value::Long(value),
            _ => Value::Double(self.as_f64()),
        }
    }

    /// The mean; null of nothing.
    pub fn mean(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        if self.widest == Width::Decimal {
            return Value::Decimal(self.as_decimal().divide(Decimal::from_i64(self.count as i64)));
        }
        Value::Double(self.as_f64() / self.count as f64)
    }
}

/// The mean of the numbers among values.
pub(crate) fn average<'a>(values: impl Iterator<Item = &'a Value>) -> Value {
    let mut sum = Sum::default();
    values.for_each(|value| sum.add(value));
    sum.mean()
}

/// Welford's sums for a standard deviation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
    broken: bool,
}

impl Deviation {
    pub fn add(&mut self, value: &Value) {
        let Some(value) = value.to_f64() else { return };
        self.broken |= !value.is_finite();
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    /// The deviation of a sample or of the whole; null where there are too few numbers.
    pub fn value(&self, sample: bool) -> Value {
        let divisor = if sample { self.count.saturating_sub(1) } else { self.count };
        if divisor == 0 {
            return Value::Null;
        }
        if self.broken {
            return Value::Double(f64::NAN);
        }
        Value::Double((self.squares / divisor as f64).sqrt())
    }
}
