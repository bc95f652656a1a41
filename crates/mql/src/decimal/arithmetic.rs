//! Sum, product, quotient, remainder, rounding and order of decimals.

use super::{Big, DIGITS, Decimal, EXPONENT_MIN, Parts};
use std::cmp::Ordering;

/// Rounding of a value with surplus digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    HalfEven,
    Down,
    Floor,
    Ceiling,
}

impl Decimal {
    #[allow(clippy::should_implement_trait)] // by name, like the operations that have no sign
    pub fn add(self, other: Decimal) -> Decimal {
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) => self,
            (_, Parts::Nan) => other,
            (Parts::Infinity { negative: left }, Parts::Infinity { negative: right }) => {
                if left == right {
                    self
                } else {
                    Decimal::NAN
                }
            }
            (Parts::Infinity { .. }, _) => self,
            (_, Parts::Infinity { .. }) => other,
            (
                Parts::Finite { negative, coefficient, exponent },
                Parts::Finite { negative: sign, coefficient: factor, exponent: place },
            ) => add_finite((negative, coefficient, exponent), (sign, factor, place)),
        }
    }

    pub fn subtract(self, other: Decimal) -> Decimal {
        self.add(if other.is_nan() { other } else { other.negated() })
    }

    pub fn multiply(self, other: Decimal) -> Decimal {
        let negative = self.is_negative() != other.is_negative();
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) => self,
            (_, Parts::Nan) => other,
            (Parts::Infinity { .. }, _) | (_, Parts::Infinity { .. }) => {
                if self.is_zero() || other.is_zero() { Decimal::NAN } else { Decimal::infinity(negative) }
            }
            (
                Parts::Finite { coefficient, exponent, .. },
                Parts::Finite { coefficient: factor, exponent: place, .. },
            ) => {
                let product = Big::from_u128(coefficient).mul(&Big::from_u128(factor));
                Decimal::rounded(negative, product, i64::from(exponent) + i64::from(place), false)
            }
        }
    }

    /// The quotient; of a finite value and zero an infinity, of two zeros NaN.
    pub fn divide(self, other: Decimal) -> Decimal {
        let negative = self.is_negative() != other.is_negative();
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) => self,
            (_, Parts::Nan) => other,
            (Parts::Infinity { .. }, Parts::Infinity { .. }) => Decimal::NAN,
            (Parts::Infinity { .. }, _) => Decimal::infinity(negative),
            (_, Parts::Infinity { .. }) => {
                Decimal::rounded(negative, Big::zero(), i64::from(EXPONENT_MIN), false)
            }
            (
                Parts::Finite { coefficient, exponent, .. },
                Parts::Finite { coefficient: divisor, exponent: place, .. },
            ) => divide_finite(negative, (coefficient, exponent), (divisor, place)),
        }
    }

    /// The remainder with the sign of the dividend.
    pub fn remainder(self, other: Decimal) -> Decimal {
        match (self.parts(), other.parts()) {
            (Parts::Nan, _) => self,
            (_, Parts::Nan) => other,
            (Parts::Infinity { .. }, _) => Decimal::NAN,
            (_, Parts::Infinity { .. }) => self,
            (
                Parts::Finite { negative, coefficient, exponent },
                Parts::Finite { coefficient: divisor, exponent: place, .. },
            ) => {
                if divisor == 0 {
                    return Decimal::NAN;
                }
                let common = exponent.min(place);
                let dividend = Big::from_u128(coefficient).mul_pow10((exponent - common) as usize);
                let divisor = Big::from_u128(divisor).mul_pow10((place - common) as usize);
                Decimal::rounded(negative, dividend.divide(&divisor).1, i64::from(common), false)
            }
        }
    }

    /// The value as a multiple of ten to the `exponent`; NaN where that has more than 34 digits.
    pub fn quantized(self, exponent: i32, rounding: Rounding) -> Decimal {
        let Parts::Finite { negative, coefficient, exponent: own } = self.parts() else { return self };
        if own >= exponent {
            let scaled = Big::from_u128(coefficient);
            let more = (own - exponent) as usize;
            if coefficient != 0 && scaled.digits() + more > DIGITS {
                return Decimal::NAN;
            }
            return Decimal::rounded(negative, scaled.mul_pow10(more), i64::from(exponent), false);
        }
        let drop = (exponent - own) as usize;
        let value = Big::from_u128(coefficient);
        let (quotient, rest) = value.divide(&Big::pow10(drop));
        let up = match rounding {
            Rounding::Down => false,
            Rounding::Floor => negative && !rest.is_zero(),
            Rounding::Ceiling => !negative && !rest.is_zero(),
            Rounding::HalfEven => {
                let half = Big::pow10(drop - 1).mul(&Big::from_u128(5));
                rest > half || (rest == half && quotient.is_odd())
            }
        };
        let kept = if up { quotient.add(&Big::from_u128(1)) } else { quotient };
        Decimal::rounded(negative, kept, i64::from(exponent), false)
    }

    /// The value rounded to an integer.
    pub fn to_whole(self, rounding: Rounding) -> Decimal {
        match self.parts() {
            Parts::Finite { exponent, .. } if exponent < 0 => self.quantized(0, rounding),
            _ => self,
        }
    }

    /// The order of numbers: NaN below everything and equal to itself, zeros equal.
    pub fn compare(self, other: Decimal) -> Ordering {
        rank(self).cmp(&rank(other)).then_with(|| {
            let (Some((negative, left, place)), Some((_, right, other_place))) =
                (self.canonical(), other.canonical())
            else {
                return Ordering::Equal;
            };
            let order = compare_magnitudes((left, place), (right, other_place));
            if negative { order.reverse() } else { order }
        })
    }

    /// The order of this value and a double, by their exact values.
    pub fn compare_f64(self, other: f64) -> Ordering {
        let other_rank = match other {
            _ if other.is_nan() => -3,
            f64::NEG_INFINITY => -2,
            f64::INFINITY => 2,
            _ => i32::from(other > 0.0) - i32::from(other < 0.0),
        };
        rank(self).cmp(&other_rank).then_with(|| {
            let Some((negative, coefficient, exponent)) = self.canonical() else { return Ordering::Equal };
            if coefficient == 0 || !other.is_finite() {
                return Ordering::Equal;
            }
            let order = compare_binary(coefficient, exponent, other.abs());
            if negative { order.reverse() } else { order }
        })
    }
}

