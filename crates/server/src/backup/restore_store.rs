//! `shardlake backup restore --store URL`: makes an account in an object store of a backup, with a look at every byte.
//!
//! The mark of a restore in progress (`store/marks.rs`) is the first object below the prefix, and is deleted last. The checkpoints
//! that kept the shards in their old place are removed before.

use std::path::Path;

use super::manifest::{KEY_FILE, Manifest, is_of_log};
use super::moment::{self, Ahead};
use super::place::Place;
use super::restore::bytes_of_state;
use super::whole;
use crate::progress::{Progress, Unit};
use crate::store::{Filling, Prefix, StoreUrl};

/// `ahead` brings the data to a later point in time than that of the backup.
pub async fn restore(
    (from, place): (&Path, &Place),
    manifest: &Manifest,
    (url, log): (&StoreUrl, Option<&str>),
    ahead: Option<&Ahead>,
) -> Result<(), String> {
    if !manifest.is_of_store() {
        return Err(format!(
            "the backup '{}' is of an account on a local disk: restore it with --data-dir; `shardlake migrate` moves it to a store",
            manifest.id
        ));
    }
    let prefix = Prefix::new(url)?;
    if !prefix.is_empty().await? {
        return Err(format!("'{url}' is not empty: name a prefix that holds nothing"));
    }
    prefix.set_restoring(manifest.id.as_str()).await?;
    let prefix = prefix.with_log(log).await?;
    let put_back = async {
        whole::check_contents(from, place, manifest).await?;
        let progress = Progress::begin("restore", Unit::Bytes, Some(bytes_of_state(manifest)));
        for file in manifest.files.iter().filter(|file| !is_of_log(&file.path)) {
            // Checked when the manifest was read: it leads to a place below the prefix.
            let name = if file.path == KEY_FILE { "secrets/keys.json" } else { &file.path };
            let mut reading = place.reading(file);
            let next = async || {
                let piece = reading.next().await.map_err(|damage| damage.of(place, file))?;
                progress.advance(piece.len() as u64);
                Ok(piece)
            };
            prefix.upload(name, file.size_bytes, next).await?;
        }
        progress.finish("");
        prefix.forget_checkpoints().await?;
        if let Some(ahead) = ahead {
            let filling = Filling::open(url, manifest.id.as_str(), manifest.shards, None).await?;
            let replayed = moment::replay(place, (manifest, ahead), filling.shards()).await;
            // Release the lease, even after an error.
            let left = filling.leave().await;
            replayed.and(left)?;
        }
        prefix.set_restored().await?;
        prefix.clear_restoring().await
    };
    put_back.await.map_err(|what: String| {
        format!("{what}; nothing was restored: remove what lies in '{url}' before the next attempt")
    })
}
