//! Constants: an expression over literals is evaluated when it is parsed, with the result that it has over fields of the same values.

use crate::commands::env;
use crate::tagged;
use shardlake_mql::{Document, Expression, Pipeline, Scope, Value, identical, parse_expression};
use shardlake_stdx::Random;

fn json(text: &str) -> Value {
    tagged::value(&serde_json::from_str(text).unwrap())
}

/// One expression twice: over literals, and over fields of a document that has them.
#[derive(Default)]
struct Pair {
    fields: Document,
}

/// Operators with as many operands.
const OPERATORS: &[(&str, usize)] = &[
    ("$abs", 1),
    ("$add", 2),
    ("$and", 2),
    ("$arrayElemAt", 2),
    ("$cmp", 2),
    ("$concat", 2),
    ("$concatArrays", 2),
    ("$divide", 2),
    ("$eq", 2),
    ("$first", 1),
    ("$gt", 2),
    ("$ifNull", 2),
    ("$in", 2),
    ("$isArray", 1),
    ("$isNumber", 1),
    ("$max", 2),
    ("$mergeObjects", 2),
    ("$mod", 2),
    ("$multiply", 2),
    ("$not", 1),
    ("$objectToArray", 1),
    ("$or", 2),
    ("$pow", 2),
    ("$range", 2),
    ("$reverseArray", 1),
    ("$size", 1),
    ("$strLenCP", 1),
    ("$subtract", 2),
    ("$sum", 2),
    ("$toString", 1),
    ("$toUpper", 1),
    ("$type", 1),
];

/// Operators whose operands have names. `@` stands for an operand, and `?` for an operand in which the variable `x` is bound.
const NAMED: &[&str] = &[
    r#"{"$cond": {"if": "@", "then": "@", "else": "@"}}"#,
    r#"{"$switch": {"branches": [{"case": "@", "then": "@"}, {"case": "@", "then": "@"}], "default": "@"}}"#,
    r#"{"$let": {"vars": {"x": "@"}, "in": "?"}}"#,
    r#"{"$map": {"input": ["@", "@"], "as": "x", "in": "?"}}"#,
    r#"{"$filter": {"input": ["@", "@"], "as": "x", "cond": "?"}}"#,
    r#"{"$reduce": {"input": ["@", "@"], "initialValue": "@", "in": "?"}}"#,
    r#"{"$zip": {"inputs": [["@", "@"], ["@"]], "useLongestLength": true, "defaults": ["@", "@"]}}"#,
    r#"{"$getField": {"field": {"$literal": "a"}, "input": "@"}}"#,
    r#"{"$setField": {"field": "b", "input": "@", "value": "@"}}"#,
    r#"{"$convert": {"input": "@", "to": "string", "onError": "@", "onNull": "@"}}"#,
    r#"{"$dateFromString": {"dateString": "@", "onError": "@", "onNull": "@"}}"#,
    r#"{"$sortArray": {"input": ["@", "@"], "sortBy": 1}}"#,
    r#"{"$minN": {"input": ["@", "@"], "n": 1}}"#,
    r#"{"$percentile": {"input": ["@", "@"], "p": [0.5], "method": "approximate"}}"#,
    r#"{"a": "@", "b": "@"}"#,
    r#"["@", "@"]"#,
];

impl Pair {
    fn literal(&mut self, random: &Random) -> (Value, Value) {
        let values = [
            r#"0"#,
            r#"-3"#,
            r#"2.5"#,
            r#"{"@long": "9223372036854775807"}"#,
            r#""""#,
            r#""abc""#,
            r#""7""#,
            r#"null"#,
            r#"true"#,
            r#"false"#,
            r#"[]"#,
            r#"[1, "x", null]"#,
            r#"{}"#,
            r#"{"a": 1}"#,
            r#"{"@date": 1700000000000}"#,
            r#""2024-02-29""#,
        ];
        let value = json(values[random.below(values.len() as u64) as usize]);
        let name = format!("f{}", self.fields.len());
        self.fields.push(name.as_str(), value.clone());
        (Document::one("$literal", value).into(), Value::string(format!("${name}")))
    }

    fn expression(&mut self, random: &Random, depth: u32, bound: bool) -> (Value, Value) {
        let kind = if depth == 0 { 0 } else { random.below(4) };
        match kind {
            0 if bound && random.below(2) == 0 => (Value::string("$$x"), Value::string("$$x")),
            0 => self.literal(random),
            1 => self.named(random, depth, bound),
            _ => {
                let (name, count) = OPERATORS[random.below(OPERATORS.len() as u64) as usize];
                let operands: Vec<_> =
                    (0..count).map(|_| self.expression(random, depth - 1, bound)).collect();
                let call = |operands: Vec<Value>| Value::document(Document::one(name, operands));
                let (left, right) = operands.into_iter().unzip();
                (call(left), call(right))
            }
        }
    }

