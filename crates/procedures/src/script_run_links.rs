//! The links by which scripts name their container and its items: by rid, as in `_self`, or by name.

use shardlake_model::{ContainerRid, Error, Result, Rid};

use shardlake_router::ContainerEntry;

/// The form in which a link names an item of the container.
#[derive(Debug, PartialEq, Eq)]
pub enum ItemLink<'a> {
    Id(&'a str),
    Ordinal(u64),
}

/// Refuses the link of another container.
pub fn check_container_link(entry: &ContainerEntry, link: &str) -> Result<()> {
    let segments: Vec<&str> = link.trim_matches('/').split('/').collect();
    match segments[..] {
        [dbs, database, colls, container] if is(dbs, "dbs") && is(colls, "colls") => {
            names(entry, database, container).map(drop).ok_or_else(|| outside(link))
        }
        _ => Err(Error::bad_request(format!("Invalid collection link: \"{link}\"."))),
    }
}

/// The item that a link names; refuses one of another container.
pub fn item_of_link<'a>(entry: &ContainerEntry, link: &'a str) -> Result<ItemLink<'a>> {
    let invalid = || Error::bad_request(format!("Invalid document link: \"{link}\"."));
    // An id is the rest of the link, with any characters; one slash may end any link.
    let link_of_item = link.trim_start_matches('/');
    let segments: Vec<&str> = link_of_item.strip_suffix('/').unwrap_or(link_of_item).splitn(6, '/').collect();
    let [dbs, database, colls, container, docs, item] = segments[..] else { return Err(invalid()) };
    if !is(dbs, "dbs") || !is(colls, "colls") || !is(docs, "docs") {
        return Err(invalid());
    }
    match names(entry, database, container).ok_or_else(|| outside(link))? {
        Naming::ByName => Ok(ItemLink::Id(item)),
        Naming::ByRid => match Rid::parse(item) {
            Some(Rid::Item(rid)) if rid.container == entry.record.container.rid => {
                Ok(ItemLink::Ordinal(rid.ordinal))
            }
            Some(Rid::Item(_)) => Err(outside(link)),
            _ => Err(invalid()),
        },
    }
}

enum Naming {
    ByRid,
    ByName,
}

/// How two segments name the container, if they do.
fn names(entry: &ContainerEntry, database: &str, container: &str) -> Option<Naming> {
    if database == entry.database.id && container == entry.record.container.definition.id {
        return Some(Naming::ByName);
    }
    let rid: ContainerRid = entry.record.container.rid;
    let same = Rid::parse(database) == Some(Rid::Database(rid.database))
        && Rid::parse(container) == Some(Rid::Container(rid));
    same.then_some(Naming::ByRid)
}

fn is(segment: &str, name: &str) -> bool {
    segment.eq_ignore_ascii_case(name)
}

fn outside(link: &str) -> Error {
    Error::bad_request(format!(
        "Function is not allowed to operate on resources outside current collection. Make sure that the link provided, \"{link}\", belongs to current collection."
    ))
}
