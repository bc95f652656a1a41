//! Settings of the analytical stores.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shardlake_account::{AnalyticalMode, AnalyticalSchema};
use shardlake_analytics::AnalyticsOptions;

use crate::settings::{AnalyticsSchema, AnalyticsSwitch, Settings};
use crate::time_text::time;

const PROPERTIES_MAX: u16 = 4000;
const RETENTION_HOURS: std::ops::RangeInclusive<u64> = 1..=365 * 24;

/// The settings, with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyticsConfig {
    is_on: bool,
    root: Option<PathBuf>,
    schema: AnalyticalSchema,
    retention: Duration,
    write_rate: u64,
    properties_max: u16,
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
        Ok(AnalyticsConfig {
            is_on: settings.analytics != Some(AnalyticsSwitch::Off),
            root: settings.analytics_root.clone(),
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
        let has_place = data_dir.is_some() || self.root.is_some();
        shardlake_analytics::mode(self.is_on && has_place, self.schema)
    }

    /// `None`: nothing is followed.
    pub fn options(&self, data_dir: Option<&Path>) -> Option<AnalyticsOptions> {
        let place = data_dir.or(self.root.as_deref()).filter(|_| self.is_on)?;
        let defaults = AnalyticsOptions::below(place);
        let root = self.root.clone().unwrap_or(defaults.root.clone());
        Some(AnalyticsOptions {
            // Reports name folders of tables for programs that run in other directories.
            root: std::path::absolute(&root).unwrap_or(root),
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
        assert_eq!(config.options(None), None, "a server that stores nothing has no place for tables");
        let options = config.options(Some(Path::new("/d"))).expect("followed");
        assert_eq!(options.root, Path::new("/d/analytics"));
        assert_eq!(options.retention, Duration::from_secs(86_400));
        let relative = config.options(Some(Path::new("d"))).expect("followed");
        assert!(relative.root.is_absolute() && relative.root.ends_with("d/analytics"), "{relative:?}");
    }
}
