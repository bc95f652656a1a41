//! Whether a function would feed itself: by way of other functions, indexes and projections.

use std::collections::BTreeSet;

use shardlake_catalog::{Definitions, FunctionAccess, FunctionRecord};
use shardlake_model::{ContainerRid, Error, Result};

/// A copy that reads one container and writes another.
struct Edge {
    name: String,
    from: ContainerRid,
    to: ContainerRid,
}

/// Refuses a function whose writes would reach its source through others. Its own commits never come back to it.
pub(crate) fn check_circle(definitions: &Definitions, function: &FunctionRecord) -> Result<()> {
    if function.definition.allow_circle {
        return Ok(());
    }
    let edges = edges_of_others(definitions, &function.definition.id);
    for start in written_by(function) {
        if let Some(way) = way(&edges, start, function.source) {
            return Err(Error::bad_request(format!(
                "the function would feed itself, by way of {}: set \"allowCircle\": true if that ends by itself",
                way.join(", then ")
            )));
        }
    }
    Ok(())
}

fn written_by(function: &FunctionRecord) -> impl Iterator<Item = ContainerRid> {
    let rights = function.definition.access.values().zip(&function.access);
    rights.filter(|(right, _)| **right == FunctionAccess::ReadWrite).map(|(_, rid)| *rid)
}

fn edges_of_others(definitions: &Definitions, id: &str) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut add = |name: String, from, to| edges.push(Edge { name, from, to });
    for other in definitions.functions.values().filter(|other| other.definition.id != id) {
        for to in written_by(other) {
            add(format!("the function '{}'", other.definition.id), other.source, to);
        }
    }
    for (index, record) in definitions.secondary_indexes.iter() {
        add(format!("an index of '{}'", record.source_id), record.source, *index);
    }
    for record in definitions.projections.values() {
        add(format!("the projection '{}'", record.rule.id), record.source, record.target);
    }
    edges
}

/// The copies from one container to another, at least one.
fn way(edges: &[Edge], start: ContainerRid, goal: ContainerRid) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([start]);
    let mut open = vec![(start, Vec::new())];
    while let Some((at, way)) = open.pop() {
        for edge in edges.iter().filter(|edge| edge.from == at) {
            let way: Vec<String> = way.iter().cloned().chain([edge.name.clone()]).collect();
            if edge.to == goal {
                return Some(way);
            }
            if seen.insert(edge.to) {
                open.push((edge.to, way));
            }
        }
    }
    None
}
