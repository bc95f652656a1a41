//! Queries over several partitions whose rows must be merged, for callers that leave the merge to the server.
//!
//! All partitions are asked at once and return the rows they have collected for the page; the merged rows are
//! the page. A page may need several rounds, because where rows come in order each partition is asked for
//! little more than its share (`query_shares.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use shardlake_charge::QueryCounters;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_partition::{PageWork, QueryPage, position_of_state, state_of_position};
use shardlake_routing::KeyRange;
use shardlake_sql::{Execution, Meter, PageLimits, PageOutput};

use crate::query_charge::PagePermit;
use crate::query_targets::Part;
use crate::query_token::{Piece, QueryToken};
use crate::request::{PageOfQuery, QueryReply};
use crate::running::Running;
use shardlake_host::Cost;

impl Running<'_> {
    pub async fn fan_out(
        &self,
        reply: &mut QueryReply,
        parts: &[Part],
        PageOfQuery { limits, token, query_hash, .. }: PageOfQuery,
    ) -> Result<()> {
        let mut done = token.as_ref().map(|token| token.counters).unwrap_or_default();
        let charged = done.charged;
        let mut position = token.and_then(|token| Some(token.pieces.into_iter().next()?.position));
        loop {
            let room = PageLimits {
                rows: limits.rows - reply.rows.len(),
                size_bytes: limits.size_bytes.saturating_sub(reply.rows.size_bytes()),
            };
            let asked = self.round(parts, room, position.clone(), reply, &mut done).await;
            let output = match asked {
                // The rows of earlier rounds are paid for, so they are returned; the next page resumes from
                // here.
                Err(error) if error.kind() == ErrorKind::TooManyRequests && !reply.rows.is_empty() => {
                    reply.continuation =
                        position.map(|position| self.token_at(position, query_hash, done)).transpose()?;
                    break;
                }
                Err(mut error) => {
                    error.meta_mut().charge_centi += done.charged - charged;
                    return Err(error);
                }
                Ok(output) => output,
            };
            let is_stuck = output.rows.is_empty();
            reply.rows.append(output.rows);
            assert!(reply.rows.len() <= limits.rows, "the rounds of a page stay within its limit");
            let Some(state) = output.state else { break };
            let next = position_of_state(&state);
            let is_full = reply.rows.len() >= limits.rows || reply.rows.size_bytes() >= limits.size_bytes;
            let is_late = self.queries.router().clock().elapsed() > self.page_end;
            if is_full || is_late || is_stuck {
                reply.continuation = Some(self.token_at(next, query_hash, done)?);
                break;
            }
            position = Some(next);
        }
        reply.statistics.rows = reply.rows.len() as u64;
        reply.statistics.rows_bytes = reply.rows.size_bytes() as u64;
        assert!(done.charged >= charged, "a page never lowers the charge of its query");
        self.complete(reply, done.charged - charged);
        Ok(())
    }

    fn token_at(&self, position: Vec<u8>, query_hash: u64, counters: QueryCounters) -> Result<String> {
        let piece = Piece { span: KeyRange::full(), position };
        let container = self.entry.record.container.rid.number;
        QueryToken { container, query_hash, range_id: None, counters, pieces: vec![piece] }.encode()
    }

    /// Reads the rest of a page from all partitions. The cost of the merge is divided equally among them.
    async fn round(
        &self,
        parts: &[Part],
        room: PageLimits,
        position: Option<Vec<u8>>,
        reply: &mut QueryReply,
        done: &mut QueryCounters,
    ) -> Result<PageOutput> {
        let charged = done.charged;
        assert!(!parts.is_empty(), "a fan-out asks at least one partition");
        let mut permits = Vec::with_capacity(parts.len());
        for part in parts {
            part.partition.hosted().check_session(self.ctx)?;
            // The query was prepared once.
            let steps = if permits.is_empty() { self.prepared.steps() } else { 0 };
            permits.push(self.permit(part, QueryCounters::default(), steps)?);
        }
        let (output, costs) = match self.merged(parts, &mut permits, room, position, reply, done).await {
            Ok(merged) => merged,
            Err(error) => return Err(all_failed(permits, error)),
        };
        assert_eq!(permits.len(), costs.len(), "each permit is settled with its own cost");
        let own_centi: u64 = costs.iter().map(|cost| cost.charge_centi).sum();
        let merge_centi = (done.charged - charged).saturating_sub(own_centi).div_ceil(parts.len() as u64);
        for (permit, cost) in permits.into_iter().zip(costs) {
            permit.settle(Cost { charge_centi: cost.charge_centi + merge_centi, ..cost });
        }
        Ok(output)
    }

    /// Asks all partitions and merges their rows; returns the cost of each.
    async fn merged(
        &self,
        parts: &[Part],
        permits: &mut [PagePermit<'_>],
        room: PageLimits,
        position: Option<Vec<u8>>,
        reply: &mut QueryReply,
        done: &mut QueryCounters,
    ) -> Result<(PageOutput, Vec<Cost>)> {
        let is_first = reply.ranges.is_empty();
        let meter = Arc::new(Meter::default());
        let merged = Execution::merging(&self.prepared, room, state_of_position(position.as_deref())?)?;
        let mut merged = merged.metered(meter.clone());
        let shares = self.shares(parts, position.as_deref(), room, merged.rows_to_come()).await?;
        assert_eq!(shares.len(), parts.len(), "each partition has its share of the rows");
        let mut tasks = Vec::with_capacity(parts.len());
        for ((part, permit), rows) in parts.iter().zip(permits.iter_mut()).zip(shares) {
            let share = PageLimits { rows, ..room };
            let task = self.task(part, position.clone(), share, permit).await?.collecting(room.rows);
            tasks.push((part, AbortOnDrop(tokio::spawn(self.queries.clone().run_page(task)))));
        }
        let (mut costs, mut stop_early) = (Vec::with_capacity(parts.len()), true);
        for (part, task) in tasks {
            let mut page = task.finished().await?;
            stop_early &= page.stops_early;
            let mut counters = self.counters(&page);
            // A page asks each partition once, in any number of rounds.
            counters.partitions = u64::from(is_first);
            *done = done.plus(counters);
            let size_bytes = page.statistics.items_loaded_bytes;
            costs.push(Cost { charge_centi: self.charge(&mut counters), size_bytes, creates: false });
            let collected = page.collected.take();
            self.note(reply, part, &page);
            if let Some(collected) = collected {
                merged.absorb(collected)?;
            }
        }
        let finishing = self.queries.router().clock().elapsed();
        let work = permits.first().map(PagePermit::work);
        let output = self.finish(merged, parts, work).await?;
        if let Some(figures) = &mut reply.figures {
            figures.merge += self.queries.router().clock().elapsed().saturating_sub(finishing);
        }
        let rows = output.rows.len() as u64;
        done.rows += rows;
        if stop_early && self.prepared.has_offset() {
            // The items read for skipped rows are computed from their number, so that they do not depend on
            // the rounds.
            done.items += output.skipped + rows;
        }
        done.function_calls += output.calls_made;
        done.steps += meter.steps();
        self.charge(done);
        Ok((output, costs))
    }

    /// The page of the rows that all partitions have collected. Calls of functions and queries around a whole result run on the
    /// blocking pool. The request's work ends there when its client has closed the connection.
    async fn finish(
        &self,
        merged: Execution,
        parts: &[Part],
        work: Option<Arc<PageWork>>,
    ) -> Result<PageOutput> {
        let (deadline, clock) = (self.ctx.deadline, self.queries.router().clock().clone());
        let is_stopped = move || work.as_ref().is_some_and(|work| work.is_stopped());
        let is_interrupted = move || is_stopped() || clock.elapsed() > deadline;
        let calls_functions = !self.prepared.user_functions().is_empty();
        if !calls_functions && !self.prepared.reads_a_whole_result() {
            return Ok(merged.finish(true, &is_interrupted)?);
        }
        let part = parts.first().ok_or_else(|| Error::internal("a query asks no partition"))?;
        let source = self.function_source(&part.partition).await?;
        let tab = source.tab();
        let work = move || {
            let merged = if calls_functions { merged.calling(source.open()) } else { merged };
            Ok(merged.finish(true, &is_interrupted)?)
        };
        let output = self.queries.beside_requests(&self.prepared, None, (deadline, work)).await;
        if let Some(tab) = tab {
            self.surcharge_centi.fetch_add(tab.surcharge_centi(0), Ordering::Relaxed);
        }
        output
    }
}

/// Settles all abandoned work; the error carries its charge.
fn all_failed(permits: Vec<PagePermit<'_>>, mut error: Error) -> Error {
    if error.kind() == ErrorKind::PartitionGone {
        return permits.into_iter().fold(error, |error, permit| permit.failed(error));
    }
    error.meta_mut().charge_centi = permits.into_iter().map(|mut permit| permit.give_up()).sum();
    error
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<Result<QueryPage>>);

impl AbortOnDrop {
    async fn finished(mut self) -> Result<QueryPage> {
        let joined = (&mut self.0).await;
        joined.map_err(|error| Error::internal(format!("a query's task failed: {error}")))?
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
