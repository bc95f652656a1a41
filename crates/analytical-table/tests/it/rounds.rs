//! A table without files: rounds of documents are learned and shredded as a table does it, and all laws that hold
//! for every document are checked.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use shardlake_analytical_table::rows::{
    Documents, Overflow, Row, normal_form, normal_form_of, shred, with_doubles,
};
use shardlake_analytical_table::schema::{ColumnPath, EXACT_MAX, SchemaLimits, SchemaMode, TableSchema};
use shardlake_document::{Body, ParseLimits, RawDocument, Value};

pub struct Rounds {
    pub schema: TableSchema,
    exclude: Vec<String>,
    pub batches: Vec<RecordBatch>,
    documents: Vec<Vec<Body>>,
    pub overflow: Overflow,
    /// Columns that stay `long` for good.
    pub refused: Vec<ColumnPath>,
}

impl Rounds {
    pub fn new(mode: SchemaMode, limits: SchemaLimits, exclude: &[String]) -> Rounds {
        Rounds {
            schema: TableSchema::new(mode, limits, exclude),
            exclude: exclude.to_vec(),
            batches: Vec::new(),
            documents: Vec::new(),
            overflow: Overflow::default(),
            refused: Vec::new(),
        }
    }

    /// One round: inference, widenings as far as the values allow, shredding.
    pub fn round(&mut self, documents: Vec<Body>) {
        let learned = self.schema.learn(documents.iter().map(Body::raw));
        for path in learned.widenings {
            if self.batches.iter().all(|batch| is_exact(batch, &path)) {
                assert!(self.schema.widen(&path), "{path} is long");
                self.batches = self.batches.iter().map(|batch| with_doubles(batch, &path)).collect();
            } else {
                self.refused.push(path);
            }
        }
        let rows: Vec<Row<'_>> =
            documents.iter().enumerate().map(|(number, body)| row(number, body.raw())).collect();
        let shredded = shred(&self.schema, &rows);
        self.overflow.merge(&shredded.overflow);
        self.batches.push(shredded.batch);
        self.documents.push(documents);
    }

    /// Checks the laws for all rounds: the schema's text, the file, the way back.
    pub fn check(&self) -> Result<(), String> {
        let text = self.schema.delta();
        let read = TableSchema::of_delta(&text, self.schema.mode(), self.schema.limits(), &self.exclude);
        if read.as_ref() != Ok(&self.schema) {
            return Err(format!("the schema's text reads as {read:?}"));
        }
        assert!(self.schema.property_count() <= self.schema.limits().properties);
        let arrow: ArrayRef = Arc::new(StructArray::new_null(self.schema.arrow().fields().clone(), 0));
        for (batch, documents) in self.batches.iter().zip(&self.documents) {
            assert_eq!(batch.num_rows(), documents.len());
            let columns: ArrayRef = Arc::new(StructArray::from(batch.clone()));
            is_part(columns.data_type(), arrow.data_type())?;
            if through_parquet(batch) != *batch {
                return Err("the file holds other columns".to_owned());
            }
            let read = Documents::new(&self.schema, batch).ok_or("a batch of another schema")?;
            for (number, body) in documents.iter().enumerate() {
                self.check_document(&read, number, body)?;
            }
        }
        columns_are_unique(&text)
    }

    fn check_document(&self, read: &Documents<'_>, number: usize, body: &Body) -> Result<(), String> {
        let mode = self.schema.mode();
        let expected = normal_form_of(&self.schema, body.raw());
        let document = read.document(number).ok_or("no document")?;
        let found = normal_form(mode, document.clone());
        if format!("{found:?}") != format!("{expected:?}") {
            return Err(format!("{body:?}\n gives\n {document:?}\n{found:?}\n not\n{expected:?}"));
        }
        let names: Vec<&str> = match &document {
            Value::Object(members) => members.iter().map(|(name, _)| &**name).collect(),
            _ => return Err("not an object".to_owned()),
        };
        let unique = names.iter().collect::<std::collections::BTreeSet<_>>().len();
        if unique == names.len() { Ok(()) } else { Err(format!("a name twice: {names:?}")) }
    }
}

