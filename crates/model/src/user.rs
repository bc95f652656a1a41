//! Users of a database and their permissions (wire.md §16).
//!
//! A permission is a grant that the account hands to the holder of a resource token. The meaning of the link
//! in it, and how tokens are made and checked, is not known here.

use serde::{Deserialize, Serialize};

use crate::{PermissionRid, UserRid};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: String,
    pub rid: UserRid,
    pub etag: [u8; 16],
    /// Unix seconds.
    pub timestamp: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PermissionMode {
    Read,
    /// Also writes, and runs stored procedures.
    All,
}

impl PermissionMode {
    /// Clients write it with and without a capital.
    pub fn parse(text: &str) -> Option<PermissionMode> {
        if text.eq_ignore_ascii_case("read") {
            return Some(PermissionMode::Read);
        }
        text.eq_ignore_ascii_case("all").then_some(PermissionMode::All)
    }
}

/// A permission as a client defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionDefinition {
    pub id: String,
    pub mode: PermissionMode,
    /// `mode` in the client's spelling, which the client compares with the returned one.
    pub mode_text: String,
    /// The link of a container or of something in it, by names or by rids, without slashes around it.
    pub resource: String,
    /// JSON array text: the logical partition, or the prefix of a hierarchical key, that the permission is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
}

impl PermissionDefinition {
    /// Compares everything but the name and the spelling of the mode.
    pub fn grants_the_same(&self, other: &PermissionDefinition) -> bool {
        (self.mode, &self.resource, &self.partition_key)
            == (other.mode, &other.resource, &other.partition_key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    pub rid: PermissionRid,
    pub etag: [u8; 16],
    /// Unix seconds.
    pub timestamp: u64,
    pub definition: PermissionDefinition,
}
