//! Moves, splits and merges at random, a few of them aborted.

use std::sync::Arc;

use shardlake_account::{RelocationTicket, SplitAt};
use shardlake_model::{ErrorKind, PartitionKeyRange, Result};
use shardlake_stdx::Random;

use super::world::{World, count};

/// More ranges than this are merged.
const RANGES_MAX: usize = 6;

pub async fn run_motions(world: Arc<World>) {
    let random = world.random("motion", 0);
    while world.weather.motions && !world.is_over() {
        let begun = begin_something(&world, &random).await;
        match begun {
            Ok(Some(ticket)) => see_it_through(&world, &random, ticket).await,
            Ok(None) => {}
            Err(error) if world.weather.crashes && error.kind() == ErrorKind::Unavailable => world.end(),
            // The server moves partitions for itself as well.
            Err(error) if matches!(error.kind(), ErrorKind::InProgress | ErrorKind::PartitionGone) => {}
            Err(error) => world.problem(format!("motion: {error} ({:?})", error.kind())),
        }
        for _ in 0..random.below(50) {
            tokio::task::yield_now().await;
        }
    }
}

/// `None` where the random choice is impossible.
pub async fn begin_something(world: &World, random: &Random) -> Result<Option<RelocationTicket>> {
    let container = world.container();
    let ranges = container.partition_key_ranges();
    let at = random.below(ranges.len() as u64) as usize;
    let range = &ranges[at];
    let account = &world.account;
    let wants_merge = ranges.len() >= RANGES_MAX || random.below(3) == 0;
    match random.below(3) {
        0 if world.weather.shards > 1 => {
            let shard = random.below(world.weather.shards as u64) as u16;
            match account.maintenance().move_partition(&container, range.id, shard).await {
                // The range is already on that shard.
                Err(error) if error.kind() == ErrorKind::BadRequest => Ok(None),
                begun => begun.map(Some),
            }
        }
        _ if wants_merge && ranges.len() > 1 => {
            let first = at.min(ranges.len() - 2);
            let several = 2 + random.below(2) as usize;
            let ids: Vec<u32> = ranges[first..].iter().take(several).map(|range| range.id).collect();
            account.maintenance().merge(&container, &ids).await.map(Some)
        }
        _ => account.maintenance().split(&container, range.id, cut(range, random)).await.map(Some),
    }
}

fn cut(range: &PartitionKeyRange, random: &Random) -> SplitAt {
    // Bounds are bytes in hexadecimal; a longer text between the two lies inside.
    let number = |text: &str| u32::from_str_radix(&format!("{text:0<8}")[..8], 16).expect("hexadecimal");
    let (min, max) = (number(&range.min_inclusive), number(&range.max_exclusive).min(0x4000_0000));
    if random.below(2) == 0 || max - min < 3 {
        return SplitAt::Middle;
    }
    let at = min + 1 + random.below(u64::from(max - min - 1)) as u32;
    SplitAt::Epk(format!("{at:08X}"))
}

async fn see_it_through(world: &World, random: &Random, ticket: RelocationTicket) {
    let aborts = random.below(8) == 0;
    if aborts {
        for _ in 0..random.below(200) {
            tokio::task::yield_now().await;
        }
        if let Err(error) = world.account.maintenance().abort_relocation(&world.container()).await {
            world.problem(format!("abort: {error} ({:?})", error.kind()));
        }
    }
    match ticket.finished().await {
        Ok(_) => count(&world.counts.motions),
        Err(error) if aborts && error.kind() == ErrorKind::Conflict => count(&world.counts.aborted),
        Err(error) if world.weather.crashes && error.kind() == ErrorKind::Unavailable => world.end(),
        Err(error) => world.problem(format!("relocation: {error} ({:?})", error.kind())),
    }
}
