//! A condition as a tree of leaves.
//!
//! Each part is planned for one outcome: where it is `true`, or, under a NOT, where it is `false`; where it
//! is undefined it is neither. AND is true where all parts are, false where any is; for OR it is the reverse.
//! An unrecognised part becomes `Everything`, which an AND may leave out and an OR may not.

use std::cmp::Ordering;

use shardlake_document::{TypeTag, Value};
use shardlake_model::IndexPathSegment;

use super::combine::{NEVER, Planned, UNKNOWN, all, any};
use super::path::{Paths, as_test, is_single, names};
use super::ranges::{ValueSet, are_ascending};
use super::{IndexFilter, IndexRef, IndexSchema, Leaf, LookupClass, ValueTest};
use crate::bound::Expression;
use crate::functions::Function;
use crate::prepared::PreparedQuery;
use crate::syntax::ast::{BinaryOperator, SubqueryKind, UnaryOperator};

pub(super) struct Planner<'a> {
    pub schema: &'a IndexSchema<'a>,
    pub paths: Paths,
}

impl<'a> Planner<'a> {
    pub fn new(query: &PreparedQuery, schema: &'a IndexSchema<'a>) -> Self {
        Planner { schema, paths: Paths::of_query(query, schema.computed) }
    }

    /// Plans the condition for this outcome.
    pub fn plan(&self, condition: &Expression, outcome: bool) -> Planned {
        match condition {
            Expression::Literal(Value::Bool(value)) if *value == outcome => (IndexFilter::Everything, true),
            Expression::Literal(_) => NEVER,
            Expression::And(parts) if outcome => all(parts.iter().map(|part| self.plan(part, true))),
            Expression::And(parts) => any(parts.iter().map(|part| self.plan(part, false))),
            Expression::Or(parts) if outcome => any(parts.iter().map(|part| self.plan(part, true))),
            Expression::Or(parts) => all(parts.iter().map(|part| self.plan(part, false))),
            Expression::Unary { operator: UnaryOperator::Not, operand } => self.plan(operand, !outcome),
            Expression::Binary { operator, left, right } => self.comparison(*operator, left, right, outcome),
            Expression::In { value, list, .. } => self.membership(value, list, outcome),
            Expression::Between { value, low, high } => {
                let above = self.comparison(BinaryOperator::GreaterOrEqual, value, low, outcome);
                let below = self.comparison(BinaryOperator::LessOrEqual, value, high, outcome);
                if outcome { all([above, below].into_iter()) } else { any([above, below].into_iter()) }
            }
            Expression::Like { value, pattern, escape, .. } => {
                self.like(condition, value, pattern, *escape, outcome)
            }
            Expression::Call { function, arguments, .. } => {
                self.call(condition, *function, arguments, outcome)
            }
            Expression::Subquery { kind: SubqueryKind::Exists, query } if outcome => self.exists(query),
            Expression::Conditional { condition, then, otherwise } => {
                let chosen = all([self.plan(condition, true), self.plan(then, outcome)].into_iter());
                either(chosen, self.plan(otherwise, outcome))
            }
            // The value is that of one of the parts.
            Expression::Coalesce(parts) => {
                parts.iter().map(|part| self.plan(part, outcome)).reduce(either).unwrap_or(NEVER)
            }
            path => match self.paths.path(path) {
                Some(_) => {
                    let tag = if outcome { TypeTag::True } else { TypeTag::False };
                    self.leaf(path, ValueSet::types(tag, tag), None, LookupClass::Seek)
                }
                None => UNKNOWN,
            },
        }
    }

