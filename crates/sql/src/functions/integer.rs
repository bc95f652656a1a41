//! Arithmetic of 64-bit integers. An argument with a fraction or beyond 64 bits makes the result undefined;
//! overflow wraps around. Shifts use the low six bits of their count, and to the right they keep the sign.

use crate::functions::call::{Call, int};
use crate::value::datum::Datum;

pub(super) fn of_two<'a>(call: &Call<'_, 'a>, compute: impl Fn(i64, i64) -> i64) -> Option<Datum<'a>> {
    Some(int(compute(call.integer(0)?, call.integer(1)?)))
}

/// Undefined for the divisor zero.
pub(super) fn quotient<'a>(call: &Call<'_, 'a>, compute: impl Fn(i64, i64) -> i64) -> Option<Datum<'a>> {
    let (dividend, divisor) = (call.integer(0)?, call.integer(1)?);
    (divisor != 0).then(|| int(compute(dividend, divisor)))
}

pub(super) fn complement<'a>(call: &Call<'_, 'a>) -> Option<Datum<'a>> {
    Some(int(!call.integer(0)?))
}
