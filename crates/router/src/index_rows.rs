//! Rows of a global secondary index: compiled from its record, for the commits of its source and for the
//! follower that writes them.
//!
//! Both use the same compiled form, so a commit records an ended row exactly where the follower had
//! written one: rows that no partition can take, such as those with a key that is too long, are left out
//! of both.

use std::sync::Arc;

use shardlake_catalog::{Definitions, SecondaryIndexRecord};
use shardlake_document::{ItemView, parse_partition_key, partition_key_text};
use shardlake_model::{
    ContainerRid, Error, ErrorKind, KeyComponent, KeyPath, Limits, PartitionKey, PartitionKeyDefinition,
    Result,
};
use shardlake_partition::{
    ContainerSchema, EndedRow, EndedVersion, LogicalKey, Watch, extract_partition_key, with_row_name,
};
use shardlake_sql::{Derivation, DeriveSource, DerivedRow, Dialect, derive};

use crate::keys::logical_of;

/// An index that is ready to make rows of the items of its source.
#[derive(Debug)]
pub struct IndexRows {
    pub number: u32,
    pub(crate) derivation: Derivation,
    key_definition: PartitionKeyDefinition,
    pub(crate) key_paths: Vec<KeyPath>,
    limits: Arc<Limits>,
    /// Bodies have the row's own name, too: its id may be the name of its key.
    is_unique: bool,
}

/// A row with its place in the index.
#[derive(Debug, Clone)]
pub struct KeyedRow {
    pub key: LogicalKey,
    pub row: DerivedRow,
}

/// The rows of one version of an item.
#[derive(Debug, Default)]
pub struct RowsOfItem {
    pub rows: Vec<KeyedRow>,
    /// Why some rows, or all of them, cannot be written.
    pub refused: Vec<String>,
}

/// A row that ended, as the log of the source has it.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedIndexRow {
    pub number: u16,
    pub id: String,
    pub key: PartitionKey,
}

impl IndexRows {
    /// Compiles the index that a container is, for a source under a schema.
    pub fn of_index(
        definitions: &Definitions,
        index: ContainerRid,
        record: &SecondaryIndexRecord,
        source: &ContainerSchema,
    ) -> Result<IndexRows> {
        let container = definitions.containers.get(&index).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("the index {index} has no container: run verify"))
        })?;
        let from = DeriveSource { computed: Some(&source.computed), geometry: source.geometry };
        let derivation = derive(&record.definition, &from, Dialect::Shardlake)?;
        let key_definition = container.container.definition.partition_key.clone();
        let parse =
            |path: &String| KeyPath::parse(path).map_err(|error| Error::bad_request(error.to_string()));
        let key_paths: Vec<KeyPath> = key_definition.paths.iter().map(parse).collect::<Result<_>>()?;
        assert_eq!(key_paths.len(), key_definition.paths.len(), "each component of a key has its path");
        Ok(IndexRows {
            number: record.number,
            derivation,
            key_definition,
            key_paths,
            limits: source.limits.clone(),
            is_unique: record.settings.unique,
        })
    }

    /// The rows of a version of an item of the source.
    pub fn rows_of(&self, item: &ItemView<'_>, key: &PartitionKey) -> RowsOfItem {
        let derived = match self.derivation.rows(item, key) {
            Ok(derived) => derived,
            Err(error) => return RowsOfItem { rows: Vec::new(), refused: vec![error.to_string()] },
        };
        let mut found = RowsOfItem::default();
        for mut row in derived {
            if self.is_unique {
                match with_row_name(row.body.raw(), &row.id) {
                    Ok(body) => row.body = body,
                    Err(error) => {
                        found.refused.push(error.to_string());
                        continue;
                    }
                }
            }
            let key = extract_partition_key(row.body.raw(), &self.key_paths);
            match self.check_key(&key) {
                Ok(()) => found.rows.push(KeyedRow { key: self.logical(key), row }),
                Err(reason) => found.refused.push(reason),
            }
        }
        found
    }

    /// Whether one row of each key has the key's name.
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// The logical partition of a key.
    pub fn logical(&self, partition_key: PartitionKey) -> LogicalKey {
        logical_of(&self.key_definition, partition_key)
    }

    pub(crate) fn check_key(&self, key: &PartitionKey) -> std::result::Result<(), String> {
        let max = match self.key_definition.version() {
            1 => self.limits.partition_key_bytes_max_v1,
            _ => self.limits.partition_key_bytes_max,
        };
        let length = |component: &KeyComponent| match component {
            KeyComponent::String(text) => text.len(),
            _ => 0,
        };
        match key.0.iter().map(length).sum::<usize>() > max {
            true => Err(format!("the row's partition key value is longer than {max} bytes: shorten it")),
            false => Ok(()),
        }
    }

    fn ended_rows(&self, ended: &EndedVersion<'_>) -> impl Iterator<Item = EndedRow> {
        let key = &ended.logical.partition_key;
        let new = ended.new.map(|new| self.rows_of(&new, key).rows).unwrap_or_default();
        let stays = move |old: &KeyedRow| {
            new.iter()
                .any(|new| new.row.id == old.row.id && new.key.partition_key.same(&old.key.partition_key))
        };
        let old = self.rows_of(&ended.old, key).rows.into_iter().filter(move |old| !stays(old));
        let number = self.number;
        old.map(move |old| EndedRow { copy: number, row: EndedIndexRow::of(&old).encode() })
    }
}

