//! Where a request came through: as HTTP, or as a frame of a client in Direct mode.
//!
//! A frame names the address that it was sent to. Addresses are made here and given out by `addresses.rs`:
//!
//! ```text
//! /apps/shardlake/services/{container}/partitions/{range}/replicas/{1p|2s}/
//! /apps/shardlake/services/master/partitions/M/replicas/{1p|2s}/
//! ```
//!
//! `1p` is the primary and `2s` the secondary; both are this server. Databases, containers, users and permissions are in the master
//! partition. Clients send a path back as it came or percent-decoded, without its last slash, so it has no character that is escaped.

use std::fmt;

use shardlake_account::ContainerHandle;
use shardlake_model::{Error, ErrorKind, ReplyMeta, Result};

/// Where a request came through.
#[derive(Debug, Clone, Copy, Default)]
pub enum ConnectionMode<'d> {
    #[default]
    Http,
    Direct(Routing<'d>),
}

impl ConnectionMode<'_> {
    pub fn is_direct(self) -> bool {
        matches!(self, ConnectionMode::Direct(_))
    }

    /// The error of an operation in a container. At a stale container, clients in Direct mode read the container again and repeat the
    /// request; a 404 of an owner they hand to the application.
    pub fn error_within(self, error: Error) -> Error {
        if self.is_direct() && error.kind() == ErrorKind::OwnerNotFound {
            return stale_container(&error);
        }
        error
    }
}

/// The place where the sender of a frame believes the data to be. The operation is in the request that the frame stands for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Routing<'d> {
    /// Path of the address that it was sent to, as `GET /addresses` gave it, escaped or not.
    pub replica_path: &'d str,
    /// Resource id of the container that the names in the request are believed to mean.
    pub container_rid: Option<&'d str>,
}

/// At this substatus of a 410, clients read the ranges of the container again and repeat the request, writes too. At 1002, which is
/// for ranges that are named in a header, they hand the 410 of a point operation to the application.
const RANGE_IS_GONE: u32 = 1007;
/// At a 410 without a substatus, clients request the addresses again and repeat the request.
const ADDRESS_IS_STALE: u32 = 0;

impl Routing<'_> {
    /// The container that a frame names, if its id and its address are those that the sender believes it to have.
    ///
    /// Only a range that has ended is refused, and not a range that does not own the partition key. Ids of ranges are never reused
    /// and their bounds never change, so the range of a client with an old partition map has ended. The operation itself finds
    /// its partition by key, as over HTTP: a split after the check, or a client that computes hashes in another way, makes no answer
    /// wrong. The operation checks a range in a header (`names_range`).
    pub fn checked(&self, found: Result<ContainerHandle>, names_range: bool) -> Result<ContainerHandle> {
        let container = found.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::OwnerNotFound => stale_container(&error),
            _ => error,
        })?;
        container.check_intended_rid(self.container_rid)?;
        let Some(ReplicaPath::Range { service, range_id }) = ReplicaPath::parse(self.replica_path) else {
            return Err(stale_address());
        };
        if !is_service_of(service, container.rid_text()) {
            return Err(stale_address());
        }
        if !names_range && container.position_of_range(range_id).is_none() {
            return Err(gone(range_id).with_substatus(RANGE_IS_GONE));
        }
        Ok(container)
    }

    /// Refuses a frame for the master partition that was sent to another address.
    pub fn check_master(&self) -> Result<()> {
        match ReplicaPath::parse(self.replica_path) {
            Some(ReplicaPath::Master) => Ok(()),
            _ => Err(stale_address()),
        }
    }

    /// Position of the range whose address the frame was sent to.
    pub fn position(&self, container: &ContainerHandle) -> Result<ReplyMeta> {
        match ReplicaPath::parse(self.replica_path) {
            Some(ReplicaPath::Range { range_id, .. }) => position_of_range(container, range_id),
            _ => Err(stale_address()),
        }
    }
}

/// Position of a range that a request names.
pub(crate) fn position_of_range(container: &ContainerHandle, range_id: u32) -> Result<ReplyMeta> {
    container.position_of_range(range_id).ok_or_else(|| gone(range_id))
}

fn stale_container(missing: &Error) -> Error {
    let message = format!("{}: read the container again and retry; nothing was done", missing.message());
    Error::new(ErrorKind::StaleContainer, message).with_meta(*missing.meta())
}

fn gone(range_id: u32) -> Error {
    Error::new(
        ErrorKind::PartitionGone,
        format!(
            "partition key range {range_id} does not exist (any more): refresh the partition key ranges; nothing was done"
        ),
    )
}

fn stale_address() -> Error {
    Error::new(
        ErrorKind::PartitionGone,
        "the resource is not at the address that the frame was sent to: refresh the addresses; nothing was done",
    )
    .with_substatus(ADDRESS_IS_STALE)
}

