//! A condition as a tree of leaves.
//!
//! Each part is planned for one outcome: where it is `true`, or, under a NOT, where it is `false`; where it is undefined it is
//! neither. AND is true where all parts are, false where any is; OR the other way round. What is not recognised becomes
//! `Everything`, which an AND may leave out and an OR may not.

use std::cmp::Ordering;

use shardlake_document::{TypeTag, Value};
use shardlake_model::IndexPathSegment;

use super::path::{Paths, as_test, is_single, names};
use super::ranges::ValueSet;
use super::{IndexFilter, IndexRef, IndexSchema, Leaf, LookupClass, ValueTest};
use crate::bound::BoundQuery;
use crate::expression::{BinaryOperator, Expression, UnaryOperator};
use crate::functions::Function;
use crate::syntax::ast::SubqueryKind;

pub(super) struct Planner<'a> {
    schema: &'a IndexSchema<'a>,
    paths: Paths,
}

/// A tree, and whether it says exactly what the condition says.
type Planned = (IndexFilter, bool);

const UNKNOWN: Planned = (IndexFilter::Everything, false);
const NEVER: Planned = (IndexFilter::Nothing, true);

impl<'a> Planner<'a> {
    pub fn new(query: &BoundQuery, schema: &'a IndexSchema<'a>) -> Self {
        Planner { schema, paths: Paths::of(query, &Paths::default()) }
    }

