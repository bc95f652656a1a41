//! Where a partition is to be cut so that about half of its bytes lie on either side, for splits by storage.
//!
//! One walk over the sizes in the order of the hash, which stops at the middle. A cut never goes through a logical
//! partition, nor between two whose keys hash to the same place.

use shardlake_model::Result;
use shardlake_routing::Epk;
use shardlake_storage::ScanOptions;

use super::LogicalSize;
use crate::core::Core;
use crate::keys::{self, HEADER};

/// The first position of the upper half; `None` where everything lies in one place. Writes that
/// continue meanwhile move the middle by their size.
pub(crate) async fn size_median(core: &Core) -> Result<Option<Epk>> {
    let half = core.size_bytes() / 2;
    let (start, end) = keys::space_range(core.uid, keys::SIZES);
    let mut scan = core.shard().snapshot().scan(start..end, ScanOptions::default());
    let mut below = 0;
    let mut place: Option<Epk> = None;
    // The last place at which a cut leaves less than half below it.
    let mut early: Option<(Epk, u64)> = None;
    while let Some(rows) = scan.next_chunk().await.map_err(crate::storage_error)? {
        for (key, value) in rows {
            let epk = keys::parse_size_key(&key[HEADER..]).ok_or_else(crate::malformed_key)?.epk;
            let begins = place.as_ref().is_some_and(|last| *last != epk);
            if begins && below >= half {
                return Ok(Some(nearer(half, early, (epk, below))));
            }
            if begins {
                early = Some((epk.clone(), below));
            }
            place = Some(epk);
            below += LogicalSize::decode(&value)?.size_bytes;
        }
        tokio::task::yield_now().await;
    }
    core.check_open()?;
    Ok(early.map(|(epk, _)| epk))
}

fn nearer(half: u64, early: Option<(Epk, u64)>, late: (Epk, u64)) -> Epk {
    match early {
        Some((epk, below)) if half.abs_diff(below) < half.abs_diff(late.1) => epk,
        _ => late.0,
    }
}
