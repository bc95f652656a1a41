//! Arithmetic and bit operators on numbers.
//!
//! Arithmetic is that of doubles; a whole result within ±2^53 is an integer again. Bit operators are JavaScript's: operands
//! are truncated to integers and reduced to 32 bits; results are signed, except that of `>>>`.

use shardlake_document::{Number, Value};

use crate::syntax::ast::{BinaryOperator, UnaryOperator};

/// The largest integer up to which doubles hold every integer exactly.
const EXACT_INT_MAX: i64 = 1 << 53;

/// `None` for operators without a numeric operand.
pub(crate) fn of_number(operator: UnaryOperator, operand: Number) -> Option<Number> {
    match operator {
        UnaryOperator::Not => None,
        UnaryOperator::Plus => Some(operand),
        UnaryOperator::Minus => Some(number(-operand.as_f64())),
        UnaryOperator::BitNot => Some(Number::Int(i64::from(!low_32_bits(operand)))),
    }
}

/// Whether the number is exactly a double.
pub(crate) fn is_exact(number: Number) -> bool {
    match number {
        Number::Int(value) => value.unsigned_abs() <= EXACT_INT_MAX as u64,
        Number::Double(_) => true,
    }
}

/// For operators other than comparisons.
#[inline]
pub(crate) fn arithmetic(operator: BinaryOperator, left: Number, right: Number) -> Number {
    let (x, y) = (left.as_f64(), right.as_f64());
    // Computed only for operators that need bits: the bits of a double cost a division.
    let (bits, other_bits) = (|| low_32_bits(left), || low_32_bits(right));
    let shift = || other_bits() as u32 & 31;
    match operator {
        BinaryOperator::Add => number(x + y),
        BinaryOperator::Subtract => number(x - y),
        BinaryOperator::Multiply => number(x * y),
        BinaryOperator::Divide => number(x / y),
        BinaryOperator::Modulo => match (left, right) {
            // The same as with doubles, which hold both exactly: a whole remainder with the sign of the left,
            // and no zero below it.
            (Number::Int(left @ 0..=EXACT_INT_MAX), Number::Int(right @ 1..=EXACT_INT_MAX)) => {
                Number::Int(left % right)
            }
            _ => number(x % y),
        },
        BinaryOperator::BitAnd => Number::Int(i64::from(bits() & other_bits())),
        BinaryOperator::BitOr => Number::Int(i64::from(bits() | other_bits())),
        BinaryOperator::BitXor => Number::Int(i64::from(bits() ^ other_bits())),
        BinaryOperator::ShiftLeft => Number::Int(i64::from(bits() << shift())),
        BinaryOperator::ShiftRight => Number::Int(i64::from(bits() >> shift())),
        // Zeros come in from the left, and the result is a signed number like those of the other operators.
        BinaryOperator::ShiftRightZeroFill => Number::Int(i64::from((bits() as u32 >> shift()) as i32)),
        BinaryOperator::Equal
        | BinaryOperator::NotEqual
        | BinaryOperator::Less
        | BinaryOperator::LessOrEqual
        | BinaryOperator::Greater
        | BinaryOperator::GreaterOrEqual => {
            unreachable!("comparisons take every type and are handled before")
        }
    }
}

pub(crate) fn number_value(value: f64) -> Value {
    number(value).into()
}

/// A whole number within the range of exact doubles, otherwise the double.
#[inline]
pub(super) fn number(value: f64) -> Number {
    const EXACT_MAX: f64 = EXACT_INT_MAX as f64;
    // The conversion cuts off the fraction, as `trunc` does, which is a call of a function on most processors.
    let is_whole = value.abs() <= EXACT_MAX && value as i64 as f64 == value;
    let is_negative_zero = value == 0.0 && value.is_sign_negative();
    if is_whole && !is_negative_zero { Number::Int(value as i64) } else { Number::Double(value) }
}

fn low_32_bits(number: Number) -> i32 {
    const TWO_POW_32: f64 = 4_294_967_296.0;
    match number {
        Number::Int(value) => value as i32,
        Number::Double(value) if !value.is_finite() => 0,
        Number::Double(value) => value.trunc().rem_euclid(TWO_POW_32) as u32 as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_integers_as_far_as_doubles_hold_all_of_them() {
        let max = EXACT_INT_MAX as f64;
        for whole in [0.0, 1.0, -1.0, max, -max, max - 1.0] {
            assert_eq!(number(whole), Number::Int(whole as i64), "{whole}");
        }
        for other in [0.5, -0.5, max + 2.0, -max - 2.0, 1e300, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(number(other), Number::Double(other), "{other}");
        }
        assert!(matches!(number(-0.0), Number::Double(zero) if zero.is_sign_negative()));
        assert!(matches!(number(f64::NAN), Number::Double(nan) if nan.is_nan()));
    }

    #[test]
    fn remainder_of_integers_is_that_of_their_doubles() {
        let numbers = [0, 1, 2, 7, 99, EXACT_INT_MAX - 1, EXACT_INT_MAX, EXACT_INT_MAX + 1, i64::MAX];
        let signed = || numbers.into_iter().chain(numbers.map(|number| -number)).chain([i64::MIN]);
        let shown = |number: Number| format!("{number:?}");
        for (left, right) in signed().flat_map(|left| signed().map(move |right| (left, right))) {
            let found = arithmetic(BinaryOperator::Modulo, Number::Int(left), Number::Int(right));
            let wanted = number(left as f64 % right as f64);
            assert_eq!(shown(found), shown(wanted), "{left} % {right}");
        }
    }
}
