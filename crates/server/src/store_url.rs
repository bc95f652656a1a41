//! URLs of places in object stores, where commands take a path as well.

use std::fmt;
use std::path::Path;

/// `s3://…`, `az://…`, `gs://…`, `file:///…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

/// The URL of a place; `None` for a local path.
pub fn url_of(place: &Path) -> Option<StoreUrl> {
    let text = place.to_str()?;
    text.contains("://").then(|| StoreUrl(text.trim_end_matches('/').to_owned()))
}

impl StoreUrl {
    #[cfg_attr(not(feature = "object-storage"), allow(dead_code))]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(not(feature = "object-storage"))]
    pub fn unsupported(&self) -> String {
        format!(
            "'{self}' is a place in an object store, and this build has none: cargo build --release --features object-storage"
        )
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The variables for another store than the account's: with `WAL_` for the log's, `WAL_AWS_ENDPOINT` becomes its
/// `AWS_ENDPOINT`.
#[cfg(feature = "object-storage")]
pub fn variables_of(own: &str, variables: Vec<(String, String)>) -> impl Iterator<Item = (String, String)> {
    let own: Vec<(String, String)> = variables
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(own)?.to_owned(), value.clone())))
        .collect();
    let is_own = |name: &String| own.iter().any(|(own, _)| own == name);
    let shared: Vec<_> = variables.into_iter().filter(|(name, _)| !is_own(name)).collect();
    shared.into_iter().chain(own)
}

#[cfg(all(test, feature = "object-storage"))]
mod tests {
    use super::*;

    #[test]
    fn variables_of_one_store_go_before_those_of_both() {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = vec![
            variable("AWS_ENDPOINT", "far"),
            variable("WAL_AWS_ENDPOINT", "near"),
            variable("AWS_REGION", "r"),
        ];
        let mut found: Vec<_> =
            variables_of("WAL_", variables).filter(|(name, _)| name.starts_with("AWS")).collect();
        found.sort();
        assert_eq!(found, [variable("AWS_ENDPOINT", "near"), variable("AWS_REGION", "r")]);
    }
}
