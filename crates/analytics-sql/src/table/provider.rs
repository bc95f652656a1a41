//! A version of a table as the query engine's table.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, col, lit,
};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use shardlake_analytical_table::log::{DataFile, Version};
use shardlake_analytical_table::schema::TableSchema;
use shardlake_analytical_table::store::{LocalStore, TableStore};
use shardlake_analytical_table::vectors;

use super::bounds;
use super::reader::{Footers, LocalFiles, ReadCounter, StoredFile};
use super::selection::live_rows;
use super::types::read_schema;

/// Files of all versions, for the query engine: no object store stands behind this address.
const FILES_URL: &str = "shardlake://tables";

/// One version of one table.
#[derive(Debug, Clone)]
pub struct VersionTable {
    store: LocalStore,
    version: Arc<Version>,
    schema: SchemaRef,
    /// Rows whose item was last written before this second are not shown.
    oldest: Option<i64>,
    footers: Footers,
    counter: ReadCounter,
    /// The table without the condition on the age of rows.
    is_whole: bool,
}

impl VersionTable {
    pub fn new(
        store: LocalStore,
        version: Arc<Version>,
        schema: &TableSchema,
        oldest: Option<i64>,
        (footers, counter): (Footers, ReadCounter),
    ) -> VersionTable {
        let schema = read_schema(&schema.arrow());
        VersionTable { store, version, schema, oldest, footers, counter, is_whole: false }
    }

    pub fn columns(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Files that may have rows for which all filters hold.
    fn pruned(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<&DataFile>> {
        let files: Vec<&DataFile> = self.version.files.values().filter(|file| file.live_rows() > 0).collect();
        let Some(filter) = conjunction(filters.to_vec()) else { return Ok(files) };
        let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
        let filter = state.create_physical_expr(filter, &schema)?;
        // A filter that cannot prune leaves all files.
        let Ok(pruning) =
            PruningPredicateBuilder::new().with_file_schema(self.schema.clone()).try_build(filter)
        else {
            return Ok(files);
        };
        let Ok(kept) = pruning.prune(&bounds::prunable(&files, &self.schema)) else { return Ok(files) };
        Ok(files.into_iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|(file, _)| file).collect())
    }

    fn planned(&self, file: &DataFile, folder: &Path) -> Result<PartitionedFile> {
        let stored = StoredFile { path: folder.join(&file.path), size: file.size };
        let planned = PartitionedFile::new(file.path.clone(), file.size).with_extension(stored);
        let Some(vector) = &file.vector else { return Ok(planned) };
        let store: &dyn TableStore = &self.store;
        let deleted =
            vectors::read(store, "", vector).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(planned.with_extension(ParquetRowSelection::new(live_rows(&deleted, file.rows()))))
    }
}

#[async_trait]
impl TableProvider for VersionTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Rows that are too old are filtered like a query's own filter, so that files are skipped by their `_ts`.
    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        let oldest = self.oldest.filter(|_| !self.is_whole)?;
        let whole = Arc::new(VersionTable { is_whole: true, ..self.clone() });
        let plan = LogicalPlanBuilder::scan("rows", provider_as_source(whole), None)
            .and_then(|scan| scan.filter(col("_ts").gt_eq(lit(oldest))))
            .and_then(LogicalPlanBuilder::build);
        Some(Cow::Owned(plan.expect("every table has the column _ts")))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.pruned(state, filters)?;
        if files.is_empty() {
            // A scan without files would have no partition, and operators expect one.
            let columns = match projection {
                Some(chosen) => Arc::new(self.schema.project(chosen)?),
                None => self.schema.clone(),
            };
            return Ok(Arc::new(EmptyExec::new(columns)));
        }
        let statistics = bounds::of_plan(&files, &self.schema);
        let planned: Result<Vec<PartitionedFile>> =
            files.iter().map(|file| self.planned(file, self.store.root())).collect();
        let groups = FileGroup::new(planned?).split_files(state.config().target_partitions());
        let reader = LocalFiles { footers: self.footers.clone(), counter: self.counter.clone() };
        let mut source = ParquetSource::new(self.schema.clone())
            .with_parquet_file_reader_factory(Arc::new(reader))
            .with_enable_page_index(true);
        if let Some(filter) = conjunction(filters.to_vec()) {
            let schema = DFSchema::try_from(self.schema.as_ref().clone())?;
            source = source.with_predicate(state.create_physical_expr(filter, &schema)?);
        }
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(FILES_URL)?, Arc::new(source))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit.filter(|_| filters.is_empty()))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// The address under which an empty store is registered: the engine looks one up before it reads.
pub(super) fn files_url() -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(FILES_URL)
}
