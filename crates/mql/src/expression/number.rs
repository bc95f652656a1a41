//! Sums of numbers of several types, as `$add`, `$sum` and `$avg` make them.

use crate::decimal::Decimal;
use crate::value::Value;

/// A sum that keeps what rounding of doubles would lose, and the widest type that it has met.
#[derive(Clone, Debug)]
pub struct Sum {
    integers: i128,
    /// Compensated sum of doubles: what was added, and what rounding cut off.
    double: f64,
    rest: f64,
    special: f64,
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
            double: 0.0,
            rest: 0.0,
            special: 0.0,
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
                Width::Int
            }
            Value::Long(value) => {
                self.integers += i128::from(*value);
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

    fn add_double(&mut self, value: f64) {
        if !value.is_finite() {
            self.special += value;
            return;
        }
        let sum = self.double + value;
        let part = sum - self.double;
        self.rest += (self.double - (sum - part)) + (value - part);
        self.double = sum;
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum as a double.
    pub fn as_f64(&self) -> f64 {
        if self.special != 0.0 || self.special.is_nan() {
            return self.special;
        }
        // Integers that double has no room for are split, so that no digit is lost before the last rounding.
        let (mut high, mut low) = (self.double, self.rest);
        for part in [(self.integers >> 32) as f64 * 4_294_967_296.0, (self.integers & 0xFFFF_FFFF) as f64] {
            let sum = high + part;
            let moved = sum - high;
            low += (high - (sum - moved)) + (part - moved);
            high = sum;
        }
        let total = high + low;
        if total.is_nan() { high } else { total }
    }

    fn as_decimal(&self) -> Decimal {
        if self.special != 0.0 || self.special.is_nan() {
            return self.decimal.add(Decimal::from_f64(self.special));
        }
        let mut total = self.decimal;
        if self.integers != 0 {
            total = total.add(Decimal::parse(&self.integers.to_string()).unwrap_or(Decimal::NAN));
        }
        if self.double != 0.0 {
            let doubles = Decimal::from_f64_exact(self.double);
            let doubles =
                if self.rest == 0.0 { doubles } else { doubles.add(Decimal::from_f64_exact(self.rest)) };
            total = total.add(doubles);
        }
        total
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
            _ => Value::Double(self.integers as f64),
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
