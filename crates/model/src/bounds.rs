//! Bounds of a container's logical partitions: a create beyond them removes the oldest items in the same
//! commit.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Bytes of the items' bodies as JSON text, without the properties that the server adds.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_and_a_missing_one_allows_any_number() {
        let bytes = Bounds { size_bytes_max: 100, items_max: None };
        assert!(bytes.allow(u64::MAX, 100) && !bytes.allow(1, 101));
        let both = Bounds { items_max: Some(2), ..bytes };
        assert!(both.allow(2, 100) && !both.allow(3, 1) && !both.allow(1, 101));
        let text = serde_json::to_string(&bytes).expect("JSON");
        assert_eq!(text, r#"{"sizeBytesMax":100}"#);
        assert_eq!(serde_json::from_str::<Bounds>(&text).expect("read back"), bytes);
    }
}
