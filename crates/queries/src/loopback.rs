//! Pages of queries on partitions that are reached as if they were open on another node: the query travels as its text, its
//! parameters and its moment, and is bound and planned anew at the owner. The rows that a partition has collected travel back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shardlake_host::{ErrorForm, of_bytes, to_bytes};
use shardlake_model::Result;
use shardlake_partition::{FeedFilter, Outlook, QueryPage, QueryStatistics};
use shardlake_sql::{
    Collected, Execution, KeptRows, PageLimits, PreparedQuery, ResumeFilter, Rows, plan_access,
};

use crate::Queries;
use crate::query_form::QueryForm;
use crate::query_task::PageTask;

#[derive(Debug, Serialize, Deserialize)]
struct TaskForm {
    query: QueryForm,
    filter: FeedFilter,
    resume: Option<Vec<u8>>,
    resume_filter: Option<ResumeFilter>,
    limits: PageLimits,
    collects: Option<usize>,
    /// Clocks of nodes differ: times that are left; `None` where none is.
    page_time: Option<Duration>,
    time_left: Option<Duration>,
    is_timed: bool,
}

#[derive(Serialize, Deserialize)]
struct PageForm {
    rows: Rows,
    next: Option<Vec<u8>>,
    statistics: QueryStatistics,
    collected: Option<Collected>,
    is_repeated: bool,
    stands_for_index: bool,
    stops_early: bool,
    access: String,
    wants_counter: Option<(u16, u64)>,
    elapsed: Duration,
    evaluation: Duration,
}

impl PageTask {
    fn form(&self, query: &QueryForm) -> TaskForm {
        let now = self.clock.elapsed();
        TaskForm {
            query: query.clone(),
            filter: self.part.filter.clone(),
            resume: self.resume.clone(),
            resume_filter: self.resume_filter.as_deref().cloned(),
            limits: self.limits,
            collects: self.collects,
            page_time: self.page_end.checked_sub(now),
            time_left: self.deadline.checked_sub(now),
            is_timed: self.is_timed,
        }
    }

    /// The task at the owner, which has all of it that does not travel: the open partition, functions, memory for the answer,
    /// the record of the work, and rows that the page before has kept.
    fn arrived(self, form: TaskForm) -> Result<PageTask> {
        let schema = self.part.partition.hosted().schema().clone();
        let prepared = form.query.prepared(&schema, self.functions.scripts())?;
        let access = plan_access(&prepared, &schema.index_schema(), &form.query.key)?;
        let now = self.clock.elapsed();
        let end = |left: Option<Duration>| left.map_or(Duration::ZERO, |left| now.saturating_add(left));
        Ok(PageTask {
            part: crate::query_targets::Part { filter: form.filter, ..self.part },
            travels_as: None,
            access: Arc::new(access),
            prepared,
            shape: schema,
            resume: form.resume,
            resume_filter: form.resume_filter.map(Arc::new),
            limits: form.limits,
            collects: form.collects,
            page_end: end(form.page_time),
            deadline: end(form.time_left),
            is_timed: form.is_timed,
            ..self
        })
    }
}

/// Runs a page at the owner of its partition.
pub async fn run_page(queries: Queries, task: PageTask, query: &QueryForm) -> Result<QueryPage> {
    let (prepared, limits) = (task.prepared.clone(), task.limits);
    let request = to_bytes(&task.form(query))?;
    let (answer, kept) = serve(queries, task, &request).await?;
    match of_bytes::<Result<PageForm, ErrorForm>>(&answer)? {
        Ok(form) => Ok(QueryPage { kept, ..form.page(&prepared, limits)? }),
        Err(error) => Err(error.error()),
    }
}

/// The bytes of the answer, and the rows that the owner keeps for the next page.
async fn serve(queries: Queries, task: PageTask, request: &[u8]) -> Result<(Vec<u8>, Option<KeptRows>)> {
    let run = async {
        let task = task.arrived(of_bytes(request)?)?;
        Box::pin(queries.run_page(task)).await
    };
    let mut page = run.await.map_err(|error| ErrorForm::of(&error));
    let kept = page.as_mut().ok().and_then(|page| page.kept.take());
    Ok((to_bytes(&page.map(PageForm::of))?, kept))
}

impl PageForm {
    fn of(page: QueryPage) -> PageForm {
        PageForm {
            rows: page.rows,
            next: page.next,
            statistics: page.statistics,
            collected: page.collected.map(Execution::into_collected),
            is_repeated: page.is_repeated,
            stands_for_index: page.stands_for_index,
            stops_early: page.stops_early,
            access: page.access.into_owned(),
            wants_counter: page.wants_counter,
            elapsed: page.elapsed,
            evaluation: page.evaluation,
        }
    }

    fn page(self, prepared: &PreparedQuery, limits: PageLimits) -> Result<QueryPage> {
        let merged = |collected| Execution::of_collected(prepared, limits, collected);
        Ok(QueryPage {
            rows: self.rows,
            next: self.next,
            statistics: self.statistics,
            collected: self.collected.map(merged).transpose()?,
            is_repeated: self.is_repeated,
            stands_for_index: self.stands_for_index,
            kept: None,
            stops_early: self.stops_early,
            access: Cow::Owned(self.access),
            wants_counter: self.wants_counter,
            elapsed: self.elapsed,
            evaluation: self.evaluation,
        })
    }
}

/// The next sort keys of a partition, from its owner.
pub fn outlook_sent(outlook: Option<Outlook>) -> Result<Option<Outlook>> {
    let form: Option<(Vec<Vec<u8>>, bool)> =
        outlook.map(|Outlook { keys, is_all }| (keys.iter().map(|key| key.to_vec()).collect(), is_all));
    let form: Option<(Vec<Vec<u8>>, bool)> = of_bytes(&to_bytes(&form)?)?;
    Ok(form.map(|(keys, is_all)| Outlook { keys: keys.into_iter().map(Bytes::from).collect(), is_all }))
}
