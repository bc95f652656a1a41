//! Unique indexes on collections that hold documents already: checked before, claimed after.

use std::collections::HashSet;

use shardlake_mql::{Document, Filter, Scope, Value};

use crate::catalog::flag;
use crate::change::Intent;
use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::reads::Scan;
use crate::request::Request;

impl Collections {
    /// Error 11000 where two documents of a logical partition have the same values.
    pub(crate) async fn check_unique(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let unique: Vec<&Document> = wanted.iter().filter(|index| flag(index, "unique")).collect();
        let mut seen: Vec<HashSet<Vec<u8>>> = vec![HashSet::new(); unique.len()];
        let mut scan = Scan::new(self, collection.clone(), &Document::new());
        while let Some(page) = scan.next(request).await? {
            for document in page {
                let name = collection.name_of(&document)?;
                for (index, seen) in unique.iter().zip(&mut seen) {
                    let values = values_of(index, &document);
                    let mut key = format!("{:?}|", name.key).into_bytes();
                    key.extend_from_slice(&comparable(&values).to_bytes());
                    if !seen.insert(key) {
                        let shown = Value::document(values.clone());
                        let words = format!(
                            "Index build failed: E11000 duplicate key error collection: {} index: {} dup key: {shown}",
                            collection.namespace,
                            index.get("name").and_then(Value::as_str).unwrap_or_default()
                        );
                        let pattern =
                            index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
                        return Err(Failure::new(11000, words)
                            .with("keyPattern", Document::clone(&pattern))
                            .with("keyValue", values));
                    }
                }
            }
        }
        Ok(())
    }

    /// Every document is written as it is, under the definition that is in force now: so it claims its values.
    pub(crate) async fn claim_unique(&self, request: &Request, collection: &Collection) -> Result<()> {
        let everything = Filter::parse(&Document::new(), &Scope::new())?;
        let mut scan = Scan::new(self, collection.clone(), &Document::new());
        while let Some(page) = scan.next(request).await? {
            for document in page {
                let name = collection.name_of(&document)?;
                let what = (&everything, Intent::Rewrite);
                self.change(request, collection, name, what, &request.env(), false).await?;
            }
        }
        Ok(())
    }
}

fn values_of(index: &Document, document: &Document) -> Document {
    let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
    let value = |path: &str| {
        let mut value = Value::document(document.clone());
        for part in path.split('.') {
            value = value.as_document().map(|inner| inner.value(part)).unwrap_or_default();
        }
        value.or_null()
    };
    key.iter().map(|(path, _)| (path.clone(), value(path))).collect()
}

/// Equal values have equal bytes, as far as the engine's unique keys tell them apart.
fn comparable(values: &Document) -> Document {
    let one = |value: &Value| match crate::identity::text_of(value) {
        Ok(text) => Value::string(text),
        Err(_) => value.clone(),
    };
    values.iter().map(|(name, value)| (name.clone(), one(value))).collect()
}