    fn named(&mut self, random: &Random, depth: u32, bound: bool) -> (Value, Value) {
        let form = json(NAMED[random.below(NAMED.len() as u64) as usize]);
        // The variable of `$reduce` has another name.
        let is_reduce = form.as_document().is_some_and(|form| form.has("$reduce"));
        self.filled(&form, random, (depth - 1, bound, !is_reduce))
    }

    fn filled(
        &mut self,
        form: &Value,
        random: &Random,
        (depth, bound, binds): (u32, bool, bool),
    ) -> (Value, Value) {
        match form {
            Value::String(mark) if &**mark == "@" => self.expression(random, depth, bound),
            Value::String(mark) if &**mark == "?" => self.expression(random, depth, bound || binds),
            Value::Document(members) => {
                let (mut left, mut right) = (Document::new(), Document::new());
                for (name, member) in members.iter() {
                    let (one, other) = self.filled(member, random, (depth, bound, binds));
                    left.push(name.clone(), one);
                    right.push(name.clone(), other);
                }
                (left.into(), right.into())
            }
            Value::Array(items) => {
                let items = items.iter().map(|item| self.filled(item, random, (depth, bound, binds)));
                let (left, right): (Vec<Value>, Vec<Value>) = items.unzip();
                (left.into(), right.into())
            }
            other => (other.clone(), other.clone()),
        }
    }
}

#[test]
fn an_expression_over_literals_has_the_value_of_one_over_fields() {
    let random = Random::seeded(0x0005_eed5);
    let (mut values, mut errors, mut folded) = (0, 0, 0);
    for _ in 0..20_000 {
        let mut pair = Pair::default();
        let (literal, over_fields) = pair.expression(&random, 3, false);
        let root = Value::document(pair.fields);
        let parse = |value: &Value| parse_expression(value, &Scope::new());
        let (literal, by_fields) = match (parse(&literal), parse(&over_fields)) {
            (Ok(left), Ok(right)) => (left, right),
            (left, right) => panic!("{literal}: {left:?}, {over_fields}: {right:?}"),
        };
        folded += u32::from(literal.as_constant().is_some());
        let value = |expression: &Expression| expression.evaluate_on(&mut env(), &root);
        match (value(&literal), value(&by_fields)) {
            (Ok(left), Ok(right)) => {
                assert!(identical(&left, &right), "{over_fields} of {root}: {left} and {right}");
                values += 1;
            }
            (Err(left), Err(right)) => {
                assert_eq!(left.code(), right.code(), "{over_fields} of {root}");
                errors += 1;
            }
            (left, right) => panic!("{over_fields} of {root}: {left:?} and {right:?}"),
        }
    }
    assert!(values > 2_000 && errors > 2_000 && folded > 2_000, "{values} {errors} {folded}");
}

/// The code with which `$geoNear` refuses an expression as the point; `None` where it takes the expression.
fn refused_as_point(expression: &str) -> Option<i32> {
    let stage = json(&format!(r#"{{"$geoNear": {{"near": {expression}, "key": "a"}}}}"#));
    Pipeline::parse(&[stage], &Scope::new()).err().map(|error| error.code())
}

#[test]
fn an_expression_of_any_form_that_reads_the_document_is_no_constant() {
    for form in NAMED {
        // Each operand in turn reads the document.
        let count = form.matches("\"@\"").count() + form.matches("\"?\"").count();
        for place in 0..count {
            let mut at = 0;
            let mut filled = String::new();
            for part in form.split_inclusive(['@', '?']) {
                let operand = if at == place { "$a" } else { "5" };
                filled.push_str(part.trim_end_matches(['@', '?']));
                if part.ends_with(['@', '?']) {
                    filled.push_str(operand);
                    at += 1;
                }
            }
            assert_eq!(refused_as_point(&filled), Some(5_860_402), "{filled}");
        }
    }
    for constant in [
        r#"{"$cond": [true, [1, 2], [3, 4]]}"#,
        r#"{"$map": {"input": [1, 2], "in": {"$add": ["$$this", 1]}}}"#,
        r#"{"$let": {"vars": {"x": 1}, "in": ["$$x", 2]}}"#,
    ] {
        assert_eq!(refused_as_point(constant), None, "{constant}");
    }
}
