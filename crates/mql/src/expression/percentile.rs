//! `$percentile` and `$median`, as operators and for accumulators; computed exactly.

use super::env::Env;
use super::operands::At;
use super::tree::{Evaluate, Expression};
use crate::error::{Result, error, fail};
use crate::value::{Document, Value};

/// The parsed options of a `$percentile` or `$median`.
#[derive(Clone, Debug)]
pub(crate) struct Percentiles {
    points: Vec<f64>,
    single: bool,
}

pub(super) fn parse(name: &str, operand: &Value, at: &At<'_>) -> Result<Option<Expression>> {
    if !matches!(name, "$percentile" | "$median") {
        return Ok(None);
    }
    let (percentiles, input) = parse_percentiles(name, operand)?;
    Ok(Some(Expression::special(OfInput { percentiles, input: at.parse(&input)? })))
}

/// The points of a percentile, and its input.
pub(crate) fn parse_percentiles(name: &str, operand: &Value) -> Result<(Percentiles, Value)> {
    let median = name == "$median";
    let code = if median { 7436100 } else { 7436200 };
    let Value::Document(document) = operand else {
        fail!(code, "specification must be an object; found {name}: {operand}");
    };
    let known = |name: &str| matches!(name, "input" | "method") || (name == "p" && !median);
    if let Some((other, _)) = document.iter().find(|(name, _)| !known(name)) {
        fail!(40415, "BSON field '{name}.{other}' is an unknown field.");
    }
    let required = |field: &str| {
        let missing = || error!(40414, "BSON field '{name}.{field}' is missing but a required field");
        document.get(field).cloned().ok_or_else(missing)
    };
    let input = required("input")?;
    match required("method")? {
        Value::String(method) if &*method == "approximate" => {}
        Value::String(_) => fail!(2, "only method 'approximate' is supported"),
        other => fail!(14, "'method' must be a string, not {}", other.type_name()),
    }
    let points = if median { vec![0.5] } else { parse_points(&required("p")?, document)? };
    Ok((Percentiles { points, single: median }, input))
}

fn parse_points(points: &Value, document: &Document) -> Result<Vec<f64>> {
    let Value::Array(items) = points else {
        fail!(7750301, "the $percentile 'p' field must be an array of numbers from [0.0, 1.0]: {document}");
    };
    if items.is_empty() {
        fail!(7750301, "the $percentile 'p' field must not be empty: {document}");
    }
    let point = |item: &Value| match item.to_f64() {
        Some(point) if (0.0..=1.0).contains(&point) => Ok(point),
        Some(point) => fail!(7750303, "the $percentile 'p' field must hold numbers from [0.0, 1.0]: {point}"),
        None => fail!(7750302, "the $percentile 'p' field must hold numbers: {item}"),
    };
    items.iter().map(point).collect()
}

impl Percentiles {
    /// The values at the points among numbers; null where there are none.
    pub fn of(&self, values: &[Value]) -> Value {
        let mut numbers: Vec<f64> =
            values.iter().filter(|value| value.is_number()).filter_map(Value::to_f64).collect();
        numbers.sort_by(f64::total_cmp);
        let at = |point: &f64| {
            let rank = (point * numbers.len() as f64).ceil() as usize;
            numbers.get(rank.max(1) - 1).map_or(Value::Null, |value| Value::Double(*value))
        };
        if self.single {
            return self.points.first().map_or(Value::Null, at);
        }
        Value::array(self.points.iter().map(at).collect())
    }
}

struct OfInput {
    percentiles: Percentiles,
    input: Expression,
}

impl Evaluate for OfInput {
    fn evaluate(&self, env: &mut Env) -> Result<Value> {
        Ok(match self.input.evaluate(env)? {
            Value::Array(items) => self.percentiles.of(&items),
            value => self.percentiles.of(&[value]),
        })
    }

    fn operands(&self) -> Vec<&Expression> {
        vec![&self.input]
    }
}
