//! Classic checkpoints: the actions of a version as rows of one Parquet file.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::actions::{Add, MetaData, Protocol, Remove, Vector};
use super::convert;
use crate::error::TableError;
use crate::log::{DataFile, Metadata, Tombstone, Version};
use crate::store::TableStore;

type Texts = BTreeMap<String, String>;

/// The file and its number of rows.
pub fn encode(version: &Version) -> Result<(Vec<u8>, usize), ParquetError> {
    let adds: Vec<Add> = version.files.values().map(|file| convert::add(file, false)).collect();
    let removes: Vec<Remove> = version.tombstones.values().map(convert::remove).collect();
    let rows = 2 + adds.len() + removes.len();
    let columns = [
        ("protocol", protocols(rows)?),
        ("metaData", meta_data(&convert::meta_data(&version.metadata), rows)?),
        ("add", add_column(&adds, rows)?),
        ("remove", remove_column(&removes, 2 + adds.len())?),
    ];
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch =
        RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, column)| column).collect())?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
    writer.write(&batch)?;
    Ok((writer.into_inner()?, rows))
}

/// Values of one field of an action, padded with nulls to the rows of the checkpoint.
struct Padded<'a, T> {
    actions: &'a [T],
    first: usize,
    rows: usize,
}

impl<T> Clone for Padded<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Padded<'_, T> {}

