//! Documents to accumulators.

use super::state::{Kind, State};
use crate::error::{Result, error, fail};
use crate::expression::{self, Env, Expression, Percentiles, Scope, count_argument, parse_percentiles};
use crate::sort::SortPattern;
use crate::value::{Document, Value};
use shardlake_collation::Collation;

/// A parsed accumulator: its kind, and the expression of its input.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    kind: Kind,
    argument: Expression,
    /// How many values `$firstN` and its kin keep.
    count: Option<Expression>,
    order: Option<SortPattern>,
    percentiles: Option<Percentiles>,
    collation: Collation,
}

/// Parses one accumulator; `None` for a name that is none.
pub(crate) fn parse(name: &str, operand: &Value, scope: &Scope) -> Result<Option<Accumulator>> {
    let kind = match name {
        "$sum" => Kind::Sum,
        "$avg" => Kind::Average,
        "$min" => Kind::Least,
        "$max" => Kind::Greatest,
        "$first" => Kind::First,
        "$last" => Kind::Last,
        "$push" => Kind::Push,
        "$addToSet" => Kind::AddToSet,
        "$mergeObjects" => Kind::Merge,
        "$stdDevPop" => Kind::Deviation { sample: false },
        "$stdDevSamp" => Kind::Deviation { sample: true },
        "$concatArrays" => Kind::Concat,
        "$setUnion" => Kind::Union,
        "$count" => {
            if matches!(operand, Value::Array(_)) {
                fail!(40237, "The {name} accumulator is a unary operator");
            }
            if !matches!(operand, Value::Document(document) if document.is_empty()) {
                fail!(14, "$count takes no arguments, i.e. $count:{{}}");
            }
            return Ok(Some(simple(Kind::Sum, Expression::constant(Value::Int(1)), scope)));
        }
        "$firstN" | "$lastN" | "$minN" | "$maxN" => return parse_n(name, operand, scope).map(Some),
        "$top" | "$topN" | "$bottom" | "$bottomN" => return parse_top(name, operand, scope).map(Some),
        "$median" | "$percentile" => {
            let (percentiles, input) = parse_percentiles(name, operand)?;
            let argument = expression::parse(&input, scope)?;
            let mut accumulator = simple(Kind::Percentile, argument, scope);
            accumulator.percentiles = Some(percentiles);
            return Ok(Some(accumulator));
        }
        "$accumulator" => fail!(303, "$accumulator is not supported: scripts are not run"),
        _ => return Ok(None),
    };
    if matches!(operand, Value::Array(_)) {
        fail!(40237, "The {name} accumulator is a unary operator");
    }
    Ok(Some(simple(kind, expression::parse(operand, scope)?, scope)))
}

fn simple(kind: Kind, argument: Expression, scope: &Scope) -> Accumulator {
    let collation = scope.collation().clone();
    Accumulator { kind, argument, count: None, order: None, percentiles: None, collation }
}

fn named<'a>(document: &'a Document, name: &str, operator: &str, code: i32) -> Result<&'a Value> {
    document.get(name).ok_or_else(|| error!(code, "Missing value for '{name}' in {operator}"))
}

/// How many values are kept. A constant is checked before a document is read, by a code of its own.
fn parse_count(count: &Value, scope: &Scope) -> Result<Expression> {
    let count = expression::parse(count, scope)?;
    if let Some(constant) = count.as_constant() {
        count_argument(constant).map_err(|error| error!(7548606, "{}", error.message()))?;
    }
    Ok(count)
}

fn parse_n(name: &str, operand: &Value, scope: &Scope) -> Result<Accumulator> {
    let Value::Document(document) = operand else {
        fail!(5787900, "specification must be an object; found {name}: {operand}");
    };
    if let Some((other, _)) = document.iter().find(|(known, _)| !matches!(&***known, "input" | "n")) {
        fail!(5787901, "Unknown argument for 'n' operator: {other}");
    }
    let count = named(document, "n", name, 5787906)?;
    let input = named(document, "input", name, 5787907)?;
    let kind = match name {
        "$firstN" => Kind::FirstN,
        "$lastN" => Kind::LastN,
        "$minN" => Kind::LeastN,
        _ => Kind::GreatestN,
    };
    let mut accumulator = simple(kind, expression::parse(input, scope)?, scope);
    accumulator.count = Some(parse_count(count, scope)?);
    Ok(accumulator)
}

fn parse_top(name: &str, operand: &Value, scope: &Scope) -> Result<Accumulator> {
    let Value::Document(document) = operand else {
        fail!(5788001, "specification must be an object; found {name}: {operand}");
    };
    let many = name.ends_with('N');
    let known = |field: &str| matches!(field, "output" | "sortBy") || (many && field == "n");
    if let Some((other, _)) = document.iter().find(|(field, _)| !known(field)) {
        fail!(5788002, "Unknown argument to {name}: {other}");
    }
    let count = if many { Some(named(document, "n", name, 5788003)?) } else { None };
    let output = named(document, "output", name, 5788004)?;
    let order = match named(document, "sortBy", name, 5788005)? {
        Value::Document(order) => SortPattern::parse(order, scope.collation())?,
        other => fail!(10065, "invalid parameter: expected an object (sortBy), found {}", other.type_name()),
    };
    let top = name.starts_with("$top");
    let mut accumulator = simple(Kind::Top { top, many }, expression::parse(output, scope)?, scope);
    accumulator.count = count.map(|count| parse_count(count, scope)).transpose()?;
    accumulator.order = Some(order);
    Ok(accumulator)
}

impl Accumulator {
    /// The argument of a standard deviation, and whether the deviation is that of a sample.
    pub fn deviation(&self) -> Option<(&Expression, bool)> {
        match self.kind {
            Kind::Deviation { sample } => Some((&self.argument, sample)),
            _ => None,
        }
    }

    /// An empty state. `env` holds the key of the group as the document: `n` may use its members.
    pub fn start(&self, env: &mut Env) -> Result<State> {
        let count = match &self.count {
            Some(count) => count_argument(&count.evaluate(env)?)?,
            None => 1,
        };
        let (order, percentiles) = (self.order.clone(), self.percentiles.clone());
        Ok(State::new(self.kind, count, order, percentiles, self.collation.clone()))
    }

    /// Adds the document that `env` holds as its root.
    pub fn add(&self, state: &mut State, document: &Value, env: &mut Env) -> Result<()> {
        // The reference computes the arguments of accumulators elsewhere, where these errors have other codes.
        let value = self.argument.evaluate(env).map_err(|found| match (found.code(), found.message()) {
            (2, words @ "can't $divide by zero") => error!(4848401, "{words}"),
            (16610, words) => error!(4848403, "{words}"),
            _ => found,
        })?;
        state.add(value, document)
    }
}
