//! Checks of a rule: its containers exist, its look-ups have an index, and no change would run in cycles.

use std::sync::Arc;

use shardlake_catalog::ProjectionRule;
use shardlake_model::{Error, Limits, Result, validate_resource_id};

use crate::path::Path;
use crate::records::Entries;
use crate::rule::Compiled;
use shardlake_router::ContainerEntry;
use shardlake_router::LiveCatalog;

/// The containers of a rule.
#[derive(Debug)]
pub(crate) struct Ends {
    pub source: Arc<ContainerEntry>,
    pub target: Arc<ContainerEntry>,
}

/// Refuses a rule that conflicts with the others.
pub(crate) fn check(
    catalog: &LiveCatalog,
    others: &Entries,
    rule: &ProjectionRule,
    compiled: &Compiled,
) -> Result<Ends> {
    let source = find(catalog, "source", &rule.source.database, &rule.source.container)?;
    let target = find(catalog, "target", &rule.target.database, &rule.target.container)?;
    // It is created when it is first needed, which is too late to report a bad name.
    validate_resource_id(&rule.dead_letters, &Limits::default()).map_err(|error| {
        Error::bad_request(format!("'deadLetters' names no container: {}", error.message()))
    })?;
    target.check_takes_writes().map_err(|error| {
        Error::bad_request(format!("the target of the projection takes no writes: {}", error.message()))
    })?;
    check_key(&target, compiled)?;
    for (of_source, of_target) in &compiled.matches {
        check_indexed(&target, of_target, "")?;
        if rule.watch_target {
            check_indexed(&source, of_source, ", or set watchTarget to false")?;
        }
    }
    check_single_writer(others, rule, compiled)?;
    check_circles(others, rule, compiled)?;
    Ok(Ends { source, target })
}

fn find(catalog: &LiveCatalog, role: &str, database: &str, container: &str) -> Result<Arc<ContainerEntry>> {
    // By name alone: a rule outlives the identifiers that a client may hold.
    let owner = catalog.databases.get(database);
    owner.and_then(|owner| owner.containers.get(container)).cloned().ok_or_else(|| {
        Error::bad_request(format!("the {role} of the projection, '{database}/{container}', does not exist"))
    })
}

fn check_key(target: &ContainerEntry, compiled: &Compiled) -> Result<()> {
    for key in &target.shape.key_paths {
        let key = Path { array: None, names: key.0.clone() };
        if compiled.writes().any(|to| to.overlaps(&key)) {
            return Err(Error::bad_request(format!(
                "'set' may not change the partition key '/{}' of the target",
                key.names.join("/")
            )));
        }
    }
    Ok(())
}

fn check_indexed(container: &ContainerEntry, path: &Path, otherwise: &str) -> Result<()> {
    if container.shape.indexed_paths.is_indexed(&path.segments()) {
        return Ok(());
    }
    let array = path.array.as_ref().map_or(String::new(), |names| format!("/{}/[]", names.join("/")));
    Err(Error::bad_request(format!(
        "'{array}/{}' is not indexed in '{}', so every change would read the whole container: include it in the indexing policy{otherwise}",
        path.names.join("/"),
        container.record.container.definition.id
    )))
}

/// Two rules for one copy would undo one another's work for ever.
fn check_single_writer(others: &Entries, rule: &ProjectionRule, compiled: &Compiled) -> Result<()> {
    for other in others.values().filter(|other| other.id() != rule.id) {
        let is_same_target = other.record.rule.target == rule.target;
        let mut ours = compiled.writes();
        if is_same_target && ours.any(|to| other.rule.writes().any(|other| other.overlaps(to))) {
            return Err(Error::bad_request(format!(
                "the projection '{}' sets the same copies of '{}/{}' already",
                other.id(),
                rule.target.database,
                rule.target.container
            )));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Node<'r> {
    rule: &'r ProjectionRule,
    compiled: &'r Compiled,
}

impl Node<'_> {
    /// Whether this rule writes something that the other one acts on.
    fn feeds(&self, other: &Node<'_>) -> bool {
        let target = (&self.rule.target.database, &self.rule.target.container);
        let letters = (&self.rule.target.database, &self.rule.dead_letters);
        let source = (&other.rule.source.database, &other.rule.source.container);
        let others_target = (&other.rule.target.database, &other.rule.target.container);
        let writes = |path: &Path| self.compiled.writes().any(|to| to.overlaps(path));
        letters == source
            || (other.rule.watch_target && letters == others_target)
            || (target == source && other.compiled.reads_of_source().any(writes))
            || (other.rule.watch_target
                && target == others_target
                && other.compiled.reads_of_target().any(writes))
    }
}

/// Refuses a rule that would, perhaps through others, act on its own writes.
fn check_circles(others: &Entries, rule: &ProjectionRule, compiled: &Compiled) -> Result<()> {
    let new = Node { rule, compiled };
    let others = others.values().filter(|other| other.id() != rule.id);
    let nodes: Vec<Node<'_>> =
        others.map(|other| Node { rule: &other.record.rule, compiled: &other.rule }).collect();
    // By node: whether it was reached.
    let mut reached = vec![false; nodes.len()];
    let mut open = vec![(new, Vec::new())];
    while let Some((node, way)) = open.pop() {
        if node.feeds(&new) {
            let way: Vec<&str> = std::iter::once(rule.id.as_str()).chain(way).collect();
            return Err(Error::bad_request(format!(
                "the projection would feed itself, by way of '{}': what it sets is among what it reads",
                way.join("', '")
            )));
        }
        for (next, is_reached) in nodes.iter().zip(&mut reached) {
            if !*is_reached && node.feeds(next) {
                *is_reached = true;
                open.push((*next, way.iter().copied().chain([next.rule.id.as_str()]).collect()));
            }
        }
    }
    Ok(())
}