    fn comparison(
        &self,
        operator: BinaryOperator,
        left: &Expression,
        right: &Expression,
        outcome: bool,
    ) -> Planned {
        if let Some(planned) = self.truth_comparison(operator, left, right, outcome) {
            return planned;
        }
        let (path, constant, operator) = match (left, right) {
            (path, Expression::Literal(constant)) => (path, constant, operator),
            (Expression::Literal(constant), path) => (path, constant, mirrored(operator)),
            _ => return UNKNOWN,
        };
        if self.paths.path(path).is_none() {
            return UNKNOWN;
        }
        let is_ordered = |accepts: fn(Ordering) -> bool| ValueSet::ordered(constant, accepts);
        let has_no_answer =
            constant.is_undefined() || matches!(constant, Value::Double(number) if number.is_nan());
        let set = match (operator, outcome) {
            _ if has_no_answer => return NEVER,
            (BinaryOperator::Equal, true) | (BinaryOperator::NotEqual, false) => ValueSet::equal(constant),
            (BinaryOperator::Equal, false) | (BinaryOperator::NotEqual, true) => {
                ValueSet::equal(constant).complement()
            }
            (BinaryOperator::Less, true) | (BinaryOperator::GreaterOrEqual, false) => {
                is_ordered(Ordering::is_lt)
            }
            (BinaryOperator::LessOrEqual, true) | (BinaryOperator::Greater, false) => {
                is_ordered(Ordering::is_le)
            }
            (BinaryOperator::Greater, true) | (BinaryOperator::LessOrEqual, false) => {
                is_ordered(Ordering::is_gt)
            }
            (BinaryOperator::GreaterOrEqual, true) | (BinaryOperator::Less, false) => {
                is_ordered(Ordering::is_ge)
            }
            _ => return UNKNOWN,
        };
        let class = if set.is_single_values() { LookupClass::Seek } else { LookupClass::PreciseScan };
        self.leaf(path, set, None, class)
    }

    /// `condition = true` and the like.
    fn truth_comparison(
        &self,
        operator: BinaryOperator,
        left: &Expression,
        right: &Expression,
        outcome: bool,
    ) -> Option<Planned> {
        let (condition, value) = match (left, right) {
            (condition, Expression::Literal(Value::Bool(value)))
            | (Expression::Literal(Value::Bool(value)), condition) => (condition, *value),
            _ => return None,
        };
        let wanted = match operator {
            BinaryOperator::Equal => value == outcome,
            BinaryOperator::NotEqual => value != outcome,
            _ => return None,
        };
        is_condition(condition).then(|| self.plan(condition, wanted))
    }

    fn membership(&self, value: &Expression, list: &[Expression], outcome: bool) -> Planned {
        if let Expression::Literal(_) = value
            && outcome
        {
            let equals = |element| self.comparison(BinaryOperator::Equal, element, value, true);
            return any(list.iter().map(equals));
        }
        let mut sets = Vec::with_capacity(list.len());
        for element in list {
            let Expression::Literal(constant) = element else { return UNKNOWN };
            sets.push(ValueSet::equal(constant));
        }
        if self.paths.path(value).is_none() {
            return UNKNOWN;
        }
        let set = ValueSet::union(sets);
        if outcome {
            return self.leaf(value, set, None, LookupClass::Seek);
        }
        self.leaf(value, set.complement(), None, LookupClass::PreciseScan)
    }

    fn like(
        &self,
        whole: &Expression,
        value: &Expression,
        pattern: &Expression,
        escape: Option<char>,
        outcome: bool,
    ) -> Planned {
        let Expression::Literal(Value::String(pattern)) = pattern else { return UNKNOWN };
        let start: String =
            pattern.chars().take_while(|c| !matches!(c, '%' | '_' | '[') && Some(*c) != escape).collect();
        if !outcome {
            return self.tested(whole, value, ValueSet::types(TypeTag::String, TypeTag::String), false);
        }
        let rest = &pattern[start.len()..];
        match rest {
            "" => self.leaf(value, ValueSet::equal(&Value::String(start)), None, LookupClass::Seek),
            "%" => self.leaf(value, ValueSet::strings_starting_with(&start), None, LookupClass::PreciseScan),
            _ => self.tested(whole, value, ValueSet::strings_starting_with(&start), true),
        }
    }

    pub fn tested(&self, whole: &Expression, path: &Expression, set: ValueSet, outcome: bool) -> Planned {
        self.tested_as(whole, path, set, outcome, LookupClass::IndexScan)
    }

    /// The condition itself as a test of the value.
    pub fn tested_as(
        &self,
        whole: &Expression,
        path: &Expression,
        set: ValueSet,
        outcome: bool,
        class: LookupClass,
    ) -> Planned {
        if self.paths.path(path).is_none() {
            return UNKNOWN;
        }
        let Some(test) = as_test(whole, path) else { return UNKNOWN };
        let expression = match outcome {
            true => test,
            false => Expression::Unary { operator: UnaryOperator::Not, operand: Box::new(test) },
        };
        let set = ValueSet { precise: true, ..set };
        self.leaf(path, set, Some(ValueTest { expression }), class)
    }

