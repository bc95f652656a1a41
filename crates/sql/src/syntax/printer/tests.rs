//! Printed trees parse to themselves, in both spellings.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::syntax::ast::{Escape, GroupKey, Identifier, OffsetLimit, Span};
use crate::syntax::parse;

const NOWHERE: Span = Span { start: 0, end: 0 };

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["c", "x", "_rid", "all", "FIRST", "last", "let", "rank", "A1"])
            .prop_map(String::from),
        "[a-zA-Z_][a-zA-Z0-9_]{0,5}",
    ]
    .prop_filter("reserved", |name| !is_reserved(name))
}

fn identifier() -> impl Strategy<Value = Identifier> {
    name().prop_map(|name| Identifier { name, span: NOWHERE })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,6}", "[\"'\\\\/\u{0}-\u{1f}a😀\u{7f}\u{2028}]{0,6}"]
}

/// Integral doubles are integers to the parser, and NaN and infinities have no literal.
fn number() -> impl Strategy<Value = Value> {
    let double = any::<f64>().prop_filter("another literal", |double| {
        double.is_finite() && (double.fract() != 0.0 || double.abs() >= 9_007_199_254_740_992.0)
    });
    prop_oneof![
        any::<i64>().prop_map(Value::Int),
        (-9i64..9).prop_map(Value::Int),
        double.prop_map(Value::Double),
        Just(Value::Double(-0.0)),
    ]
}

