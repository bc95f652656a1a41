//! Predicates over the definitions: run on every draft before it is stored, on everything that is
//! read at a start, and by `shardlake verify`. Each predicate names the tables that it looks at, so
//! that a change runs only those that it could break.
//!
//! | predicate | reason |
//! |---|---|
//! | partition numbers are used once, and below the next | two containers in one key space delete each other's items |
//! | ranges cover the hash space once | a key must have one owner |
//! | a relocation's targets are reserved and cover its sources | else a restart would drop or publish foreign data |
//! | former ranges have ids of their own, given before the newest | else a page would be answered for another range |
//! | names are unique among siblings | of two, the one that is opened last would hide the other |
//! | holds on a log have a container, and positions that can be read | else the log would be kept for no follower |
//! | indexes have a container, a source, and a number of their own | else rows would follow the wrong log, or none |
//! | functions have ids and numbers of their own | else the progress of one would count for another |
//! | owners exist | a record without its owner cannot be reached, nor deleted |
//! | ended containers are named once, with earlier versions, and none that was forgotten | else a stream would silently miss an end |
//! | versions rise by one | two writers, or a lost change, would show here |

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;

use shardlake_routing::{KeyRange, PartitionMap};

use crate::ended::ENDED_MAX;
use crate::{Change, ContainerRecord, Definitions, FORMER_RANGES_MAX, RangeRecord, RelocationKind};

type Problems = Vec<String>;

/// Everything about the definitions that must not be; empty where they may be served.
pub fn broken(definitions: &Definitions) -> Problems {
    let mut problems = Problems::new();
    databases(definitions, &mut problems);
    containers(definitions, &mut problems);
    scripts(definitions, &mut problems);
    users(definitions, &mut problems);
    logins(definitions, &mut problems);
    projections(definitions, &mut problems);
    secondary_indexes(definitions, &mut problems);
    functions(definitions, &mut problems);
    ended(definitions, &mut problems);
    log_holds(definitions, &mut problems);
    problems
}

/// As [`broken`], for a draft, as far as its change concerns it.
pub(crate) fn broken_by(change: &Change) -> Problems {
    let mut problems = Problems::new();
    let draft = &change.after;
    let (has_databases, has_containers) = (!change.databases.is_empty(), !change.containers.is_empty());
    if has_databases {
        databases(draft, &mut problems);
    }
    if has_databases || has_containers || !change.dropped.is_empty() {
        containers(draft, &mut problems);
    }
    if has_containers || !change.scripts.is_empty() {
        scripts(draft, &mut problems);
    }
    if has_databases || !change.users.is_empty() || !change.permissions.is_empty() {
        users(draft, &mut problems);
    }
    if !change.logins.is_empty() {
        logins(draft, &mut problems);
    }
    if !change.projections.is_empty() {
        projections(draft, &mut problems);
    }
    if has_containers || !change.secondary_indexes.is_empty() || !change.projections.is_empty() {
        secondary_indexes(draft, &mut problems);
    }
    if !change.functions.is_empty() || !change.secondary_indexes.is_empty() || !change.projections.is_empty()
    {
        functions(draft, &mut problems);
    }
    if has_containers || !change.ended.is_empty() {
        ended(draft, &mut problems);
    }
    if has_containers || !change.log_holds.is_empty() {
        log_holds(draft, &mut problems);
    }
    let (before, after) = (change.before.numbers, draft.numbers);
    if after.version != before.version + 1 {
        problems.push(format!("version {} does not follow version {}", after.version, before.version));
    }
    if after.ended_forgotten.version < before.ended_forgotten.version {
        problems.push("ended containers that were forgotten would count as known".into());
    }
    if after.partition < before.partition || after.projection < before.projection {
        problems.push("numbers that were handed out would be handed out again".into());
    }
    problems
}

