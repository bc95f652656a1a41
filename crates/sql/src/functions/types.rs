//! The type checks: `true` or `false` for every value, undefined included.

use shardlake_document::Number;

use crate::functions::calendar::Moment;
use crate::functions::call::{Call, whole};
use crate::value::datum::{Datum, DatumType};

pub(super) fn has_type<'a>(call: &Call<'_, 'a>, wanted: DatumType) -> Datum<'a> {
    Datum::Bool(call.datum(0).datum_type() == wanted)
}

pub(super) fn is_defined<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    Datum::Bool(!call.datum(0).is_undefined())
}

pub(super) fn is_primitive<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    use DatumType::{Bool, Null, Number, String};
    Datum::Bool(matches!(call.datum(0).datum_type(), Null | Bool | Number | String))
}

pub(super) fn is_finite_number<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    Datum::Bool(call.double(0).is_some_and(f64::is_finite))
}

pub(super) fn is_integer<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    Datum::Bool(call.number(0).is_some_and(|number: Number| whole(number).is_some()))
}

pub(super) fn is_date_time<'a>(call: &Call<'_, 'a>) -> Datum<'a> {
    Datum::Bool(call.text(0).is_some_and(|text| Moment::parse(text).is_some()))
}
