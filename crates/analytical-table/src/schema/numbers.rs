//! Numbers that a column holds exactly.
//!
//! No conversion here rounds: it returns `None` for a number that the other type lacks.

/// Every integer up to this magnitude is a double.
pub const EXACT_MAX: i64 = 1 << 53;

/// The integer that equals a double within ±2⁵³. Negative zero equals none.
pub fn long_of_double(value: f64) -> Option<i64> {
    (is_whole(value) && !(value == 0.0 && value.is_sign_negative())).then_some(value as i64)
}

/// Whether a double decides for `long`: a whole number within ±2⁵³, negative zero included.
pub fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64
}

/// The double that equals an integer.
pub fn double_of_long(value: i64) -> Option<f64> {
    let double = value as f64;
    (value.abs_diff(0) <= EXACT_MAX as u64 || double as i128 == i128::from(value)).then_some(double)
}