/// The names of the columns differ by more than case, at each level.
fn columns_are_unique(schema: &str) -> Result<(), String> {
    fn check(json: &serde_json::Value) -> Result<(), String> {
        let mut names = Vec::new();
        for field in json["fields"].as_array().into_iter().flatten() {
            let name = field["name"].as_str().unwrap().to_owned();
            if names.iter().any(|known: &String| known.to_lowercase() == name.to_lowercase()) {
                return Err(format!("two columns {name}"));
            }
            if name.is_empty()
                || name.contains([' ', ',', ';', '{', '}', '(', ')', '=', ':', '`', '"', '\n', '\t'])
            {
                return Err(format!("a column {name:?}"));
            }
            names.push(name);
            check(&field["type"])?;
        }
        if let Some(element) = json.get("elementType") {
            check(element)?;
        }
        Ok(())
    }
    check(&serde_json::from_str(schema).unwrap())
}

pub fn row(number: usize, body: RawDocument<'_>) -> Row<'_> {
    let ordinal = number as u64;
    Row { rid: "rid", etag: "etag", timestamp_seconds: 1_700_000_000, lsn: 7 + ordinal, ordinal, body }
}

/// The value of JSON text, with numbers beyond 64 bits as doubles.
pub fn json(text: &str) -> Value {
    let limits = ParseLimits { nesting_max: 250, size_max_bytes: text.len(), ..ParseLimits::default() };
    Value::from_json(text.as_bytes(), &limits).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn body(text: &str) -> Body {
    json(text).to_body().unwrap()
}

/// A file's whole content, read back.
pub fn through_parquet(batch: &RecordBatch) -> RecordBatch {
    let file = parquet_file(batch);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(file)).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> =
        reader.with_batch_size(batch.num_rows().max(1)).build().unwrap().collect::<Result<_, _>>().unwrap();
    assert!(batches.len() <= 1, "all rows are one batch");
    let batch = batches.into_iter().next().unwrap_or_else(|| RecordBatch::new_empty(schema.clone()));
    RecordBatch::try_new(
        Arc::new(arrow_schema::Schema::new(schema.fields().clone())),
        batch.columns().to_vec(),
    )
    .unwrap()
}

pub fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let level = ZstdLevel::try_new(1).unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    // Readers take the types from the Parquet schema alone.
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// Whether statistics of a file would show that all values of a `long` column are doubles.
fn is_exact(batch: &RecordBatch, path: &ColumnPath) -> bool {
    let mut array: ArrayRef = Arc::new(StructArray::from(batch.clone()));
    for name in &path.names {
        let inner = match array.as_struct_opt() {
            Some(columns) => columns.column_by_name(name).cloned(),
            None => Some(array.as_list::<i32>().values().clone()),
        };
        let Some(inner) = inner else { return true };
        array = inner;
    }
    let longs = array.as_primitive::<Int64Type>();
    longs.iter().flatten().all(|long| long.unsigned_abs() <= EXACT_MAX.unsigned_abs())
}

/// Whether each column that a file has is one of the table's, with its exact type.
fn is_part(part: &arrow_schema::DataType, whole: &arrow_schema::DataType) -> Result<(), String> {
    use arrow_schema::DataType;
    match (part, whole) {
        (DataType::Struct(fields), DataType::Struct(all)) => {
            if fields.is_empty() {
                return Err("a struct without fields".to_owned());
            }
            let mut next = 0;
            for field in fields {
                let (at, known) = all.find(field.name()).ok_or_else(|| format!("no column {field}"))?;
                if at < next {
                    return Err(format!("{field} is not in the schema's order"));
                }
                next = at + 1;
                is_part(field.data_type(), known.data_type())?;
            }
            Ok(())
        }
        (DataType::List(element), DataType::List(known)) => is_part(element.data_type(), known.data_type()),
        (part, whole) if part == whole => Ok(()),
        (part, whole) => Err(format!("{part} instead of {whole}")),
    }
}
