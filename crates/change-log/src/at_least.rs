//! The least that a reader of derived data asks for, as a position in the source's log.

use shardlake_model::{Error, ErrorKind, Result, SessionToken};
use shardlake_router::{ContainerEntry, PartitionHandle};

use crate::position::{LogPart, LogPosition};

/// The writes that derived data must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtLeast {
    /// Everything acknowledged so far.
    Now,
    /// Everything that a session has seen.
    Session(SessionToken),
}

impl AtLeast {
    /// The position that a follower of the container has to reach. A session token beyond the container's last commit is refused as
    /// reads refuse it.
    pub fn position(&self, container: &ContainerEntry) -> Result<LogPosition> {
        match self {
            AtLeast::Now => Ok(LogPosition::now(container)),
            AtLeast::Session(session) => position_of(container, session),
        }
    }

    /// Whether it asks for anything of this container. A token of another container, or of an earlier one of the same name, does not.
    pub fn is_about(&self, container: &ContainerEntry) -> bool {
        let version = container.record.session_version;
        match self {
            AtLeast::Now => true,
            AtLeast::Session(session) => {
                session.entries.iter().any(|seen| seen.version < 0 || seen.version >= version)
            }
        }
    }
}

/// The position of a session. A token of an earlier container of the same name has none. A range that no partition was made of may be one
/// of before a change of the partition key: everything acknowledged so far includes its writes.
fn position_of(entry: &ContainerEntry, session: &SessionToken) -> Result<LogPosition> {
    let version = entry.record.session_version;
    let mut seen = Vec::new();
    for partition in entry.map.iter() {
        let after = partition.hosted().lsn_seen(session)?;
        seen.push(LogPart { span: partition.epk_range().clone(), after });
    }
    let is_of = |partition: &PartitionHandle, range_id: u32| partition.hosted().is_of_range(range_id);
    let is_known = |range_id: u32| entry.map.iter().any(|partition| is_of(partition, range_id));
    let mut others = session.entries.iter().filter(|seen| !is_known(seen.range_id));
    if let Some(later) = others.clone().find(|seen| seen.version > version) {
        return Err(Error::new(
            ErrorKind::SessionNotAvailable,
            format!(
                "The read session is not available for the input session token: it names version {} of range {}, but '{}' has version {version}",
                later.version,
                later.range_id,
                entry.alt_link()
            ),
        ));
    }
    let is_of_this = others.any(|seen| seen.version == version || seen.version < 0);
    Ok(if is_of_this { LogPosition::now(entry) } else { LogPosition::new(seen) })
}
