//! One page of one partition.
//!
//! Queries that may have many rows for one item, and queries that call user-defined functions, run on a few
//! threads for blocking work, so that they do not delay the threads that answer requests. Queries that wait
//! for such a thread wait at most to their deadline. All other queries yield between chunks.

use std::sync::Arc;
use std::time::Duration;

use shardlake_model::{AnswerSpace, Error, Result};
use shardlake_partition::QueryPage;
use shardlake_sql::{PageLimits, PreparedQuery, SqlError};

use crate::Queries;
use crate::kept_rows::KeptPlace;
use crate::loopback;
use crate::query_charge::PagePermit;
use crate::query_form::QueryForm;
use crate::query_targets::Part;
use crate::query_task::PageTask;
use crate::running::Running;
use shardlake_router::{try_take_space, wait_for_space};

impl Running<'_> {
    pub async fn page(
        &self,
        part: &Part,
        resume: Option<Vec<u8>>,
        limits: PageLimits,
        permit: &mut PagePermit<'_>,
    ) -> Result<QueryPage> {
        let mut task = self.task(part, resume, limits, permit).await?;
        if self.prepared.may_stop_early(false) {
            // Rows stream, so that no page collects rows for the next.
            return self.queries.clone().run_page(task).await;
        }
        let kept_rows = &self.queries.0.kept_rows;
        let lsn = part.partition.durable_lsn();
        if let Some(resume) = &task.resume {
            task.kept = kept_rows.take(&KeptPlace::of(self, part, lsn), resume);
        }
        let mut page = self.queries.clone().run_page(task).await?;
        if let (Some(rows), Some(next)) = (page.kept.take(), &page.next)
            // No write may have become visible meanwhile.
            && part.partition.durable_lsn() == lsn
        {
            kept_rows.keep(&KeptPlace::of(self, part, lsn), next, rows);
        }
        Ok(page)
    }

    /// Waits for the page's turn, if it calls functions.
    pub async fn task(
        &self,
        part: &Part,
        resume: Option<Vec<u8>>,
        limits: PageLimits,
        permit: &mut PagePermit<'_>,
    ) -> Result<PageTask> {
        let functions = self.function_source(&part.partition).await?;
        if let Some(tab) = functions.tab() {
            permit.open_tab(tab, &part.partition)?;
        }
        Ok(PageTask {
            travels_as: self.travels_as(part),
            part: Part { filter: self.key.within(part), ..part.clone() },
            own: self.own.clone(),
            within: self.within.clone(),
            shape: self.entry.shape.clone(),
            command: self.command.clone(),
            prepared: self.prepared.clone(),
            access: self.access.clone(),
            functions,
            clock: self.queries.router().clock().clone(),
            resume,
            resume_filter: self.resume_filter.clone(),
            kept: None,
            limits,
            collects: None,
            page_end: self.page_end,
            deadline: self.ctx.deadline,
            work: permit.work(),
            answer_space: self.ctx.answer_space.clone(),
            is_timed: self.is_timed,
        })
    }
}

impl Running<'_> {
    /// The query as it travels to the owner of a part; `None` in a transaction, whose reads stay with it.
    fn travels_as(&self, part: &Part) -> Option<Arc<QueryForm>> {
        let is_in_transaction = self.own.is_some() || self.within.is_some();
        (part.partition.is_elsewhere() && !is_in_transaction)
            .then(|| Arc::new(QueryForm::of(&self.known, &self.prepared, self.key.values(self.entry))))
    }
}

impl Queries {
    pub async fn run_page(self, task: PageTask) -> Result<QueryPage> {
        if let Some(query) = task.travels_as.clone() {
            // On the heap: pages that stay here do not carry it along.
            return Box::pin(loopback::run_page(self, task, &query)).await;
        }
        if !task.prepared.is_heavy() {
            if let Some(space) = &task.answer_space {
                space.take(task.deadline.saturating_sub(self.router().clock().elapsed())).await?;
            }
            return task.run().await;
        }
        let runtime = tokio::runtime::Handle::current();
        let (prepared, space) = (task.prepared.clone(), task.answer_space.clone());
        let (deadline, page) = (task.deadline, Box::pin(task.run()));
        let work = (deadline, move || runtime.block_on(page));
        Box::pin(self.beside_requests(&prepared, space.as_ref(), work)).await
    }

    /// Runs blocking work on a thread of its own, after a permit. Queries that call functions have had their
    /// turn at the workers instead.
    pub async fn beside_requests<T: Send + 'static>(
        &self,
        prepared: &PreparedQuery,
        space: Option<&Arc<dyn AnswerSpace>>,
        (deadline, work): (Duration, impl FnOnce() -> Result<T> + Send + 'static),
    ) -> Result<T> {
        let time_left = || deadline.saturating_sub(self.router().clock().elapsed());
        let failed = |error| Error::internal(format!("a query's thread failed: {error}"));
        loop {
            wait_for_space(space, time_left()).await?;
            // Queries that call functions have had their turn.
            let turn = match prepared.user_functions().is_empty() {
                true => Some(tokio::time::timeout(time_left(), self.0.heavy_queries.permit()).await),
                false => None,
            };
            let turn = turn.transpose().map_err(|_| Error::from(SqlError::Interrupted))?.transpose()?;
            if !try_take_space(space) {
                continue;
            }
            return match turn {
                Some(turn) => turn.run(work).await.map_err(failed)?,
                None => tokio::task::spawn_blocking(work).await.map_err(failed)?,
            };
        }
    }
}