/// Unreachable records without any other fault: for `shardlake verify`.
pub fn loose_ends(definitions: &Definitions) -> Problems {
    let mut problems = Problems::new();
    let databases = definitions.databases.iter().map(|(rid, _)| rid.to_string());
    let containers = definitions.containers.iter().map(|(rid, _)| rid.to_string());
    let resources: HashSet<String> = databases.chain(containers).collect();
    for offer in definitions.offers.values().filter(|offer| !resources.contains(&offer.resource_rid)) {
        problems.push(format!("offer {} is for a resource that does not exist", offer.rid));
    }
    let indexes: HashSet<u32> = definitions.secondary_indexes.values().map(|record| record.number).collect();
    let lonely = definitions
        .checkpoints
        .iter()
        .filter(|(number, _)| !definitions.projections.contains(number) && !indexes.contains(number))
        .filter(|(number, _)| !definitions.functions.contains(number));
    let stores = definitions.analytical.iter().filter(|(rid, _)| !definitions.containers.contains(rid));
    problems
        .extend(stores.map(|(rid, _)| {
            format!("there is an analytical store of container {rid}, which does not exist")
        }));
    problems.extend(
        lonely.map(|(number, _)| format!("there is a checkpoint of copy {number}, which does not exist")),
    );
    problems
}

/// Reports every value that comes twice.
fn unique<K: Hash + Eq>(what: &str, keys: impl Iterator<Item = (K, impl Display)>, problems: &mut Problems) {
    let mut seen = HashSet::new();
    for (key, name) in keys {
        if !seen.insert(key) {
            problems.push(format!("there are two {what} '{name}'"));
        }
    }
}

fn databases(definitions: &Definitions, problems: &mut Problems) {
    unique(
        "databases",
        definitions.databases.values().map(|database| (&database.id, &database.id)),
        problems,
    );
}

fn containers(definitions: &Definitions, problems: &mut Problems) {
    let names = definitions.containers.values().map(|record| {
        let container = &record.container;
        ((container.rid.database, &container.definition.id), &container.definition.id)
    });
    unique("containers of one database", names, problems);
    for (rid, record) in definitions.containers.iter() {
        if !definitions.databases.contains(&rid.database) {
            problems.push(format!("container {rid} belongs to no database"));
        }
        if let Err(error) = cover(record) {
            problems.push(format!("the ranges of container {rid} do not fit together: {error}"));
        }
        if let Err(error) = relocation(record) {
            problems.push(format!("the relocation of container {rid} does not fit its ranges: {error}"));
        }
        if let Err(error) = former(record) {
            problems.push(format!("the former ranges of container {rid} are wrong: {error}"));
        }
    }
    partition_numbers(definitions, problems);
}

fn ended(definitions: &Definitions, problems: &mut Problems) {
    let numbers = &definitions.numbers;
    if definitions.ended.len() > ENDED_MAX {
        problems.push(format!("{} ended containers are listed", definitions.ended.len()));
    }
    for ((version, rid), ended) in definitions.ended.iter() {
        if *version > numbers.version || *version < numbers.ended_forgotten.version {
            problems.push(format!("the ended container '{}' has the version {version}", ended.name));
        }
        if definitions
            .containers
            .get(rid)
            .is_some_and(|record| record.session_version < ended.ended_ms as i64)
        {
            problems.push(format!("container {rid} is there and counts as ended"));
        }
    }
    unique("ended containers", definitions.ended.iter().map(|(key, ended)| (key, &ended.name)), problems);
}

/// Every number has one owner: a range, a relocation's target, or data that is being deleted.
fn partition_numbers(definitions: &Definitions, problems: &mut Problems) {
    // Number 0 is the catalog's.
    let mut owners: HashMap<u32, String> = HashMap::from([(0, "the catalog".to_owned())]);
    let mut claim = |uid: u32, owner: String| {
        if uid >= definitions.numbers.partition {
            problems.push(format!("partition number {uid} of {owner} was never handed out"));
        }
        if let Some(other) = owners.get(&uid) {
            problems
                .push(format!("partition number {uid} of {owner} is in use twice: it is that of {other}"));
        } else {
            owners.insert(uid, owner);
        }
    };
    for (rid, record) in definitions.containers.iter() {
        for range in &record.ranges {
            claim(range.uid, format!("range {} of container {rid}", range.range_id));
        }
        for target in record.relocation.iter().flat_map(|relocation| &relocation.targets) {
            claim(target.uid, format!("a relocation of container {rid}"));
        }
    }
    definitions.dropped.iter().for_each(|(uid, _)| claim(uid.0, "data that is being deleted".into()));
}

