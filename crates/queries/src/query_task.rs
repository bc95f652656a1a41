//! A page of a query on one partition, with all its inputs.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{AnswerSpace, Result};
use shardlake_partition::{
    CommandContext, ContainerSchema, OwnItems, PageWork, QueryPage, QueryPageRequest, TransactionView,
};
use shardlake_sql::{AccessPlan, KeptRows, PageLimits, PreparedQuery, ResumeFilter};
use shardlake_stdx::Clock;

use crate::query_form::QueryForm;
use crate::query_functions::FunctionSource;
use crate::query_targets::Part;

/// All inputs of a page, so that it can move to another thread.
pub struct PageTask {
    pub part: Part,
    /// The query in the form in which it travels, where the partition is open on another node.
    pub travels_as: Option<Arc<QueryForm>>,
    pub own: Option<Arc<OwnItems>>,
    pub within: Option<TransactionView>,
    pub shape: Arc<ContainerSchema>,
    pub command: CommandContext,
    pub prepared: PreparedQuery,
    pub access: Arc<AccessPlan>,
    pub functions: FunctionSource,
    pub clock: Clock,
    pub resume: Option<Vec<u8>>,
    pub resume_filter: Option<Arc<ResumeFilter>>,
    pub kept: Option<KeptRows>,
    pub limits: PageLimits,
    pub collects: Option<usize>,
    pub page_end: Duration,
    pub deadline: Duration,
    pub work: Arc<PageWork>,
    pub answer_space: Option<Arc<dyn AnswerSpace>>,
    pub is_timed: bool,
}

impl PageTask {
    /// A page whose rows stay in the execution, to be merged with others; see [`QueryPageRequest::collects`].
    pub fn collecting(self, rows: usize) -> PageTask {
        PageTask { collects: Some(rows), ..self }
    }

    /// Runs the page on the open partition.
    pub async fn run(self) -> Result<QueryPage> {
        let is_page_time_spent = || self.clock.elapsed() > self.page_end;
        let is_interrupted = || self.work.is_stopped() || self.clock.elapsed() > self.deadline;
        let functions = || Ok(self.functions.open());
        let request = QueryPageRequest {
            functions: Some(&functions),
            query: &self.prepared,
            access: &self.access,
            filter: &self.part.filter,
            own: self.own.as_deref(),
            within: self.within.as_ref(),
            resume: self.resume.as_deref(),
            resume_filter: self.resume_filter.as_ref(),
            limits: self.limits,
            collects: self.collects,
            kept: self.kept.as_ref(),
            is_page_time_spent: &is_page_time_spent,
            is_interrupted: &is_interrupted,
            work: &self.work,
            clock: self.is_timed.then_some(&self.clock),
        };
        let started = self.is_timed.then(|| self.clock.elapsed());
        let mut page =
            self.part.partition.hosted().partition().query_page(&self.shape, &self.command, request).await?;
        if let Some(started) = started {
            page.elapsed = self.clock.elapsed().saturating_sub(started);
        }
        Ok(page)
    }
}
