//! Scalar values, and conditions over them alone: the filter that most scans spend their time in.
//!
//! [`evaluate`](super::evaluate) makes a [`Datum`] of every node, which may own its value, and counts its
//! work node by node. A condition of comparisons, arithmetic and logic over constants and top-level
//! properties needs neither: it finds all its properties in one walk over the item's bytes, or in prepared
//! columns (`column.rs`). Steps and results are the same as those of `evaluate`. A row in which a property is
//! an array, an object or a value that JSON lacks is left to `evaluate`.

use std::cmp::Ordering;
use std::sync::Arc;

use shardlake_document::{ItemView, MemberNames, Members, Number, RawValue, Value, compare, compare_strings};

use crate::evaluate::column::ScalarColumn;
use crate::evaluate::datum::{Datum, walk_steps};
use crate::evaluate::{READ_BYTES_PER_STEP, operators};
use crate::expression::{BinaryOperator, Expression, UnaryOperator};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Undefined,
    Null,
    Bool(bool),
    Number(Number),
    String(&'a str),
}

impl<'a> Scalar<'a> {
    pub fn of_raw(raw: RawValue<'a>) -> Option<Scalar<'a>> {
        Some(match raw {
            RawValue::Null => Scalar::Null,
            RawValue::Bool(value) => Scalar::Bool(value),
            RawValue::Int(value) => Scalar::Number(Number::Int(value)),
            RawValue::Double(value) => Scalar::Number(Number::Double(value)),
            RawValue::String(text) => Scalar::String(text),
            RawValue::Array(_) | RawValue::Object(_) | RawValue::NonJson(_) => return None,
        })
    }

    fn of_literal(value: &'a Value) -> Option<Scalar<'a>> {
        Some(match value {
            Value::Undefined => Scalar::Undefined,
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Bool(*value),
            Value::Int(value) => Scalar::Number(Number::Int(*value)),
            Value::Double(value) => Scalar::Number(Number::Double(*value)),
            Value::String(text) => Scalar::String(text),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    /// `None` for arrays and objects.
    pub fn of_datum(datum: &'a Datum<'_>) -> Option<Scalar<'a>> {
        Some(match datum {
            Datum::Undefined => Scalar::Undefined,
            Datum::Null => Scalar::Null,
            Datum::Bool(value) => Scalar::Bool(*value),
            Datum::Number(number) => Scalar::Number(*number),
            Datum::String(text) => Scalar::String(text),
            _ => return None,
        })
    }

    /// Like [`Datum::order`].
    pub fn order(self, other: Scalar<'_>) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Null, Scalar::Null) => Some(Ordering::Equal),
            (Scalar::Bool(left), Scalar::Bool(right)) => Some(left.cmp(&right)),
            (Scalar::Number(Number::Int(left)), Scalar::Number(Number::Int(right))) => Some(left.cmp(&right)),
            (Scalar::Number(left), Scalar::Number(right))
                if operators::is_exact(left) && operators::is_exact(right) =>
            {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            (Scalar::Number(left), Scalar::Number(right)) => {
                let is_ordered = !left.as_f64().is_nan() && !right.as_f64().is_nan();
                is_ordered.then(|| compare(&left.into(), &right.into()))
            }
            (Scalar::String(left), Scalar::String(right)) => Some(compare_strings(left, right)),
            _ => None,
        }
    }

    /// Like [`Datum::equals`].
    fn equals(self, other: Scalar<'_>) -> Option<bool> {
        match (self, other) {
            (Scalar::Undefined, _) | (_, Scalar::Undefined) => None,
            (Scalar::Null, Scalar::Null)
            | (Scalar::Bool(_), Scalar::Bool(_))
            | (Scalar::Number(_), Scalar::Number(_))
            | (Scalar::String(_), Scalar::String(_)) => self.order(other).map(Ordering::is_eq),
            _ => Some(false),
        }
    }

    /// Like [`Datum::comparison_steps`].
    fn comparison_steps(self, other: Scalar<'_>) -> u64 {
        match (self, other) {
            (Scalar::String(left), Scalar::String(right)) => {
                left.len().min(right.len()) as u64 / READ_BYTES_PER_STEP
            }
            _ => 0,
        }
    }
}

impl From<Option<bool>> for Scalar<'_> {
    fn from(value: Option<bool>) -> Self {
        value.map_or(Scalar::Undefined, Scalar::Bool)
    }
}

/// Whether a filter holds for an item, and the steps of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tested {
    pub(crate) holds: bool,
    pub(crate) steps: u64,
}

impl Tested {
    pub fn holds(self) -> bool {
        self.holds
    }
}

/// A plain condition over named members of an item.
#[derive(Debug)]
pub(crate) struct PlainFilter {
    names: Vec<Box<str>>,
    members: MemberNames,
    condition: Plain,
}

#[derive(Debug)]
enum Plain {
    Literal(Value),
    /// A member, by the place of its name.
    Member(usize),
    Unary(UnaryOperator, Box<Plain>),
    Binary(BinaryOperator, Box<[Plain; 2]>),
    And(Vec<Plain>),
    Or(Vec<Plain>),
}

impl PlainFilter {
    /// `None` for conditions beyond scalars.
    pub fn new(condition: &Expression) -> Option<PlainFilter> {
        let mut names = Vec::new();
        let condition = Plain::new(condition, &mut names)?;
        let members = MemberNames::new(names.iter().copied())?;
        Some(PlainFilter { names: names.into_iter().map(Box::from).collect(), members, condition })
    }

    /// The properties in the condition.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Whether it holds for an item, and the steps of the test; `None` if the item has an array or an object
    /// there.
    pub fn holds(&self, item: &ItemView<'_>) -> Option<Tested> {
        let mut members = Members::new(&self.members, item.body);
        self.holds_with(item.body.as_bytes().len(), |place| {
            members.get(place).map_or(Some(Scalar::Undefined), Scalar::of_raw)
        })
    }

    /// Like `holds`, for the values of [`PlainFilter::names`] from columns and the size of the item's body.
    pub fn holds_in(
        &self,
        columns: &[Arc<ScalarColumn>],
        place_of_item: usize,
        body_bytes: usize,
    ) -> Option<Tested> {
        self.holds_with(body_bytes, |place| columns[place].value(place_of_item))
    }

    fn holds_with<'s>(
        &'s self,
        body_bytes: usize,
        values: impl FnMut(usize) -> Option<Scalar<'s>>,
    ) -> Option<Tested> {
        let mut evaluation = Evaluation { values, walk_steps: walk_steps(body_bytes), steps: 0 };
        let value = evaluation.value(&self.condition)?;
        Some(Tested { holds: matches!(value, Scalar::Bool(true)), steps: evaluation.steps })
    }
}

impl Plain {
    fn new<'e>(expression: &'e Expression, names: &mut Vec<&'e str>) -> Option<Plain> {
        let mut all = |parts: &'e [Expression]| -> Option<Vec<Plain>> {
            parts.iter().map(|part| Plain::new(part, names)).collect()
        };
        Some(match expression {
            Expression::Literal(value) => Scalar::of_literal(value).map(|_| Plain::Literal(value.clone()))?,
            // Properties of the server are made from the envelope.
            Expression::Property { of, name }
                if matches!(**of, Expression::Variable(0)) && !name.starts_with('_') =>
            {
                let place = names.iter().position(|known| known == name);
                Plain::Member(place.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                }))
            }
            Expression::Unary { operator, operand } => {
                Plain::Unary(*operator, Box::new(Plain::new(operand, names)?))
            }
            Expression::Binary { operator, left, right } => {
                Plain::Binary(*operator, Box::new([Plain::new(left, names)?, Plain::new(right, names)?]))
            }
            Expression::And(parts) => Plain::And(all(parts)?),
            Expression::Or(parts) => Plain::Or(all(parts)?),
            _ => return None,
        })
    }
}

