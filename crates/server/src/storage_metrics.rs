//! Shards on the page of metrics: syncs, journals, caches, compactions, and how far back the archived log reaches.

use shardlake_account::Shards;
use shardlake_storage::{CacheState, Shard, ShardMetrics};

use crate::exposition::Page;
use crate::metric_table as table;

pub fn write(page: &mut Page, shards: &Shards) {
    let shards: Vec<ShardMetrics> = shards.iter().map(Shard::metrics).collect();
    for (number, shard) in shards.iter().enumerate() {
        write_shard(page, &number.to_string(), shard);
    }
    let caches: [(&str, Vec<CacheState>); 3] = [
        ("row", shards.iter().map(|shard| shard.row_cache).collect()),
        ("range", shards.iter().map(|shard| shard.range_cache).collect()),
        ("block", shards.iter().filter_map(|shard| shard.engine.block_cache).collect()),
    ];
    for (name, states) in caches {
        if !states.is_empty() {
            write_cache(page, name, &states);
        }
    }
    // The account can be restored to a time that the logs of all shards reach.
    let begins: Option<Vec<_>> = shards.iter().map(|shard| shard.engine.log_begins).collect();
    let begin = begins.and_then(|begins| begins.into_iter().max());
    page.set_some(&table::RESTORE_WINDOW_BEGIN, begin.map(|begin| begin.milliseconds() as f64 / 1e3));
}

fn write_shard(page: &mut Page, number: &str, shard: &ShardMetrics) {
    page.family(&table::SHARD_POISONED).push([number], shard.is_poisoned);
    page.family(&table::SYNC_DURATION).push([number], shard.syncs.clone());
    if let Some(bytes) = shard.engine.journal_bytes {
        page.family(&table::JOURNAL_SIZE).push([number], bytes);
    }
    if let Some(compaction) = shard.engine.compaction {
        page.family(&table::MEMTABLES_WAITING).push([number], compaction.memtables_waiting);
        page.family(&table::COMPACTION_DEBT).push([number], compaction.first_level_tables);
        page.family(&table::COMPACTIONS_ACTIVE).push([number], compaction.active);
        page.family(&table::COMPACTIONS).push([number], compaction.completed);
        page.family(&table::COMPACTION_TIME).push([number], compaction.duration.as_secs_f64());
    }
}

fn write_cache(page: &mut Page, name: &str, states: &[CacheState]) {
    let sum = |of: fn(&CacheState) -> u64| states.iter().map(of).sum::<u64>();
    page.family(&table::CACHE_LOOKUPS).push([name, "hit"], sum(|state| state.hits));
    page.family(&table::CACHE_LOOKUPS).push([name, "miss"], sum(|state| state.misses));
    page.family(&table::CACHE_SIZE).push([name], sum(|state| state.bytes));
    page.family(&table::CACHE_CAPACITY).push([name], sum(|state| state.bytes_max));
}
