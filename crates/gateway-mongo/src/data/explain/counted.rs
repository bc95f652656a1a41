//! The work of a read, counted.

use std::sync::Arc;

use shardlake_account::collections::{Find, Finding, Request, Source};
use shardlake_mql::{Document, Value};

use crate::call::Call;
use crate::errors::Result;

pub fn number(value: u64) -> Value {
    i32::try_from(value).map_or(Value::Long(value as i64), Value::Int)
}

/// Cost of an execution.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub returned: u64,
    pub documents: u64,
    pub keys: u64,
    pub charge_centi: u64,
    pub milliseconds: u64,
}

impl Counted {
    /// Runs a `find` to its end.
    pub async fn run(call: &Call, request: &Arc<Request>, find: Find, source: Source) -> Result<Counted> {
        let began = call.deployment.account.router().clock().elapsed();
        let charge_before = request.charge_centi();
        let mut finding = Finding::new(find, source);
        let mut returned = 0;
        loop {
            let (page, more) = finding.next(request, 1000, 16 << 20).await?;
            returned += page.len() as u64;
            if !more {
                break;
            }
        }
        let (documents, keys) = request.examined();
        Ok(Counted {
            returned,
            documents,
            keys,
            charge_centi: request.charge_centi() - charge_before,
            milliseconds: call.deployment.account.router().clock().elapsed().saturating_sub(began).as_millis()
                as u64,
        })
    }

    pub fn add(&mut self, other: &Counted) {
        self.returned += other.returned;
        self.documents += other.documents;
        self.keys += other.keys;
        self.charge_centi += other.charge_centi;
        self.milliseconds += other.milliseconds;
    }

    pub fn charge(&self) -> Value {
        Value::Double(self.charge_centi as f64 / 100.0)
    }

    /// The totals of an execution, without its stages.
    pub fn totals(&self) -> Document {
        let mut stats = Document::one("executionSuccess", Value::Bool(true));
        stats.push("nReturned", number(self.returned));
        stats.push("executionTimeMillis", number(self.milliseconds));
        stats.push("totalKeysExamined", number(self.keys));
        stats.push("totalDocsExamined", number(self.documents));
        stats
    }

    pub fn stages(&self, stage: &str) -> Document {
        let mut stages = Document::one("stage", stage);
        stages.push("nReturned", number(self.returned));
        stages.push("docsExamined", number(self.documents));
        stages.push("keysExamined", number(self.keys));
        stages
    }

    pub fn shown(&self, stage: &str) -> Document {
        let mut stats = self.totals();
        stats.push("executionStages", Value::document(self.stages(stage)));
        stats.push("requestCharge", self.charge());
        stats
    }
}
