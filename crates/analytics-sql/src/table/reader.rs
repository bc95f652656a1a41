//! Data files, read by position. The query engine has no file system of its own: it can ask for the files of a version, and for no others.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

/// Bytes of footers that a worker keeps.
const FOOTER_BYTES_MAX: usize = 64 << 20;

/// Bytes read from data files.
#[derive(Debug, Clone, Default)]
pub struct ReadCounter(Arc<AtomicU64>);

impl ReadCounter {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Footers with their page indexes, by path. Data files never change, and no path is used twice.
#[derive(Debug, Clone, Default)]
pub struct Footers(Arc<Mutex<KeptFooters>>);

#[derive(Debug, Default)]
struct KeptFooters {
    by_path: HashMap<PathBuf, Arc<ParquetMetaData>>,
    bytes: usize,
}

impl Footers {
    fn get(&self, path: &Path) -> Option<Arc<ParquetMetaData>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_path.get(path).cloned()
    }

    fn keep(&self, path: PathBuf, footer: &Arc<ParquetMetaData>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = footer.memory_size();
        if kept.bytes + bytes > FOOTER_BYTES_MAX {
            *kept = KeptFooters::default();
        }
        if kept.by_path.insert(path, footer.clone()).is_none() {
            kept.bytes += bytes;
        }
    }
}

/// Path and size of a data file, with the planned file.
#[derive(Debug, Clone)]
pub(super) struct StoredFile {
    pub path: PathBuf,
    pub size: u64,
}

/// Opens the files of one version.
#[derive(Debug)]
pub(super) struct LocalFiles {
    pub footers: Footers,
    pub counter: ReadCounter,
}

impl ParquetFileReaderFactory for LocalFiles {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _hint: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let stored = file.extension::<StoredFile>().cloned();
        let stored = stored
            .ok_or_else(|| DataFusionError::Internal(format!("{} is no file of the version", file.path())))?;
        let (footers, counter) = (self.footers.clone(), self.counter.clone());
        Ok(Box::new(LocalFile { stored, file: None, footers, counter }))
    }
}

struct LocalFile {
    stored: StoredFile,
    file: Option<File>,
    footers: Footers,
    counter: ReadCounter,
}

impl LocalFile {
    fn file(&mut self) -> Result<&File, ParquetError> {
        if self.file.is_none() {
            let file = File::open(&self.stored.path).map_err(|error| self.damaged(&error.to_string()))?;
            let size = file.metadata().map_err(|error| self.damaged(&error.to_string()))?.len();
            if size != self.stored.size {
                return Err(self.damaged(&format!("it has {size} bytes instead of {}", self.stored.size)));
            }
            self.file = Some(file);
        }
        Ok(self.file.as_ref().expect("just opened"))
    }

    fn damaged(&self, reason: &str) -> ParquetError {
        let name = self.stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ParquetError::General(format!("damaged {name}: {reason}"))
    }

    fn read(&mut self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        if range.end > self.stored.size || range.start > range.end {
            return Err(self.damaged("it is shorter than its footer claims"));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = self.file()?.read_exact_at(&mut bytes, range.start);
        read.map_err(|error| self.damaged(&error.to_string()))?;
        self.counter.add(bytes.len() as u64);
        Ok(bytes.into())
    }

    fn footer(&mut self) -> Result<Arc<ParquetMetaData>, ParquetError> {
        if let Some(footer) = self.footers.get(&self.stored.path) {
            // A file that was damaged since is noticed by its size.
            self.file()?;
            return Ok(footer);
        }
        let file = self.file()?.try_clone().map_err(|error| self.damaged(&error.to_string()))?;
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        let footer = Arc::new(reader.parse_and_finish(&file)?);
        self.footers.keep(self.stored.path.clone(), &footer);
        Ok(footer)
    }
}

/// Reads are answered at once: the files are local, and a worker runs one query.
impl AsyncFileReader for LocalFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let read = self.read(range);
        async { read }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let footer = self.footer();
        async { footer }.boxed()
    }
}