fn leaf() -> impl Strategy<Value = Expression> {
    prop_oneof![
        number().prop_map(Expression::Literal),
        text().prop_map(|text| Expression::Literal(Value::String(text))),
        prop::sample::select(vec![Value::Null, Value::Undefined, Value::Bool(true), Value::Bool(false)])
            .prop_map(Expression::Literal),
        "@[a-zA-Z_][a-zA-Z0-9_]{0,3}".prop_map(Expression::Parameter),
        identifier().prop_map(Expression::Identifier),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    leaf().prop_recursive(5, 48, 4, |inner| {
        let one = inner.clone().prop_map(Box::new).boxed();
        let some = vec(inner.clone(), 1..4).boxed();
        let chain = vec(inner.clone(), 2..4).boxed();
        prop_oneof![
            operations(one.clone(), some.clone()),
            chain.clone().prop_map(|parts| flat(parts, Expression::And)),
            chain.clone().prop_map(|parts| flat(parts, Expression::Or)),
            chain.clone().prop_map(|parts| flat(parts, Expression::Concatenate)),
            chain.prop_map(|parts| flat(parts, Expression::Coalesce)),
            (one.clone(), name(), any::<bool>()).prop_map(|(of, name, quoted)| Expression::Property {
                of,
                name,
                quoted
            }),
            (one.clone(), text()).prop_map(|(of, name)| Expression::Property { of, name, quoted: true }),
            (one.clone(), one.clone())
                .prop_filter("a property", |(_, key)| !is_text(key))
                .prop_map(|(of, key)| Expression::Index { of, key, span: NOWHERE }),
            vec(inner.clone(), 0..3).prop_map(Expression::Array),
            vec((text(), inner.clone()), 0..3)
                .prop_map(|members| Expression::Object { members, span: NOWHERE }),
            (name(), vec(inner.clone(), 0..3)).prop_map(|(name, arguments)| Expression::Call {
                name,
                arguments,
                span: NOWHERE
            }),
            (name(), some).prop_map(|(name, arguments)| Expression::UserDefined {
                name,
                arguments,
                span: NOWHERE
            }),
            (identifier(), one.clone(), one).prop_map(|(name, value, body)| Expression::Let {
                name,
                value,
                body
            }),
            (subquery_kind(), query(inner))
                .prop_map(|(kind, query)| Expression::Subquery { kind, query: Box::new(query) }),
        ]
    })
}

type Boxed<T> = BoxedStrategy<T>;

fn operations(
    one: Boxed<Box<Expression>>,
    some: Boxed<Vec<Expression>>,
) -> impl Strategy<Value = Expression> {
    use BinaryOperator::*;
    let unary = vec![UnaryOperator::Not, UnaryOperator::Minus, UnaryOperator::Plus, UnaryOperator::BitNot];
    let binary = vec![
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
        BitAnd,
        BitOr,
        BitXor,
        ShiftLeft,
        ShiftRight,
        ShiftRightZeroFill,
    ];
    let three = (one.clone(), one.clone(), one.clone());
    prop_oneof![
        (prop::sample::select(unary), one.clone())
            .prop_filter("a negative literal", |(operator, operand)| {
                *operator != UnaryOperator::Minus || !is_number(operand)
            })
            .prop_map(|(operator, operand)| Expression::Unary { operator, operand }),
        (prop::sample::select(binary), one.clone(), one.clone())
            .prop_map(|(operator, left, right)| Expression::Binary { operator, left, right }),
        three.clone().prop_map(|(condition, then, otherwise)| Expression::Conditional {
            condition,
            then,
            otherwise
        }),
        (three, any::<bool>()).prop_map(|((value, low, high), negated)| Expression::Between {
            value,
            low,
            high,
            negated
        }),
        (one.clone(), some, any::<bool>()).prop_map(|(value, list, negated)| Expression::In {
            value,
            list,
            negated
        }),
        (one.clone(), one, option::of(any::<char>()), any::<bool>()).prop_map(
            |(value, pattern, escape, negated)| {
                let escape = escape.map(|escape| Escape { text: escape.into(), span: NOWHERE });
                Expression::Like { value, pattern, escape, negated }
            }
        ),
    ]
}

/// The parser makes one list of a chain, however it is nested on the side that it nests to.
fn flat(mut parts: Vec<Expression>, build: fn(Vec<Expression>) -> Expression) -> Expression {
    let kind = build(Vec::new());
    let same = |part: &Expression| std::mem::discriminant(part) == std::mem::discriminant(&kind);
    let at = if matches!(kind, Expression::Coalesce(_)) { parts.len() - 1 } else { 0 };
    if same(&parts[at]) {
        parts[at] = Expression::Array(vec![parts[at].clone()]);
    }
    build(parts)
}

fn is_text(expression: &Expression) -> bool {
    matches!(expression, Expression::Literal(Value::String(_)))
}

fn is_number(expression: &Expression) -> bool {
    matches!(expression, Expression::Literal(Value::Int(_) | Value::Double(_)))
}

fn subquery_kind() -> impl Strategy<Value = SubqueryKind> {
    use SubqueryKind::*;
    prop::sample::select(vec![Scalar, Exists, Array, All, First, Last])
}

fn count() -> impl Strategy<Value = Count> {
    let value = prop_oneof![
        (0i64..i64::MAX).prop_map(|number| CountValue::Number(Value::Int(number))),
        "@[a-z]{1,3}".prop_map(CountValue::Parameter),
    ];
    value.prop_map(|value| Count { value, span: NOWHERE })
}

fn collection(inner: Boxed<Query>) -> impl Strategy<Value = Collection> {
    let step = prop_oneof![
        (name(), any::<bool>()).prop_map(|(name, quoted)| PathStep::Name { name, quoted }),
        text().prop_map(|name| PathStep::Name { name, quoted: true }),
        (0i64..100).prop_map(PathStep::Index),
    ];
    let source = prop_oneof![
        (identifier(), vec(step, 0..3)).prop_map(|(root, path)| Source::Path { root, path }),
        inner.prop_map(|query| Source::Subquery(Box::new(query))),
    ]
    .boxed();
    let one = prop_oneof![
        (source.clone(), option::of(identifier()))
            .prop_map(|(source, alias)| Collection::Aliased { source, alias }),
        (identifier(), source).prop_map(|(alias, source)| Collection::Iterate { alias, source }),
    ];
    vec(one, 1..4).prop_map(|all| {
        let join = |left, right| Collection::Join { left: Box::new(left), right: Box::new(right) };
        all.into_iter().reduce(join).expect("there is at least one")
    })
}

fn select(inner: Boxed<Expression>) -> impl Strategy<Value = Select> {
    let alias = option::of(prop_oneof![name(), text()]);
    let item = (inner.clone(), alias).prop_map(|(expression, alias)| SelectItem {
        expression,
        alias,
        name_span: NOWHERE,
    });
    let selection = prop_oneof![
        Just(Selection::All),
        inner.prop_map(Selection::Value),
        vec(item, 1..3).prop_map(Selection::Items),
    ];
    (any::<bool>(), option::of(count()), selection).prop_map(|(distinct, top, selection)| Select {
        distinct,
        top,
        selection,
        top_span: NOWHERE,
        span: NOWHERE,
    })
}

fn order_by(inner: Boxed<Expression>) -> impl Strategy<Value = OrderBy> {
    let direction = option::of(prop::sample::select(vec![Direction::Ascending, Direction::Descending]));
    let key = (inner.clone(), direction.clone()).prop_map(|(expression, direction)| OrderKey {
        expression,
        direction,
        span: NOWHERE,
    });
    let call = (name(), vec(inner, 0..2)).prop_map(|(name, arguments)| Expression::Call {
        name,
        arguments,
        span: NOWHERE,
    });
    prop_oneof![
        vec(key, 1..3).prop_map(|keys| OrderBy::Keys { keys, span: NOWHERE }),
        (call, direction).prop_map(|(call, direction)| OrderBy::Rank { call, direction, span: NOWHERE }),
    ]
}

fn query(inner: impl Strategy<Value = Expression> + 'static) -> Boxed<Query> {
    let inner = inner.boxed();
    let plain = select(inner.clone())
        .prop_map(|select| Query {
            select,
            from: None,
            filter: None,
            group_by: Vec::new(),
            order_by: None,
            offset_limit: None,
            span: NOWHERE,
        })
        .boxed();
    let offset_limit =
        (count(), count()).prop_map(|(offset, limit)| OffsetLimit { offset, limit, span: NOWHERE });
    let clauses = (
        option::of(collection(plain.clone())),
        option::of(inner.clone()),
        vec(inner.clone().prop_map(|expression| GroupKey { expression, span: NOWHERE }), 0..3),
        option::of(order_by(inner)),
        option::of(offset_limit),
    );
    (plain, clauses)
        .prop_map(|(query, (from, filter, group_by, order_by, offset_limit))| Query {
            from,
            filter,
            group_by,
            order_by,
            offset_limit,
            ..query
        })
        .boxed()
}

/// The tree without its places.
fn shape(query: &Query) -> String {
    let text = format!("{query:?}");
    let mut parts = text.split("Span { start: ");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out.push_str(part.split_once('}').expect("a span ends").1);
    }
    out
}

