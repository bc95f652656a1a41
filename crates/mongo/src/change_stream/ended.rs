//! Containers that were created and dropped between two reads of the catalog by a stream.
//!
//! The catalog lists recent ends. A stream remembers the version of the catalog up to which it has reported ends, in
//! its tokens too:
//!
//! ```text
//! version        7              8               9              10
//! catalog        c is there     c dropped       c made anew    c dropped
//! the stream     looks                                                   looks: 8 and 10 are news
//! ```
//!
//! If nothing was written to an ended container, its end is its only event. Otherwise its changes were deleted with it,
//! and the stream fails because its history is lost (286).

use std::sync::Arc;

use shardlake_model::ContainerRid;
use shardlake_router::{Definitions, EndedContainer};

use super::events::catalog_event;
use super::followed::{Followed, OWN_DATABASES, history_lost};
use super::token::TokenKind;
use super::{ChangeStream, Told, Watched};
use crate::collections::Namespace;
use crate::failure::Result;
use crate::meta::BESIDE;

/// Up to which version of the catalog the ends of containers are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    /// Ends up to this version were read.
    pub looked: u64,
    /// Ends up to this version are reported; for tokens.
    pub told: u64,
    /// For a stream that starts at a time: earlier writes to an ended container are not missed.
    pub since_ms: u64,
}

impl Ends {
    pub fn up_to(version: u64) -> Ends {
        Ends { looked: version, told: version, since_ms: 0 }
    }

    /// The state of a stream that starts at a time: earlier ends are not reported.
    pub fn up_to_time(definitions: &Definitions, time_ms: u64) -> Ends {
        let forgotten = definitions.numbers.ended_forgotten;
        let before = definitions.ended.values().filter(|ended| ended.ended_ms <= time_ms);
        let version = before.map(|ended| ended.version).max().unwrap_or(0);
        Ends::up_to(match forgotten.ended_ms <= time_ms {
            true => version.max(forgotten.version),
            false => version,
        })
    }
}

impl ChangeStream {
    pub(super) fn definitions(&self) -> Arc<Definitions> {
        self.collections.queries.router().catalog().load().definitions.clone()
    }

    /// The version of the catalog in which a container ended, for a token behind that.
    pub(super) fn version_of_end(&self, rid: ContainerRid) -> Option<u64> {
        let definitions = self.definitions();
        let ended = definitions.ended.values().rfind(|ended| ended.rid == rid);
        ended.map(|ended| ended.version)
    }

    /// Reports the ends of containers that the stream never followed. A stream on one collection ends with the first.
    pub(super) fn tell_ended(&mut self) -> Result<()> {
        let definitions = self.definitions();
        let version = definitions.numbers.version;
        let is_one = matches!(self.watched, Watched::Collection(_));
        if is_one && !self.followed.is_empty() {
            // While a container has a name, no other container gets it.
            let has_name = |followed: &Followed| !followed.is_gone && followed.renames.is_empty();
            if self.followed.iter().all(has_name) {
                self.ends = Ends::up_to(version);
            }
            return Ok(());
        }
        if definitions.numbers.ended_forgotten.version > self.ends.looked {
            return self.lose("more collections ended since than are remembered");
        }
        let mut told = Vec::new();
        for ended in definitions.ended.values().filter(|ended| ended.version > self.ends.looked) {
            let is_followed = self.followed.iter().any(|followed| followed.rid == ended.rid);
            if is_followed || !self.concerns(ended) {
                continue;
            }
            if ended.last_ms > 0 && ended.last_ms >= self.ends.since_ms {
                let name = Namespace::of_container(&ended.database, &ended.name);
                return self
                    .lose(&format!("{name} was made, written to and dropped before the stream looked"));
            }
            told.push(ended.clone());
            if is_one {
                break;
            }
        }
        match (is_one, told.first()) {
            (true, Some(ended)) => {
                self.pending.push_back(told_end(ended, TokenKind::Invalidate, ended.version));
                self.invalidate(ended.ended_ms);
                self.ends.looked = ended.version;
            }
            (_, first) => {
                if first.is_none() {
                    self.ends.told = version;
                }
                for (place, ended) in told.iter().enumerate() {
                    // A version counts as reported with its last end; a stream resumed earlier repeats ends rather than
                    // skips them.
                    let up_to = match told.get(place + 1) {
                        Some(next) if next.version == ended.version => ended.version - 1,
                        Some(_) => ended.version,
                        None => version,
                    };
                    self.pending.push_back(told_end(ended, TokenKind::Events, up_to));
                }
                (self.ends.looked, self.ends.since_ms) = (version, 0);
            }
        }
        Ok(())
    }

    fn lose(&mut self, why: &str) -> Result<()> {
        let failure = history_lost(why);
        self.broken = Some(failure.clone());
        Err(failure)
    }

    fn concerns(&self, ended: &EndedContainer) -> bool {
        // A container that `$out` abandoned was never a client's collection.
        if ended.name.starts_with(BESIDE) {
            return false;
        }
        match &self.watched {
            Watched::Collection(name) => *name == Namespace::of_container(&ended.database, &ended.name),
            Watched::Database(database) => *database == ended.database,
            Watched::Everything => !OWN_DATABASES.contains(&&*ended.database),
        }
    }
}

fn told_end(ended: &EndedContainer, kind: TokenKind, up_to: u64) -> Told {
    let name = Namespace::of_container(&ended.database, &ended.name);
    let event = catalog_event("drop", ended.ended_ms, Some(&name));
    Told { event, time_ms: ended.ended_ms, kind, ends_told: Some(up_to) }
}
