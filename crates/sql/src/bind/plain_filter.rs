//! Recognises conditions over scalar values alone, which are evaluated without the general machinery
//! (`value/plain_filter.rs`).

use crate::bound::Expression;
use crate::value::plain_filter::{Plain, PlainFilter};
use crate::value::scalar::Scalar;

/// `None` for conditions beyond scalars.
pub(super) fn plain_filter(condition: &Expression) -> Option<PlainFilter> {
    let mut names = Vec::new();
    let condition = plain(condition, &mut names)?;
    PlainFilter::new(condition, names)
}

fn plain<'e>(expression: &'e Expression, names: &mut Vec<&'e str>) -> Option<Plain> {
    let mut all = |parts: &'e [Expression]| -> Option<Vec<Plain>> {
        parts.iter().map(|part| plain(part, names)).collect()
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
        Expression::Unary { operator, operand } => Plain::Unary(*operator, Box::new(plain(operand, names)?)),
        Expression::Binary { operator, left, right } => {
            Plain::Binary(*operator, Box::new([plain(left, names)?, plain(right, names)?]))
        }
        Expression::And(parts) => Plain::And(all(parts)?),
        Expression::Or(parts) => Plain::Or(all(parts)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use shardlake_document::{Envelope, ItemView, ParseLimits, parse_item};
    use shardlake_model::{ContainerRid, DatabaseRid};
    use shardlake_stdx::Guid;

    use crate::bind::{ComputedProperties, Environment, bind};
    use crate::bound::BoundQuery;
    use crate::evaluate::holds;
    use crate::evaluate::scope::Scope;
    use crate::syntax::parse;
    use crate::value::column::ScalarColumn;
    use crate::value::context::{EvaluationContext, FunctionContext};
    use crate::value::meter::Meter;
    use crate::value::plain_filter::Tested;

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
            time: shardlake_stdx::HybridTime::from_seconds(1),
            region: 0,
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
