//! `shardlake migrate`: moves an account from a local disk to an object store, or back.
//!
//! | file | responsibility |
//! |---|---|
//! | `rows.rs` | makes a shard equal to another one by reading both |
//! | `follow.rs` | brings a copy up to its source by the source's log, and how that is proved |
//! | `ends.rs` | the target: a prefix of a store, a data directory |
//! | `descriptions.rs` | printed texts |
//!
//! The account keeps its number of shards, and each shard receives the rows of its original: rows do not depend on the engine. With
//! `--online` the source's server keeps running: a state of it is copied and compared, and the copy follows the log until little is
//! left. The move itself, after the server was stopped, then follows to the end. Without such a copy, or a log, both sides
//! are read and compared instead. The account changes its place in two steps, of which each is on stable storage before the next one:
//!
//! ```text
//!                              source       target
//! copying                      served       RESTORING           a copy that was cut off is continued
//! following, by --online       served       RESTORING, COPIED   the copy is a state of the source
//! the source is marked         MOVED        RESTORING           servers refuse both
//! the target is complete       MOVED                            servers of the target
//! ```
//!
//! A step that was cut off continues when the same command is given again.

mod command;
mod descriptions;
mod ends;
mod follow;
mod rows;

use std::path::Path;
use std::process::ExitCode;

use shardlake_account::{AccountMark, Shards};

use crate::backup::{self, Subject};
use crate::progress::{Progress, Unit};
use crate::shards;
use crate::store::url_of;
use descriptions::Moved;
use ends::Target;
use follow::{Copied, Outcome};
use rows::Evened;

pub use command::Migrate;