/// Path of the address of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplicaPath<'p> {
    Master,
    /// `service` is the container's part of the path.
    Range {
        service: &'p str,
        range_id: u32,
    },
}

/// The two addresses of a partition. With one, clients would request the addresses again at each strong read.
pub(crate) const REPLICAS: [Replica; 2] = [Replica::Primary, Replica::Secondary];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replica {
    Primary,
    Secondary,
}

impl Replica {
    fn name(self) -> &'static str {
        match self {
            Replica::Primary => "1p",
            Replica::Secondary => "2s",
        }
    }
}

/// Id of the master partition, where other partitions have a number.
pub(crate) const MASTER_PARTITION: &str = "M";
const MASTER_SERVICE: &str = "master";

impl<'p> ReplicaPath<'p> {
    fn parse(path: &'p str) -> Option<ReplicaPath<'p>> {
        let rest = path.trim_end_matches('/').strip_prefix("/apps/shardlake/services/")?;
        let (service, rest) = rest.split_once("/partitions/")?;
        let (partition, replica) = rest.split_once("/replicas/")?;
        if !REPLICAS.iter().any(|known| known.name() == replica) {
            return None;
        }
        if (service, partition) == (MASTER_SERVICE, MASTER_PARTITION) {
            return Some(ReplicaPath::Master);
        }
        Some(ReplicaPath::Range { service, range_id: partition.parse().ok()? })
    }

    pub fn of(self, replica: Replica) -> String {
        let (service, partition): (&str, &dyn fmt::Display) = match &self {
            ReplicaPath::Master => (MASTER_SERVICE, &MASTER_PARTITION),
            ReplicaPath::Range { service, range_id } => (service, range_id),
        };
        format!("/apps/shardlake/services/{service}/partitions/{partition}/replicas/{}/", replica.name())
    }
}

/// A container's part of a path: its resource id in characters that need no escape.
pub(crate) fn service_of(rid: &str) -> String {
    plain(rid).map(char::from).collect()
}

fn is_service_of(service: &str, rid: &str) -> bool {
    plain(rid).eq(service.bytes())
}

fn plain(rid: &str) -> impl Iterator<Item = u8> {
    rid.trim_end_matches('=').bytes().map(|byte| if byte == b'+' { b'_' } else { byte })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_is_deleted_during_an_operation_is_stale_for_frames_alone() {
        let error = |kind| Error::new(kind, "the container was deleted");
        let direct = ConnectionMode::Direct(Routing::default());
        for (mode, found, reported) in [
            (direct, ErrorKind::OwnerNotFound, ErrorKind::StaleContainer),
            (direct, ErrorKind::NotFound, ErrorKind::NotFound),
            (ConnectionMode::Http, ErrorKind::OwnerNotFound, ErrorKind::OwnerNotFound),
        ] {
            assert_eq!(mode.error_within(error(found)).kind(), reported, "{mode:?} {found:?}");
        }
    }

    #[test]
    fn a_path_is_the_same_escaped_and_not_and_means_one_container() {
        // Every bit set gives the characters of base64 that are escaped in paths.
        for rid in ["++++++++++8=", "----------8=", "jHMc3ZGD1BM="] {
            let service = service_of(rid);
            assert!(
                service.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
                "{service}"
            );
            assert!(is_service_of(&service, rid));
            assert_eq!(is_service_of(&service, "++++++++++8="), rid.starts_with('+'), "{service}");
            for replica in REPLICAS {
                let path = ReplicaPath::Range { service: &service, range_id: 12 };
                let text = path.of(replica);
                assert_eq!(ReplicaPath::parse(&text), Some(path), "{text}");
                assert_eq!(ReplicaPath::parse(text.trim_end_matches('/')), Some(path), "{text}");
            }
        }
        let master = ReplicaPath::Master.of(Replica::Primary);
        assert_eq!(master, "/apps/shardlake/services/master/partitions/M/replicas/1p/");
        assert_eq!(ReplicaPath::parse(&master), Some(ReplicaPath::Master));
    }

    #[test]
    fn other_paths_are_none_of_ours() {
        for path in [
            "",
            "/",
            "/apps/shardlake/services",
            "/apps/other/services/x/partitions/0/replicas/1p",
            "/apps/shardlake/services/x/partitions/0/replicas/3s",
            "/apps/shardlake/services/x/partitions/M/replicas/1p",
            "/apps/shardlake/services/x/partitions/-1/replicas/1p",
            "/apps/shardlake/services/x/partitions/4294967296/replicas/1p",
            "/apps/shardlake/services/x/partitions/0/replicas/1p/more",
            "apps/shardlake/services/x/partitions/0/replicas/1p",
        ] {
            assert_eq!(ReplicaPath::parse(path), None, "{path}");
        }
        let master_of_a_container = "/apps/shardlake/services/master/partitions/0/replicas/1p";
        assert!(!matches!(ReplicaPath::parse(master_of_a_container), Some(ReplicaPath::Master)));
    }
}
