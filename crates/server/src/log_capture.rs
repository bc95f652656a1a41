//! Keeps the latest lines of the log for operators, beside those that go to standard error.
//!
//! A line is kept where it would be written: by level and target as `--log-level` says. Fields keep their types as far as JSON has them.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardlake_admin::{LogLine, LogRing};
use shardlake_stdx::Clock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

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

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.others.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::from(value));
    }
}
