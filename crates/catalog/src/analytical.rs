//! Records of analytical stores: the settings of each container's table, and orders about it.
//!
//! How far a table has come is not here: its own log has that, in the commit that holds the rows.

use serde::{Deserialize, Serialize};
use shardlake_model::{Error, Result};

use crate::folder_of;

/// Tables of one account, closed ones included.
pub const ANALYTICAL_TABLES_MAX: usize = 200;
/// Tables of one account that follow their containers.
pub const ANALYTICAL_TABLES_OPEN_MAX: usize = 100;
const CLUSTER_PATHS_MAX: usize = 4;
const EXCLUDED_PATHS_MAX: usize = 100;
const LAG_SECONDS: std::ops::RangeInclusive<u32> = 1..=3600;

/// How documents become columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AnalyticalSchema {
    /// A column has the type of the first value at its path.
    #[default]
    WellDefined,
    /// A value has a member for each type met at its path.
    FullFidelity,
}

/// Settings of a table, which the container's definition has no members for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnalyticalSettings {
    #[serde(default)]
    pub schema: AnalyticalSchema,
    /// Paths by which compaction sorts; none: the partition key's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_by: Vec<String>,
    /// Seconds between two rounds; `None`: as the place of the tables suggests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<u32>,
    /// Paths that are never copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl AnalyticalSettings {
    /// Checks everything but the paths against the partition key of the container, which are `key_paths`.
    pub fn validate(&self, key_paths: &[String]) -> Result<()> {
        let invalid = |member: &str, text: String| {
            Err(Error::bad_request(format!("{member} of the analytical store: {text}")))
        };
        if self.cluster_by.len() > CLUSTER_PATHS_MAX {
            return invalid("clusterBy", format!("at most {CLUSTER_PATHS_MAX} paths"));
        }
        if self.exclude.len() > EXCLUDED_PATHS_MAX {
            return invalid("exclude", format!("at most {EXCLUDED_PATHS_MAX} paths"));
        }
        let is_no_path = |path: &&String| path.len() < 2 || !path.starts_with('/') || path.ends_with('/');
        if let Some(path) = self.cluster_by.iter().find(is_no_path) {
            return invalid("clusterBy", format!("'{path}' is no path such as /a/b"));
        }
        if let Some(path) = self.exclude.iter().find(is_no_path) {
            return invalid("exclude", format!("'{path}' is no path such as /a/b"));
        }
        // A row could not be found again without them.
        let covers = |path: &&String| {
            let is_above = |key: &String| key == *path || key.starts_with(&format!("{path}/"));
            *path == "/id" || key_paths.iter().any(is_above)
        };
        if let Some(path) = self.exclude.iter().find(covers) {
            return invalid(
                "exclude",
                format!("'{path}' is the id or holds the partition key, which every row has"),
            );
        }
        match self.lag_seconds {
            Some(seconds) if !LAG_SECONDS.contains(&seconds) => invalid(
                "lagSeconds",
                format!("{seconds} is not from {} to {}", LAG_SECONDS.start(), LAG_SECONDS.end()),
            ),
            _ => Ok(()),
        }
    }
}

/// The analytical store of a container. It exists from the first policy on, and ends with the container, or some days after
/// the policy was set to 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalyticalRecord {
    /// Names the table's local files.
    pub table: String,
    /// Key of the hashes by which rows are found: 32 bytes in hexadecimal.
    pub secret: String,
    /// Folder of the table below the root, where it is not that of the container's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Another one, once the account was restored from a backup: its changes are others than those that the table has.
    pub history: String,
    pub settings: AnalyticalSettings,
    #[serde(default)]
    pub is_paused: bool,
    /// Seconds since the Unix epoch, when the policy was set to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<u64>,
    /// Generation of the table that was asked for: 1, and one more for each rebuild.
    pub generation: u32,
}

impl AnalyticalRecord {
    /// Folder of the table below the root.
    pub fn folder(&self, database: &str, container: &str) -> String {
        self.folder.clone().unwrap_or_else(|| folder_of(database, container))
    }
}

/// Whether containers may have analytical stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnalyticalMode {
    /// This build has none.
    #[default]
    Absent,
    /// Switched off by the operator.
    Off,
    On {
        /// Schema of a table whose settings name none.
        schema: AnalyticalSchema,
    },
}

impl AnalyticalMode {
    /// Refuses a new store by name where nothing would follow the container.
    pub fn check(self) -> Result<AnalyticalSchema> {
        let refused = |reason: &str| {
            Err(Error::unsupported(format!(
                "analyticalStorageTtl: {reason}; leave it out, or use 0; nothing was done"
            )))
        };
        match self {
            AnalyticalMode::On { schema } => Ok(schema),
            AnalyticalMode::Off => {
                refused("the analytical store is switched off on this server (--analytics off)")
            }
            AnalyticalMode::Absent => {
                refused("the analytical store is not in this build (feature 'analytics'); use the full build")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edit = fn(&mut AnalyticalSettings);

    fn settings(edit: impl FnOnce(&mut AnalyticalSettings)) -> Result<()> {
        let mut settings = AnalyticalSettings::default();
        edit(&mut settings);
        settings.validate(&["/tenant/id".to_owned()])
    }

    #[test]
    fn settings_have_bounds() {
        assert!(settings(|_| {}).is_ok());
        assert!(settings(|settings| settings.cluster_by = vec!["/a".into(), "/b/c".into()]).is_ok());
        assert!(settings(|settings| settings.lag_seconds = Some(3600)).is_ok());
        let refused: [(&str, Edit); 6] = [
            ("clusterBy", |settings| settings.cluster_by = vec!["/a".into(); 5]),
            ("clusterBy", |settings| settings.cluster_by = vec!["a".into()]),
            ("exclude", |settings| settings.exclude = vec!["/".into()]),
            ("exclude", |settings| settings.exclude = vec!["/a".into(); 101]),
            ("lagSeconds", |settings| settings.lag_seconds = Some(0)),
            ("lagSeconds", |settings| settings.lag_seconds = Some(3601)),
        ];
        for (member, edit) in refused {
            let error = settings(edit).expect_err(member);
            assert!(error.message().contains(member), "{error}");
        }
    }

    #[test]
    fn rows_keep_their_id_and_key() {
        for path in ["/id", "/tenant", "/tenant/id"] {
            assert!(settings(|settings| settings.exclude = vec![path.into()]).is_err(), "{path}");
        }
        for path in ["/tenants", "/tenant/id/x", "/ids", "/tenant/name"] {
            assert!(settings(|settings| settings.exclude = vec![path.into()]).is_ok(), "{path}");
        }
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let text = r#"{"schema":"fullFidelity","clusterBy":["/a"],"lagSeconds":5,"exclude":["/b"]}"#;
        let read: AnalyticalSettings = serde_json::from_str(text).expect("valid");
        assert_eq!(serde_json::to_string(&read).expect("plain data"), text);
        assert!(serde_json::from_str::<AnalyticalSettings>(r#"{"schemas":"fullFidelity"}"#).is_err());
    }

    #[test]
    fn a_new_store_needs_a_server_that_follows() {
        assert!(AnalyticalMode::Absent.check().is_err());
        assert!(AnalyticalMode::Off.check().is_err());
        let schema = AnalyticalSchema::FullFidelity;
        assert_eq!(AnalyticalMode::On { schema }.check().expect("on"), schema);
    }
}
