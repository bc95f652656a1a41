//! Parameters of a statement as values of the query engine.

use datafusion::common::ParamValues;
use datafusion::common::ScalarValue;
use serde_json::{Map, Value};

use crate::protocol::{Failure, FailureKind};

/// `$name` in the statement is the member `name`.
pub(super) fn parameters(given: &Map<String, Value>) -> Result<ParamValues, Failure> {
    let values = given.iter().map(|(name, value)| Ok((name.clone(), value_of(name, value)?)));
    let values: Result<Vec<(String, ScalarValue)>, Failure> = values.collect();
    Ok(ParamValues::from(values?))
}

fn value_of(name: &str, value: &Value) -> Result<ScalarValue, Failure> {
    Ok(match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(value) => ScalarValue::Boolean(Some(*value)),
        Value::String(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => ScalarValue::Int64(Some(whole)),
            (None, Some(double)) => ScalarValue::Float64(Some(double)),
            (None, None) => return Err(unfit(name, "a number that no column holds")),
        },
        Value::Array(elements) => list_of(name, elements)?,
        Value::Object(_) => {
            return Err(unfit(name, "an object: send its members as parameters of their own"));
        }
    })
}

/// A list, for `x = ANY($name)` or `array_has($name, x)`.
fn list_of(name: &str, elements: &[Value]) -> Result<ScalarValue, Failure> {
    let values: Result<Vec<ScalarValue>, Failure> =
        elements.iter().map(|element| value_of(name, element)).collect();
    let values = values?;
    let Some(data_type) = values.iter().map(ScalarValue::data_type).find(|found| !found.is_null()) else {
        return Err(unfit(name, "a list without a value that has a type"));
    };
    if values.iter().any(|value| !value.is_null() && value.data_type() != data_type) {
        return Err(unfit(name, "a list of values of several types"));
    }
    let typed: Vec<ScalarValue> = values
        .into_iter()
        .map(|value| if value.is_null() { ScalarValue::try_from(&data_type).unwrap_or(value) } else { value })
        .collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&typed, &data_type)))
}

fn unfit(name: &str, reason: &str) -> Failure {
    Failure::new(FailureKind::Statement, format!("the parameter '{name}' is {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_type_or_are_refused() {
        let of = |value: Value| value_of("p", &value);
        assert_eq!(of(json!(9_007_199_254_740_993_i64)), Ok(ScalarValue::Int64(Some(9_007_199_254_740_993))));
        assert_eq!(of(json!(0.5)), Ok(ScalarValue::Float64(Some(0.5))));
        assert_eq!(of(json!("a")), Ok(ScalarValue::Utf8(Some("a".into()))));
        assert!(matches!(of(json!(["a", null])), Ok(ScalarValue::List(_))));
        for refused in [json!({ "a": 1 }), json!(["a", 1]), json!([])] {
            assert!(of(refused.clone()).expect_err("refused").message.contains("'p'"), "{refused}");
        }
    }
}