impl<'a, T> Padded<'a, T> {
    fn values<V>(self, of: impl Fn(&'a T) -> Option<V>) -> impl Iterator<Item = Option<V>> {
        (0..self.rows).map(move |row| {
            let action = row.checked_sub(self.first).and_then(|at| self.actions.get(at))?;
            of(action)
        })
    }

    fn texts(self, of: impl Fn(&'a T) -> Option<&'a str>) -> ArrayRef {
        Arc::new(StringArray::from_iter(self.values(of)))
    }

    fn longs(self, of: impl Fn(&'a T) -> Option<i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter(self.values(of)))
    }

    fn flags(self, of: impl Fn(&'a T) -> bool) -> ArrayRef {
        Arc::new(BooleanArray::from_iter(self.values(|action| Some(of(action)))))
    }

    fn maps(self, of: impl Fn(&'a T) -> Option<&'a Texts>) -> Result<ArrayRef, ArrowError> {
        let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
        let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        for texts in self.values(of) {
            for (name, value) in texts.into_iter().flatten() {
                maps.keys().append_value(name);
                maps.values().append_value(value);
            }
            maps.append(texts.is_some())?;
        }
        Ok(Arc::new(maps.finish()))
    }

    fn lists(self, of: impl Fn(&'a T) -> Option<&'a [String]>) -> ArrayRef {
        let mut lists = ListBuilder::new(StringBuilder::new())
            .with_field(Field::new_list_field(arrow_schema::DataType::Utf8, true));
        for texts in self.values(of) {
            texts.into_iter().flatten().for_each(|text| lists.values().append_value(text));
            lists.append(texts.is_some());
        }
        Arc::new(lists.finish())
    }

    fn vectors(self, of: impl Fn(&'a T) -> Option<&'a Vector> + Copy) -> Result<ArrayRef, ArrowError> {
        let int = |get: fn(&Vector) -> Option<i32>| -> ArrayRef {
            Arc::new(Int32Array::from_iter(self.values(|action| of(action).and_then(get))))
        };
        let fields = vec![
            ("storageType", self.texts(|action| of(action).map(|vector| vector.storage_type.as_str()))),
            (
                "pathOrInlineDv",
                self.texts(|action| of(action).map(|vector| vector.path_or_inline_dv.as_str())),
            ),
            ("offset", int(|vector| vector.offset)),
            ("sizeInBytes", int(|vector| Some(vector.size_in_bytes))),
            ("cardinality", self.longs(|action| of(action).map(|vector| vector.cardinality))),
        ];
        structure(fields, self.values(of).map(|vector| vector.is_some()).collect())
    }

    fn structure(self, fields: Vec<(&str, ArrayRef)>) -> Result<ArrayRef, ArrowError> {
        structure(fields, self.values(Some).map(|action| action.is_some()).collect())
    }
}

fn structure(fields: Vec<(&str, ArrayRef)>, present: Vec<bool>) -> Result<ArrayRef, ArrowError> {
    let described = fields.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let described: Fields = described.collect();
    let arrays = fields.into_iter().map(|(_, array)| array).collect();
    Ok(Arc::new(StructArray::try_new(described, arrays, Some(NullBuffer::from(present)))?))
}

fn protocols(rows: usize) -> Result<ArrayRef, ArrowError> {
    let ours = [Protocol::ours()];
    let column = Padded { actions: &ours, first: 0, rows };
    let int = |of: fn(&Protocol) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter(column.values(|protocol| Some(of(protocol)))))
    };
    column.structure(vec![
        ("minReaderVersion", int(|protocol| protocol.min_reader_version)),
        ("minWriterVersion", int(|protocol| protocol.min_writer_version)),
        ("readerFeatures", column.lists(|protocol| Some(&protocol.reader_features))),
        ("writerFeatures", column.lists(|protocol| Some(&protocol.writer_features))),
    ])
}

fn meta_data(meta_data: &MetaData, rows: usize) -> Result<ArrayRef, ArrowError> {
    let column = Padded { actions: std::slice::from_ref(meta_data), first: 1, rows };
    let format = vec![
        ("provider", column.texts(|meta_data| Some(&meta_data.format.provider))),
        ("options", column.maps(|meta_data| Some(&meta_data.format.options))?),
    ];
    column.structure(vec![
        ("id", column.texts(|meta_data| Some(&meta_data.id))),
        ("name", column.texts(|_| None)),
        ("description", column.texts(|_| None)),
        ("format", column.structure(format)?),
        ("schemaString", column.texts(|meta_data| Some(&meta_data.schema_string))),
        ("partitionColumns", column.lists(|meta_data| Some(&meta_data.partition_columns))),
        ("configuration", column.maps(|meta_data| Some(&meta_data.configuration))?),
        ("createdTime", column.longs(|meta_data| Some(meta_data.created_time))),
    ])
}

fn add_column(adds: &[Add], rows: usize) -> Result<ArrayRef, ArrowError> {
    let none = Texts::new();
    let column = Padded { actions: adds, first: 2, rows };
    column.structure(vec![
        ("path", column.texts(|add| Some(&add.path))),
        ("partitionValues", column.maps(|_| Some(&none))?),
        ("size", column.longs(|add| Some(add.size))),
        ("modificationTime", column.longs(|add| Some(add.modification_time))),
        ("dataChange", column.flags(|add| add.data_change)),
        ("tags", column.maps(|add| add.tags.as_ref())?),
        ("deletionVector", column.vectors(|add| add.deletion_vector.as_ref())?),
        ("stats", column.texts(|add| add.stats.as_deref())),
    ])
}

fn remove_column(removes: &[Remove], first: usize) -> Result<ArrayRef, ArrowError> {
    let none = Texts::new();
    let column = Padded { actions: removes, first, rows: first + removes.len() };
    column.structure(vec![
        ("path", column.texts(|remove| Some(&remove.path))),
        ("deletionTimestamp", column.longs(|remove| remove.deletion_timestamp)),
        ("dataChange", column.flags(|remove| remove.data_change)),
        ("extendedFileMetadata", column.flags(|remove| remove.extended_file_metadata)),
        ("partitionValues", column.maps(|_| Some(&none))?),
        ("size", column.longs(|remove| remove.size)),
        ("deletionVector", column.vectors(|remove| remove.deletion_vector.as_ref())?),
    ])
}

type Contents = (Metadata, Vec<DataFile>, Vec<Tombstone>);

pub fn read(store: &dyn TableStore, path: &str) -> Result<Contents, TableError> {
    let damaged = |reason: String| TableError::damaged(path, reason);
    let bytes = store.read(path).map_err(|error| match error.is_missing() {
        true => damaged(error.reason),
        false => error.into(),
    })?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|builder| builder.build());
    let (mut metadata, mut files, mut tombstones) = (None, Vec::new(), Vec::new());
    for batch in reader.map_err(|error| damaged(error.to_string()))? {
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        let column = |name| Action::of(&batch, name).ok_or_else(|| damaged(format!("no column {name}")));
        let (meta_data, add, remove) = (column("metaData")?, column("add")?, column("remove")?);
        for row in 0..batch.num_rows() {
            if meta_data.is_at(row) {
                metadata = meta_data.meta_data(row).and_then(|found| convert::metadata_of(&found));
            }
            if add.is_at(row) {
                let found = add.add(row).ok_or_else(|| damaged("an incomplete file".to_owned()))?;
                files.push(convert::file_of(&found).map_err(damaged)?);
            }
            if remove.is_at(row) {
                let found = remove.remove(row).ok_or_else(|| damaged("an incomplete removal".to_owned()))?;
                tombstones.push(convert::tombstone_of(&found).map_err(damaged)?);
            }
        }
    }
    Ok((metadata.ok_or_else(|| damaged("no columns of the table".to_owned()))?, files, tombstones))
}

/// Column of one kind of action.
struct Action<'a>(&'a StructArray);

impl<'a> Action<'a> {
    fn of(batch: &'a RecordBatch, name: &str) -> Option<Action<'a>> {
        Some(Action(batch.column_by_name(name)?.as_struct_opt()?))
    }

    fn is_at(&self, row: usize) -> bool {
        self.0.is_valid(row)
    }

    fn field(&self, name: &str, row: usize) -> Option<&'a ArrayRef> {
        self.0.column_by_name(name).filter(|column| column.is_valid(row))
    }

    fn text(&self, name: &str, row: usize) -> Option<String> {
        Some(self.field(name, row)?.as_string_opt::<i32>()?.value(row).to_owned())
    }

    fn long(&self, name: &str, row: usize) -> Option<i64> {
        Some(self.field(name, row)?.as_primitive_opt::<Int64Type>()?.value(row))
    }

    fn int(&self, name: &str, row: usize) -> Option<i32> {
        Some(self.field(name, row)?.as_primitive_opt::<Int32Type>()?.value(row))
    }

    fn flag(&self, name: &str, row: usize) -> Option<bool> {
        Some(self.field(name, row)?.as_boolean_opt()?.value(row))
    }

    fn map(&self, name: &str, row: usize) -> Option<Texts> {
        let entries = self.field(name, row)?.as_map_opt()?.value(row);
        let keys = entries.column(0).as_string_opt::<i32>()?;
        let values = entries.column(1).as_string_opt::<i32>()?;
        let pairs = keys.iter().zip(values.iter());
        Some(pairs.filter_map(|(key, value)| Some((key?.to_owned(), value?.to_owned()))).collect())
    }

    fn vector(&self, row: usize) -> Option<Vector> {
        let vector = Action(self.field("deletionVector", row)?.as_struct_opt()?);
        Some(Vector {
            storage_type: vector.text("storageType", row)?,
            path_or_inline_dv: vector.text("pathOrInlineDv", row)?,
            offset: vector.int("offset", row),
            size_in_bytes: vector.int("sizeInBytes", row)?,
            cardinality: vector.long("cardinality", row)?,
        })
    }

    fn add(&self, row: usize) -> Option<Add> {
        Some(Add {
            path: self.text("path", row)?,
            partition_values: BTreeMap::new(),
            size: self.long("size", row)?,
            modification_time: self.long("modificationTime", row)?,
            data_change: self.flag("dataChange", row)?,
            stats: self.text("stats", row),
            tags: self.map("tags", row),
            deletion_vector: self.vector(row),
        })
    }

    fn remove(&self, row: usize) -> Option<Remove> {
        Some(Remove {
            path: self.text("path", row)?,
            deletion_timestamp: self.long("deletionTimestamp", row),
            data_change: self.flag("dataChange", row)?,
            extended_file_metadata: true,
            partition_values: BTreeMap::new(),
            size: self.long("size", row),
            deletion_vector: self.vector(row),
        })
    }

    fn meta_data(&self, row: usize) -> Option<MetaData> {
        Some(MetaData {
            id: self.text("id", row)?,
            format: super::actions::Format { provider: "parquet".to_owned(), options: Texts::new() },
            schema_string: self.text("schemaString", row)?,
            partition_columns: Vec::new(),
            configuration: self.map("configuration", row)?,
            created_time: self.long("createdTime", row)?,
        })
    }
}
