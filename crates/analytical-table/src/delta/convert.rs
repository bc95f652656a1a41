//! Between files and commits of the table's log and the actions of Delta.

use std::collections::BTreeMap;

use shardlake_stdx::Guid;

use super::actions::{Add, Format, Info, Line, MetaData, Protocol, Remove, Vector};
use super::base85;
use crate::log::{Change, DataFile, FileStats, LsnRange, Metadata, Reason, Span, Tombstone, VectorRef};
use crate::schema::SchemaMode;
use crate::vectors;

const SPAN: &str = "shardlake.span";
const LSN: &str = "shardlake.lsn";
const MODE: &str = "shardlake.schema";
const MEMORY: &str = "shardlake.memory";
const CHECKSUM: &str = "shardlake.crc32";
const FILE_RETENTION: &str = "delta.deletedFileRetentionDuration";
const LOG_RETENTION: &str = "delta.logRetentionDuration";

/// The lines of a commit, in order.
pub fn lines(change: &Change) -> Vec<Line> {
    let info = Info {
        timestamp: change.time,
        operation: if change.info.reason == Reason::Compaction { "OPTIMIZE" } else { "WRITE" }.to_owned(),
        engine_info: "shardlake".to_owned(),
        shardlake: Some(change.info.clone()),
    };
    let mut lines = vec![Line { commit_info: Some(info), ..Line::default() }];
    if let Some(metadata) = &change.metadata {
        lines.push(Line { protocol: Some(Protocol::ours()), ..Line::default() });
        lines.push(Line { meta_data: Some(meta_data(metadata)), ..Line::default() });
    }
    for tombstone in &change.removed {
        lines.push(Line { remove: Some(remove(tombstone)), ..Line::default() });
    }
    for file in &change.added {
        lines.push(Line { add: Some(add(file, change.changes_rows)), ..Line::default() });
    }
    lines
}

pub fn meta_data(metadata: &Metadata) -> MetaData {
    let retention = format!("interval {} hours", metadata.retention_hours);
    let configuration = [
        ("delta.enableDeletionVectors", "true"),
        (FILE_RETENTION, retention.as_str()),
        (LOG_RETENTION, retention.as_str()),
        (MODE, mode_text(metadata.mode)),
    ];
    MetaData {
        id: metadata.id.clone(),
        format: Format { provider: "parquet".to_owned(), options: BTreeMap::new() },
        schema_string: metadata.schema.clone(),
        partition_columns: Vec::new(),
        configuration: configuration.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        created_time: metadata.created,
    }
}

pub fn metadata_of(meta_data: &MetaData) -> Option<Metadata> {
    let retention = meta_data.configuration.get(FILE_RETENTION)?;
    let hours = retention.strip_prefix("interval ")?.strip_suffix(" hours")?;
    Some(Metadata {
        id: meta_data.id.clone(),
        schema: meta_data.schema_string.clone(),
        mode: mode_of(meta_data.configuration.get(MODE)?)?,
        created: meta_data.created_time,
        retention_hours: hours.parse().ok()?,
    })
}

fn mode_text(mode: SchemaMode) -> &'static str {
    match mode {
        SchemaMode::WellDefined => "wellDefined",
        SchemaMode::FullFidelity { is_mongo: false } => "fullFidelity",
        SchemaMode::FullFidelity { is_mongo: true } => "fullFidelityMongo",
    }
}

fn mode_of(text: &str) -> Option<SchemaMode> {
    let full = |is_mongo| SchemaMode::FullFidelity { is_mongo };
    let modes = [SchemaMode::WellDefined, full(false), full(true)];
    modes.into_iter().find(|mode| mode_text(*mode) == text)
}