/// Classes of values in their order; values of one class of finite numbers compare by their digits.
fn rank(value: Decimal) -> i32 {
    match value.parts() {
        Parts::Nan => -3,
        Parts::Infinity { negative } => {
            if negative {
                -2
            } else {
                2
            }
        }
        Parts::Finite { coefficient: 0, .. } => 0,
        Parts::Finite { negative, .. } => {
            if negative {
                -1
            } else {
                1
            }
        }
    }
}

fn compare_magnitudes((left, place): (u128, i32), (right, other_place): (u128, i32)) -> Ordering {
    if left == 0 || right == 0 {
        return left.cmp(&right);
    }
    let top = |value: u128, place: i32| value.ilog10() as i32 + place;
    top(left, place).cmp(&top(right, other_place)).then_with(|| {
        let common = place.min(other_place);
        let scaled = |value: u128, place: i32| Big::from_u128(value).mul_pow10((place - common) as usize);
        scaled(left, place).cmp(&scaled(right, other_place))
    })
}

/// Compares a decimal above zero with a finite double above zero.
fn compare_binary(coefficient: u128, exponent: i32, other: f64) -> Ordering {
    let top = coefficient.ilog10() as i32 + exponent;
    if top > 310 {
        return Ordering::Greater;
    }
    if top < -330 {
        return Ordering::Less;
    }
    let bits = other.to_bits();
    let raw = (bits >> 52) as i32 & 0x7FF;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = if raw == 0 { (fraction, -1074) } else { (fraction | 1 << 52, raw - 1075) };
    let (mut left, mut right) = (Big::from_u128(coefficient), Big::from_u128(u128::from(mantissa)));
    if exponent >= 0 {
        left = left.mul_pow10(exponent as usize);
    } else {
        right = right.mul_pow10(exponent.unsigned_abs() as usize);
    }
    if power >= 0 {
        right = right.mul(&Big::pow2(power as usize));
    } else {
        left = left.mul(&Big::pow2(power.unsigned_abs() as usize));
    }
    left.cmp(&right)
}

type Finite = (bool, u128, i32);