fn bounds<'r>(ranges: impl Iterator<Item = &'r RangeRecord>) -> Result<Vec<KeyRange>, String> {
    ranges.map(|range| range.bounds().map_err(|error| error.to_string())).collect()
}

fn cover(record: &ContainerRecord) -> Result<(), String> {
    let bounds = bounds(record.ranges.iter())?;
    if bounds.windows(2).any(|pair| pair[0].min >= pair[1].min) {
        return Err("they are not in the order of the hash space".into());
    }
    let ids: HashSet<u32> = record.ranges.iter().map(|range| range.range_id).collect();
    if ids.len() != bounds.len() {
        return Err("two have one id".into());
    }
    let ranges = bounds.into_iter().map(|bounds| (bounds, ())).collect();
    PartitionMap::new(record.generation, ranges).map(drop).map_err(|error| error.to_string())
}

/// The targets replace the sources exactly.
fn relocation(record: &ContainerRecord) -> Result<(), String> {
    let Some(relocation) = &record.relocation else { return Ok(()) };
    let mut sources = Vec::new();
    for id in &relocation.sources {
        sources.push(record.range(*id).ok_or_else(|| format!("there is no range {id} to be moved"))?);
    }
    let is_kept = |range: &&RangeRecord| !relocation.sources.contains(&range.range_id);
    let mut after = record.clone();
    after.relocation = None;
    after.ranges = record.ranges.iter().filter(is_kept).cloned().collect();
    after.ranges.extend(relocation.targets.iter().cloned());
    let targets = bounds(relocation.targets.iter())?;
    let sources = bounds(sources.into_iter())?;
    let span = |ranges: &[KeyRange]| {
        let low = ranges.iter().map(|range| range.min.clone()).min();
        (low, ranges.iter().map(|range| range.max.clone()).max())
    };
    if span(&targets) != span(&sources) {
        return Err("its targets do not cover what its sources cover".into());
    }
    let mut keyed: Vec<_> = after.ranges.iter().cloned().map(|range| (range.bounds().ok(), range)).collect();
    keyed.sort_by(|a, b| a.0.as_ref().map(|range| &range.min).cmp(&b.0.as_ref().map(|range| &range.min)));
    after.ranges = keyed.into_iter().map(|(_, range)| range).collect();
    let newest = record.ranges.iter().map(|range| range.range_id).max();
    let ids = relocation.targets.iter().map(|target| target.range_id);
    if relocation.kind != RelocationKind::Move && ids.min() <= newest {
        return Err("the ids of its targets were given before".into());
    }
    cover(&after)
}

/// Ids are given once, so an ended range has the id of no live range, and an older one than the newest.
fn former(record: &ContainerRecord) -> Result<(), String> {
    if record.former.len() > FORMER_RANGES_MAX {
        return Err(format!("there are {} of them", record.former.len()));
    }
    let newest = record.ranges.iter().map(|range| range.range_id).max();
    let mut ids = HashSet::new();
    for former in &record.former {
        let id = former.range_id;
        if Some(id) >= newest || record.range(id).is_some() || !ids.insert(id) {
            return Err(format!("the id {id} is in use"));
        }
        let bounds = KeyRange::from_hex(&former.min, &former.max).map_err(|error| error.to_string())?;
        if bounds.is_empty() {
            return Err(format!("range {id} was empty"));
        }
    }
    Ok(())
}

