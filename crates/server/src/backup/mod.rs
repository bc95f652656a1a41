//! `shardlake backup`: create, list, check, restore and delete backups of an account on local disks or in an object store.
//!
//! | file | responsibility |
//! |---|---|
//! | `arguments.rs`, `descriptions.rs` | the command lines, and printed texts |
//! | `source.rs` | where a backup is made from: a running server, or a directory or store that no server has |
//! | `create.rs` | copies new contents, and writes the manifest |
//! | `restore.rs`, `restore_store.rs` | makes a data directory of a backup, or an account in a store |
//! | `moment.rs` | brings a restored state to a later point in time, with the log of a later backup |
//! | `review.rs` | list, check, delete |
//! | `place.rs` | the place that holds backups: contents by their digests, manifests by their ids |
//! | `shelf.rs`, `directory.rs`, `in_store.rs` | storage of a place: a directory, a prefix of an object store |
//! | `manifest.rs`, `identifier.rs`, `digest.rs`, `utc.rs` | the parts of a manifest and their formats |
//! | `whole.rs` | whether the files of a backup are a whole account |
//! | `look.rs`, `scaffold.rs` | backups and running servers, to be looked at by `verify`; links that look like a data directory |
//!
//! The client copies; the server keeps a state for it and answers with pieces of files (`crates/backup`). So a server writes
//! nowhere but into its data directory, never receives a path, and may be on another machine.
//! Exit codes are those of all commands: 0 when all is well, 1 with one line that names the error, 2 for a wrong command line.

mod arguments;
mod create;
mod descriptions;
mod digest;
mod directory;
mod identifier;
#[cfg(feature = "object-storage")]
mod in_store;
mod look;
mod manifest;
mod moment;
mod place;
mod restore;
#[cfg(feature = "object-storage")]
mod restore_store;
mod review;
mod scaffold;
mod shelf;
mod source;
mod utc;
mod whole;

use std::path::Path;
use std::process::ExitCode;

pub use arguments::Backup;
pub use descriptions::say;
pub use identifier::BackupId;
pub use shelf::FORMAT;
pub use utc::{compact, readable};

pub use look::{Subject, holds_backups, with_backup, with_running, with_stopped};

use crate::store::{StoreUrl, url_of};
use arguments::{Check, Create, Delete, List, Restore, What};
use manifest::Manifest;
use moment::Ahead;
use place::Place;
use review::{Checked, beyond_the_newest};
use shelf::Alone;
use source::Source;

pub async fn run(backup: &Backup) -> Result<ExitCode, String> {
    match &backup.what {
        What::Create(arguments) => create(arguments).await?,
        What::List(arguments) => list(arguments).await?,
        What::Check(arguments) => return check(arguments).await,
        What::Restore(arguments) => restore(arguments).await?,
        What::Delete(arguments) => delete(arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(arguments: &Create) -> Result<(), String> {
    let place = Place::open_or_make(&arguments.to).await?;
    let lock = place.lock(Alone::Yes).await?;
    let created = async {
        let source = source(arguments).await?;
        create::create(&place, &lock, source, arguments.with_keys.as_deref()).await
    };
    let created = created.await;
    lock.release().await;
    descriptions::say(&descriptions::of_created(&created?, arguments.json))
}

async fn source(arguments: &Create) -> Result<Source, String> {
    match (&arguments.data_dir, &arguments.store) {
        (Some(data_dir), _) => {
            if let Some(url) = url_of(data_dir) {
                return Err(format!("--data-dir is a local directory: name '{url}' with --store"));
            }
            let scratch = arguments.scratch.clone().unwrap_or_else(std::env::temp_dir);
            Source::of_directory(data_dir, &scratch).await
        }
        (None, Some(store)) => Source::of_store(&needs_url(store)?).await,
        (None, None) => Source::of_server(arguments.connection.client()?).await,
    }
}

fn needs_url(store: &Path) -> Result<StoreUrl, String> {
    url_of(store).ok_or_else(|| {
        format!(
            "--store '{}' is no URL: write s3://bucket/prefix, az://container/prefix, gs://bucket/prefix or file:///directory",
            store.display()
        )
    })
}

async fn list(arguments: &List) -> Result<(), String> {
    let place = Place::open(&arguments.from).await?;
    descriptions::say(&descriptions::of_list(&review::list(&place).await?, arguments.json))
}

async fn check(arguments: &Check) -> Result<ExitCode, String> {
    let place = Place::open(&arguments.from).await?;
    let _lock = place.lock(Alone::No).await?;
    let checked: Checked = review::check((&arguments.from, &place), arguments.id.as_ref()).await?;
    descriptions::say(&descriptions::of_checked(&checked, arguments.json))?;
    Ok(if checked.damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn restore(arguments: &Restore) -> Result<(), String> {
    let place = Place::open(&arguments.from).await?;
    let _lock = place.lock(Alone::No).await?;
    let (manifest, ahead) = match arguments.time {
        Some(time) => moment::choose(&place.known().await?, time)?,
        None => (place.find(arguments.id.as_ref()).await?, None),
    };
    let ahead = ahead.as_ref();
    match (&arguments.data_dir, &arguments.store) {
        (Some(data_dir), _) => {
            if let Some(url) = url_of(data_dir) {
                return Err(format!("--data-dir is a local directory: name '{url}' with --store"));
            }
            restore::restore((&arguments.from, &place), &manifest, data_dir, ahead).await?;
            descriptions::say(&descriptions::of_restored(&manifest, data_dir))?;
        }
        (None, store) => {
            let url = needs_url(store.as_deref().unwrap_or(Path::new("")))?;
            let from = (arguments.from.as_path(), &place);
            restore_to_store(from, &manifest, (&url, arguments.wal_store.as_deref()), ahead).await?;
            descriptions::say(&descriptions::of_restored_to_store(&manifest, &url))?;
        }
    }
    arguments.time.map_or(Ok(()), |time| descriptions::say(&descriptions::of_moment(time)))
}

#[cfg(feature = "object-storage")]
async fn restore_to_store(
    from: (&Path, &Place),
    manifest: &Manifest,
    to: (&StoreUrl, Option<&str>),
    ahead: Option<&Ahead>,
) -> Result<(), String> {
    restore_store::restore(from, manifest, to, ahead).await
}

#[cfg(not(feature = "object-storage"))]
async fn restore_to_store(
    _from: (&Path, &Place),
    _manifest: &Manifest,
    (url, _log): (&StoreUrl, Option<&str>),
    _ahead: Option<&Ahead>,
) -> Result<(), String> {
    Err(url.unsupported())
}

async fn delete(arguments: &Delete) -> Result<(), String> {
    let place = Place::open(&arguments.from).await?;
    let lock = place.lock(Alone::Yes).await?;
    let deleted = async {
        let ids = match arguments.keep {
            Some(count) => beyond_the_newest(&review::list(&place).await?, count as usize),
            None => arguments.id.clone(),
        };
        review::delete(&place, &lock, &ids).await
    };
    let deleted = deleted.await;
    lock.release().await;
    descriptions::say(&descriptions::of_deleted(&deleted?))
}