fn add_finite(left: Finite, right: Finite) -> Decimal {
    let (high, low) = if left.2 >= right.2 { (left, right) } else { (right, left) };
    assert!(low.2 <= high.2, "terms are added from the lower exponent");
    if high.1 == 0 || low.1 == 0 {
        return add_zero(high, low);
    }
    // Digits far below the last digit of the sum only decide a tie.
    let gap = (high.2 - low.2) as usize;
    let reach = 2 * DIGITS + 4;
    let (low, gap, sticky) = if gap > reach {
        let shifted = (low.0, 1, high.2 - reach as i32);
        (shifted, reach, true)
    } else {
        (low, gap, false)
    };
    let high_scaled = Big::from_u128(high.1).mul_pow10(gap);
    let low_value = Big::from_u128(low.1);
    let exponent = i64::from(low.2);
    if high.0 == low.0 {
        return Decimal::rounded(high.0, high_scaled.add(&low_value), exponent, sticky);
    }
    match high_scaled.cmp(&low_value) {
        Ordering::Equal => Decimal::rounded(false, Big::zero(), exponent, false),
        Ordering::Greater => Decimal::rounded(high.0, high_scaled.sub(&low_value), exponent, false),
        Ordering::Less => Decimal::rounded(low.0, low_value.sub(&high_scaled), exponent, false),
    }
}

/// A sum in which one term is zero: the other one, at the lower exponent as far as 34 digits reach.
fn add_zero(high: Finite, low: Finite) -> Decimal {
    if high.1 == 0 {
        let negative = if low.1 == 0 { high.0 && low.0 } else { low.0 };
        return Decimal::rounded(negative, Big::from_u128(low.1), i64::from(low.2), false);
    }
    let value = Big::from_u128(high.1);
    let more = (DIGITS - value.digits()).min((high.2 - low.2) as usize);
    Decimal::rounded(high.0, value.mul_pow10(more), i64::from(high.2) - more as i64, false)
}

fn divide_finite(negative: bool, dividend: (u128, i32), divisor: (u128, i32)) -> Decimal {
    let ideal = i64::from(dividend.1) - i64::from(divisor.1);
    if divisor.0 == 0 {
        return if dividend.0 == 0 { Decimal::NAN } else { Decimal::infinity(negative) };
    }
    if dividend.0 == 0 {
        return Decimal::rounded(negative, Big::zero(), ideal, false);
    }
    let (left, right) = (Big::from_u128(dividend.0), Big::from_u128(divisor.0));
    let more = (DIGITS + 3 + right.digits()).saturating_sub(left.digits());
    let (mut quotient, rest) = left.mul_pow10(more).divide(&right);
    let mut exponent = ideal - more as i64;
    if rest.is_zero() {
        while exponent < ideal {
            let (shorter, digit) = quotient.divide_small(10);
            if digit != 0 {
                break;
            }
            (quotient, exponent) = (shorter, exponent + 1);
        }
    }
    Decimal::rounded(negative, quotient, exponent, !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use super::{Decimal, Ordering, Rounding};

    fn value(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn results_have_the_exponents_of_the_standard() {
        assert_eq!(value("1.10").add(value("2")).to_string(), "3.10");
        assert_eq!(value("10").divide(value("4")).to_string(), "2.5");
        assert_eq!(value("1").divide(value("3")).to_string(), "0.3333333333333333333333333333333333");
        assert_eq!(value("1E+34").add(value("1")).to_string(), "1.000000000000000000000000000000000E+34");
        assert_eq!(
            value("1E+40").subtract(value("1E-40")).to_string(),
            "1.000000000000000000000000000000000E+40"
        );
        assert_eq!(value("10").remainder(value("3")).to_string(), "1");
        assert_eq!(value("2.5").quantized(0, Rounding::HalfEven).to_string(), "2");
        assert_eq!(value("-2.5").to_whole(Rounding::Floor).to_string(), "-3");
    }

    #[test]
    fn decimals_compare_with_doubles_exactly() {
        assert_eq!(value("1.1").compare_f64(1.1), Ordering::Less);
        assert_eq!(value("0.5").compare_f64(0.5), Ordering::Equal);
        assert_eq!(value("NaN").compare_f64(f64::NAN), Ordering::Equal);
        assert_eq!(value("1E+400").compare_f64(f64::MAX), Ordering::Greater);
    }
}
