//! Calls as conditions: which values of their path make them `true`, or `false`.
//!
//! A search in a text is undefined for values other than texts, so both outcomes are among the texts. Type
//! checks are never undefined: they are false where the path is missing, which only the entries of explicitly
//! included paths show.

use shardlake_document::{TypeTag, Value};
use shardlake_model::IndexPathSegment;

use super::LookupClass;
use super::combine::{NEVER, Planned, UNKNOWN, all, any};
use super::filter::{Planner, is_text_test};
use super::path::{Paths, is_single, names};
use super::ranges::ValueSet;
use crate::bound::{BoundQuery, BoundSource, Expression};
use crate::functions::Function;

impl Planner<'_> {
    pub fn call(
        &self,
        whole: &Expression,
        function: Function,
        arguments: &[Expression],
        outcome: bool,
    ) -> Planned {
        let Some(path) = arguments.first() else { return UNKNOWN };
        let types = |first, last| self.check(path, ValueSet::types(first, last), outcome);
        match function {
            Function::IsDefined => self.check(path, ValueSet::defined(), outcome),
            Function::IsNull => types(TypeTag::Null, TypeTag::Null),
            Function::IsBool => types(TypeTag::False, TypeTag::True),
            Function::IsNumber => types(TypeTag::Number, TypeTag::Number),
            Function::IsString => types(TypeTag::String, TypeTag::String),
            Function::IsArray => types(TypeTag::Array, TypeTag::Array),
            Function::IsObject => types(TypeTag::Object, TypeTag::Object),
            Function::IsPrimitive => types(TypeTag::Null, TypeTag::String),
            Function::IsInteger | Function::IsFiniteNumber => {
                self.tested_check(whole, path, TypeTag::Number, outcome)
            }
            Function::IsDateTime => self.tested_check(whole, path, TypeTag::String, outcome),
            Function::StartsWith | Function::StringEquals => {
                self.compared_text(whole, function, arguments, outcome)
            }
            // A pattern may turn out to be invalid, which must be reported, so the item is evaluated.
            Function::RegexMatch => (self.tested(whole, path, texts(), outcome).0, false),
            search if is_text_test(search) => self.tested(whole, path, texts(), outcome),
            Function::ArrayContains => self.contains(arguments, outcome),
            Function::ArrayContainsAny if outcome => any(self.elements(arguments)),
            Function::ArrayContainsAll if outcome => all(self.elements(arguments)),
            _ => UNKNOWN,
        }
    }

    /// A check that is false for all other values and for missing ones.
    fn check(&self, path: &Expression, set: ValueSet, outcome: bool) -> Planned {
        if !outcome && !self.has_undefined(path) {
            return UNKNOWN;
        }
        let set = match outcome {
            true => set,
            false => ValueSet::union([set.complement(), ValueSet::undefined()]),
        };
        let class = if set.is_single_values() { LookupClass::Seek } else { LookupClass::PreciseScan };
        self.leaf(path, set, None, class)
    }

    fn tested_check(&self, whole: &Expression, path: &Expression, tag: TypeTag, outcome: bool) -> Planned {
        if outcome {
            return self.tested(whole, path, ValueSet::types(tag, tag), true);
        }
        if !self.has_undefined(path) {
            return UNKNOWN;
        }
        self.tested(whole, path, ValueSet::union([ValueSet::undefined(), ValueSet::defined()]), false)
    }

    /// Whether the index has an entry for every item that lacks the path.
    fn has_undefined(&self, path: &Expression) -> bool {
        let names = self.paths.path(path).and_then(|path| names(&path));
        names.is_some_and(|names| self.schema.explicit.contains(&names))
    }

    /// `STARTSWITH` and `STRINGEQUALS`: ranges if case counts, a test otherwise.
    fn compared_text(
        &self,
        whole: &Expression,
        function: Function,
        arguments: &[Expression],
        outcome: bool,
    ) -> Planned {
        let (path, text) = match arguments {
            [path, Expression::Literal(text), ..] => (path, text),
            _ => return UNKNOWN,
        };
        let Value::String(text) = text else { return NEVER };
        match arguments.get(2) {
            None | Some(Expression::Literal(Value::Bool(false))) => {}
            Some(Expression::Literal(Value::Bool(true))) => {
                return self.tested_as(whole, path, texts(), outcome, LookupClass::ExpandedScan);
            }
            Some(Expression::Literal(_)) => return NEVER,
            Some(_) => return UNKNOWN,
        }
        let (set, class) = match function {
            Function::StartsWith => (ValueSet::strings_starting_with(text), LookupClass::PreciseScan),
            _ => (ValueSet::equal(&Value::String(text.clone())), LookupClass::Seek),
        };
        match outcome {
            true => self.leaf(path, set, None, class),
            false => self.leaf(path, set.complement().intersect(&texts()), None, LookupClass::PreciseScan),
        }
    }

    fn contains(&self, arguments: &[Expression], outcome: bool) -> Planned {
        let is_partial = match arguments.get(2) {
            None => false,
            Some(Expression::Literal(Value::Bool(flag))) => *flag,
            Some(Expression::Literal(_)) => return NEVER,
            Some(_) => return UNKNOWN,
        };
        match arguments {
            [_, Expression::Literal(Value::Undefined), ..] => NEVER,
            [Expression::Literal(Value::Array(list)), path, ..] if !is_partial => {
                let set = ValueSet::union(list.iter().map(ValueSet::equal));
                match outcome {
                    true => self.leaf(path, set, None, LookupClass::Seek),
                    false => self.leaf(path, set.complement(), None, LookupClass::PreciseScan),
                }
            }
            [array, ..] if !outcome => {
                let set = ValueSet { precise: false, ..ValueSet::types(TypeTag::Array, TypeTag::Array) };
                self.leaf(array, set, None, LookupClass::PreciseScan)
            }
            [array, Expression::Literal(wanted), ..] if !is_partial => self.element(array, wanted),
            [array, Expression::Literal(Value::Object(wanted)), ..] => self.members(array, wanted),
            [array, Expression::Literal(wanted), ..] => (self.element(array, wanted).0, false),
            _ => UNKNOWN,
        }
    }

    fn elements(&self, arguments: &[Expression]) -> impl Iterator<Item = Planned> {
        arguments[1..].iter().map(|wanted| match wanted {
            Expression::Literal(wanted) => self.element(&arguments[0], wanted),
            _ => UNKNOWN,
        })
    }

    /// An element equal to a constant.
    fn element(&self, array: &Expression, wanted: &Value) -> Planned {
        let Some(mut path) = self.paths.path(array) else { return UNKNOWN };
        let is_single = is_single(&path);
        path.push(IndexPathSegment::AnyElement);
        let (filter, precise) = self.leaf_at(path, ValueSet::equal(wanted), None, LookupClass::Seek);
        // An item has one entry, even if the element occurs several times.
        (filter, precise && is_single)
    }

    /// An element with these members. The index does not show whether the entries belong to one element.
    fn members(&self, array: &Expression, wanted: &[(String, Value)]) -> Planned {
        let Some(mut path) = self.paths.path(array) else { return UNKNOWN };
        path.push(IndexPathSegment::AnyElement);
        let member = |(name, value): &(String, Value)| {
            let mut path = path.clone();
            path.push(IndexPathSegment::Name(name.clone()));
            self.leaf_at(path, ValueSet::equal(value), None, LookupClass::Seek)
        };
        (all(wanted.iter().map(member)).0, false)
    }

    /// At least one row of a subquery over the item's own arrays must pass its filter.
    pub fn exists(&self, query: &BoundQuery) -> Planned {
        if query.grouping.is_some() {
            return UNKNOWN;
        }
        let inner = Planner { schema: self.schema, paths: Paths::of(query, &self.paths) };
        if let Some(filter) = &query.filter {
            return (inner.plan(filter, true).0, false);
        }
        let rows = query.sources.iter().map(|source| match source {
            BoundSource::Elements { slot, .. } | BoundSource::Value { slot, .. } => {
                let class = LookupClass::PreciseScan;
                inner.leaf(&Expression::Variable(*slot), ValueSet::defined(), None, class)
            }
            BoundSource::Item | BoundSource::Subquery { .. } => UNKNOWN,
        });
        (all(rows).0, false)
    }
}

fn texts() -> ValueSet {
    ValueSet::types(TypeTag::String, TypeTag::String)
}
