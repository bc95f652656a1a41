//! `shardlake support-bundle`: one file for a report of a problem, from a running server or from the data directory of a stopped one.
//!
//! | file | responsibility |
//! |---|---|
//! | `parts.rs` | the files of a bundle, within their bounds |
//! | `running.rs`, `stopped.rs` | collection from a server, or from a data directory |
//! | `log_lines.rs` | lines of the log without values of clients |
//! | `keys.rs`, `names.rs` | removal of account keys; pseudonyms of names |
//! | `archive.rs` | the archive |
//!
//! A bundle never holds account keys, items, values of partition keys, or private keys of certificates. Reports are
//! reduced to known members, so that a new member of a report is left out until it is added here.

mod archive;
mod keys;
mod log_lines;
mod names;
mod parts;
mod running;
mod stopped;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use shardlake_stdx::{Clock, Random};

use crate::backup::{compact, say};
use crate::operate::{Connection, bytes};
use keys::KeyFilter;
use names::Pseudonyms;
use parts::Parts;

#[derive(Debug, Args)]
pub struct SupportBundle {
    /// File to write, a gzipped tar archive of mode 0600; an existing file is never overwritten [default: shardlake-support-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Data directory of a stopped server, instead of a running server's address
    #[arg(long, value_name = "DIR", conflicts_with_all = ["endpoint", "key", "ca_file"])]
    data_dir: Option<PathBuf>,
    /// TOML file with the settings of the stopped server, also SHARDLAKE_CONFIG
    #[arg(long, value_name = "FILE", requires = "data_dir")]
    config: Option<PathBuf>,
    /// File with log lines of the server, of which the last are added
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Replace the names of databases, containers, projections and properties by pseudonyms
    #[arg(long)]
    anonymous: bool,
    /// Print the content, and write nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(
    arguments: &SupportBundle,
    environment: &[(OsString, OsString)],
) -> Result<ExitCode, String> {
    let time = Clock::System.now();
    let to =
        arguments.to.clone().unwrap_or_else(|| format!("shardlake-support-{}.tar.gz", compact(time)).into());
    if !arguments.list {
        archive::check_is_new(&to)?;
    }
    let mut parts = Parts::default();
    parts.add_version();
    let keys = match &arguments.data_dir {
        Some(data_dir) => {
            let settings = stopped::settings(data_dir, arguments.config.as_deref(), environment)?;
            stopped::collect(&mut parts, data_dir, &settings).await?;
            stopped::keys(data_dir, &settings)
        }
        None => {
            running::collect(&mut parts, &arguments.connection.client()?).await?;
            arguments.connection.known_keys()?
        }
    };
    if let Some(file) = &arguments.log_file {
        let lines = log_lines::of_file(file);
        parts.add_lines("log-file.jsonl", "last lines of the log file, without values of clients", lines);
    }
    if arguments.anonymous {
        parts.replace_names(&Pseudonyms::new(&Random::System));
    }
    let files = parts.finish(&KeyFilter::new(&keys));
    let shown = to.display();
    let mut listed =
        format!("support bundle '{shown}': no account keys, no items, no private keys of certificates\n");
    listed += &files.table();
    say(&listed)?;
    if !arguments.list {
        let size = archive::write(&to, &files, time)?;
        say(&format!("written: '{shown}', {}; look at it before you send it", bytes(size)))?;
    }
    Ok(ExitCode::SUCCESS)
}
