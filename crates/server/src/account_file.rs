//! `account.json` in the data directory: the id of the account stored here, and its number of shards.
//!
//! Each shard records the same, but a missing shard cannot: a volume that was not mounted looks like a directory that never had
//! data. This file lies outside the shards. Every successful start writes the file at its end if the content differs, so that
//! a first start which is killed leaves no file and may begin anew, and a directory of an earlier version gets one.
//! A copy of the whole data directory is as good as the original.

use std::io::ErrorKind;
use std::path::Path;

use shardlake_account::{AccountMark, Shards};

use crate::private_file::{self, Secrecy};
use crate::stored_json;

pub const NAME: &str = "account.json";

pub fn read(data_dir: &Path) -> Result<Option<AccountMark>, String> {
    let path = data_dir.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("'{}' cannot be read: {error}", path.display())),
    };
    let remedy = ": remove it if all shards are in their places, and the next start writes it anew";
    stored_json::read(&text, &format!("'{}'", path.display()), remedy).map(Some)
}

/// Remembers the account of the shards. A full disk is no reason not to serve.
pub async fn remember(data_dir: &Path, shards: &Shards) -> Result<(), String> {
    let found = AccountMark::read(shards).await.map_err(|error| error.to_string())?;
    let Some(found) = found else { return Ok(()) };
    if read(data_dir)?.as_ref() == Some(&found) {
        return Ok(());
    }
    let mut text = serde_json::to_vec(&found).map_err(|error| error.to_string())?;
    text.push(b'\n');
    if let Err(error) = private_file::write(&data_dir.join(NAME), &text, Secrecy::Public) {
        tracing::warn!(%error, "the data directory cannot remember its account: a shard that goes missing is not noticed");
    }
    Ok(())
}
