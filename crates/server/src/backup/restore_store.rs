//! `shardlake backup restore --store URL`: makes an account in an object store of a backup, with a look at every byte.
//!
//! The mark of a restore that goes on (`store/marks.rs`) is the first object below the prefix, and goes last. What the shards
//! were kept under in their old place is forgotten before.

use super::manifest::{KEY_FILE, Manifest};
use super::place::Place;
use crate::store::{Prefix, StoreUrl};

pub async fn restore(place: &Place, manifest: &Manifest, url: &StoreUrl) -> Result<(), String> {
    if !manifest.is_of_store() {
        return Err(format!(
            "the backup '{}' is of an account on a local disk: restore it with --data-dir; `shardlake evacuate` moves it to a store",
            manifest.id
        ));
    }
    let prefix = Prefix::new(url)?;
    if !prefix.is_empty().await? {
        return Err(format!("'{url}' is not empty: name a prefix that holds nothing"));
    }
    prefix.set_restoring(manifest.id.as_str()).await?;
    let put_back = async {
        for file in &manifest.files {
            // Checked when the manifest was read: it leads to a place below the prefix.
            let name = if file.path == KEY_FILE { "secrets/keys.json" } else { &file.path };
            let mut reading = place.reading(file);
            let next = async || reading.next().await.map_err(|damage| damage.of(place, file));
            prefix.upload(name, file.size_bytes, next).await?;
        }
        prefix.forget_checkpoints().await?;
        prefix.clear_restoring().await
    };
    put_back.await.map_err(|what: String| {
        format!("{what}; nothing was restored: remove what lies in '{url}' before the next attempt")
    })
}
