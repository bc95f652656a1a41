//! Precedence and grouping, shown by printing trees with a parenthesis around every operation.

use super::*;

fn show(expression: &Expression) -> String {
    let all =
        |parts: &[Expression], separator: &str| parts.iter().map(show).collect::<Vec<_>>().join(separator);
    match expression {
        Expression::Literal(Value::Undefined) => "undefined".into(),
        Expression::Literal(value) => value.to_json().unwrap(),
        Expression::Parameter(name) | Expression::Identifier { name, .. } => name.clone(),
        Expression::Variable(_) => "ROW".into(),
        Expression::Property { of, name } => format!("{}.{name}", show(of)),
        Expression::Index { of, key } => format!("{}[{}]", show(of), show(key)),
        Expression::Unary { operator, operand } => format!("({operator:?} {})", show(operand)),
        Expression::Binary { operator, left, right } => {
            format!("({} {operator:?} {})", show(left), show(right))
        }
        Expression::And(parts) => format!("({})", all(parts, " AND ")),
        Expression::Or(parts) => format!("({})", all(parts, " OR ")),
        Expression::Coalesce(parts) => format!("({})", all(parts, " ?? ")),
        Expression::Concatenate(parts) => format!("({})", all(parts, " || ")),
        Expression::Conditional { condition, then, otherwise } => {
            format!("({} ? {} : {})", show(condition), show(then), show(otherwise))
        }
        Expression::In { value, list } => format!("({} IN ({}))", show(value), all(list, ", ")),
        Expression::Between { value, low, high } => {
            format!("({} BETWEEN {} AND {})", show(value), show(low), show(high))
        }
        Expression::Like { value, pattern, escape, .. } => {
            let escape = escape.map_or(String::new(), |escape| format!(" ESCAPE {escape}"));
            format!("({} LIKE {}{escape})", show(value), show(pattern))
        }
        Expression::Call { function, arguments, .. } => format!("{function:?}({})", all(arguments, ", ")),
        Expression::Array(elements) => format!("[{}]", all(elements, ", ")),
        Expression::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| format!("{name}: {}", show(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        _ => unreachable!("the parser makes no such expression"),
    }
}

fn parse(text: &str) -> Result<Expression, SqlError> {
    let mut parser = Parser::new(text);
    let expression = parser.expression()?;
    if parser.peek().kind == Kind::End { Ok(expression) } else { Err(parser.syntax_error_here()) }
}

#[test]
fn operators_group_as_in_the_reference() {
    for (text, expected) in [
        ("1 + 2 - 3 + 4", "(((1 Add 2) Subtract 3) Add 4)"),
        ("1 + 2 * 3 - 4 / 5", "((1 Add (2 Multiply 3)) Subtract (4 Divide 5))"),
        ("(1 + 2) * 3", "((1 Add 2) Multiply 3)"),
        ("1 | 2 + 3", "((1 BitOr 2) Add 3)"),
        ("1 + 2 & 3 ^ 4", "(((1 Add 2) BitAnd 3) BitXor 4)"),
        ("1 < 2 <= 3 > 4 >= 5", "((((1 Less 2) LessOrEqual 3) Greater 4) GreaterOrEqual 5)"),
        ("1 << 2 + 3 = 4", "((1 ShiftLeft (2 Add 3)) Equal 4)"),
        ("8 >> 1 >>> 2", "((8 ShiftRight 1) ShiftRightZeroFill 2)"),
        ("a = b = c", "((a Equal b) Equal c)"),
        ("a <> b != c", "((a NotEqual b) NotEqual c)"),
        (
            "1 > 2 = false AND 1 > 2 != true",
            "(((1 Greater 2) Equal false) AND ((1 Greater 2) NotEqual true))",
        ),
        ("1 OR 2 AND 3 OR 4", "(1 OR (2 AND 3) OR 4)"),
        ("1 || 2 OR 3 || 4", "((1 || 2) OR (3 || 4))"),
        ("1 || 2 + 3", "(1 || (2 Add 3))"),
        ("a ?? b ?? c", "(a ?? b ?? c)"),
        ("a OR b ?? c", "((a OR b) ?? c)"),
        ("1 ? 2 ?? 3 : 4", "(1 ? (2 ?? 3) : 4)"),
        ("1 ? 2 : 3 + 4", "(1 ? 2 : (3 Add 4))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("NOT c.x IN (1,2)", "((Not c.x) IN (1, 2))"),
        ("NOT c.x LIKE 'a%'", "((Not c.x) LIKE \"a%\")"),
        ("NOT c.x BETWEEN 1 AND 2", "((Not c.x) BETWEEN 1 AND 2)"),
        ("NOT a = b", "((Not a) Equal b)"),
        ("NOT NOT a AND b", "((Not (Not a)) AND b)"),
        ("- -1", "(Minus -1)"),
        ("-2 < 1", "(-2 Less 1)"),
        ("-c.x * ~2", "((Minus c.x) Multiply (BitNot 2))"),
        ("c.ab-cd", "(c.ab Subtract cd)"),
        ("1-1", "(1 Subtract 1)"),
        (
            "x NOT IN (1) AND y NOT LIKE 'a' OR z NOT BETWEEN 1 AND 2",
            "(((Not (x IN (1))) AND (Not (y LIKE \"a\"))) OR (Not (z BETWEEN 1 AND 2)))",
        ),
        ("c.x BETWEEN 1 AND 2 AND c.y = 3", "((c.x BETWEEN 1 AND 2) AND (c.y Equal 3))"),
        ("a = b IN (1)", "((a Equal b) IN (1))"),
        ("a LIKE 'a!%' ESCAPE '!' AND b", "((a LIKE \"a!%\" ESCAPE !) AND b)"),
        ("a IS NULL AND b IS NOT NULL", "(IsNull(a) AND (Not IsNull(b)))"),
        ("true ? {\"x\": 1} : {'x': 2, y: 3}.x", "(true ? {x: 1} : {x: 2, y: 3}.x)"),
        ("c.arr[2 + 2][\"a b\"].first", "c.arr[(2 Add 2)].a b.first"),
        ("[1, [], {}][0]", "[1, [], {}][0]"),
        ("IS_DEFINED(c.a) = is_Defined ( c.b )", "(IsDefined(c.a) Equal IsDefined(c.b))"),
        ("1E2 + .5 + 1.", "((100.0 Add 0.5) Add 1.0)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9.223372036854776e+18"),
        ("@p = 'it\\'s' -- comment\n /* more */", "(@p Equal \"it's\")"),
        ("\"\\u0041\\ud83d\\ude00\\n\"", "\"A😀\\n\""),
        ("first = all AND last.let = rank", "((first Equal all) AND (last.let Equal rank))"),
        ("True AND NULL and Undefined", "(true AND null AND undefined)"),
    ] {
        assert_eq!(parse(text).map(|expression| show(&expression)).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn syntax_errors_name_the_token_and_its_place() {
    for (text, near, start) in [
        ("", "end of query", 0),
        ("1 +", "end of query", 3),
        ("a b", "b", 2),
        ("42 IN ()", ")", 7),
        ("42 IN (1,)", ")", 9),
        ("a IN (1) IN (2)", "IN", 9),
        ("a IN (1) + 2", "+", 9),
        ("42 BETWEEN 15 AND ", "end of query", 18),
        ("1 BETWEEN 3 ?? 4 AND 5", "??", 12),
        ("c.12a", ".12a", 1),
        ("c.ab:cd", ":", 4),
        ("c.order", "order", 2),
        ("value", "value", 0),
        ("a LIKE 'x' ESCAPE 'ab'", "'ab'", 18),
        ("a NOT 'x'", "NOT", 2),
        ("(1", "end of query", 2),
        ("[,]", ",", 1),
        ("{23: 1}", "23", 1),
        ("ABS(,)", ",", 4),
        ("'open", "'open", 0),
        ("'😀' $42", "$", 5),
        ("'\\x'", "'\\x'", 0),
        ("1 /* open", "/* open", 2),
        ("1e", "1e", 0),
        ("1e999", "1e999", 0),
        ("é", "é", 0),
    ] {
        match parse(text) {
            Err(SqlError::Syntax { near: found, location }) => {
                assert_eq!((found.as_str(), location.start), (near, start), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn nesting_is_bounded_in_every_form() {
    let nested =
        |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{a:", "}"),
        ("ABS(", ")"),
        ("NOT ", ""),
        ("- ", ""),
        ("c[", "]"),
        ("1 ? 1 : ", ""),
        ("1 IN (", ")"),
    ] {
        assert!(parse(&nested(open, close, 90)).is_ok(), "{open}");
        for count in [1_000, 50_000] {
            assert!(matches!(parse(&nested(open, close, count)), Err(SqlError::TooDeep { .. })), "{open}");
        }
    }
    for operator in ["+1", "*1", "=1", ".a", "[0]"] {
        let chain = |count: usize| format!("c{}", operator.repeat(count));
        assert!(parse(&chain(390)).is_ok(), "{operator}");
        assert!(matches!(parse(&chain(50_000)), Err(SqlError::TooDeep { .. })), "{operator}");
    }
    for operator in [" AND 1", " OR 1", " || '1'", " ?? 1"] {
        assert!(parse(&format!("c{}", operator.repeat(50_000))).is_ok(), "{operator}");
    }
}
