//! `shardlake backup`: create, list, check, restore and delete backups of an account on local disks.
//!
//! | file | what it does |
//! |---|---|
//! | `arguments.rs`, `words.rs` | the command lines, and what is printed |
//! | `source.rs` | where a backup is made from: a running server, or a directory that no server has |
//! | `create.rs` | copies what is new, and writes the manifest |
//! | `restore.rs` | makes a data directory of a backup |
//! | `review.rs` | list, check, delete |
//! | `place.rs`, `object.rs` | the directory that holds backups; contents by their digests |
//! | `manifest.rs`, `identifier.rs`, `digest.rs`, `utc.rs` | what is written down, and how |
//! | `scaffold.rs` | links that look like a data directory, for `verify` |
//!
//! The client copies; the server keeps a state for it and answers with pieces of files (`crates/backup`). So a server writes
//! nowhere but into its data directory, is never told a path, and may be on another machine.
//! Exit codes are those of all commands: 0 when all is well, 1 with one line that says what is wrong, 2 for a wrong command line.

mod arguments;
mod create;
mod digest;
mod identifier;
mod manifest;
mod object;
mod place;
mod restore;
mod review;
mod scaffold;
mod source;
mod utc;
mod words;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub use arguments::Backup;
pub use identifier::BackupId;
pub use place::{check_is_local, holds_backups};

use crate::operate::Client;
use arguments::{Check, Create, Delete, List, Restore, What};
use place::Place;
use review::{Checked, beyond_the_newest};
use scaffold::Scaffold;
use source::Source;

/// A state is given up after ten minutes of silence.
const ASK_EVERY: Duration = Duration::from_secs(60);

pub async fn run(backup: &Backup) -> Result<ExitCode, String> {
    match &backup.what {
        What::Create(arguments) => create(arguments).await?,
        What::List(arguments) => list(arguments)?,
        What::Check(arguments) => return check(arguments),
        What::Restore(arguments) => restore(arguments)?,
        What::Delete(arguments) => delete(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(arguments: &Create) -> Result<(), String> {
    let place = Place::open_or_make(&arguments.to)?;
    let _lock = place.lock_alone()?;
    let source = match &arguments.data_dir {
        Some(data_dir) => {
            check_is_local(data_dir)?;
            let scratch = arguments.scratch.clone().unwrap_or_else(std::env::temp_dir);
            Source::of_directory(data_dir, &scratch).await?
        }
        None => Source::of_server(arguments.connection.client()?).await?,
    };
    let created = create::create(&place, source, arguments.with_keys.as_deref()).await?;
    words::say(&words::of_created(&created, arguments.json))
}

fn list(arguments: &List) -> Result<(), String> {
    let place = Place::open(&arguments.from)?;
    words::say(&words::of_list(&review::list(&place)?, arguments.json))
}

fn check(arguments: &Check) -> Result<ExitCode, String> {
    let place = Place::open(&arguments.from)?;
    let _lock = place.lock_for_reading()?;
    let checked: Checked = review::check(&place, arguments.id.as_ref())?;
    words::say(&words::of_checked(&checked, arguments.json))?;
    Ok(if checked.damages.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn restore(arguments: &Restore) -> Result<(), String> {
    let place = Place::open(&arguments.from)?;
    let _lock = place.lock_for_reading()?;
    let manifest = place.find(arguments.id.as_ref())?;
    restore::restore(&place, &manifest, &arguments.data_dir)?;
    words::say(&words::of_restored(&manifest, &arguments.data_dir))
}

fn delete(arguments: &Delete) -> Result<(), String> {
    let place = Place::open(&arguments.from)?;
    let _lock = place.lock_alone()?;
    let ids = match arguments.keep {
        Some(count) => beyond_the_newest(&review::list(&place)?, count as usize),
        None => arguments.id.clone(),
    };
    words::say(&words::of_deleted(&review::delete(&place, &ids)?))
}

/// Has `work` look at a backup, the newest without an id, as if it were a data directory.
pub async fn with_backup<T>(
    directory: &Path,
    id: Option<&BackupId>,
    scratch: &Path,
    work: impl AsyncFnOnce(&Path) -> Result<T, String>,
) -> Result<T, String> {
    let place = Place::open(directory)?;
    let _lock = place.lock_for_reading()?;
    let manifest = place.find(id)?;
    let scaffold = Scaffold::of_backup(&place, &manifest, scratch)?;
    work(scaffold.path()).await
}

/// Has `work` look at what a running server has now, as if it were the data directory of a stopped one.
pub async fn with_running<T>(
    client: Client,
    data_dir: &Path,
    scratch: &Path,
    work: impl AsyncFnOnce(&Path) -> Result<T, String>,
) -> Result<T, String> {
    let source = Source::of_server(client).await?;
    let looked = async {
        let name = source.checkpoint().unwrap_or_default();
        let scaffold = Scaffold::of_checkpoint(data_dir, source.state.shards.len(), &name, scratch)?;
        tokio::select! {
            looked = work(scaffold.path()) => looked,
            lost = source.keep_up(ASK_EVERY) => Err(lost),
        }
    }
    .await;
    source.end().await;
    looked
}
