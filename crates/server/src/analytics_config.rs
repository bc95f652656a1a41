//! Settings of the analytical stores.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shardlake_account::{AnalyticalMode, AnalyticalSchema};
use shardlake_analytics::{AnalyticsOptions, Root};

use crate::settings::{AnalyticsSchema, AnalyticsSwitch, Settings};
use crate::store_url::{StoreUrl, url_of};
use crate::time_text::time;

const PROPERTIES_MAX: u16 = 4000;
/// Between two rounds of a table in an object store, where each of them costs requests.
const LAG_IN_STORE: Duration = Duration::from_secs(60);
/// Below the account in a store, and below the data directory.
const FOLDER: &str = "analytics";
const SQL_MEMORY_MIN: u64 = 16 << 20;
const RETENTION_HOURS: std::ops::RangeInclusive<u64> = 1..=365 * 24;

/// Where tables lie.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    BelowData,
    Directory(PathBuf),
    Store(StorePlace),
}

/// A folder of an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePlace {
    pub url: StoreUrl,
    /// It lies in the store of the account, whose laws are tested when that is opened.
    pub is_of_account: bool,
}

impl Place {
    fn of(settings: &Settings) -> Result<Place, String> {
        let store = |url: StoreUrl, is_of_account: bool| Place::Store(StorePlace { url, is_of_account });
        let Some(root) = &settings.analytics_root else {
            let Some(account) = settings.store.as_ref().filter(|_| shardlake_analytics::HAS_TABLES) else {
                return Ok(Place::BelowData);
            };
            let below = format!("{}/{FOLDER}", account.trim_end_matches('/'));
            return Ok(url_of(Path::new(&below)).map_or(Place::BelowData, |url| store(url, true)));
        };
        match url_of(root) {
            None => Ok(Place::Directory(root.clone())),
            Some(url) if cfg!(feature = "object-storage") => Ok(store(url, false)),
            Some(url) => Err(format!(
                "--analytics-root '{url}' needs a build with object storage: cargo build --release --features full"
            )),
        }
    }
}

/// The settings, with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyticsConfig {
    is_on: bool,
    place: Place,
    schema: AnalyticalSchema,
    retention: Duration,
    write_rate: u64,
    properties_max: u16,
    /// Of SQL queries; `None`: by the machine.
    pub sql_memory: Option<u64>,
    pub sql_spill: u64,
    pub sql_workers: Option<u16>,
}

impl AnalyticsConfig {
    pub fn of(settings: &Settings) -> Result<AnalyticsConfig, String> {
        let retention = match settings.analytics_retention.as_deref() {
            None => Duration::from_secs(24 * 60 * 60),
            Some(text) => time("--analytics-retention", text)?,
        };
        if !RETENTION_HOURS.contains(&(retention.as_secs() / 3600)) {
            return Err("--analytics-retention is from 1h to 365d".into());
        }
        let write_rate = settings.analytics_write_rate.map_or(64 << 20, |size| size.0);
        if write_rate == 0 {
            return Err("--analytics-write-rate must be at least 1".into());
        }
        let properties_max = settings.analytics_properties.unwrap_or(1000);
        if !(1..=PROPERTIES_MAX).contains(&properties_max) {
            return Err(format!("--analytics-properties is from 1 to {PROPERTIES_MAX}"));
        }
        if settings.analytics_sql_memory.is_some_and(|size| size.0 < SQL_MEMORY_MIN) {
            return Err("--analytics-sql-memory is at least 16MiB".into());
        }
        if settings.analytics_sql_workers == Some(0) {
            return Err("--analytics-sql-workers must be at least 1".into());
        }
        Ok(AnalyticsConfig {
            sql_memory: settings.analytics_sql_memory.map(|size| size.0),
            sql_spill: settings.analytics_sql_spill.map_or(16 << 30, |size| size.0),
            sql_workers: settings.analytics_sql_workers,
            is_on: settings.analytics != Some(AnalyticsSwitch::Off),
            place: Place::of(settings)?,
            schema: match settings.analytics_schema {
                None | Some(AnalyticsSchema::WellDefined) => AnalyticalSchema::WellDefined,
                Some(AnalyticsSchema::FullFidelity) => AnalyticalSchema::FullFidelity,
            },
            retention,
            write_rate,
            properties_max,
        })
    }

    /// Stores that containers may have.
    pub fn mode(&self, data_dir: Option<&Path>) -> AnalyticalMode {
        shardlake_analytics::mode(self.is_on && self.has_place(data_dir), self.schema)
    }

