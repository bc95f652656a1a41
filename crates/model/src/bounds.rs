//! How much the logical partitions of a container keep: a create beyond it removes the oldest items in the same commit.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Of the items' bodies as JSON text, without the properties that the server adds.
    pub size_bytes_max: u64,
    /// `None` for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_max: Option<u64>,
}

impl Bounds {
    pub fn allow(&self, items: u64, size_bytes: u64) -> bool {
        size_bytes <= self.size_bytes_max && self.items_max.is_none_or(|max| items <= max)
    }
}
