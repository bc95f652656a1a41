//! `$sort` and `$sample`.

use std::sync::Arc;

use super::options::{self, Options};
use super::run::{Context, Operator, Stage};
use crate::decimal::Rounding;
use crate::error::Result;
use crate::expression::Scope;
use crate::sort::{SortKey, SortPattern};
use crate::value::Value;

pub(super) struct Sort {
    pattern: SortPattern,
}

pub(super) fn parse_sort(options: &Options<'_>, scope: &Scope) -> Result<Sort> {
    let pattern = options.document().map(|document| SortPattern::parse(document, scope.collation()));
    pattern.transpose()?.map(|pattern| Sort { pattern }).ok_or_else(|| options::unknown(options.stage()))
}

impl Stage for Sort {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(SortRun { stage: self, rows: Vec::new(), bytes: 0 })
    }
}

struct SortRun {
    stage: Arc<Sort>,
    rows: Vec<(SortKey, Value)>,
    bytes: usize,
}

impl Operator for SortRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        self.bytes += document.size();
        context.check_memory("$sort", self.bytes)?;
        let key = self.stage.pattern.key(&document)?;
        self.bytes += self.stage.pattern.key_bytes(&key);
        context.check_memory("$sort", self.bytes)?;
        self.rows.push((key, document));
        Ok(true)
    }

    fn finish(&mut self, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        self.stage.pattern.sort(&mut self.rows);
        out.extend(self.rows.drain(..).map(|(_, document)| document));
        Ok(())
    }
}

/// `$sample`: a number of documents by chance.
pub(super) struct Sample(u64);

pub(super) fn parse_sample(options: &Options<'_>) -> Sample {
    // Fractions of doubles are cut off, decimals are rounded.
    let number = match options.value("size") {
        Value::Decimal(size) => Some(size.to_whole(Rounding::HalfEven).to_f64()),
        size => size.to_f64(),
    };
    Sample(number.unwrap_or_default() as u64)
}

impl Stage for Sample {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(SampleRun { size: self.0, rows: Vec::new(), bytes: 0 })
    }
}

struct SampleRun {
    size: u64,
    rows: Vec<(u64, Value)>,
    bytes: usize,
}

impl Operator for SampleRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        self.bytes += document.size();
        context.check_memory("$sample", self.bytes)?;
        self.rows.push((context.env.random_bits(), document));
        Ok(true)
    }

    fn finish(&mut self, _: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        self.rows.sort_by_key(|(chance, _)| *chance);
        self.rows.truncate(usize::try_from(self.size).unwrap_or(usize::MAX));
        out.extend(self.rows.drain(..).map(|(_, document)| document));
        Ok(())
    }
}