fn scripts(definitions: &Definitions, problems: &mut Problems) {
    let names = definitions
        .scripts
        .iter()
        .map(|((container, _), script)| ((container, script.kind, &script.id), &script.id));
    unique("scripts of one kind in one container", names, problems);
    for ((rid, number), _) in definitions.scripts.iter() {
        if !definitions.containers.contains(rid) {
            problems.push(format!("script {number} is of container {rid}, which does not exist"));
        }
    }
}

fn users(definitions: &Definitions, problems: &mut Problems) {
    let names = definitions.users.iter().map(|(rid, user)| ((rid.database, &user.id), &user.id));
    unique("users of one database", names, problems);
    for (rid, _) in definitions.users.iter().filter(|(rid, _)| !definitions.databases.contains(&rid.database))
    {
        problems.push(format!("user {rid} belongs to no database"));
    }
    let names = definitions.permissions.iter();
    let names =
        names.map(|(rid, permission)| ((rid.user, &permission.definition.id), &permission.definition.id));
    unique("permissions of one user", names, problems);
    for (rid, _) in definitions.permissions.iter().filter(|(rid, _)| !definitions.users.contains(&rid.user)) {
        problems.push(format!("permission {rid} belongs to no user"));
    }
}

fn logins(definitions: &Definitions, problems: &mut Problems) {
    let names = definitions.logins.values().map(|login| ((&login.database, &login.name), &login.name));
    unique("logins of one database", names, problems);
}

fn projections(definitions: &Definitions, problems: &mut Problems) {
    unique(
        "projections",
        definitions.projections.values().map(|record| (&record.rule.id, &record.rule.id)),
        problems,
    );
    for (number, record) in definitions.projections.iter() {
        if *number > definitions.numbers.projection {
            problems.push(format!("number {number} of projection '{}' was never handed out", record.rule.id));
        }
    }
}

fn secondary_indexes(definitions: &Definitions, problems: &mut Problems) {
    let of_projections =
        definitions.projections.iter().map(|(number, record)| (*number, record.rule.id.clone()));
    let of_indexes =
        definitions.secondary_indexes.iter().map(|(rid, record)| (record.number, rid.to_string()));
    unique("copies of one number, the later of which is", of_projections.chain(of_indexes), problems);
    for (rid, record) in definitions.secondary_indexes.iter() {
        if !definitions.containers.contains(rid) {
            problems.push(format!("there is an index in container {rid}, which does not exist"));
        }
        if !definitions.containers.contains(&record.source) {
            problems.push(format!("the source {} of index {rid} does not exist", record.source));
        }
        if record.number > definitions.numbers.projection {
            problems.push(format!("number {} of index {rid} was never handed out", record.number));
        }
        if definitions.secondary_index_depth(*rid) == usize::MAX {
            problems.push(format!("index {rid} is its own source"));
        }
    }
}

fn functions(definitions: &Definitions, problems: &mut Problems) {
    let ids = definitions.functions.values().map(|record| (&record.definition.id, &record.definition.id));
    unique("functions", ids, problems);
    let indexes: HashSet<u32> = definitions.secondary_indexes.values().map(|record| record.number).collect();
    for (number, record) in definitions.functions.iter() {
        let id = &record.definition.id;
        if *number > definitions.numbers.projection {
            problems.push(format!("number {number} of function '{id}' was never handed out"));
        }
        if definitions.projections.contains(number) || indexes.contains(number) {
            problems.push(format!("number {number} of function '{id}' is in use twice"));
        }
        if record.access.len() != record.definition.access.len() {
            problems.push(format!("function '{id}' has other containers than its definition"));
        }
    }
}

fn log_holds(definitions: &Definitions, problems: &mut Problems) {
    for ((rid, holder), hold) in definitions.log_holds.iter() {
        if !definitions.containers.contains(rid) {
            problems.push(format!("{holder:?} holds the log of container {rid}, which does not exist"));
        }
        if let Some(error) = hold.position.iter().find_map(|place| place.span().err()) {
            problems.push(format!("the position of {holder:?} in container {rid} is malformed: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
