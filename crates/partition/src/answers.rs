//! Answers to operations that depend on nothing but the existing item: refusals, conditions, replies to reads.

use shardlake_model::{Error, ErrorKind, Preconditions, Result};

use crate::item::StoredItem;
use crate::operation::{CommandContext, ItemReply, Outcome};
use crate::origin::Origin;
use crate::shape::ContainerSchema;

const NOT_FOUND: &str = "Entity with the specified id does not exist in the system. More info: https://aka.ms/cosmosdb-tsg-not-found";
const CONFLICT: &str = "Entity with the specified id already exists in the system. More info: https://aka.ms/cosmosdb-tsg-conflict";
const PRECONDITION: &str = "Operation cannot be performed because one of the specified precondition is not met. More info: https://aka.ms/CosmosDB/sql/errors/precondition-failed";

pub(crate) fn not_found() -> Error {
    Error::new(ErrorKind::NotFound, NOT_FOUND)
}

pub(crate) fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, CONFLICT)
}

pub(crate) fn condition_failed() -> Error {
    Error::new(ErrorKind::PreconditionFailed, PRECONDITION)
}

/// Refuses a write whose condition on the existing item does not hold.
pub(crate) fn check_write(existing: &StoredItem, preconditions: &Preconditions) -> Result<()> {
    let etag = existing.etag();
    let matches = preconditions.if_match.as_ref().is_none_or(|condition| condition.matches(&etag));
    let excluded = preconditions.if_none_match.as_ref().is_some_and(|condition| condition.matches(&etag));
    if matches && !excluded { Ok(()) } else { Err(condition_failed()) }
}

/// Whether a read may be answered with "not modified".
fn is_unmodified(existing: &StoredItem, preconditions: &Preconditions) -> bool {
    preconditions.if_none_match.as_ref().is_some_and(|condition| condition.matches(&existing.etag()))
}

/// The answer to a read of an existing item; the caller sets `lsn` of its meta.
pub(crate) fn read_reply(
    origin: Origin,
    shape: &ContainerSchema,
    command: &CommandContext,
    item: StoredItem,
    preconditions: &Preconditions,
) -> Result<ItemReply> {
    if is_unmodified(&item, preconditions) {
        let meta = origin.meta(shape.charges.not_modified().0, item.lsn());
        return Ok(ItemReply::of(Outcome::NotModified, Some(item), meta));
    }
    if let Some(condition) = &preconditions.if_match
        && !condition.matches(&item.etag())
    {
        let meta = origin.meta(shape.charges.not_found().0, item.lsn());
        return Err(condition_failed().with_meta(meta));
    }
    let charge = shape.charges.read(item.json_size_bytes(), command.consistency);
    let meta = origin.meta(charge.0, item.lsn());
    Ok(ItemReply::of(Outcome::Read, Some(item), meta))
}

#[cfg(test)]
mod tests {
    use shardlake_model::ETagCondition;
    use shardlake_stdx::Guid;

    use super::*;
    use crate::test_fixture::{Fixture, command};

    const OTHER: Guid = Guid([9; 16]);

    async fn stored(fixture: &Fixture) -> StoredItem {
        fixture.upsert("a", "1").await.expect("written");
        let (command, logical, conditions) = (command(), fixture.logical(), Preconditions::default());
        let read = fixture.partition.read(&fixture.shape, &command, &logical, "a", &conditions).await;
        read.expect("there").item.expect("a read has an item")
    }

    #[tokio::test]
    async fn conditions_decide_on_writes_and_reads() {
        let fixture = Fixture::new().await;
        let item = stored(&fixture).await;
        let (own, other) = (
            || Some(ETagCondition::OneOf(vec![item.etag().to_string()])),
            || Some(ETagCondition::OneOf(vec![OTHER.to_string()])),
        );
        let any = || Some(ETagCondition::Any);
        for (if_match, if_none_match, may_write, read) in [
            (None, None, true, Ok(Outcome::Read)),
            (own(), None, true, Ok(Outcome::Read)),
            (any(), None, true, Ok(Outcome::Read)),
            (other(), None, false, Err(ErrorKind::PreconditionFailed)),
            (None, other(), true, Ok(Outcome::Read)),
            (None, own(), false, Ok(Outcome::NotModified)),
            (None, any(), false, Ok(Outcome::NotModified)),
            (own(), own(), false, Ok(Outcome::NotModified)),
            (other(), own(), false, Ok(Outcome::NotModified)),
        ] {
            let conditions = Preconditions { if_match, if_none_match };
            let checked = check_write(&item, &conditions).map_err(|error| error.kind());
            let expected = if may_write { Ok(()) } else { Err(ErrorKind::PreconditionFailed) };
            assert_eq!(checked, expected, "{conditions:?}");
            let origin = fixture.partition.core().origin();
            let reply = read_reply(origin, &fixture.shape, &command(), item.clone(), &conditions);
            let outcome = reply.map(|reply| (reply.outcome, reply.meta.item_lsn));
            let outcome = outcome.map_err(|error| error.kind());
            assert_eq!(outcome, read.map(|read| (read, item.lsn())), "{conditions:?}");
        }
    }
}
