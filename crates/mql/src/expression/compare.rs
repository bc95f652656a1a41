//! `$cmp`, `$eq` and their kin, `$not`, `$isNumber`.

use super::{Operator, exactly};
use crate::error::Result;
use crate::order;
use crate::value::Value;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$cmp" => exactly(2, |_, values| Ok(Value::Int(order::compare(&values[0], &values[1]) as i32))),
        "$eq" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_eq())),
        "$ne" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_ne())),
        "$gt" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_gt())),
        "$gte" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_ge())),
        "$lt" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_lt())),
        "$lte" => exactly(2, |_, values| answer(order::compare(&values[0], &values[1]).is_le())),
        "$not" => exactly(1, |_, values| answer(!values[0].is_true())),
        "$isNumber" => exactly(1, |_, values| answer(values[0].is_number())),
        _ => None,
    }
}

fn answer(value: bool) -> Result<Value> {
    Ok(Value::Bool(value))
}