proptest! {
    #[test]
    fn printed_trees_parse_to_themselves(query in query(expression())) {
        let text = print_query(&query);
        let again = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert_eq!(shape(&again), shape(&query), "{}", text);
        prop_assert_eq!(print_query(&again), text);

        // The SDK's spelling writes the direction of every key, so trees may differ in the directions.
        let text = print_compact(&query);
        let again = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
        prop_assert_eq!(print_compact(&again), text);
    }

    #[test]
    fn no_text_panics(text in "(SELECT|FROM|c|x|[(]|[)]|\\[|\\]|[{}]|,|[.]|'a'|\"|\\\\|1|@p| |IN|NOT|AND|BETWEEN|LET|=|-|JOIN|ORDER BY|RANK|udf|EXISTS|LIKE|é){0,40}") {
        let _ = parse(&text);
        let _ = parse(&format!("SELECT {text}"));
    }
}

#[test]
fn texts_print_as_the_service_prints_them() {
    for (text, expected) in [
        (
            "select * from c where c.a=1 and c.b='x' and c.d",
            "SELECT *\nFROM c\nWHERE (((c.a = 1) AND (c.b = \"x\")) AND c.d)",
        ),
        (
            "select a ?? b ?? -1 from c d join e in d.f['g'][0]",
            "SELECT (a ?? (b ?? -1))\nFROM c AS d\nJOIN e IN d.f[\"g\"][0]",
        ),
        ("select value c['order']", "SELECT VALUE c[\"order\"]"),
        (
            "select top @n c.a 'b c', udf.F(1) g from c order by c.a, c.b desc offset 0 limit 3",
            "SELECT TOP @n c.a AS \"b c\", udf.F(1) AS g\nFROM c\nORDER BY c.a, c.b DESC\nOFFSET 0 LIMIT 3",
        ),
        ("select 1 order by rank desc, let", "SELECT 1\nORDER BY rank DESC, let"),
        ("select 1 order by rank rank(1) desc", "SELECT 1\nORDER BY RANK rank(1) DESC"),
        (
            "select - c.a, ~1, 1E2, .5, 1.0, -1[0], (1).a, NOT c.a IN (1)",
            "SELECT (- c.a), (~ 1), 100, 0.5, 1, (- (1)[0]), (1).a, ((NOT c.a) IN (1))",
        ),
        (
            "select c.b not like 'x' escape '\\\\', c.d <> 2",
            "SELECT (c.b NOT LIKE \"x\" ESCAPE \"\\\\\"), (c.d != 2)",
        ),
    ] {
        let printed = parse(text).map(|query| print_query(&query));
        assert_eq!(printed.as_deref(), Ok(expected), "{text}");
    }
}

/// Code over trees recurses, so the deepest that the parser lets through must fit the stack of an unoptimised test.
#[test]
fn the_deepest_accepted_texts_print() {
    for (open, close) in [
        ("NOT ", ""),
        ("[", "]"),
        ("{a:", "}"),
        ("f(", ")"),
        ("1+(", "+1)"),
        ("c[", "]"),
        ("1 ? 1 : ", ""),
        ("1 IN (", ")"),
        ("(SELECT VALUE ", " FROM (SELECT * FROM c WHERE 1+1+1+1+1+1+1+1+1+1))"),
        ("(LET a = ", " IN a)"),
        ("a AND (b OR ", ")"),
        ("", "+1"),
        ("", ".a"),
    ] {
        let text = |count: usize| format!("SELECT VALUE {}c{}", open.repeat(count), close.repeat(count));
        let deepest = (1..1_000).take_while(|count| parse(&text(*count)).is_ok()).last().expect("one nests");
        assert!((15..500).contains(&deepest), "{open} {close} {deepest}");
        let query = parse(&text(deepest)).expect("it was accepted");
        assert!(!print_query(&query).is_empty() && !print_compact(&query).is_empty());
        assert_eq!(query, query.clone());
    }
}
