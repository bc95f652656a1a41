//! Functions of doubles. Without a numeric result they return NaN or an infinity, which only output refuses.

use shardlake_document::Number;

use crate::functions::call::{Call, int};
use crate::value::datum::Datum;
use crate::value::operators::number_datum;

pub(super) fn of_double<'a>(call: &Call<'_, 'a>, compute: impl Fn(f64) -> f64) -> Option<Datum<'a>> {
    Some(number_datum(compute(call.double(0)?)))
}

pub(super) fn of_doubles<'a>(call: &Call<'_, 'a>, compute: impl Fn(f64, f64) -> f64) -> Option<Datum<'a>> {
    Some(number_datum(compute(call.double(0)?, call.double(1)?)))
}

/// Integers are unchanged: a double would lose digits.
pub(super) fn rounded<'a>(call: &Call<'_, 'a>, round: impl Fn(f64) -> f64) -> Option<Datum<'a>> {
    match call.number(0)? {
        Number::Int(value) => Some(int(value)),
        Number::Double(value) => Some(number_datum(round(value))),
    }
}

/// `ROUND(number[, decimals])`, halves away from zero. Negative decimals round to tens, hundreds and so on.
pub(super) fn round<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    if call.count() < 2 {
        return rounded(call, f64::round);
    }
    let (number, decimals) = (call.number(0)?, call.integer(1)?);
    let value = number.as_f64();
    let power = 10_f64.powi(decimals.unsigned_abs().min(400) as i32);
    if decimals < 0 {
        return Some(number_datum((value / power).round() * power));
    }
    let scaled = value * power;
    // Larger doubles have no decimals to round.
    const WHOLE_MIN: f64 = 4_503_599_627_370_496.0;
    Some(match number {
        Number::Int(value) => int(value),
        Number::Double(_) if scaled.abs() < WHOLE_MIN => number_datum(scaled.round() / power),
        Number::Double(value) => number_datum(value),
    })
}

pub(super) fn abs<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    match call.number(0)? {
        Number::Int(value) => Some(value.checked_abs().map_or_else(|| number_datum(-(value as f64)), int)),
        Number::Double(value) => Some(number_datum(value.abs())),
    }
}

pub(super) fn sign<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let value = call.double(0)?;
    Some(if value.is_nan() || value == 0.0 { number_datum(value) } else { number_datum(value.signum()) })
}

/// The natural logarithm, or that to the base of the second argument.
pub(super) fn log<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let value = call.double(0)?.ln();
    Some(number_datum(if call.count() > 1 { value / call.double(1)?.ln() } else { value }))
}

/// Rounds down to a multiple of the bin size. For a size like 0.01 the result has as many decimals as the size.
pub(super) fn number_bin<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    let value = call.double(0)?;
    let size = if call.count() > 1 { call.double(1)? } else { 1.0 };
    if size == 0.0 {
        return None;
    }
    let quotient = value / size;
    // 0.3 / 0.1 is a little less than 3: a quotient within rounding of a whole number is that number.
    let nearest = quotient.round();
    let is_near = (quotient - nearest).abs() <= 4.0 * f64::EPSILON * quotient.abs();
    let binned = if is_near { nearest } else { quotient.floor() } * size;
    Some(number_datum(with_decimals_of(size, binned)))
}

fn with_decimals_of(size: f64, value: f64) -> f64 {
    const DECIMALS_MAX: usize = 15;
    let text = size.to_string();
    match text.split_once('.') {
        Some((_, decimals)) if decimals.len() <= DECIMALS_MAX && value.is_finite() => {
            let decimals = decimals.len();
            format!("{value:.decimals$}").parse().unwrap_or(value)
        }
        _ => value,
    }
}

/// A number from 0 to 1, without 1. The next state is that of SplitMix64.
pub(super) fn random<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    const TWO_POW_53: f64 = 9_007_199_254_740_992.0;
    let state = call.context.random.get().wrapping_add(STEP);
    call.context.random.set(state);
    let mut bits = state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    number_datum((bits >> 11) as f64 / TWO_POW_53)
}
