//! Kills the server with SIGKILL under clients that write, define and hang up, restarts it, and
//! looks for a broken promise.
//!
//! Sixteen writers own a logical partition each of one container; five definers own two databases
//! each, with everything in them: containers, offers, users, permissions, scripts and items, under
//! few names that are used again and again. Any of them may hang up in the middle of a request,
//! also in the middle of a sync that is made slow on purpose. An operator splits, merges and moves
//! partitions. After the restart the oracle has to allow the stored state, and `shardlake verify`
//! has to find nothing wrong.
//!
//! | file | contents |
//! |---|---|
//! | `model.rs` | effects of operations on an account, as a client understands them |
//! | `oracle.rs` | possible states, given the acknowledged, refused and pending operations |
//! | `difference.rs`, `commits.rs` | differences between stored and possible states; LSNs |
//! | `choose.rs`, `clients.rs`, `motion.rs` | operations of clients and of the operator |
//! | `requests.rs`, `hang_up.rs`, `http2.rs`, `observe.rs` | how they do it on the wire |
//! | `weather.rs`, `slow_sync.c` | slow syncs |
//! | `run.rs`, `tally.rs` | cycles and counts |
//! | `cancelled.rs` | cancelled definition changes, one by one |
//! | `deleted.rs` | containers deleted under writers |
//! | `fight.rs` | two servers that fight for one prefix of a store |
//! | `retried.rs` | MongoDB's retried writes, transactions and unique index builds |
//! | `scrapers.rs` | metrics asked for while a sync stands still |
//!
//! `SHARDLAKE_KILL_CYCLES` is the number of kills of all runs together (two each by default) and
//! `SHARDLAKE_SEED` repeats the choices of a run, though not its timing. `SHARDLAKE_SERVER_BINARY`
//! names another server to kill, and with `SHARDLAKE_KILL_GO_ON` a run counts broken promises to
//! its end. With `SHARDLAKE_KILL_POLITE` no client hangs up.
//!
//! SIGKILL leaves the page cache of the operating system alone, so this proves the order of
//! acknowledgement and journal, not the sync itself. The fault-injecting storage of the engine's
//! tests proves the sync. For the same reason `--durability async` may lose nothing here.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // a test, and its report

mod cancelled;
mod choose;
mod clients;
mod commits;
mod deleted;
mod difference;
#[cfg(feature = "object-storage")]
mod fight;
mod hang_up;
mod http2;
mod model;
mod motion;
mod observe;
mod oracle;
mod oracle_tests;
mod requests;
mod retried;
mod run;
mod scrapers;
mod tally;
mod weather;

use run::{Plan, survive_kills};
use std::path::PathBuf;

#[test]
fn acknowledged_writes_survive_kill_9() {
    let test = "acknowledged_writes_survive_kill_9";
    survive_kills(Plan {
        test,
        durability: "sync",
        shards: 1,
        partitions_move: false,
        write_buffer: "32MiB",
        is_stored: false,
    });
}

#[test]
fn acknowledged_writes_survive_kill_9_while_partitions_split_merge_and_move() {
    let test = "acknowledged_writes_survive_kill_9_while_partitions_split_merge_and_move";
    let tally = survive_kills(Plan {
        test,
        durability: "sync",
        shards: 2,
        partitions_move: true,
        write_buffer: "1MiB",
        is_stored: false,
    });
    assert!(tally.get("splits, merges and moves begun") > 0, "nothing moved");
}

#[test]
fn asynchronous_writes_survive_kill_9_on_two_shards() {
    let test = "asynchronous_writes_survive_kill_9_on_two_shards";
    let tally = survive_kills(Plan {
        test,
        durability: "async",
        shards: 2,
        partitions_move: true,
        write_buffer: "32MiB",
        is_stored: false,
    });
    assert!(tally.get("splits, merges and moves begun") > 0, "nothing moved");
}

#[test]
fn asynchronous_writes_survive_kill_9_on_three_shards() {
    let test = "asynchronous_writes_survive_kill_9_on_three_shards";
    let tally = survive_kills(Plan {
        test,
        durability: "async",
        shards: 3,
        partitions_move: true,
        write_buffer: "1MiB",
        is_stored: false,
    });
    assert!(tally.get("splits, merges and moves begun") > 0, "nothing moved");
}

#[cfg(feature = "object-storage")]
#[test]
fn writes_to_an_object_store_survive_kill_9() {
    let test = "writes_to_an_object_store_survive_kill_9";
    let tally = survive_kills(Plan {
        test,
        durability: "sync",
        shards: 2,
        partitions_move: true,
        write_buffer: "4MiB",
        is_stored: true,
    });
    assert!(tally.get("splits, merges and moves begun") > 0, "nothing moved");
}

fn server_binary() -> PathBuf {
    let other = std::env::var_os("SHARDLAKE_SERVER_BINARY");
    other.map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_shardlake")), PathBuf::from)
}