impl EndedIndexRow {
    fn of(row: &KeyedRow) -> EndedIndexRow {
        let number = u16::try_from(row.row.number).expect("an item has at most 100 rows");
        EndedIndexRow { number, id: row.row.id.clone(), key: row.key.partition_key.clone() }
    }

    /// `number u16 | length of the id u8 | id | text of the key`, little-endian.
    fn encode(&self) -> Vec<u8> {
        let length = u8::try_from(self.id.len()).expect("ids of rows are hashes");
        let mut bytes = self.number.to_le_bytes().to_vec();
        bytes.push(length);
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(partition_key_text(&self.key).as_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<EndedIndexRow> {
        let malformed =
            || Error::new(ErrorKind::Corrupt, "an ended row of the change log is malformed: run verify");
        let (number, rest) = bytes.split_first_chunk::<2>().ok_or_else(malformed)?;
        let (length, rest) = rest.split_first().ok_or_else(malformed)?;
        let (id, key) = rest.split_at_checked(usize::from(*length)).ok_or_else(malformed)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| malformed());
        let key = parse_partition_key(&text(key)?).map_err(|_| malformed())?;
        Ok(EndedIndexRow { number: u16::from_le_bytes(*number), id: text(id)?, key })
    }
}

/// The indexes of a source, as its commits see them.
#[derive(Debug)]
struct IndexWatch(Vec<IndexRows>);

impl Watch for IndexWatch {
    fn ended(&self, ended: &EndedVersion<'_>) -> Vec<EndedRow> {
        let of_index = |index: &IndexRows| match index.is_grouped() {
            true => index.ended_contributions(ended),
            false => index.ended_rows(ended).collect(),
        };
        self.0.iter().flat_map(of_index).collect()
    }
}

/// The watch of a container; `None` where it has no index. An index whose stored definition does not
/// compile is left out, and its follower reports that.
pub(crate) fn watch_of(
    definitions: &Definitions,
    source: ContainerRid,
    schema: &ContainerSchema,
) -> Option<Arc<dyn Watch>> {
    let mut compiled = Vec::new();
    for (index, record) in definitions.secondary_indexes_of(source) {
        match IndexRows::of_index(definitions, index, record, schema) {
            Ok(rows) => compiled.push(rows),
            Err(error) => {
                tracing::warn!(%index, %error, "the definition of an index does not compile: delete the index")
            }
        }
    }
    match compiled.is_empty() {
        true => None,
        false => Some(Arc::new(IndexWatch(compiled))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_rows_survive_and_cut_ones_are_refused() {
        for key in [
            vec![KeyComponent::String("a\"é".into())],
            vec![KeyComponent::Undefined, KeyComponent::Null, KeyComponent::Bool(true)],
            vec![KeyComponent::double(0.1).expect("finite")],
        ] {
            let row = EndedIndexRow { number: 7, id: "abc.7".into(), key: PartitionKey(key) };
            let bytes = row.encode();
            assert_eq!(EndedIndexRow::decode(&bytes).expect("its own"), row);
            for end in 0..bytes.len() {
                assert!(EndedIndexRow::decode(&bytes[..end]).is_err(), "cut at {end}");
            }
        }
    }
}