    /// Where the condition has this outcome.
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
            Expression::In { value, list } => self.membership(value, list, outcome),
            Expression::Between { value, low, high } => {
                let above = self.comparison(BinaryOperator::GreaterOrEqual, value, low, outcome);
                let below = self.comparison(BinaryOperator::LessOrEqual, value, high, outcome);
                if outcome { self.both(value, above, below) } else { any([above, below].into_iter()) }
            }
            Expression::Like { value, pattern, escape, .. } => {
                self.like(condition, value, pattern, *escape, outcome)
            }
            Expression::Call { function, arguments, .. } => {
                self.call(condition, *function, arguments, outcome)
            }
            Expression::Subquery { kind: SubqueryKind::Exists, query } if outcome => self.exists(query),
            path => match self.paths.path(path) {
                Some(_) => {
                    let tag = if outcome { TypeTag::True } else { TypeTag::False };
                    self.leaf(path, ValueSet::types(tag, tag), None, LookupClass::Seek)
                }
                None => UNKNOWN,
            },
        }
    }

    /// A range from both sides is one leaf.
    fn both(&self, value: &Expression, above: Planned, below: Planned) -> Planned {
        if let ((IndexFilter::Leaf(above), above_precise), (IndexFilter::Leaf(below), below_precise)) =
            (&above, &below)
            && self.paths.path(value).is_some_and(|path| is_single(&path))
        {
            let set = |leaf: &Leaf| ValueSet { ranges: leaf.ranges.clone(), precise: leaf.precise };
            let set = set(above).intersect(&set(below));
            let precise = set.precise && *above_precise && *below_precise;
            let leaf = Leaf { ranges: set.ranges, precise, ..above.clone() };
            return (IndexFilter::Leaf(leaf), precise);
        }
        all([above, below].into_iter())
    }

    fn comparison(
        &self,
        operator: BinaryOperator,
        left: &Expression,
        right: &Expression,
        outcome: bool,
    ) -> Planned {
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
        let class = if set.is_single_value() { LookupClass::Seek } else { LookupClass::PreciseScan };
        self.leaf(path, set, None, class)
    }

    fn membership(&self, value: &Expression, list: &[Expression], outcome: bool) -> Planned {
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

    fn call(
        &self,
        whole: &Expression,
        function: Function,
        arguments: &[Expression],
        outcome: bool,
    ) -> Planned {
        let strings = || ValueSet::types(TypeTag::String, TypeTag::String);
        let literal = |place: usize| match arguments.get(place) {
            Some(Expression::Literal(value)) => Some(value),
            _ => None,
        };
        let Some(path) = arguments.first() else { return UNKNOWN };
        // By the name of the variant, which is the function's own.
        match format!("{function:?}").as_str() {
            "StartsWith" if arguments.len() == 2 && outcome => match literal(1) {
                Some(Value::String(start)) => {
                    self.leaf(path, ValueSet::strings_starting_with(start), None, LookupClass::PreciseScan)
                }
                Some(_) => NEVER,
                None => UNKNOWN,
            },
            "StartsWith" | "StringEquals" => {
                self.tested_as(whole, path, strings(), outcome, LookupClass::ExpandedScan)
            }
            "Contains" | "EndsWith" | "RegexMatch" => self.tested(whole, path, strings(), outcome),
            "IsDefined" if outcome => self.leaf(path, ValueSet::defined(), None, LookupClass::PreciseScan),
            "IsNull" => self.types(path, TypeTag::Null, TypeTag::Null, outcome),
            "IsBool" => self.types(path, TypeTag::False, TypeTag::True, outcome),
            "IsNumber" => self.types(path, TypeTag::Number, TypeTag::Number, outcome),
            "IsString" => self.types(path, TypeTag::String, TypeTag::String, outcome),
            "IsArray" => self.types(path, TypeTag::Array, TypeTag::Array, outcome),
            "IsObject" => self.types(path, TypeTag::Object, TypeTag::Object, outcome),
            "IsPrimitive" => self.types(path, TypeTag::Null, TypeTag::String, outcome),
            "IsInteger" | "IsFiniteNumber" if outcome => {
                self.tested(whole, path, ValueSet::types(TypeTag::Number, TypeTag::Number), true)
            }
            "IsDateTime" if outcome => self.tested(whole, path, strings(), true),
            "ArrayContains" if outcome && arguments.len() == 2 => {
                literal(1).map_or(UNKNOWN, |wanted| self.element(path, wanted))
            }
            "ArrayContainsAny" if outcome => any((1..arguments.len())
                .map(|place| literal(place).map_or(UNKNOWN, |wanted| self.element(path, wanted)))),
            "ArrayContainsAll" if outcome => all((1..arguments.len())
                .map(|place| literal(place).map_or(UNKNOWN, |wanted| self.element(path, wanted)))),
            _ => UNKNOWN,
        }
    }

    /// Type checks are false, not undefined, where the path is missing: the index cannot name those items.
    fn types(&self, path: &Expression, first: TypeTag, last: TypeTag, outcome: bool) -> Planned {
        if !outcome {
            return UNKNOWN;
        }
        self.leaf(path, ValueSet::types(first, last), None, LookupClass::PreciseScan)
    }

    /// An element equal to a constant.
    fn element(&self, array: &Expression, wanted: &Value) -> Planned {
        let Some(mut path) = self.paths.path(array) else { return UNKNOWN };
        let is_single = is_single(&path);
        path.push(IndexPathSegment::AnyElement);
        let set = ValueSet::equal(wanted);
        let (filter, precise) = self.leaf_at(path, set, None, LookupClass::Seek);
        // One entry for an item, however often the element occurs.
        (filter, precise && is_single)
    }

    /// Some row of a subquery over the item's own arrays must pass its filter.
    fn exists(&self, query: &BoundQuery) -> Planned {
        let inner = Planner { schema: self.schema, paths: Paths::of(query, &self.paths) };
        match &query.filter {
            Some(filter) if query.grouping.is_none() => (inner.plan(filter, true).0, false),
            _ => UNKNOWN,
        }
    }

    fn tested(&self, whole: &Expression, path: &Expression, set: ValueSet, outcome: bool) -> Planned {
        self.tested_as(whole, path, set, outcome, LookupClass::IndexScan)
    }

    /// The condition itself as a test of the value.
    fn tested_as(
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

    fn leaf(&self, path: &Expression, set: ValueSet, test: Option<ValueTest>, class: LookupClass) -> Planned {
        match self.paths.path(path) {
            Some(path) => {
                let is_single = is_single(&path);
                let (filter, precise) = self.leaf_at(path, set, test, class);
                (filter, precise && is_single)
            }
            None => UNKNOWN,
        }
    }

    fn leaf_at(
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

fn mirrored(operator: BinaryOperator) -> BinaryOperator {
    match operator {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessOrEqual => BinaryOperator::GreaterOrEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterOrEqual => BinaryOperator::LessOrEqual,
        other => other,
    }
}

fn all(parts: impl Iterator<Item = Planned>) -> Planned {
    let (mut filters, mut precise) = (Vec::new(), true);
    for (filter, is_precise) in parts {
        precise &= is_precise;
        match filter {
            IndexFilter::Everything => {}
            // Nothing can make it true again.
            IndexFilter::Nothing => return NEVER,
            IndexFilter::And(inner) => filters.extend(inner),
            other => filters.push(other),
        }
    }
    let filter = match filters.len() {
        0 => IndexFilter::Everything,
        1 => filters.remove(0),
        _ => IndexFilter::And(filters),
    };
    (filter, precise)
}

fn any(parts: impl Iterator<Item = Planned>) -> Planned {
    let (mut filters, mut precise) = (Vec::new(), true);
    for (filter, is_precise) in parts {
        precise &= is_precise;
        match filter {
            IndexFilter::Everything => return (IndexFilter::Everything, is_precise),
            IndexFilter::Nothing => {}
            IndexFilter::Or(inner) => filters.extend(inner),
            other => filters.push(other),
        }
    }
    let filter = match filters.len() {
        0 => IndexFilter::Nothing,
        1 => filters.remove(0),
        _ => IndexFilter::Or(filters),
    };
    (filter, precise)
}
