//! `$graphLookup`: follows a relation through a collection, breadth first.

use super::join::{Source, read};
use super::options::Options;
use super::output::collection_name;
use super::run::{Context, Operator, Stage};
use super::simple::with_member;
use crate::error::{Result, fail};
use crate::expression::{Expression, Scope, parse as parse_expression, path_value};
use crate::filter::Filter;
use crate::order::Key;
use crate::path;
use crate::path::field_path;
use crate::value::{Str, Value};
use shardlake_collation::Collation;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct GraphLookup {
    from: Source,
    start: Expression,
    connect_from: Vec<Str>,
    connect_to: Vec<Str>,
    target: Vec<Str>,
    depth_max: Option<i64>,
    depth_field: Option<Vec<Str>>,
    restrict: Option<Filter>,
    collation: Collation,
}

pub(super) fn parse_graph_lookup(options: &Options<'_>, scope: &Scope) -> Result<GraphLookup> {
    for name in ["as", "connectFromField", "connectToField", "depthField"] {
        if options.text(name).is_some_and(|path| path.starts_with('$')) {
            fail!(16410, "{name}: FieldPath field names may not start with '$'");
        }
    }
    let path = |name: &str| field_path(options.text(name).map_or("", |path| path));
    Ok(GraphLookup {
        start: parse_expression(options.value("startWith"), scope)?,
        connect_from: path("connectFromField")?,
        connect_to: path("connectToField")?,
        target: path("as")?,
        from: collection_name(options.value("from"), "$graphLookup", 9)?,
        depth_max: options.get("maxDepth").and_then(Value::to_i64_exact),
        depth_field: options.text("depthField").map(|field| field_path(field)).transpose()?,
        restrict: options
            .inner("restrictSearchWithMatch")
            .map(|filter| Filter::parse(filter, scope))
            .transpose()?,
        collation: scope.collation().clone(),
    })
}

impl Stage for GraphLookup {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(GraphRun { stage: self, foreign: None, foreign_bytes: 0 })
    }
}

struct GraphRun {
    stage: Arc<GraphLookup>,
    foreign: Option<Vec<Value>>,
    foreign_bytes: usize,
}

fn spread(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.to_vec(),
        Value::Missing => Vec::new(),
        other => vec![other],
    }
}

impl Operator for GraphRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool> {
        let stage = self.stage.clone();
        let foreign = match self.foreign.take() {
            Some(foreign) => foreign,
            None => {
                let read = read(&Some(stage.from.clone()), &stage.collation, context)?;
                self.foreign_bytes = read.iter().map(Value::size).sum();
                read
            }
        };
        let mut frontier = spread(stage.start.evaluate_on(&mut context.env, &document)?);
        let (mut asked, mut taken, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let (mut depth, mut bytes) = (0, 0);
        while !frontier.is_empty() && stage.depth_max.is_none_or(|most| depth <= most) {
            let mut wanted = Vec::new();
            for value in std::mem::take(&mut frontier) {
                let key = Key::by(&stage.collation, &value)?;
                let key_bytes = key.bytes_beside(&stage.collation);
                if asked.insert(key) {
                    bytes += key_bytes;
                    context.check_memory("$graphLookup", bytes)?;
                    wanted.push(value);
                }
            }
            for (at, candidate) in foreign.iter().enumerate() {
                if taken.contains(&at) || !stage.connects(candidate, &wanted, context)? {
                    continue;
                }
                taken.insert(at);
                bytes += candidate.size();
                context.check_memory("$graphLookup", bytes)?;
                frontier.extend(spread(path_value(candidate, &stage.connect_from)));
                found.push(match &stage.depth_field {
                    Some(field) => with_member(candidate, field, Value::Long(depth)),
                    None => candidate.clone(),
                });
            }
            depth += 1;
        }
        debug_assert_eq!(found.len(), taken.len(), "each document is found once");
        self.foreign = Some(foreign);
        out.push(with_member(&document, &stage.target, Value::array(found)));
        Ok(true)
    }

    fn held_bytes(&self) -> usize {
        self.foreign_bytes
    }
}

impl GraphLookup {
    fn connects(&self, candidate: &Value, wanted: &[Value], context: &mut Context<'_>) -> Result<bool> {
        let Value::Document(members) = candidate else { return Ok(false) };
        let equal = |wanted: &Value, value: &Value| {
            crate::order::equal_by(&self.collation, wanted, &value.clone().or_null())
        };
        let is_wanted = |value: &Value| wanted.iter().any(|wanted| equal(wanted, value));
        let connected = path::walk(members, &self.connect_to, &mut |reached| match reached.value {
            Value::Array(items) => items.iter().any(is_wanted) || is_wanted(reached.value),
            value => is_wanted(value),
        });
        match &self.restrict {
            Some(filter) if connected => filter.matches(members, &mut context.env),
            _ => Ok(connected),
        }
    }
}
