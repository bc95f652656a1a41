//! Accumulators as operators: over their arguments, or over the elements of the only one.

use super::number::{Deviation, Sum, average};
use super::operator::{MANY, Operator, between, comparing};
use crate::order;
use crate::value::Value;
use shardlake_collation::Collation;

pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "$sum" => between(0, MANY, |_, values| Ok(total(elements(values)))),
        "$avg" => between(0, MANY, |_, values| Ok(average(elements(values).iter()))),
        "$min" => comparing(0, MANY, |collation, values| Ok(extreme(collation, elements(values), false))),
        "$max" => comparing(0, MANY, |collation, values| Ok(extreme(collation, elements(values), true))),
        "$stdDevPop" => between(0, MANY, |_, values| Ok(deviation(elements(values), false))),
        "$stdDevSamp" => between(0, MANY, |_, values| Ok(deviation(elements(values), true))),
        _ => None,
    }
}

/// The elements of a single array argument, else the arguments.
fn elements(values: &[Value]) -> &[Value] {
    match values {
        [Value::Array(items)] => items,
        _ => values,
    }
}

fn total(values: &[Value]) -> Value {
    let mut sum = Sum::default();
    values.iter().for_each(|value| sum.add(value));
    sum.value()
}

fn deviation(values: &[Value], sample: bool) -> Value {
    let mut deviation = Deviation::default();
    values.iter().for_each(|value| deviation.add(value));
    deviation.value(sample)
}

fn extreme(collation: &Collation, values: &[Value], greatest: bool) -> Value {
    let values = values.iter().filter(|value| !value.is_nullish());
    let mut best: Option<&Value> = None;
    for value in values {
        let better = best.is_none_or(|best| {
            let order = order::compare_by(collation, value, best);
            if greatest { order.is_gt() } else { order.is_lt() }
        });
        if better {
            best = Some(value);
        }
    }
    best.cloned().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_doubles_are_compensated() {
        let tenths = vec![Value::Double(0.1); 10];
        assert!(order::identical(&total(&tenths), &Value::Double(1.0)));
        let wide = [Value::Int(i32::MAX), Value::Int(1)];
        assert!(order::identical(&total(&wide), &Value::Long(1 << 31)));
    }
}
