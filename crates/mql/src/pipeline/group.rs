//! `$group`, `$count`, `$sortByCount`.

use super::options::{self, Options};
use super::run::{Context, Operator, Stage};
use crate::accumulator::{self, Accumulator, State};
use crate::error::{Result, error, fail};
use crate::expression::{Env, Expression, Scope, parse as parse_expression};
use crate::order::Key;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A parsed `$group`.
pub(super) struct Group {
    pub id: GroupId,
    pub outputs: Vec<(Str, Accumulator)>,
    /// Groups come in the order of their ids.
    pub sorted: bool,
    pub collation: Collation,
}

/// The key of the groups.
pub(super) enum GroupId {
    Value(Expression),
    /// A document of one member: a missing value of the member counts as null. In a document of
    /// several members a missing value leaves its member out.
    Member(Str, Expression),
}

impl GroupId {
    fn parse(value: &Value, scope: &Scope) -> Result<GroupId> {
        let whole = parse_expression(value, scope)?;
        Ok(match value.as_document().map(|document| (document.first(), document.len())) {
            Some((Some((name, member)), 1)) if !name.starts_with('$') => {
                GroupId::Member(name.clone(), parse_expression(member, scope)?)
            }
            _ => GroupId::Value(whole),
        })
    }

    fn of(&self, document: &Value, env: &mut Env) -> Result<Value> {
        Ok(match self {
            GroupId::Value(expression) => expression.evaluate_on(env, document)?.or_null(),
            GroupId::Member(name, expression) => {
                let value = expression.evaluate_on(env, document)?.or_null();
                Value::document(Document::one(name, value))
            }
        })
    }
}

pub(super) fn parse_group(options: &Options<'_>, scope: &Scope) -> Result<Group> {
    let mut id = None;
    let mut outputs = Vec::new();
    for (name, value) in options.document().into_iter().flat_map(|document| document.iter()) {
        if &**name == "_id" {
            if id.is_some() {
                fail!(15948, "a group's _id may only be specified once");
            }
            check_id(value)?;
            id = Some(GroupId::parse(value, scope)?);
            continue;
        }
        match &**name {
            "$doingMerge" | "$willBeMerged" => {}
            name if name.contains('.') => fail!(40235, "The field name '{name}' cannot contain '.'"),
            name if name.starts_with('$') => {
                fail!(40236, "The field name '{name}' cannot be an operator name")
            }
            _ => {}
        }
        outputs.push((name.clone(), parse_output(name, value, scope)?));
    }
    let id = id.ok_or_else(|| error!(15955, "a group specification must include an _id"))?;
    Ok(Group { id, outputs, sorted: false, collation: scope.collation().clone() })
}

/// Numbers and booleans in an object of fields would mean inclusion, as in a projection.
fn check_id(id: &Value) -> Result<()> {
    let Value::Document(fields) = id else { return Ok(()) };
    let is_operator = fields.first().is_some_and(|(name, _)| name.starts_with('$'));
    let is_flag = |value: &Value| value.is_number() || matches!(value, Value::Bool(_));
    if !is_operator && fields.iter().any(|(_, value)| is_flag(value)) {
        fail!(17390, "$group does not support inclusion-style expressions");
    }
    Ok(())
}

/// The accumulator of an output field.
pub(super) fn parse_output(name: &str, value: &Value, scope: &Scope) -> Result<Accumulator> {
    let Value::Document(document) = value else {
        fail!(40234, "The field '{name}' must be an accumulator object");
    };
    if document.len() != 1 {
        let code = if document.is_empty() { 40234 } else { 40238 };
        fail!(code, "The field '{name}' must specify one accumulator");
    }
    let Some((operator, operand)) = document.first() else {
        fail!(40234, "The field '{name}' must be an accumulator object");
    };
    if !operator.starts_with('$') {
        fail!(40234, "The field '{name}' must be an accumulator object");
    }
    match accumulator::parse(operator, operand, scope)? {
        Some(accumulator) => Ok(accumulator),
        None if matches!(operand, Value::Array(_)) => {
            fail!(40237, "The {operator} accumulator is a unary operator")
        }
        None => fail!(15952, "unknown group operator '{operator}'"),
    }
}

impl Stage for Group {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(GroupRun { group: self, places: BTreeMap::new(), groups: Vec::new(), bytes: 0 })
    }
}

