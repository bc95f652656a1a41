//! `validate`: all documents of a collection read, and counted for each index.

use shardlake_model::Narrowing;
use shardlake_mql::kept_collation;
use shardlake_mql::write::body_of;
use shardlake_mql::{Document, Filter, Scope, Value};
use shardlake_partition::unique_values_of;

use crate::collections::{Collection, Collections};
use crate::failure::Result;
use crate::index_policy::unique_key_of;
use crate::meta::flag;
use crate::reads::Scan;
use crate::request::Request;

/// A stored document or record is damaged.
const CORRUPT: [i32; 2] = [8, 22];

/// Result of reading a collection from end to end.
#[derive(Debug, Default)]
pub struct Validation {
    pub documents: u64,
    /// Documents that the validator refuses.
    pub refused: u64,
    /// By the name of the index how many entries its documents make; none for wildcard and geographic indexes.
    pub keys: Vec<(String, u64)>,
    /// Read errors.
    pub errors: Vec<String>,
}

/// One index whose entries are counted.
struct Counted {
    name: String,
    key: shardlake_model::UniqueKey,
    narrowing: Option<Narrowing>,
    rows: Option<Filter>,
    entries: u64,
}

impl Counted {
    fn of(index: &Document) -> Result<Option<Counted>> {
        let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        let is_counted = |(path, kind): (&shardlake_mql::Str, &Value)| {
            !path.contains("$**") && (kind.is_number() || kind.as_str() == Some("hashed"))
        };
        if !key.iter().all(|(path, kind)| is_counted((path, kind))) {
            return Ok(None);
        }
        let rows = index.get("partialFilterExpression").and_then(Value::as_document);
        let scope = Scope::with_collation(kept_collation(index)?);
        Ok(Some(Counted {
            name: index.value("name").as_str().unwrap_or_default().to_owned(),
            key: unique_key_of(&key),
            narrowing: flag(index, "sparse").then_some(Narrowing::Sparse),
            rows: rows.map(|rows| Filter::parse(rows, &scope)).transpose()?,
            entries: 0,
        }))
    }

    fn count(&mut self, request: &Request, document: &Document) -> Result<()> {
        if let Some(rows) = &self.rows
            && !rows.matches(document, &mut request.env())?
        {
            return Ok(());
        }
        let (body, _) = body_of(document)?;
        self.entries += unique_values_of(&self.key, self.narrowing.as_ref(), body.raw())?.len() as u64;
        Ok(())
    }
}

impl Collections {
    /// Reads every document, for as long as the command may run. The storage below (records and index of the engine) is
    /// checked by `shardlake verify`.
    pub async fn validate(&self, request: &Request, collection: &Collection) -> Result<Validation> {
        let mut validation = Validation::default();
        let mut counted = Vec::new();
        for index in collection.indexes() {
            counted.extend(Counted::of(&index)?);
        }
        let mut scan = Scan::of_all(self, collection.clone());
        loop {
            let page = match scan.next(request).await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(failure) if CORRUPT.contains(&failure.code) => {
                    validation.errors.push(failure.message);
                    break;
                }
                Err(failure) => return Err(failure),
            };
            for document in &page {
                validation.documents += 1;
                if let Some(validator) = collection.rules.value().validator() {
                    let is_met = validator.matches(document, &mut request.env())?;
                    validation.refused += u64::from(!is_met);
                }
                counted.iter_mut().try_for_each(|counted| counted.count(request, document))?;
            }
        }
        validation.keys = counted.into_iter().map(|counted| (counted.name, counted.entries)).collect();
        Ok(validation)
    }
}
