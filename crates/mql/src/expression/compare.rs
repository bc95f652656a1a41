//! `$cmp`, `$eq` and their kin, `$not`, `$isNumber`.

use super::operator::{Operator, comparing, exactly};
use crate::error::Result;
use crate::order;
use crate::value::Value;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$cmp" => comparing(2, 2, |collation, values| {
            Ok(Value::Int(order::compare_by(collation, &values[0], &values[1]) as i32))
        }),
        "$eq" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_eq())
        }),
        "$ne" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_ne())
        }),
        "$gt" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_gt())
        }),
        "$gte" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_ge())
        }),
        "$lt" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_lt())
        }),
        "$lte" => comparing(2, 2, |collation, values| {
            answer(order::compare_by(collation, &values[0], &values[1]).is_le())
        }),
        "$not" => exactly(1, |_, values| answer(!values[0].is_true())),
        "$isNumber" => exactly(1, |_, values| answer(values[0].is_number())),
        _ => None,
    }
}

fn answer(value: bool) -> Result<Value> {
    Ok(Value::Bool(value))
}