struct GroupRun {
    group: Arc<Group>,
    places: BTreeMap<Key, usize>,
    groups: Vec<(Value, Vec<State>)>,
    bytes: usize,
}

impl Operator for GroupRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        let id = self.group.id.of(&document, &mut context.env)?;
        let place = Key::by(&self.group.collation, &id)?;
        let at = match self.places.get(&place) {
            Some(at) => *at,
            None => {
                self.bytes += 64 + id.size() + place.bytes_beside(&self.group.collation);
                // The number of values that `$firstN` and its kin keep may depend on the members of the key.
                let key = if id.as_document().is_some() { id.clone() } else { Document::new().into() };
                context.env.set_root(key);
                let states: Result<Vec<State>> =
                    self.group.outputs.iter().map(|(_, output)| output.start(&mut context.env)).collect();
                self.groups.push((id, states?));
                self.places.insert(place, self.groups.len() - 1);
                context.env.set_root(document.clone());
                self.groups.len() - 1
            }
        };
        let states = &self.groups[at].1;
        assert_eq!(states.len(), self.group.outputs.len(), "each output of a group has its state");
        for ((_, output), state) in self.group.outputs.iter().zip(&mut self.groups[at].1) {
            let before = state.bytes();
            output.add(state, &document, &mut context.env)?;
            self.bytes = (self.bytes + state.bytes()).saturating_sub(before);
        }
        context.check_memory("$group", self.bytes)?;
        Ok(true)
    }

    fn finish(&mut self, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let order: Vec<usize> = if self.group.sorted {
            self.places.values().copied().collect()
        } else {
            (0..self.groups.len()).collect()
        };
        assert_eq!(order.len(), self.groups.len(), "each group is returned once");
        for at in order {
            let (id, states) = &self.groups[at];
            let mut result = Document::one("_id", id.clone());
            for ((name, _), state) in self.group.outputs.iter().zip(states) {
                result.push(name.clone(), state.value());
            }
            out.push(Value::document(result));
        }
        Ok(())
    }
}

/// `$count`: one document with the number of documents, if there were any.
pub(super) struct Count(Str);

pub(super) fn parse_count(options: &Options<'_>) -> Result<Count> {
    let name = options.argument().as_str().unwrap_or_default();
    match name {
        "" => fail!(40157, "the count field must be a non-empty string"),
        name if name.starts_with('$') => fail!(40158, "the count field cannot be a $-prefixed path"),
        name if name.contains('\0') => fail!(40159, "the count field cannot contain a null byte"),
        name if name.contains('.') => fail!(40160, "the count field cannot contain '.'"),
        "_id" => fail!(9039800, "the count field cannot be _id"),
        _ => Ok(Count(name.into())),
    }
}

impl Stage for Count {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(CountRun { stage: self, count: 0 })
    }
}

struct CountRun {
    stage: Arc<Count>,
    count: i64,
}

impl Operator for CountRun {
    fn push(&mut self, _: Value, _: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        self.count += 1;
        Ok(true)
    }

    fn finish(&mut self, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        if self.count > 0 {
            out.push(Value::document(Document::one(&self.stage.0, crate::value::int_or_long(self.count))));
        }
        Ok(())
    }
}

/// The two stages that `$sortByCount` stands for.
pub(super) fn parse_sort_by_count(
    options: &Options<'_>,
    scope: &Scope,
) -> Result<(Group, super::sort::Sort)> {
    let value = options.argument();
    let id = match value {
        Value::Document(document) => {
            if !document.first().is_some_and(|(name, _)| name.starts_with('$')) {
                fail!(
                    40147,
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
                );
            }
            parse_expression(value, scope)?
        }
        path if path.as_str().is_some_and(|path| path.starts_with('$')) => parse_expression(path, scope)?,
        _ => fail!(
            40148,
            "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
        ),
    };
    let one = Value::document(Document::one("$sum", Value::Int(1)));
    let outputs = vec![(Str::from("count"), parse_output("count", &one, scope)?)];
    let order = Value::document(Document::one("count", Value::Int(-1)));
    let order = super::sort::parse_sort(&options::made("$sort", &order)?, scope)?;
    let collation = scope.collation().clone();
    Ok((Group { id: GroupId::Value(id), outputs, sorted: false, collation }, order))
}