pub fn add(file: &DataFile, data_change: bool) -> Add {
    let mut tags = BTreeMap::from([
        (SPAN.to_owned(), file.span.to_string()),
        (LSN.to_owned(), file.lsn.to_string()),
        (MEMORY.to_owned(), file.memory.to_string()),
    ]);
    if let Some(checksum) = file.checksum {
        tags.insert(CHECKSUM.to_owned(), format!("{checksum:08x}"));
    }
    Add {
        path: file.path.clone(),
        partition_values: BTreeMap::new(),
        size: file.size as i64,
        modification_time: file.modified,
        data_change,
        stats: Some(stats_text(file)),
        tags: Some(tags),
        deletion_vector: file.vector.as_ref().map(vector),
    }
}

fn stats_text(file: &DataFile) -> String {
    let stats = FileStats { tight_bounds: file.vector.is_none(), ..file.stats.clone() };
    serde_json::to_string(&stats).expect("statistics are JSON")
}

pub fn file_of(add: &Add) -> Result<DataFile, String> {
    let tags = add.tags.as_ref().ok_or("a file without tags")?;
    let tag = |name: &str| tags.get(name).map(String::as_str);
    let stats = add.stats.as_deref().ok_or("a file without statistics")?;
    let stats: FileStats = serde_json::from_str(stats).map_err(|error| error.to_string())?;
    // The bounds of the whole file are tight; the vector loosens them where they are written.
    let stats = FileStats { tight_bounds: true, ..stats };
    Ok(DataFile {
        path: add.path.clone(),
        size: u64::try_from(add.size).map_err(|_| "a negative size")?,
        modified: add.modification_time,
        stats,
        span: tag(SPAN).and_then(Span::parse).ok_or("a file without its span")?,
        lsn: tag(LSN).and_then(LsnRange::parse).ok_or("a file without its range of LSNs")?,
        checksum: tag(CHECKSUM).and_then(|text| u32::from_str_radix(text, 16).ok()),
        memory: tag(MEMORY).and_then(|text| text.parse().ok()).unwrap_or(0),
        vector: add.deletion_vector.as_ref().map(vector_of).transpose()?,
    })
}

pub fn remove(tombstone: &Tombstone) -> Remove {
    Remove {
        path: tombstone.path.clone(),
        deletion_timestamp: Some(tombstone.deleted),
        data_change: tombstone.changes_rows,
        extended_file_metadata: true,
        partition_values: BTreeMap::new(),
        size: Some(tombstone.size as i64),
        deletion_vector: tombstone.vector.as_ref().map(vector),
    }
}

pub fn tombstone_of(remove: &Remove) -> Result<Tombstone, String> {
    Ok(Tombstone {
        path: remove.path.clone(),
        vector: remove.deletion_vector.as_ref().map(vector_of).transpose()?,
        size: remove.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        deleted: remove.deletion_timestamp.unwrap_or(0),
        changes_rows: remove.data_change,
    })
}

/// The `u` form: the folder, and the random name in base 85.
fn vector(vector: &VectorRef) -> Vector {
    let (folder, guid) = vectors::parts(&vector.path).expect("vectors lie in files of that name");
    Vector {
        storage_type: "u".to_owned(),
        path_or_inline_dv: format!("{folder}{}", base85::encode(guid.0)),
        offset: Some(vector.offset as i32),
        size_in_bytes: vector.size as i32,
        cardinality: vector.cardinality as i64,
    }
}

fn vector_of(vector: &Vector) -> Result<VectorRef, String> {
    let text = &vector.path_or_inline_dv;
    let split = text.len().checked_sub(20).filter(|at| text.is_char_boundary(*at));
    let found = split.filter(|_| vector.storage_type == "u").and_then(|at| {
        let (folder, name) = text.split_at(at);
        Some((folder, Guid(base85::decode(name)?)))
    });
    let (folder, guid) = found.ok_or("a vector in an unknown form")?;
    Ok(VectorRef {
        path: vectors::path(folder, guid),
        offset: vector.offset.and_then(|at| u32::try_from(at).ok()).ok_or("a vector without its offset")?,
        size: u32::try_from(vector.size_in_bytes).map_err(|_| "a negative size")?,
        cardinality: u64::try_from(vector.cardinality).map_err(|_| "a negative number of rows")?,
    })
}
