//! Division of the process's open files among shards, script workers and connections.
//!
//! A connection is a file, and so is a table of the storage. Storage that finds no descriptor when it has to make a table refuses all
//! writes until the next start, so connections get only the descriptors that nothing else needs:
//!
//! ```text
//! limit = process + script workers + refusals + shards × (64: tables, journals, merges) + connections
//! ```
//!
//! With a higher limit the storage keeps more tables open, a quarter of the limit in all.

use shardlake_account::ScriptSettings;

/// Standard streams, the runtime's own, the certificate, the seed: some 20, and a reserve.
const PROCESS: u64 = 48;
/// A worker's socket, and the pipes that are open while one is started.
const WORKER: u64 = 1;
const WORKERS_AT_START: u64 = 8;
/// Files of one shard in addition to its open tables: the lock and the journals, the inputs of the largest merge (30 tables of the
/// first level and one of the next), the outputs of merges, sorting and loads, and tables that readers have just opened.
const SHARD: u64 = 48;
/// Tables that a shard keeps open: at least enough to read one of each level, at most the engine's default.
const TABLES_MIN: u64 = 16;
const TABLES_MAX: u64 = 900;
/// Connections that are refused with an answer at the same time.
const REFUSALS_MIN: u64 = 4;
const REFUSALS_MAX: u64 = 64;
/// A server for fewer is of no use.
const CONNECTIONS_MIN: u64 = 16;
/// Stands for a system without a limit.
const UNLIMITED: u64 = 1 << 30;
/// Limit to try after the reported maximum: macOS does not report the limit that it allows.
const FALLBACK: u64 = 10_240;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    pub connections_max: usize,
    /// Connections beyond the maximum that are refused with an answer at the same time.
    pub refusals_max: usize,
    pub tables_of_shard_max: usize,
}

/// Raises the limit as far as the system allows, and returns it.
pub fn raise_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    for wanted in [maximum, Some(FALLBACK)] {
        let is_more = wanted.unwrap_or(u64::MAX) > current.unwrap_or(u64::MAX);
        if is_more && setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).is_ok() {
            break;
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED)
}

impl Descriptors {
    /// `shards` are those on disk. `Err` holds the remedy.
    pub fn share(limit: u64, shards: u16, connections_asked: usize) -> Result<Descriptors, String> {
        let limit = limit.min(UNLIMITED);
        let least = CONNECTIONS_MIN.min(connections_asked as u64);
        let (tables, refusals, left) = parts(limit, shards);
        if left < least {
            let enough = (1..).map(|step| step * 64).find(|limit| parts(*limit, shards).2 >= least);
            return Err(format!(
                "the system allows this process {limit} open files, and a server with {shards} shards needs {} at least: raise the limit (`ulimit -n`, LimitNOFILE= of systemd, --ulimit nofile= of Docker)",
                enough.expect("a larger limit leaves more")
            ));
        }
        Ok(Descriptors {
            connections_max: connections_asked.min(left as usize),
            refusals_max: refusals as usize,
            tables_of_shard_max: tables as usize,
        })
    }
}

/// Tables of each shard, refusals, and the remaining descriptors for connections.
fn parts(limit: u64, shards: u16) -> (u64, u64, u64) {
    let shards = u64::from(shards);
    let tables = (limit / 4 / shards.max(1)).clamp(TABLES_MIN, TABLES_MAX);
    let refusals = (limit / 64).clamp(REFUSALS_MIN, REFUSALS_MAX);
    (tables, refusals, limit.saturating_sub(fixed() + refusals + shards * (SHARD + tables)))
}

fn fixed() -> u64 {
    // Scripts and functions have workers of their own.
    let workers = 2 * ScriptSettings::default().workers_max as u64;
    PROCESS + workers * WORKER + WORKERS_AT_START
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_rest_leaves() {
        for limit in [256, 300, 512, 1024, 4096, 20_000, 1 << 20, u64::MAX] {
            for shards in [0, 1, 2, 8, 64] {
                let Ok(shared) = Descriptors::share(limit, shards, 10_000) else { continue };
                let of_shards = u64::from(shards) * (SHARD + shared.tables_of_shard_max as u64);
                let all = fixed() + of_shards + (shared.connections_max + shared.refusals_max) as u64;
                assert!(all <= limit, "{limit} {shards} {shared:?}");
                assert!((16..=10_000).contains(&shared.connections_max), "{limit} {shards} {shared:?}");
            }
        }
        let shared = Descriptors::share(1 << 20, 1, 10_000).expect("plenty");
        assert_eq!((shared.connections_max, shared.tables_of_shard_max), (10_000, 900));
    }

    #[test]
    fn a_limit_that_leaves_too_little_is_refused_and_the_one_it_names_is_enough() {
        for shards in [1, 2, 64] {
            let message = Descriptors::share(96, shards, 10_000).expect_err("too little");
            assert!(message.contains("ulimit -n"), "{message}");
            let words = message.split(" needs ").nth(1).expect("a number");
            let least = words.split(' ').next().expect("a number").parse().expect("a number");
            let shared = Descriptors::share(least, shards, 10_000);
            assert!(shared.is_ok(), "{shards} shards with {least}: {shared:?}");
        }
        assert!(Descriptors::share(1024, 1, 1).is_ok(), "one connection may be all that is asked for");
    }
}
