//! The command lines of the operator's commands.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde_json::Value;

use super::client::Client;
use super::color::{Color, Paint};
use crate::keys::{self, WELL_KNOWN_KEY};

/// Holds the key where neither `--key` nor `--key-file` gives it.
pub const KEY_VARIABLE: &str = "SHARDLAKE_KEY";

/// Heading of the options below.
const CONNECTION: &str = "Connection";

/// Where the server is and who asks.
#[derive(Debug, Args)]
pub struct Connection {
    /// The server's URL
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8081", help_heading = CONNECTION)]
    endpoint: String,
    /// An account key, also SHARDLAKE_KEY [default: the emulator's well-known key]
    #[arg(long, value_name = "KEY", conflicts_with = "key_file", help_heading = CONNECTION)]
    key: Option<String>,
    /// A file with the key alone, or the server's keys.json
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    key_file: Option<PathBuf>,
    /// The authority to trust with https, as PEM
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    ca_file: Option<PathBuf>,
    /// Whether tables have colours [default: auto]
    #[arg(long, value_name = "WHEN")]
    color: Option<Color>,
}

impl Connection {
    pub fn client(&self) -> Result<Client, String> {
        Client::new(&self.endpoint, self.key()?, self.ca_file.as_deref())
    }

    pub fn paint(&self) -> Paint {
        self.color.unwrap_or_default().paint()
    }

    /// Every account key that the arguments lead to.
    pub fn known_keys(&self) -> Result<Vec<String>, String> {
        let in_file = self.key_file.as_ref().and_then(|file| keys::read_named(file).ok()).unwrap_or_default();
        Ok(in_file.into_iter().map(|named| named.key).chain([self.key()?]).collect())
    }

    fn key(&self) -> Result<String, String> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        if let Some(file) = &self.key_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("the key file '{}' cannot be read: {error}", file.display()))?;
            return Ok(match serde_json::from_str::<Value>(&text) {
                Ok(Value::Object(keys)) => {
                    keys.get("primary").and_then(Value::as_str).unwrap_or_default().to_owned()
                }
                _ => text.trim().to_owned(),
            });
        }
        let variable = std::env::vars_os().find(|(name, _)| name == KEY_VARIABLE);
        Ok(variable.and_then(|(_, key)| key.into_string().ok()).unwrap_or_else(|| WELL_KNOWN_KEY.to_owned()))
    }
}

/// `database/container`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerName {
    pub database: String,
    pub container: String,
}

impl ContainerName {
    pub fn names(&self) -> (&str, &str) {
        (&self.database, &self.container)
    }
}

impl FromStr for ContainerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((database, container))
                if !database.is_empty() && !container.is_empty() && !container.contains('/') =>
            {
                Ok(ContainerName { database: database.to_owned(), container: container.to_owned() })
            }
            _ => Err("write database/container".to_owned()),
        }
    }
}

/// `3=6000`: a partition and its RU/s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub range_id: u32,
    pub ru_per_second: u64,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('=').and_then(|(id, share)| Some((id.parse().ok()?, share.parse().ok()?)));
        let (range_id, ru_per_second) = parts.ok_or("write ID=RU, such as 3=6000")?;
        Ok(Share { range_id, ru_per_second })
    }
}

#[derive(Debug, Args)]
pub struct Partitions {
    /// database/container; all containers in short without it
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: Option<ContainerName>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Print it again every two seconds
    #[arg(long)]
    pub watch: bool,
    /// How far back the load goes: 1m, 10m, 6h, 4d or 28d; with --json also its course
    #[arg(long, value_name = "TIME", requires = "container")]
    pub window: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct Split {
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: ContainerName,
    /// The partition
    #[arg(value_name = "ID")]
    pub range_id: u32,
    /// Where to cut: best, load, size, middle, or a bound in hexadecimal
    #[arg(long, value_name = "WHERE", default_value = "best")]
    pub at: String,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct Merge {
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: ContainerName,
    /// Partitions that lie side by side
    #[arg(value_name = "ID", required = true, num_args = 2..)]
    pub range_ids: Vec<u32>,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct Move {
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: ContainerName,
    /// The partition
    #[arg(value_name = "ID")]
    pub range_id: u32,
    /// The shard it is to lie on, counted from 0
    #[arg(value_name = "SHARD")]
    pub shard: u16,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct Abort {
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: ContainerName,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct Redistribute {
    #[arg(value_name = "DATABASE/CONTAINER")]
    pub container: ContainerName,
    /// A partition and its RU/s, such as 3=6000; the others keep theirs
    #[arg(value_name = "ID=RU", required_unless_present = "equal", conflicts_with = "equal")]
    pub shares: Vec<Share>,
    /// Equal shares again
    #[arg(long)]
    pub equal: bool,
    /// Let the sum of all shares become the throughput of the container
    #[arg(long, conflicts_with = "equal")]
    pub resize: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shares_are_taken_apart() {
        let name: ContainerName = "shop/orders".parse().expect("valid");
        assert_eq!(name.names(), ("shop", "orders"));
        for wrong in ["shop", "shop/", "/orders", "a/b/c"] {
            assert!(wrong.parse::<ContainerName>().is_err(), "{wrong}");
        }
        assert_eq!("3=6000".parse(), Ok(Share { range_id: 3, ru_per_second: 6000 }));
        for wrong in ["3", "3=", "=6000", "x=1", "3=-1"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
