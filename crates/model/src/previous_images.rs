//! The member `previousImageRetentionPolicy` of a container: the changes that show the previous version in
//! the feed of all versions and deletes.
//!
//! Without the policy only deletions show it, as in the service. Versions are kept in any case; the policy
//! decides which ones the feed shows.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Bits of a mode.
const OF_REPLACES: u8 = 1;
const OF_DELETES: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviousImageRetentionPolicy {
    /// The place of the mode in older clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_features: Option<SupportedFeatures>,
}

/// Features of the service that the server does not have are unknown members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SupportedFeatures {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_versions_and_deletes: Option<PreviousImageFeature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviousImageFeature {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u8>,
    /// Empty means all paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included_paths: Vec<String>,
}

/// The kinds of changes that show the version before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousImages {
    pub of_replaces: bool,
    pub of_deletes: bool,
}

impl PreviousImages {
    pub const ALL: PreviousImages = PreviousImages { of_replaces: true, of_deletes: true };
    /// The default of containers without a policy.
    pub const OF_DELETES: PreviousImages = PreviousImages { of_replaces: false, of_deletes: true };
}

/// Readers inside the server see all of them.
impl Default for PreviousImages {
    fn default() -> Self {
        PreviousImages::ALL
    }
}

impl PreviousImageRetentionPolicy {
    pub(crate) fn validate(&self) -> Result<()> {
        for mode in [self.mode, self.feature().and_then(|feature| feature.mode)].into_iter().flatten() {
            if mode > OF_REPLACES | OF_DELETES {
                return Err(Error::bad_request(format!(
                    "previousImageRetentionPolicy mode {mode} is invalid: use 0 (disabled), 1 (replaces), 2 (deletes) or 3 (both)"
                )));
            }
        }
        match self.feature().is_some_and(|feature| !feature.included_paths.is_empty()) {
            true => Err(Error::unsupported(
                "previousImageRetentionPolicy includedPaths is not supported: previous versions are shown whole; leave it out; nothing was done",
            )),
            false => Ok(()),
        }
    }

    pub(crate) fn images(&self) -> PreviousImages {
        let mode = self.feature().and_then(|feature| feature.mode).or(self.mode);
        mode.map_or(PreviousImages::OF_DELETES, |mode| PreviousImages {
            of_replaces: mode & OF_REPLACES != 0,
            of_deletes: mode & OF_DELETES != 0,
        })
    }

    fn feature(&self) -> Option<&PreviousImageFeature> {
        self.supported_features.as_ref()?.all_versions_and_deletes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> PreviousImageRetentionPolicy {
        serde_json::from_str(json).expect("well-formed")
    }

    #[test]
    fn the_mode_of_the_feature_decides_before_the_older_one() {
        for (json, of_replaces, of_deletes) in [
            ("{}", false, true),
            (r#"{"supportedFeatures":{}}"#, false, true),
            (r#"{"mode":1}"#, true, false),
            (r#"{"mode":3,"supportedFeatures":{"allVersionsAndDeletes":{"mode":0}}}"#, false, false),
            (r#"{"supportedFeatures":{"allVersionsAndDeletes":{"mode":2}}}"#, false, true),
            (r#"{"supportedFeatures":{"allVersionsAndDeletes":{"mode":3}}}"#, true, true),
        ] {
            assert_eq!(policy(json).images(), PreviousImages { of_replaces, of_deletes }, "{json}");
            policy(json).validate().expect(json);
        }
    }

    #[test]
    fn modes_and_paths_that_are_not_there_are_refused() {
        for (json, words) in [
            (r#"{"mode":4}"#, "mode 4"),
            (r#"{"supportedFeatures":{"allVersionsAndDeletes":{"mode":9}}}"#, "mode 9"),
            (r#"{"supportedFeatures":{"allVersionsAndDeletes":{"includedPaths":["/a"]}}}"#, "includedPaths"),
        ] {
            assert!(policy(json).validate().expect_err(json).message().contains(words), "{json}");
        }
    }
}
