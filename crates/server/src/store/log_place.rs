//! An account whose log lies in a separate store (`--wal-store`): how its two places find each other.
//!
//! | object | contents |
//! |---|---|
//! | `wal.json`, below the account's prefix | where its log is, and a name that the two have in common |
//! | `log-of.json`, below the log's prefix | whose log it is, and that name |
//!
//! The first exists before anything else of the account, and the place of the log never changes: commands find the log by it. The
//! second distinguishes the right log from a deleted one and from another account's. Without its log an account lacks the latest
//! acknowledged writes, so a log that is missing is never made anew.

use std::env;

use serde::{Deserialize, Serialize};
use shardlake_lease::{Location, self_test};
use shardlake_stdx::Random;

use super::{Prefix, StoreUrl, objects};
use crate::store_url;
use crate::stored_json;

const LOG_PLACE: &str = "wal.json";
const OWNER: &str = "log-of.json";
const BYTES_MAX: u64 = 16 << 10;
/// Variables of the log's store that differ from those of the account's begin so.
const OF_THE_LOG: &str = "WAL_";

impl Prefix {
    /// The prefix of an account, with the place of its log.
    pub async fn of_account(url: &StoreUrl) -> Result<Prefix, String> {
        of_command(Prefix::new(url)?).await
    }

    /// The prefix with its log, for an account that is being created here; its log lies where `log` names.
    pub async fn with_log(self, log: Option<&str>) -> Result<Prefix, String> {
        match log {
            Some(log) => {
                let log = crate::config::log_url(Some(log), &self.name())?;
                let location = of_server(self.location, log.as_deref(), |log| log).await?;
                Ok(Prefix { location })
            }
            None => of_command(self).await,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogPlace {
    url: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Owner {
    store: String,
    name: String,
}

/// For a server, which names the place of the log at each start, and makes it at the first one.
pub async fn of_server(
    location: Location,
    asked: Option<&str>,
    observed: impl Fn(Location) -> Location,
) -> Result<Location, String> {
    let prefix = Prefix { location };
    let (place, is_new) = match (known(&prefix).await?, asked) {
        (None, None) => return Ok(prefix.location),
        (Some(known), None) => {
            return Err(format!(
                "the log of the account in '{}' lies in a store of its own: start with --wal-store {}",
                prefix.name(),
                known.url
            ));
        }
        (Some(known), Some(asked)) if known.url == asked => (known, false),
        (Some(known), Some(asked)) => {
            return Err(format!(
                "the log of the account in '{}' lies in '{}', and not in '{asked}': start with --wal-store {}",
                prefix.name(),
                known.url,
                known.url
            ));
        }
        (None, Some(asked)) => (found(&prefix, asked).await?, true),
    };
    let log = Prefix { location: observed(log_location(&place.url)?) };
    self_test(&log.location, &Random::System.guid().to_string())
        .await
        .map_err(|error| format!("the store of the log: {error}"))?;
    check(&prefix, &log, &place, is_new).await?;
    Ok(prefix.location.with_log(log.location))
}

/// The prefix with its log, for a command: the account's `wal.json` names the place of the log.
pub async fn of_command(prefix: Prefix) -> Result<Prefix, String> {
    let Some(place) = known(&prefix).await? else { return Ok(prefix) };
    let log = Prefix { location: log_location(&place.url)? };
    check(&prefix, &log, &place, false).await?;
    Ok(Prefix { location: prefix.location.with_log(log.location) })
}

/// Chooses the place for an account that is to be made.
async fn found(prefix: &Prefix, asked: &str) -> Result<LogPlace, String> {
    let _valid = log_location(asked)?;
    if objects::count(&prefix.location).await? > 0 {
        return Err(format!(
            "the account in '{}' was made with its log in the same store, where it stays: leave out --wal-store",
            prefix.name()
        ));
    }
    let place = LogPlace { url: asked.to_owned(), name: Random::System.guid().to_string() };
    let text = serde_json::to_vec(&place).map_err(|error| error.to_string())?;
    match prefix.create(LOG_PLACE, text).await {
        Ok(()) => Ok(place),
        // Another server was faster.
        Err(error) => known(prefix).await?.filter(|known| known.url == asked).ok_or(error),
    }
}

async fn known(prefix: &Prefix) -> Result<Option<LogPlace>, String> {
    read(prefix, LOG_PLACE).await
}

/// Checks that the log exists and belongs to this account. For an account without shards the log may have to be made.
async fn check(prefix: &Prefix, log: &Prefix, place: &LogPlace, is_new: bool) -> Result<(), String> {
    let own = Owner { store: prefix.name(), name: place.name.clone() };
    let found: Option<Owner> = read(log, OWNER).await?;
    match found {
        Some(found) if found.name == own.name => Ok(()),
        Some(found) => Err(format!(
            "'{}' holds the log of the account in '{}', and not of that in '{}'",
            place.url, found.store, own.store
        )),
        None if is_new || objects::count(&prefix.location).await? == 0 => {
            let text = serde_json::to_vec(&own).map_err(|error| error.to_string())?;
            log.create(OWNER, text).await
        }
        None => Err(format!(
            "the log of the account in '{}' is missing in '{}', and with it what was acknowledged last: bring it back, or restore the account from a backup",
            own.store, place.url
        )),
    }
}

async fn read<T: for<'t> Deserialize<'t>>(prefix: &Prefix, name: &str) -> Result<Option<T>, String> {
    let Some(text) = prefix.get(name, BYTES_MAX).await? else { return Ok(None) };
    stored_json::read(&text, &format!("the object '{}/{name}'", prefix.name()), "").map(Some)
}

fn log_location(url: &str) -> Result<Location, String> {
    Location::parse(url, store_url::variables_of(OF_THE_LOG, env::vars().collect()))
        .map_err(|error| format!("the store of the log: {error}"))
}
