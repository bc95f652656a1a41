//! Lines of a Delta log file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::log::CommitInfo;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_info: Option<Info>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<Remove>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Add>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    #[serde(default)]
    pub timestamp: i64,
    #[serde(default)]
    pub operation: String,
    #[serde(default)]
    pub engine_info: String,
    /// Missing where another program wrote the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shardlake: Option<CommitInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    pub min_reader_version: i32,
    pub min_writer_version: i32,
    #[serde(default)]
    pub reader_features: Vec<String>,
    #[serde(default)]
    pub writer_features: Vec<String>,
}

impl Protocol {
    /// The feature `shardlake` is unknown to all others, which keeps them from writing.
    pub fn ours() -> Protocol {
        let vectors = "deletionVectors".to_owned();
        Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: vec![vectors.clone()],
            writer_features: vec![vectors, "shardlake".to_owned()],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    pub id: String,
    pub format: Format,
    pub schema_string: String,
    #[serde(default)]
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    #[serde(default)]
    pub created_time: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    pub provider: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: BTreeMap<String, Value>,
    pub size: i64,
    pub modification_time: i64,
    pub data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Vector>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    pub path: String,
    #[serde(default)]
    pub deletion_timestamp: Option<i64>,
    pub data_change: bool,
    #[serde(default)]
    pub extended_file_metadata: bool,
    #[serde(default)]
    pub partition_values: BTreeMap<String, Value>,
    #[serde(default)]
    pub size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<Vector>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vector {
    pub storage_type: String,
    pub path_or_inline_dv: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    pub cardinality: i64,
}
