//! An open partition, with the state of its container that its owner needs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shardlake_capacity::budget::ContainerBudget;
use shardlake_model::{Error, ErrorKind, RequestContext, Result, SessionToken};
use shardlake_partition::{ContainerSchema, Partition, PartitionIdentity};
use shardlake_stdx::{Clock, CommitTimes};
use shardlake_storage::Shard;

use crate::HeatRecording;

/// Shared by all partitions that one owner has open.
#[derive(Debug, Clone)]
pub struct HostEnvironment {
    pub clock: Clock,
    pub heat: HeatRecording,
    /// The latest of the timestamps that writes of documents have made here: seconds, and an increment in the low half.
    pub latest_timestamp: Arc<AtomicU64>,
}

/// State of a container at the owner of its partitions, under one definition.
#[derive(Debug)]
pub struct HostedContainer {
    pub schema: Arc<ContainerSchema>,
    pub budget: Arc<ContainerBudget>,
    pub environment: Arc<HostEnvironment>,
}

/// An open partition under one definition of its container. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Hosted {
    partition: Arc<Partition>,
    container: Arc<HostedContainer>,
    /// Ids of the ranges that this one was made of: positions in them count here, too.
    ancestors: Arc<[u32]>,
}

/// The place and the name of a partition that is to be opened.
#[derive(Debug)]
pub struct Opening {
    pub shard: Shard,
    pub times: CommitTimes,
    pub identity: PartitionIdentity,
}

impl Hosted {
    /// Opens a partition at the position in its last log entry.
    pub async fn open(opening: Opening, container: Arc<HostedContainer>) -> Result<Hosted> {
        let Opening { shard, times, identity } = opening;
        let ancestors = identity.inherited_prefixes.clone().into();
        let schema = &container.schema;
        let partition = Partition::open((shard, times), identity, schema.maintained()).await?;
        partition.keep_versions(schema.retention).await;
        Ok(Hosted { partition: Arc::new(partition), container, ancestors })
    }

    /// The same partition under another definition of its container.
    pub fn under(&self, container: &Arc<HostedContainer>) -> Hosted {
        assert_eq!(container.schema.rid, self.container.schema.rid, "a partition stays in its container");
        Hosted { container: container.clone(), ..self.clone() }
    }

    pub fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    pub fn schema(&self) -> &Arc<ContainerSchema> {
        &self.container.schema
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.container.environment.clock
    }

    pub(crate) fn latest_timestamp(&self) -> Arc<AtomicU64> {
        self.container.environment.latest_timestamp.clone()
    }

    pub(crate) fn container(&self) -> &HostedContainer {
        &self.container
    }

    /// Refuses to read behind the session's position. With one copy of the data this happens only with a token of
    /// another life of this container, such as before a backup was restored. Tokens of an earlier container with
    /// the same name are ignored. A position in an ancestor of this range counts, too.
    pub fn check_session(&self, ctx: &RequestContext) -> Result<()> {
        ctx.session.as_ref().map_or(Ok(()), |session| self.check_position(session))
    }

    fn check_position(&self, session: &SessionToken) -> Result<()> {
        let (partition, range_id) = (&self.partition, self.partition.range_id);
        let seen = self.ancestors.iter().chain([&range_id]).filter_map(|id| session.entry_of(*id));
        let Some(seen) = seen.max_by_key(|entry| (entry.version, entry.lsn)) else { return Ok(()) };
        let own = (partition.session_version, partition.durable_lsn() as i64);
        if seen.version < own.0 || (seen.version, seen.lsn) <= own {
            return Ok(());
        }
        // A partition that has moved is behind because it has ended.
        partition.check_open()?;
        let message = format!(
            "The read session is not available for the input session token: it names LSN {} (version {}) of range {}, but range {range_id} is at {} (version {})",
            seen.lsn, seen.version, seen.range_id, own.1, own.0
        );
        Err(Error::new(ErrorKind::SessionNotAvailable, message).with_meta(partition.meta(100, 0)))
    }

    /// The LSN that a session has seen in this range or in an ancestor; 0 where it has seen none. The oldest clients send no
    /// version: their position counts for this container.
    pub fn lsn_seen(&self, session: &SessionToken) -> Result<u64> {
        self.check_position(session)?;
        let own = self.partition.session_version;
        let seen = session.entries.iter().filter(|entry| self.is_of_range(entry.range_id));
        let seen = seen.filter(|entry| entry.version == own || entry.version < 0);
        Ok(seen.map(|entry| entry.lsn.max(0).unsigned_abs()).max().unwrap_or(0))
    }

    /// Whether the id names this range or an ancestor.
    pub fn is_of_range(&self, range_id: u32) -> bool {
        range_id == self.partition.range_id || self.ancestors.contains(&range_id)
    }

    /// Whether its items are in other partitions.
    pub fn is_gone(&self) -> bool {
        self.partition.check_open().is_err_and(|error| error.kind() == ErrorKind::PartitionGone)
    }
}
