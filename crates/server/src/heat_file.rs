//! `heat` in the data directory: the heat of containers over time, so that a heat map continues after a restart.
//!
//! One line of JSON for each container that had traffic, after a first line that names the format. The file is replaced periodically
//! and at the end; a server that is killed has lost the last minutes of a heat map and nothing else. A file that cannot
//! be read is logged and ignored: nothing depends on it. There is none for data in memory or in an object store.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shardlake_account::{Account, Earlier};

use crate::config::Config;
use crate::private_file::{self, Secrecy};
use crate::settings::DurabilityMode;

pub const NAME: &str = "heat";
pub const FORMAT: &str = "{\"format\":\"shardlake heat\",\"version\":1}";
const EVERY: Duration = Duration::from_secs(300);
/// The containers that do not fit begin anew.
const FILE_BYTES_MAX: usize = 64 << 20;

#[derive(Serialize)]
struct Line<'a> {
    container: &'a str,
    heat: &'a Earlier,
}

#[derive(Deserialize)]
struct ReadLine {
    container: String,
    heat: Earlier,
}

/// Where it is, if it is anywhere.
pub fn path(config: &Config) -> Option<PathBuf> {
    if config.store.is_some() || config.durability == DurabilityMode::Memory {
        return None;
    }
    config.data_dir.as_ref().map(|directory| directory.join(NAME))
}

/// Loads the heat that an earlier server wrote into the account.
pub fn recall(account: &Account, path: Option<&Path>) {
    let Some(path) = path else { return };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!(%error, "the heat of earlier times cannot be read"),
    };
    let mut lines = BufReader::new(file.take(2 * FILE_BYTES_MAX as u64)).lines().map_while(Result::ok);
    if lines.next().as_deref() != Some(FORMAT) {
        return tracing::warn!(path = %path.display(), "the heat of earlier times is not understood");
    }
    let (mut containers, mut damaged) = (0_u64, 0_u64);
    for line in lines {
        match serde_json::from_str::<ReadLine>(&line) {
            Ok(line) => {
                containers += u64::from(account.maintenance().recall_heat(&line.container, line.heat))
            }
            Err(_) => damaged += 1,
        }
    }
    if damaged > 0 {
        tracing::warn!(damaged, "lines with the heat of earlier times are damaged");
    }
    tracing::debug!(containers, "the heat of earlier times is known");
}

/// Writes the current heat.
pub fn keep(account: &Account, path: Option<&Path>) {
    let Some(path) = path else { return };
    let mut text = format!("{FORMAT}\n").into_bytes();
    account.maintenance().keep_heat(|container, heat| {
        let Ok(line) = serde_json::to_vec(&Line { container, heat }) else { return true };
        if text.len() + line.len() < FILE_BYTES_MAX {
            text.extend(line);
            text.push(b'\n');
        }
        text.len() < FILE_BYTES_MAX
    });
    if let Err(error) = private_file::write(path, &text, Secrecy::Secret) {
        tracing::warn!(%error, "the heat of containers cannot be kept: maps begin anew after a restart");
    }
}

/// Writes the heat periodically, as long as the server runs.
pub async fn keep_now_and_again(account: Account, path: Option<PathBuf>) {
    let Some(path) = path else { return };
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let (account, path) = (account.clone(), path.clone());
        let _done = tokio::task::spawn_blocking(move || keep(&account, Some(&path))).await;
    }
}
