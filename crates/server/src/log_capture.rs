//! Capture of the latest log lines for operators, in addition to those on standard error.
//!
//! A line is kept if it would be written: `--log-level` filters by level and target. Fields keep their types as far as JSON has them.

use std::sync::Arc;

use shardlake_admin::{LogLine, LogRing};
use shardlake_stdx::Clock;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::log_fields::Fields;

pub struct LogCapture {
    ring: Arc<LogRing>,
    clock: Clock,
}

impl LogCapture {
    pub fn new(ring: Arc<LogRing>) -> LogCapture {
        LogCapture { ring, clock: Clock::System }
    }
}

impl<S: Subscriber> Layer<S> for LogCapture {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let (level, target) = (metadata.level().as_str(), metadata.target());
        self.ring.push(LogLine::new(self.clock.now(), level, target, &fields.message, fields.others));
    }
}
