//! Target of a migration: a prefix of a store, or a data directory; and the mark in its old place.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use shardlake_account::{AccountMark, Shards};

use super::follow::Copied;
use crate::private_file::{self, Secrecy};
use crate::store::{StoreUrl, url_of};
use crate::{account_file, moved_mark, restore_mark, shards};

/// There while the copy is complete and follows its source.
const COPIED: &str = "COPIED";

/// A target open to be filled. Servers refuse it until it is complete.
pub enum Target {
    Directory {
        data_dir: PathBuf,
        shards: Shards,
    },
    #[cfg(feature = "object-storage")]
    Store(Box<crate::store::Filling>),
}

impl Target {
    /// Opens an empty place, or one with an unfinished move of this account.
    pub async fn open(to: &Path, mark: &AccountMark, log: Option<&str>) -> Result<Target, String> {
        let what = format!("move of the account {}", mark.account);
        if let Some(url) = url_of(to) {
            return of_store(&url, &what, (mark.shards, log)).await;
        }
        match restore_mark::read(to)? {
            Some(found) if found == what => {}
            Some(_) => restore_mark::check_is_complete(to)?,
            None => {
                if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
                    return Err(format!(
                        "'{}' is not empty: name a directory that is, or one that does not exist",
                        to.display()
                    ));
                }
                let cannot = |error| format!("'{}' cannot be made: {error}", to.display());
                fs::DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(cannot)?;
                restore_mark::set(to, &what).map_err(cannot)?;
            }
        }
        let shards = shards::open_to_fill(to, mark.shards).await?;
        Ok(Target::Directory { data_dir: to.to_owned(), shards })
    }

    pub fn shards(&self) -> &Shards {
        match self {
            Target::Directory { shards, .. } => shards,
            #[cfg(feature = "object-storage")]
            Target::Store(filling) => filling.shards(),
        }
    }

    /// The note of a copy that is complete and follows its source by the log.
    pub async fn copied(&self) -> Result<Option<Copied>, String> {
        let text = match self {
            Target::Directory { data_dir, .. } => match fs::read(data_dir.join(COPIED)) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                read => Some(read.map_err(|error| cannot_note(data_dir, &error))?),
            },
            #[cfg(feature = "object-storage")]
            Target::Store(filling) => filling.copied().await?,
        };
        text.map(|text| Copied::parse(&text)).transpose()
    }

    pub async fn set_copied(&self, copied: Option<&Copied>) -> Result<(), String> {
        let text = copied.map(Copied::text).transpose()?;
        match self {
            Target::Directory { data_dir, .. } => match text {
                Some(text) => private_file::write(&data_dir.join(COPIED), &text, Secrecy::Public),
                None => remove_note(data_dir),
            }
            .map_err(|error| cannot_note(data_dir, &error)),
            #[cfg(feature = "object-storage")]
            Target::Store(filling) => filling.set_copied(text).await,
        }
    }

    /// The account is here from now on, and not at its old place.
    pub async fn finish(self, from: &Path) -> Result<(), String> {
        match self {
            Target::Directory { data_dir, shards } => {
                account_file::remember(&data_dir, &shards).await?;
                shards.close().await.map_err(|error| error.to_string())?;
                leave_store(from, &data_dir).await?;
                restore_mark::clear(&data_dir).map_err(|error| cannot_note(&data_dir, &error))?;
                // The note is unused from here on, so an error does not matter.
                let _removed = remove_note(&data_dir);
                Ok(())
            }
            #[cfg(feature = "object-storage")]
            Target::Store(filling) => {
                let to = filling.url();
                filling.complete(from).await?;
                moved_mark::set(from, &to)
                    .map_err(|error| format!("'{}' cannot be written: {error}", from.display()))?;
                filling.release_to_servers().await
            }
        }
    }

    /// Leaves the target as it is, so that a later command can continue.
    pub async fn leave(self) -> Result<(), String> {
        match self {
            Target::Directory { shards, .. } => shards.close().await.map_err(|error| error.to_string()),
            #[cfg(feature = "object-storage")]
            Target::Store(filling) => filling.leave().await,
        }
    }
}

fn remove_note(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(data_dir.join(COPIED)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::File::open(data_dir)?.sync_all(),
    }
}

fn cannot_note(data_dir: &Path, error: &io::Error) -> String {
    format!("'{}' cannot be written: {error}", data_dir.display())
}

/// Refuses a directory whose account was moved elsewhere, unless its move to this place was cut off.
pub fn check_local_source(from: &Path, to: &Path) -> Result<(), String> {
    let to = url_of(to).map_or_else(String::new, |url| url.to_string());
    match moved_mark::read(from)? {
        Some(moved) if moved != to => moved_mark::check_is_here(from),
        _ => Ok(()),
    }
}

#[cfg(feature = "object-storage")]
async fn of_store(url: &StoreUrl, what: &str, (shards, log): (u16, Option<&str>)) -> Result<Target, String> {
    Ok(Target::Store(Box::new(crate::store::Filling::open(url, what, shards, log).await?)))
}

#[cfg(not(feature = "object-storage"))]
async fn of_store(url: &StoreUrl, _what: &str, _shards: (u16, Option<&str>)) -> Result<Target, String> {
    Err(url.unsupported())
}

/// Copies the keys and the authority to the data directory, and marks the store as moved.
#[cfg(feature = "object-storage")]
async fn leave_store(from: &Path, data_dir: &Path) -> Result<(), String> {
    let url = url_of(from).ok_or("--from is no URL")?;
    crate::store::leave(&url, data_dir).await
}

#[cfg(not(feature = "object-storage"))]
async fn leave_store(from: &Path, _data_dir: &Path) -> Result<(), String> {
    Err(url_of(from).map_or_else(|| "--from is no URL".to_owned(), |url| url.unsupported()))
}
