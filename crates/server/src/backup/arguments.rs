//! The command lines of `shardlake backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use shardlake_stdx::Timestamp;

use super::identifier::BackupId;
use super::utc;
use crate::operate::Connection;

#[derive(Debug, Args)]
pub struct Backup {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, Subcommand)]
pub enum What {
    /// Copy an account as it is at one moment, from a running server or from the data directory of a stopped one
    ///
    /// What an earlier backup in the directory holds is not copied again. Account keys and certificates are in no backup unless
    /// --with-keys names the keys.
    Create(Create),
    /// Show the backups that a directory holds
    List(List),
    /// Read everything and compare checksums; exits with 1 when something is damaged, and names it
    Check(Check),
    /// Make a data directory of a backup, or an account in an object store
    Restore(Restore),
    /// Delete backups, and the files that no other one needs
    Delete(Delete),
}

#[derive(Debug, Args)]
pub struct Create {
    /// Where backups lie: a directory of theirs, one that is empty, or one that does not exist; or a prefix of an object store,
    /// s3://BUCKET/PREFIX, az://, gs:// or file:///
    #[arg(long, value_name = "DIR|URL")]
    pub to: PathBuf,
    /// The data directory of a stopped server, instead of a running server's address
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    pub data_dir: Option<PathBuf>,
    /// The account in an object store whose server is stopped, instead of a running server's address
    #[arg(long, value_name = "URL")]
    pub store: Option<PathBuf>,
    /// Where to copy the journals of a stopped server to, for a look at them [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    pub scratch: Option<PathBuf>,
    /// Put the account keys in this file, a server's keys.json, into the backup: whoever reads it has them
    #[arg(long, value_name = "FILE")]
    pub with_keys: Option<PathBuf>,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct List {
    /// Where backups lie: a directory, or a prefix of an object store
    #[arg(long, value_name = "DIR|URL")]
    pub from: PathBuf,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Where backups lie: a directory, or a prefix of an object store
    #[arg(long, value_name = "DIR|URL")]
    pub from: PathBuf,
    /// One backup [default: all of them]
    #[arg(long, value_name = "ID")]
    pub id: Option<BackupId>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// Where backups lie: a directory, or a prefix of an object store
    #[arg(long, value_name = "DIR|URL")]
    pub from: PathBuf,
    /// Which one [default: the newest]
    #[arg(long, value_name = "ID")]
    pub id: Option<BackupId>,
    /// As the account was at this moment, in UTC: 2026-11-23T08:17:08Z. Of a server with --restore-window, between two of its backups
    #[arg(long, value_name = "TIME", value_parser = utc::parse, conflicts_with = "id")]
    pub time: Option<Timestamp>,
    /// The data directory to make: one that is empty, or does not exist
    #[arg(long, value_name = "DIR", required_unless_present = "store", conflicts_with = "store")]
    pub data_dir: Option<PathBuf>,
    /// Of an account in an object store: the prefix to make, which holds nothing
    #[arg(long, value_name = "URL")]
    pub store: Option<PathBuf>,
    /// Another store for the log of --store, as `serve --wal-store` has it
    #[arg(long, value_name = "URL", requires = "store")]
    pub wal_store: Option<String>,
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Where backups lie: a directory, or a prefix of an object store
    #[arg(long, value_name = "DIR|URL")]
    pub from: PathBuf,
    /// Which one; may be given several times
    #[arg(long, value_name = "ID", required_unless_present = "keep", conflicts_with = "keep")]
    pub id: Vec<BackupId>,
    /// All but the newest so many complete ones of each account
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
}
