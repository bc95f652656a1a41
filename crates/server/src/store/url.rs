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