    pub fn leaf(
        &self,
        path: &Expression,
        set: ValueSet,
        test: Option<ValueTest>,
        class: LookupClass,
    ) -> Planned {
        match self.paths.path(path) {
            Some(path) => {
                let is_single = is_single(&path);
                let (filter, precise) = self.leaf_at(path, set, test, class);
                (filter, precise && is_single)
            }
            None => UNKNOWN,
        }
    }

    pub fn leaf_at(
        &self,
        path: Vec<IndexPathSegment>,
        set: ValueSet,
        test: Option<ValueTest>,
        class: LookupClass,
    ) -> Planned {
        if set.ranges.is_empty() {
            return (IndexFilter::Nothing, set.precise);
        }
        if path.is_empty() || !is_indexed(self.schema, &path) {
            return UNKNOWN;
        }
        debug_assert!(are_ascending(&set.ranges), "the ranges of a leaf are disjoint and ascend");
        debug_assert!(set.ranges.iter().all(|range| range.start < range.end), "no range of a leaf is empty");
        let precise = set.precise;
        let leaf = Leaf { index: IndexRef::Path(path), ranges: set.ranges, test, precise, class };
        (IndexFilter::Leaf(leaf), precise)
    }
}

/// Whether the serving index has an entry for every value at a path.
pub(super) fn is_indexed(schema: &IndexSchema<'_>, path: &[IndexPathSegment]) -> bool {
    let Some(matcher) = schema.paths else { return false };
    if let Some(names) = names(path) {
        match names.first().map(String::as_str) {
            Some("id" | "_ts") if names.len() == 1 => return true,
            Some("_rid" | "_self" | "_etag" | "_attachments") => return false,
            Some(first) if schema.computed.iter().any(|computed| computed == first) => {
                return names.len() == 1;
            }
            _ => {}
        }
    }
    matcher.is_indexed(path)
}

/// The right condition decides where the left one does not: at most where either has the outcome.
fn either(left: Planned, right: Planned) -> Planned {
    let is_left_alone = matches!(right.0, IndexFilter::Nothing);
    let (filter, precise) = any([left, right].into_iter());
    (filter, precise && is_left_alone)
}

/// Whether the expression has only the values `true`, `false` or undefined.
fn is_condition(expression: &Expression) -> bool {
    match expression {
        Expression::And(_)
        | Expression::Or(_)
        | Expression::Unary { operator: UnaryOperator::Not, .. }
        | Expression::In { .. }
        | Expression::Between { .. }
        | Expression::Like { .. }
        | Expression::Subquery { kind: SubqueryKind::Exists, .. } => true,
        Expression::Binary { operator, .. } => {
            use BinaryOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
            matches!(operator, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
        }
        Expression::Call { function, .. } => returns_condition(*function),
        _ => false,
    }
}

fn mirrored(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessOrEqual => BinaryOperator::GreaterOrEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterOrEqual => BinaryOperator::LessOrEqual,
        other => other,
    }
}

/// Whether a function returns only `true`, `false` or undefined.
fn returns_condition(function: Function) -> bool {
    is_text_test(function)
        || matches!(
            function,
            Function::IsArray
                | Function::IsBool
                | Function::IsDateTime
                | Function::IsDefined
                | Function::IsFiniteNumber
                | Function::IsInteger
                | Function::IsNull
                | Function::IsNumber
                | Function::IsObject
                | Function::IsPrimitive
                | Function::IsString
                | Function::StartsWith
                | Function::StringEquals
                | Function::ArrayContains
                | Function::ArrayContainsAll
                | Function::ArrayContainsAny
        )
}

/// Searches that the order of texts does not help.
pub(super) fn is_text_test(function: Function) -> bool {
    matches!(
        function,
        Function::Contains
            | Function::ContainsAllCi
            | Function::ContainsAllCs
            | Function::ContainsAnyCi
            | Function::ContainsAnyCs
            | Function::EndsWith
            | Function::RegexMatch
    )
}
