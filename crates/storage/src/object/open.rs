//! Opening the database of a shard for an owner.

use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::Admin;
use slatedb::{CompactorBuilder, Db, GarbageCollectorBuilder, WalReader};

use super::clock::{self, Collects, SteadyClock};
use super::errors::failed;
use super::options::{ObjectOptions, Place};
use super::settings::{self, Uid};
use super::{filters, owner, whole_log};
use crate::StorageError;

/// An open whose claim was stored though the answer was lost takes the claim for another owner's.
const OPENS_MAX: u32 = 5;

/// Opens the database for the owner that `options` name.
pub(super) async fn open_database_for(
    options: &ObjectOptions,
    place: &Place,
    admin: &Admin,
) -> Result<(Db, u64), StorageError> {
    let mut opens = 1;
    loop {
        match open_database(options, place, admin).await {
            // A later owner has left a record, and then the claim is refused.
            Err((StorageError::Fenced { .. }, Claim::Made)) if opens < OPENS_MAX => opens += 1,
            opened => return opened.map_err(|(error, _)| error),
        }
    }
}

/// How far an open came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Missing,
    /// As the last owner, under an epoch that no other process has.
    Made,
}

async fn open_database(
    options: &ObjectOptions,
    place: &Place,
    admin: &Admin,
) -> Result<(Db, u64), (StorageError, Claim)> {
    let missing = |error: StorageError| (error, Claim::Missing);
    let known = whole_log::read(&*place.store, &place.path, admin).await.map_err(missing)?;
    if known.is_none() && options.must_exist {
        return Err(missing(StorageError::Missing { directory: options.path.as_str().into() }));
    }
    // Read before the claim: an owner that opens in between has a later epoch of the database, and
    // this open is refused.
    let writer_epoch = known.as_ref().map_or(0, |(manifest, _)| manifest.writer_epoch());
    let epoch = owner::claim(&*place.store, &place.path, options.epoch).await.map_err(missing)?;
    let newest = match &known {
        Some((manifest, log)) => {
            let reader = WalReader::new(place.path.clone(), place.store.clone());
            let newest = clock::newest_time(&reader, admin, manifest, log).await;
            newest.map_err(|error| missing(failed(&error, 0)))?
        }
        None => Duration::ZERO,
    };
    let clock = clock_from(newest, options);
    let collector = GarbageCollectorBuilder::new(place.path.clone(), place.store.clone())
        .with_options(settings::collector(options.log_kept))
        .with_gc_filter(Arc::new(Collects(clock.clone())));
    let compactor = CompactorBuilder::new(place.path.clone(), place.store.clone())
        .with_options(settings::merges(options.shards))
        .with_scheduler_supplier(Arc::new(place.drops.clone()));
    let builder = Db::builder(place.path.clone(), place.store.clone())
        .with_settings(settings::of(options.memtable_bytes))
        .with_system_clock(clock)
        .with_compactor_builder(compactor)
        .with_gc_builder(collector)
        .with_sst_block_size(settings::BLOCK_SIZE)
        .with_segment_extractor(Arc::new(Uid))
        .with_filter_policies(filters::policies(place.is_scanned))
        .with_expected_epoch(writer_epoch)
        .with_db_cache(options.cache.0.clone(), options.number);
    let claim = if options.epoch.is_some() { Claim::Made } else { Claim::Missing };
    let database = builder.build().await.map_err(|error| (failed(&error, epoch + 1), claim))?;
    Ok((database, epoch))
}

fn clock_from(newest: Duration, options: &ObjectOptions) -> Arc<SteadyClock> {
    let clock = Arc::new(SteadyClock::new(options.clock.clone(), newest));
    if let Some(lead) = clock.lead() {
        tracing::warn!(
            shard = options.path,
            seconds = lead.as_secs(),
            "the machine's clock is behind the newest write of a shard: nothing is removed from the store meanwhile"
        );
    }
    clock
}