struct Evaluation<V> {
    /// Values by the places of their names; `None` for an array or an object.
    values: V,
    walk_steps: u64,
    steps: u64,
}

impl<'s, V: FnMut(usize) -> Option<Scalar<'s>>> Evaluation<V> {
    fn value(&mut self, expression: &'s Plain) -> Option<Scalar<'s>> {
        self.steps += 1;
        match expression {
            Plain::Literal(value) => Scalar::of_literal(value),
            Plain::Member(place) => {
                // Steps of the variable, and the walk.
                self.steps += 1 + self.walk_steps;
                (self.values)(*place)
            }
            Plain::Unary(operator, operand) => {
                let operand = self.value(operand)?;
                Some(unary(*operator, operand))
            }
            Plain::Binary(operator, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.steps += left.comparison_steps(right);
                Some(binary(*operator, left, right))
            }
            Plain::And(parts) => self.logical(parts, false),
            Plain::Or(parts) => self.logical(parts, true),
        }
    }

    fn logical(&mut self, parts: &'s [Plain], dominant: bool) -> Option<Scalar<'s>> {
        let mut result = Scalar::Bool(!dominant);
        for part in parts {
            match self.value(part)? {
                Scalar::Bool(value) if value == dominant => return Some(Scalar::Bool(dominant)),
                Scalar::Bool(_) => {}
                _ => result = Scalar::Undefined,
            }
        }
        Some(result)
    }
}

#[inline]
fn unary<'a>(operator: UnaryOperator, operand: Scalar<'_>) -> Scalar<'a> {
    match (operator, operand) {
        (UnaryOperator::Not, Scalar::Bool(value)) => Scalar::Bool(!value),
        (_, Scalar::Number(number)) => {
            operators::of_number(operator, number).map_or(Scalar::Undefined, Scalar::Number)
        }
        _ => Scalar::Undefined,
    }
}