pub async fn run(command: &Migrate) -> Result<ExitCode, String> {
    if url_of(&command.from).is_some() == url_of(&command.to).is_some() {
        return Err(
            "an account is moved between a local disk and an object store: one of --from and --to is a directory, the other one a URL; `shardlake backup` copies between places of one kind"
                .into(),
        );
    }
    if command.wal_store.is_some() && url_of(&command.to).is_none() {
        return Err("--wal-store is for an account that goes to an object store".into());
    }
    let scratch = command.scratch.clone().unwrap_or_else(std::env::temp_dir);
    if command.online {
        crate::backup::say(&online(command, &scratch).await?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let work = async |subject: Subject<'_>| move_here(command, &opened(subject, &scratch).await?).await;
    let said = match url_of(&command.from) {
        Some(url) => {
            let to = command.to.display().to_string();
            backup::with_stopped(&url, ("shardlake migrate", Some(&to)), work).await
        }
        None => {
            ends::check_local_source(&command.from, &command.to)?;
            work(Subject::Directory(&command.from)).await
        }
    };
    crate::backup::say(&said?)?;
    Ok(ExitCode::SUCCESS)
}

async fn opened(subject: Subject<'_>, scratch: &Path) -> Result<Shards, String> {
    match subject {
        Subject::Directory(directory) => Ok(shards::inspect(directory, scratch).await?.0),
        Subject::Shards(shards, _) => Ok(shards),
    }
}

/// Copies and follows while the source's server keeps running.
async fn online(command: &Migrate, scratch: &Path) -> Result<String, String> {
    let mark = follow::mark_of(&command.from).await?;
    let target = Target::open(&command.to, &mark, command.wal_store.as_deref()).await?;
    let done = copy_and_follow(command, scratch, &target).await;
    let left = target.leave().await;
    done.and_then(|said| left.map(|()| said))
        .map_err(|what| format!("{what}; nothing was moved: the same command goes on from here"))
}

async fn copy_and_follow(command: &Migrate, scratch: &Path, target: &Target) -> Result<String, String> {
    let (mut said, mut may_copy) = (descriptions::Ahead::default(), true);
    loop {
        let copied = match target.copied().await? {
            Some(copied) => copied,
            None => {
                may_copy = false;
                let (evened, copied) = copy_state(command, scratch, target).await?;
                said.copied = Some(evened);
                let Some(copied) = copied else { return Ok(descriptions::of_ahead(command, &said)) };
                copied
            }
        };
        match follow::nearly(&command.from, target.shards(), &copied).await? {
            Outcome::Followed(followed, copied) => {
                target.set_copied(Some(&copied)).await?;
                said.followed = Some(followed);
                return Ok(descriptions::of_ahead(command, &said));
            }
            Outcome::Cut(what) => {
                target.set_copied(None).await?;
                if !may_copy {
                    return Err(what);
                }
                said.cut = Some(what);
            }
        }
    }
}

/// Copies a state that the source's server keeps for that, and compares the copy with it. `None` where the server keeps no log to follow.
async fn copy_state(
    command: &Migrate,
    scratch: &Path,
    target: &Target,
) -> Result<(Evened, Option<Copied>), String> {
    let (client, to) = (command.connection.client()?, target.shards());
    // Where the log is before the state is kept, so that it leads on from that.
    let logs = follow::logs(&command.from, to.count(), None).await?;
    let work = async |subject: Subject<'_>| {
        let from = opened(subject, scratch).await?;
        if from.count() != to.count() {
            return Err("the server has got more shards meanwhile".to_owned());
        }
        let evened = even_out(&from, to).await?;
        check(&from, to, Some(evened.rows)).await?;
        Ok(evened)
    };
    let evened = backup::with_running(client, &command.from, scratch, work).await?;
    if !follow::are_stamped(to).await? {
        return Ok((evened, None));
    }
    let copied = follow::places(&logs);
    target.set_copied(Some(&copied)).await?;
    Ok((evened, Some(copied)))
}

/// Moves an account that no server serves.
async fn move_here(command: &Migrate, from: &Shards) -> Result<String, String> {
    let mark = AccountMark::read(from).await.map_err(|error| error.to_string())?;
    let mark = mark.ok_or("there is no account in it: start a server on it once")?;
    let target = Target::open(&command.to, &mark, command.wal_store.as_deref()).await?;
    let moved = match bring_up(command, from, &target).await {
        Ok(moved) => target.finish(&command.from).await.map(|()| moved),
        Err(what) => {
            let _first_error_says_more = target.leave().await;
            Err(what)
        }
    };
    let moved = moved
        .map_err(|what: String| format!("{what}; nothing was moved: the same command goes on from here"))?;
    Ok(descriptions::of_moved(command, &moved))
}

/// By the log where there is a copy that follows it, and otherwise by reading both sides.
async fn bring_up(command: &Migrate, from: &Shards, target: &Target) -> Result<Moved, String> {
    let to = target.shards();
    let mut cut = None;
    if let Some(copied) = target.copied().await? {
        match follow::to_the_end((&command.from, from), to, &copied).await? {
            Outcome::Followed(followed, _) => {
                if command.compare {
                    check(from, to, None).await?;
                }
                return Ok(Moved::Followed(followed));
            }
            Outcome::Cut(what) => {
                target.set_copied(None).await?;
                cut = Some(what);
            }
        }
    }
    let evened = even_out(from, to).await?;
    check(from, to, Some(evened.rows)).await?;
    Ok(Moved::Compared { evened, cut })
}

async fn even_out(from: &Shards, to: &Shards) -> Result<Evened, String> {
    let mut all = Evened::default();
    let progress = Progress::begin("copy", Unit::Rows, None);
    for (from, to) in from.iter().zip(to.iter()) {
        let evened = rows::even_out(&from.view(), to, &progress).await.map_err(|error| error.to_string())?;
        all.rows += evened.rows;
        all.put += evened.put;
        all.deleted += evened.deleted;
    }
    progress.finish("");
    Ok(all)
}

/// Reads everything once more, as it is stored; `rows` is the number of rows where that is known.
async fn check(from: &Shards, to: &Shards, rows: Option<u64>) -> Result<(), String> {
    let progress = Progress::begin("comparison", Unit::Rows, rows);
    for (number, (from, to)) in from.iter().zip(to.iter()).enumerate() {
        let compared =
            rows::compare(&from.view(), &to.view(), &progress).await.map_err(|error| error.to_string())?;
        compared.map_err(|key| format!("the copy of shard {number} differs at the key {key:02x?}"))?;
    }
    progress.finish("");
    Ok(())
}
