//! Remedies in the statements of MongoDB's protocol, for collections that were created over it:
//! their users know neither containers nor partition keys.

use super::{Finding, FindingKind};

/// A collection that was made over MongoDB's protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionName {
    pub database: String,
    pub collection: String,
    pub is_sharded: bool,
}

/// Remedy as statements; `None` where there is nothing to state.
pub(super) fn statements_of(name: &CollectionName, finding: &Finding) -> Option<String> {
    let CollectionName { database, collection, is_sharded } = name;
    let is_of_key = finding.evidence.iter().any(|evidence| evidence.name == "key");
    match finding.kind {
        FindingKind::SingleHotKey | FindingKind::SequentialKeys => Some(sharded_anew(name)),
        FindingKind::StorageSkew if is_of_key => Some(sharded_anew(name)),
        FindingKind::Scans if *is_sharded => Some(format!(
            "In mongosh: name the shard key in the filter; db.getSiblingDB({database:?}).getCollection({collection:?}).explain() \
             says which way a filter has."
        )),
        FindingKind::Scans => Some(format!(
            "In mongosh: db.getSiblingDB({database:?}).getCollection({collection:?}).explain() says which filters have no index, \
             and createIndex() makes one."
        )),
        FindingKind::ThroughputTooLow => Some(format!(
            "In mongosh: db.getSiblingDB({database:?}).runCommand({{customAction: \"UpdateCollection\", collection: {collection:?}, \
             offerThroughput: NUMBER}}) with that number."
        )),
        FindingKind::StorageSkew | FindingKind::HotRange | FindingKind::NothingWrong => None,
    }
}

/// A collection keeps its shard key, so another collection replaces it.
fn sharded_anew(name: &CollectionName) -> String {
    let CollectionName { database, collection, is_sharded } = name;
    let (why, key) = match is_sharded {
        true => ("A collection keeps its shard key", "{FIRST: 1, SECOND: 1}"),
        false => {
            ("This collection is not sharded, so that all of it is one logical key", "{FIELD: \"hashed\"}")
        }
    };
    let (target, filled) = (format!("{database}.{collection}_sharded"), format!("{collection}_sharded"));
    format!(
        "{why}. In mongosh: sh.shardCollection({target:?}, {key}), then \
         db.getSiblingDB({database:?}).getCollection({collection:?}).aggregate([{{$merge: {filled:?}}}]), and rename it when its \
         clients pause."
    )
}
