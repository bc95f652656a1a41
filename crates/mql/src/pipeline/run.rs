//! Runs pipelines: documents are pushed through operators one by one.

use crate::error::{MEMORY_LIMIT, Result, fail};
use crate::expression::Env;
use crate::value::{Document, Str, Value};

/// Other collections, as `$lookup` and its kin read them.
pub trait Collections {
    /// The documents of a collection, of another database if one is named. A missing collection has none.
    fn documents(&self, database: Option<&str>, collection: &str) -> Result<Vec<Value>>;

    /// A view's collection and pipeline; `None` for a collection.
    fn view(&self, _collection: &str) -> Option<(Str, Vec<Value>)> {
        None
    }

    /// The indexes of a collection, for stages that need one.
    fn indexes(&self, _database: Option<&str>, _collection: &str) -> Result<Vec<Document>> {
        Ok(Vec::new())
    }
}

/// What a run of a pipeline has besides its documents.
pub struct Context<'a> {
    pub env: Env,
    pub collections: &'a dyn Collections,
    /// Of the collection that the pipeline reads, where it [asks](super::Pipeline::begins_with_geo_near) for them.
    pub indexes: Vec<Document>,
    /// Bytes that one blocking stage may hold.
    pub memory_bytes_max: usize,
}

impl Context<'_> {
    /// Fails where a stage holds more than it may.
    pub(super) fn check_memory(&self, stage: &str, bytes: usize) -> Result<()> {
        if bytes > self.memory_bytes_max {
            let most = self.memory_bytes_max;
            fail!(
                MEMORY_LIMIT,
                "Exceeded memory limit for {stage}: {most} bytes. Pass allowDiskUse:true or select fewer documents"
            );
        }
        Ok(())
    }
}

/// A parsed stage, from which each run makes an operator.
pub(super) trait Stage {
    fn start(&self) -> Box<dyn Operator + '_>;
}

/// A stage at work.
pub(super) trait Operator {
    /// Takes a document, and gives those that it can already give. False ends the run: no more are needed.
    fn push(&mut self, document: Value, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<bool>;

    /// Gives what is left when no more documents come.
    fn finish(&mut self, _context: &mut Context<'_>, _out: &mut Vec<Value>) -> Result<()> {
        Ok(())
    }
}

type Operators<'a> = [Box<dyn Operator + 'a>];

/// Pushes documents through stages.
pub(super) fn run(
    stages: &[Box<dyn Stage + Send + Sync>],
    input: impl Iterator<Item = Result<Value>>,
    context: &mut Context<'_>,
) -> Result<Vec<Value>> {
    let mut operators: Vec<Box<dyn Operator + '_>> = stages.iter().map(|stage| stage.start()).collect();
    let mut results = Vec::new();
    for document in input {
        if !feed(&mut operators, document?, context, &mut results)? {
            break;
        }
    }
    for at in 0..operators.len() {
        let mut out = Vec::new();
        operators[at].finish(context, &mut out)?;
        for document in out {
            if !feed(&mut operators[at + 1..], document, context, &mut results)? {
                break;
            }
        }
    }
    Ok(results)
}

fn feed(
    operators: &mut Operators<'_>,
    document: Value,
    context: &mut Context<'_>,
    results: &mut Vec<Value>,
) -> Result<bool> {
    let Some((first, rest)) = operators.split_first_mut() else {
        results.push(document);
        return Ok(true);
    };
    context.env.repeat()?;
    let mut out = Vec::new();
    let mut more = first.push(document, context, &mut out)?;
    for document in out {
        more &= feed(rest, document, context, results)?;
    }
    Ok(more)
}