    /// Key files of tables in an object store lie in the data directory.
    fn has_place(&self, data_dir: Option<&Path>) -> bool {
        data_dir.is_some() || matches!(self.place, Place::Directory(_))
    }

    /// The folder of an object store that tables lie in, if they are followed.
    pub fn store_place(&self, data_dir: Option<&Path>) -> Option<&StorePlace> {
        match &self.place {
            Place::Store(place) if self.is_on && self.has_place(data_dir) => Some(place),
            _ => None,
        }
    }

    /// Whether the place was named, so that another account may use it, too.
    pub fn may_be_shared(&self) -> bool {
        match &self.place {
            Place::BelowData => false,
            Place::Directory(_) => true,
            Place::Store(place) => !place.is_of_account,
        }
    }

    /// `None`: nothing is followed. `in_store` is the folder of [`AnalyticsConfig::store_place`].
    pub fn options(&self, data_dir: Option<&Path>, in_store: Option<Root>) -> Option<AnalyticsOptions> {
        let directory = match &self.place {
            Place::Directory(directory) => Some(directory.as_path()),
            Place::BelowData | Place::Store(_) => None,
        };
        let place = data_dir.or(directory).filter(|_| self.is_on)?;
        let defaults = AnalyticsOptions::below(place);
        let directory = directory.map_or_else(|| place.join(FOLDER), Path::to_owned);
        let lag = if in_store.is_some() { LAG_IN_STORE } else { defaults.lag };
        // Reports name folders of tables for programs that run in other directories.
        let root =
            in_store.unwrap_or_else(|| Root::Directory(std::path::absolute(&directory).unwrap_or(directory)));
        Some(AnalyticsOptions {
            root,
            lag,
            retention: self.retention,
            write_rate: self.write_rate,
            properties_max: usize::from(self.properties_max),
            ..defaults
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_bounds() {
        let refused = |settings: Settings| AnalyticsConfig::of(&settings).expect_err("refused");
        for text in ["59m", "366d", "soon"] {
            let settings = Settings { analytics_retention: Some(text.into()), ..Settings::default() };
            assert!(refused(settings).contains("--analytics-retention"), "{text}");
        }
        for number in [0, 4001] {
            let settings = Settings { analytics_properties: Some(number), ..Settings::default() };
            assert!(refused(settings).contains("--analytics-properties"), "{number}");
        }
        let config = AnalyticsConfig::of(&Settings::default()).expect("valid");
        assert_eq!(config.options(None, None), None, "a server that stores nothing has no place for tables");
        let options = config.options(Some(Path::new("/d")), None).expect("followed");
        assert_eq!(options.root, Root::Directory("/d/analytics".into()));
        assert_eq!(options.lag, Duration::from_secs(5));
        assert_eq!(options.retention, Duration::from_secs(86_400));
        let relative = config.options(Some(Path::new("d")), None).expect("followed").root;
        let relative = relative.directory().expect("a directory");
        assert!(relative.is_absolute() && relative.ends_with("d/analytics"), "{relative:?}");
    }

    #[cfg(all(feature = "analytics", feature = "object-storage"))]
    #[test]
    fn tables_of_an_account_in_a_store_lie_in_that_store() {
        let data = Some(Path::new("/d"));
        let of = |store: Option<&str>, root: Option<&str>| {
            let settings = Settings {
                store: store.map(str::to_owned),
                analytics_root: root.map(PathBuf::from),
                ..Settings::default()
            };
            AnalyticsConfig::of(&settings).expect("valid")
        };
        let place = |config: AnalyticsConfig| {
            config.store_place(data).map(|place| (place.url.to_string(), place.is_of_account))
        };
        let own = Some(("s3://b/x/analytics".to_owned(), true));
        assert_eq!(place(of(Some("s3://b/x/"), None)), own);
        let other = Some(("gs://c/tables".to_owned(), false));
        assert_eq!(place(of(Some("s3://b/x"), Some("gs://c/tables/"))), other);
        assert_eq!(place(of(None, Some("gs://c/tables"))), other);
        assert_eq!(place(of(Some("s3://b/x"), Some("/tables"))), None);
        assert_eq!(place(of(None, None)), None);
        let nowhere = of(None, Some("gs://c/tables"));
        assert_eq!(nowhere.store_place(None), None, "key files need a data directory");
        assert_eq!(nowhere.mode(None), AnalyticalMode::Off);
    }
}
