//! Files that are written anew beside the rounds: compaction and widening, on a thread of its own.
//!
//! The thread only reads files that no round changes, and writes new ones. The follower commits them between two rounds; the
//! table finds the rows again that rounds ended meanwhile. Dropping a rewrite stops it: its files are deleted by vacuum.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use shardlake_analytical_table::error::TableError;
use shardlake_analytical_table::table::{Compacted, CompactionJob, Table, Widened, WideningJob};
use tokio::sync::OwnedSemaphorePermit;

use super::rests::Rests;
use super::step::Step;

pub enum Job {
    Compaction(CompactionJob),
    Widening(WideningJob),
}

/// The files of a finished job.
pub enum Written {
    Compacted(Compacted),
    Widened(Widened),
}

impl Written {
    /// Puts the new files in the place of the old ones. Whether that was possible; else the job is planned anew.
    pub fn commit(&self, table: &mut Table, now_ms: i64) -> Result<bool, TableError> {
        let version = match self {
            Written::Compacted(compacted) => table.commit_compaction(compacted, now_ms)?,
            Written::Widened(widened) => table.commit_widening(widened, now_ms)?,
        };
        Ok(version.is_some())
    }

    pub fn reason(&self) -> &'static str {
        match self {
            Written::Compacted(_) => "compaction",
            Written::Widened(_) => "widening",
        }
    }
}

/// A job that is under way.
pub struct Rewrite {
    thread: Option<JoinHandle<Result<Written, TableError>>>,
    is_stopped: Arc<AtomicBool>,
    /// Files that it reads, and their bytes.
    pub files: usize,
    pub bytes: u64,
}

impl Rewrite {
    pub fn start(step: &Step<'_>, permit: OwnedSemaphorePermit, job: Job) -> std::io::Result<Rewrite> {
        let is_empty = matches!(&job, Job::Compaction(job) if job.inputs().is_empty());
        assert!(!is_empty, "a compaction has files");
        let (files, bytes) = match &job {
            Job::Compaction(job) => {
                (job.inputs().len(), job.inputs().iter().map(|file| file.size).sum::<u64>())
            }
            Job::Widening(_) => (0, 0),
        };
        let is_stopped = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (work, stopped) = (step.router.stores().paced_work(1), is_stopped.clone());
        let run = move || {
            let _permit = permit;
            shardlake_stdx::lower_thread_priority();
            let mut rests = Rests::of(work, Duration::ZERO);
            let mut between = || {
                if stopped.load(Ordering::Relaxed) {
                    return Err(TableError::Stopped);
                }
                // It reads files and no view.
                rests.note_view();
                runtime.block_on(rests.pause());
                Ok(())
            };
            match job {
                Job::Compaction(job) => job.run_in_pieces(&mut between).map(Written::Compacted),
                Job::Widening(job) => job.run_in_pieces(&mut between).map(Written::Widened),
            }
        };
        let thread = std::thread::Builder::new().name("analytics-files".into()).spawn(run)?;
        Ok(Rewrite { thread: Some(thread), is_stopped, files, bytes })
    }

    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Result of a finished job. A panic of its thread is one of this thread: it ends the table.
    pub fn finish(mut self) -> Result<Written, TableError> {
        assert!(self.is_finished(), "the follower does not wait for rewrites");
        let thread = self.thread.take().expect("its result is taken once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // A piece is short. After that nothing writes into the folder of a table that may be deleted next.
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
