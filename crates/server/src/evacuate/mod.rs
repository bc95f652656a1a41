//! `shardlake evacuate`: moves an account from a local disk to an object store, or back.
//!
//! | file | what it does |
//! |---|---|
//! | `rows.rs` | makes a shard equal to another one by reading both |
//! | `ends.rs` | where the account goes: a prefix of a store, a data directory |
//!
//! The account keeps its number of shards, and each shard gets the rows of its original: what is stored does not depend on the
//! engine. Then both are read again and compared, and the account changes its place in two steps, of which each is on stable
//! storage before the next one:
//!
//! ```text
//!                              source       target
//! copying                      served by whoever may, with --online; by nobody else    RESTORING
//! the source is told           MOVED        RESTORING      nobody serves either
//! the target is complete       MOVED                       servers of the target
//! ```
//!
//! A move that is cut off goes on when the same command is given again. With `--online` the source's server goes on while a state of
//! it is copied: the move without it, after the server was stopped, has only to read and to write what changed since.

mod ends;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use shardlake_account::{AccountMark, Shards};

use crate::backup::{self, Subject};
use crate::operate::{Connection, counted};
use crate::shards;
use crate::store::url_of;
use ends::Target;
use rows::Evened;

#[derive(Debug, Args)]
pub struct Evacuate {
    /// Where the account is: a data directory, or s3://BUCKET/PREFIX, az://, gs:// or file:///
    #[arg(long, value_name = "DIR|URL")]
    from: PathBuf,
    /// Where it goes: a prefix that holds nothing, or a data directory that is empty or does not exist
    #[arg(long, value_name = "DIR|URL")]
    to: PathBuf,
    /// Another store for the log of the account in a store, as `serve --wal-store` has it
    #[arg(long, value_name = "URL")]
    wal_store: Option<String>,
    /// Copy what a running server has now, and leave the account with it: a later move is shorter by that
    #[arg(long)]
    online: bool,
    /// Where to copy the journals of a stopped server to, for a look at them [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(command: &Evacuate) -> Result<ExitCode, String> {
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
    let work = async |subject: Subject<'_>| {
        let shards = match subject {
            Subject::Directory(directory) => shards::inspect(directory, &scratch).await?.0,
            Subject::Shards(shards, _) => shards,
        };
        copy(command, &shards).await
    };
    let said = match (command.online, url_of(&command.from)) {
        (true, _) => backup::with_running(command.connection.client()?, &command.from, &scratch, work).await,
        (false, Some(url)) => {
            let to = command.to.display().to_string();
            backup::with_stopped(&url, ("shardlake evacuate", Some(&to)), work).await
        }
        (false, None) => {
            ends::check_local_source(&command.from, &command.to)?;
            work(Subject::Directory(&command.from)).await
        }
    };
    crate::backup::say(&said?)?;
    Ok(ExitCode::SUCCESS)
}

async fn copy(command: &Evacuate, from: &Shards) -> Result<String, String> {
    let mark = AccountMark::read(from).await.map_err(|error| error.to_string())?;
    let mark = mark.ok_or("there is no account in it: start a server on it once")?;
    let target = Target::open(&command.to, &mark, command.wal_store.as_deref()).await?;
    let copied = async {
        let evened = even_out(from, target.shards()).await?;
        if !command.online {
            check(from, target.shards()).await?;
        }
        Ok(evened)
    };
    let copied = match copied.await {
        Ok(evened) if command.online => target.leave().await.map(|()| evened),
        Ok(evened) => target.finish(&command.from).await.map(|()| evened),
        Err(what) => {
            let _first_error_says_more = target.leave().await;
            Err(what)
        }
    };
    let evened = copied
        .map_err(|what: String| format!("{what}; nothing was moved: the same command goes on from here"))?;
    Ok(words(command, &evened))
}

async fn even_out(from: &Shards, to: &Shards) -> Result<Evened, String> {
    let mut all = Evened::default();
    for (from, to) in from.iter().zip(to.iter()) {
        let evened = rows::even_out(&from.view(), to).await.map_err(|error| error.to_string())?;
        all.rows += evened.rows;
        all.put += evened.put;
        all.deleted += evened.deleted;
    }
    Ok(all)
}

/// Reads everything once more, as it is stored.
async fn check(from: &Shards, to: &Shards) -> Result<(), String> {
    for (number, (from, to)) in from.iter().zip(to.iter()).enumerate() {
        let compared = rows::compare(&from.view(), &to.view()).await.map_err(|error| error.to_string())?;
        compared.map_err(|key| format!("the copy of shard {number} differs at the key {key:02x?}"))?;
    }
    Ok(())
}

fn words(command: &Evacuate, evened: &Evened) -> String {
    let (from, to) = (command.from.display(), command.to.display());
    let log = command.wal_store.as_ref().map_or_else(String::new, |log| format!(" --wal-store {log}"));
    let written = format!(
        "{}, of which {} were written and {} removed",
        counted(evened.rows, "row"),
        evened.put,
        evened.deleted
    );
    match (command.online, url_of(&command.to)) {
        (true, _) => format!(
            "copied to {to}: {written}\nnext: stop the server, and give the same command without --online"
        ),
        (false, Some(url)) => format!(
            "moved to {url}: {written}\nnext: shardlake serve --store {url}{log} --data-dir NEW_DIRECTORY\nwhat lies in {from} is not served any more, and may be removed"
        ),
        (false, None) => format!(
            "moved to {to}: {written}\nnext: shardlake serve --data-dir {to}\nwhat lies in {from} is not served any more, and may be removed"
        ),
    }
}