/// Inlined into the evaluation of each row in every unit of code generation.
#[inline]
fn binary<'a>(operator: BinaryOperator, left: Scalar<'_>, right: Scalar<'_>) -> Scalar<'a> {
    match operator {
        BinaryOperator::Equal => left.equals(right).into(),
        BinaryOperator::NotEqual => left.equals(right).map(|equal| !equal).into(),
        BinaryOperator::Less => left.order(right).map(Ordering::is_lt).into(),
        BinaryOperator::LessOrEqual => left.order(right).map(Ordering::is_le).into(),
        BinaryOperator::Greater => left.order(right).map(Ordering::is_gt).into(),
        BinaryOperator::GreaterOrEqual => left.order(right).map(Ordering::is_ge).into(),
        _ => match (left, right) {
            (Scalar::Number(left), Scalar::Number(right)) => {
                Scalar::Number(operators::arithmetic(operator, left, right))
            }
            _ => Scalar::Undefined,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardlake_document::{Envelope, ParseLimits, parse_item};
    use shardlake_model::{ContainerRid, DatabaseRid};
    use shardlake_stdx::Guid;

    use super::*;
    use crate::bind::{ComputedProperties, Environment, bind};
    use crate::bound::BoundQuery;
    use crate::evaluate::holds;
    use crate::evaluate::meter::Meter;
    use crate::evaluate::scope::{EvaluationContext, Scope};
    use crate::functions::FunctionContext;
    use crate::syntax::parse;

    fn bound(text: &str) -> BoundQuery {
        let environment = Environment {
            parameters: &[],
            computed: &ComputedProperties::default(),
            functions: &FunctionContext::default(),
            scripts: None,
            meter: &Meter::default(),
            is_own: false,
        };
        bind(text, &parse(text).expect("valid"), &environment).expect("valid")
    }

    /// The results of both implementations for one item, with their steps; `None` if the item is left to
    /// `evaluate`.
    fn both_ways(query: &BoundQuery, json: &str) -> (Option<Tested>, Tested) {
        let body = parse_item(json.as_bytes(), &ParseLimits::default()).expect("JSON");
        let envelope = Envelope {
            lsn: 1,
            timestamp_seconds: 1,
            etag: Guid([1; 16]),
            ordinal: 1,
            ttl_seconds: None,
            json_size_bytes: 1,
            is_altered: false,
        };
        let container = ContainerRid { database: DatabaseRid(1), number: 1 };
        let item = ItemView { body: body.raw(), envelope: &envelope, container, items_link: "" };
        let filter = query.filter.as_ref().expect("a filter");
        let functions = FunctionContext::default();
        let counted = |answer: &dyn Fn(&Scope<'_>) -> bool| {
            let meter = Meter::default();
            let context = EvaluationContext::new(&functions, &|| false, &meter);
            Tested { holds: answer(&Scope::of_item(&context, &item)), steps: meter.steps() }
        };
        let plain = query.plain_filter.0.as_ref().and_then(|plain| {
            let walked = plain.holds(&item);
            let column = |name: &str| ScalarColumn::new(name, [item.body].into_iter(), 1024).map(Arc::new);
            let columns: Vec<_> = plain.names().iter().map(|name| column(name).expect("room")).collect();
            assert_eq!(plain.holds_in(&columns, 0, item.body.as_bytes().len()), walked);
            walked
        });
        let full = counted(&|scope| holds(filter, scope).expect("no bound is met"));
        (plain, full)
    }

    fn operands() -> impl Strategy<Value = String> {
        let literals = [
            "0",
            "1",
            "-3",
            "2.5",
            "9007199254740993",
            "true",
            "false",
            "null",
            "undefined",
            "'a'",
            "'b'",
            "''",
        ];
        let properties = ["c.a", "c.b", "c['d']", "c.text", "c.none"];
        prop_oneof![
            proptest::sample::select(literals.to_vec()).prop_map(str::to_owned),
            proptest::sample::select(properties.to_vec()).prop_map(str::to_owned),
            proptest::sample::select(properties.to_vec()).prop_map(str::to_owned),
        ]
    }

    fn conditions() -> impl Strategy<Value = String> {
        operands().prop_recursive(5, 40, 3, |inner| {
            let operators = [
                "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "=", "!=", "<", "<=", ">", ">=",
                "AND", "OR",
            ];
            prop_oneof![
                (inner.clone(), proptest::sample::select(operators.to_vec()), inner.clone())
                    .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
                (inner.clone(), proptest::sample::select(vec!["=", "<", ">="]), inner.clone())
                    .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
                (proptest::sample::select(vec!["NOT ", "-", "+", "~"]), inner)
                    .prop_map(|(operator, operand)| format!("({operator} {operand})")),
            ]
        })
    }

    fn values() -> impl Strategy<Value = &'static str> {
        let values = [
            "0",
            "1",
            "-0.0",
            "2.5",
            "-3",
            "1e300",
            "9007199254740992",
            "9007199254740993",
            "true",
            "false",
            "null",
            "\"a\"",
            "\"\"",
            "\"\u{1F600}\"",
            "\"a text that is longer than sixty-four bytes, so that it has a price of its own\"",
            "[1]",
            "{\"x\":1}",
        ];
        proptest::sample::select(values.to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        #[test]
        fn plain_conditions_answer_and_cost_as_all_do(
            condition in conditions(), a in values(), b in values(), d in values(), text in values(),
        ) {
            let query = bound(&format!("SELECT * FROM c WHERE {condition}"));
            prop_assume!(query.filter.is_some());
            prop_assert!(query.plain_filter.0.is_some(), "{condition}");
            let padding = "x".repeat(400);
            let json = format!(r#"{{"id":"1","pad":"{padding}","a":{a},"b":{b},"d":{d},"text":{text}}}"#);
            let (plain, full) = both_ways(&query, &json);
            if let Some(plain) = plain {
                prop_assert_eq!(plain, full, "{} of {}", condition, json);
            } else {
                prop_assert!(json.contains("[1]") || json.contains("{\"x\""), "{} of {}", condition, json);
            }
        }
    }

    #[test]
    fn what_is_more_than_scalars_is_left_alone() {
        for condition in
            ["c._ts > 1", "c.a.b = 1", "CONTAINS(c.a, 'x')", "c = c", "c.a IN (1, 2)", "c.a = [1]"]
        {
            let query = bound(&format!("SELECT * FROM c WHERE {condition}"));
            assert!(query.plain_filter.0.is_none(), "{condition}");
        }
        let joined = bound("SELECT VALUE e FROM c JOIN e IN c.list WHERE e > 1");
        assert!(joined.plain_filter.0.is_none(), "of another variable");
    }
}
