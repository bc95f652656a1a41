//! Names of backups: a time and a few random digits. They end up in paths, so names from outside are checked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use shardlake_stdx::{Random, Timestamp};

use super::utc;

const BYTES_MAX: usize = 64;

/// 1 to 64 letters, digits and `-`, of which the first is no `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BackupId(String);

impl BackupId {
    /// `20261123-081708-123-3fa9c1`: they sort by their times.
    pub fn new(time: Timestamp, random: &Random) -> BackupId {
        let mut bytes = [0; 3];
        random.fill(&mut bytes);
        let [a, b, c] = bytes;
        BackupId(format!("{}-{a:02x}{b:02x}{c:02x}", utc::compact(time)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BackupId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if text.is_empty() || text.len() > BYTES_MAX || text.starts_with('-') || !text.bytes().all(is_plain) {
            return Err("no id of a backup: `shardlake backup list` shows those there are".to_owned());
        }
        Ok(BackupId(text.to_owned()))
    }
}

impl TryFrom<String> for BackupId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_paths_are_none() {
        let random = Random::seeded(1);
        let (first, second) =
            (BackupId::new(Timestamp(1_998), &random), BackupId::new(Timestamp(1_999), &random));
        assert!(first < second, "{first} {second}");
        assert_eq!(first.as_str().parse(), Ok(first.clone()));
        let long = "a".repeat(65);
        for hostile in ["", ".", "..", "../x", "a/b", "a\\b", "/etc", "-x", "a b", "a\0", "ü", "a.b", &long]
        {
            assert!(hostile.parse::<BackupId>().is_err(), "{hostile:?}");
        }
    }
}
