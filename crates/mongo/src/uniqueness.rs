//! Unique indexes on collections that hold documents already: checked before, claimed after; and indexes that become unique.

use std::collections::HashMap;
use std::sync::Arc;

use shardlake_model::{ContainerDefinition, Narrowing};
use shardlake_mql::write::{ActionSource, DocumentChange, DocumentStep, StepSource, body_of};
use shardlake_mql::{COLLATION_DATA_VERSION, Document, Value};
use shardlake_partition::{unique_values_of, wait_for_queued};

use crate::collated::{is_property, properties_of};
use crate::collections::{Collection, Collections};
use crate::failure::{Failure, Result};
use crate::index_policy::{is_enforced, unique_key_of};
use crate::meta::Meta;
use crate::narrowing::narrowing_of;
use crate::reads::Scan;
use crate::request::Request;

/// Two documents of a logical partition with the same values.
struct Violation<'i> {
    index: &'i Document,
    values: Document,
    ids: [Value; 2],
}

impl Collections {
    /// Error 11000 where two documents of a logical partition have the same values.
    pub(crate) async fn check_unique(
        &self,
        request: &Request,
        collection: &Collection,
        wanted: &[Document],
    ) -> Result<()> {
        let unique: Vec<&Document> = wanted.iter().filter(|index| is_enforced(index)).collect();
        let Some(found) = self.find_violation(request, collection, &unique).await? else { return Ok(()) };
        let words = format!(
            "Index build failed: E11000 duplicate key error collection: {} index: {} dup key: {}",
            collection.namespace,
            found.index.get("name").and_then(Value::as_str).unwrap_or_default(),
            Value::document(found.values.clone())
        );
        let pattern = found.index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
        Err(Failure::new(11000, words)
            .with("keyPattern", Document::clone(&pattern))
            .with("keyValue", found.values))
    }

    /// Error 359 if an index cannot become unique, with the identities of two documents that violate it.
    pub async fn check_convertible(
        &self,
        request: &Request,
        collection: &Collection,
        index: &Document,
    ) -> Result<()> {
        let Some(found) = self.find_violation(request, collection, &[index]).await? else { return Ok(()) };
        let words = format!(
            "Cannot convert the index to unique: several documents have the values {}. Please resolve them before running collMod again.",
            Value::document(found.values)
        );
        let violation = Document::one("ids", Value::array(found.ids.to_vec()));
        Err(Failure::new(359, words).with("violations", Value::array(vec![Value::document(violation)])))
    }

    /// Switches the refusal of documents that violate an index on or off: the first step towards a unique index. Unlike
    /// in the reference, existing violations are an error.
    pub async fn prepare_unique(
        &self,
        request: &Request,
        collection: &Collection,
        index: &Document,
        is_prepared: bool,
    ) -> Result<()> {
        let name = index.get("name").and_then(Value::as_str).unwrap_or_default();
        let _still = self.keep_partitions(request, collection).await?;
        if is_prepared {
            self.check_convertible(request, collection, index).await?;
        }
        let options: &[_] = match is_prepared {
            true => &[("prepareUnique", Value::Bool(true))],
            false => &[("prepareUnique", Value::Missing)],
        };
        let changed = self.change_index(request, collection, name, options).await?;
        if is_prepared && let Err(failure) = self.claim_unique(request, &changed).await {
            // A writer was faster than the check.
            self.change_index(request, &changed, name, &[("prepareUnique", Value::Missing)]).await?;
            return Err(failure);
        }
        Ok(())
    }

    /// Turns a prepared index into a unique one. Every document claims its values again, because the preparation may
    /// have been interrupted.
    pub async fn make_unique(
        &self,
        request: &Request,
        collection: &Collection,
        index: &Document,
    ) -> Result<()> {
        let name = index.get("name").and_then(Value::as_str).unwrap_or_default();
        let _still = self.keep_partitions(request, collection).await?;
        self.claim_unique(request, collection).await?;
        self.set_unique(request, collection, name).await.map(drop)
    }

    /// Turns a unique index into one with duplicates.
    pub async fn allow_duplicates(
        &self,
        request: &Request,
        collection: &Collection,
        index: &Document,
    ) -> Result<()> {
        let name = index.get("name").and_then(Value::as_str).unwrap_or_default();
        let gone = &[("unique", Value::Missing), ("prepareUnique", Value::Missing)];
        self.change_index(request, collection, name, gone).await.map(drop)
    }

    pub(crate) async fn set_unique(
        &self,
        request: &Request,
        collection: &Collection,
        name: &str,
    ) -> Result<Collection> {
        let name = Value::string(name);
        self.set_indexes(request, collection, move |meta| {
            let is_it = |index: &&mut Document| index.value("name").as_str() == name.as_str();
            let Some(index) = meta.indexes.iter_mut().find(is_it) else {
                return Err(Failure::new(
                    27,
                    format!("the index {name} was dropped while it was being made"),
                ));
            };
            index.set(&"unique".into(), Value::Bool(true));
            index.set(&"prepareUnique".into(), Value::Missing);
            meta.unfinished.retain(|unfinished| Some(&**unfinished) != name.as_str());
            Ok(())
        })
        .await
    }

    async fn find_violation<'i>(
        &self,
        request: &Request,
        collection: &Collection,
        unique: &[&'i Document],
    ) -> Result<Option<Violation<'i>>> {
        let rule = |index: &&Document| {
            let key = index.get("key").and_then(Value::as_document).cloned().unwrap_or_default();
            Ok((unique_key_of(&key), narrowing_of(index)?))
        };
        let rules = unique.iter().map(rule).collect::<Result<Vec<_>>>()?;
        let mut seen: Vec<HashMap<Vec<u8>, Value>> = vec![HashMap::new(); unique.len()];
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            for document in page {
                let name = collection.name_of(&document)?;
                let id = document.value("_id");
                let body = body_of(&document)?.0;
                for ((index, (key, rule)), seen) in unique.iter().zip(&rules).zip(&mut seen) {
                    for value in unique_values_of(key, rule.as_ref(), body.raw())? {
                        let place = [format!("{:?}|", name.key).as_bytes(), &value].concat();
                        if let Some(other) = seen.insert(place, id.clone()) {
                            let values = values_of(index, &document);
                            return Ok(Some(Violation { index, values, ids: [other, id] }));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// Rebuilds the indexes whose sort keys were made with other tables of collations. For a start, before any client is
    /// served.
    pub async fn rebuild_collated(&self) -> Result<()> {
        for database in self.databases() {
            for collection in self.list(&database.id)?.into_iter().filter_map(|listed| listed.collection) {
                let container = collection.handle.container();
                let has_other_keys = has_other_sort_keys(&collection.meta, &container.definition)?;
                if !is_of_other_tables(&container.narrowings) && !has_other_keys {
                    continue;
                }
                let namespace = collection.namespace.to_string();
                tracing::info!(collection = %namespace, "indexes are rebuilt for new tables of collations");
                let request = self.request_without_end();
                let _still = self.keep_partitions(&request, &collection).await?;
                if is_of_other_tables(&container.narrowings) {
                    let duplicates = self.claim_all(&request, &collection, true).await?;
                    if duplicates > 0 {
                        tracing::warn!(duplicates, collection = %namespace, "documents are duplicates by new tables of collations: they stay, and their values are taken by others");
                    }
                }
                // Recorded last: a start that is interrupted, or fails, begins anew.
                self.set_indexes(&request, &collection, |_| Ok(())).await?;
            }
        }
        Ok(())
    }

    /// Every document is written as it is, under the definition that is in force now: so it claims its values.
    pub(crate) async fn claim_unique(&self, request: &Request, collection: &Collection) -> Result<()> {
        self.claim_all(request, collection, false).await.map(drop)
    }

    /// Like [`Collections::claim_unique`]; skips documents whose values another document has, and returns their number,
    /// if the caller allows it.
    async fn claim_all(
        &self,
        request: &Request,
        collection: &Collection,
        passes_duplicates: bool,
    ) -> Result<u64> {
        let mut duplicates = 0;
        // Writes that began under the previous definition are stored by now, or refused.
        for shard in self.queries.router().stores().iter() {
            wait_for_queued(shard).await?;
        }
        let change = Arc::new(DocumentChange {
            step: Arc::new(DocumentStep::of(StepSource::of_any(ActionSource::Rewrite))?),
            rules: collection.rules.clone(),
            env: request.env(),
            checks: false,
        });
        let mut scan = Scan::of_all(self, collection.clone());
        while let Some(page) = scan.next(request).await? {
            for document in page {
                let name = collection.name_of(&document)?;
                match self.change(request, collection, name, &change, None).await {
                    Err(failure) if passes_duplicates && failure.code == 11000 => duplicates += 1,
                    changed => drop(changed?),
                }
            }
        }
        Ok(duplicates)
    }
}

fn has_other_sort_keys(meta: &Meta, definition: &ContainerDefinition) -> Result<bool> {
    let wanted = properties_of(&meta.collation, &meta.indexes)?;
    let properties = definition.computed_properties.iter().flatten();
    let mut kept = properties.filter(|property| is_property(&property.name));
    Ok(kept.any(|property| !wanted.contains(property)))
}

fn is_of_other_tables(narrowings: &[Option<Narrowing>]) -> bool {
    narrowings.iter().flatten().any(|narrowing| match narrowing {
        Narrowing::Collated { version, .. } => version != COLLATION_DATA_VERSION,
        _ => false,
    })
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

#[cfg(test)]
mod tests {
    use shardlake_model::{ComputedProperty, PartitionKeyDefinition};

    use super::*;
    use crate::narrowing::collated;

    #[test]
    fn indexes_of_other_tables_are_found_at_a_start() {
        let options = Document::one("collation", Value::document(Document::one("locale", "en")));
        let collation = shardlake_mql::kept_collation(&options).expect("the locale is known");
        let Some(Narrowing::Collated { rules, version, narrowing }) = collated(&collation, None) else {
            unreachable!("the collation is not simple")
        };
        let is_other = |version: &str| {
            let narrowing = narrowing.clone();
            let kept = Narrowing::Collated { rules: rules.clone(), version: version.to_owned(), narrowing };
            is_of_other_tables(&[None, Some(kept)])
        };
        assert!(is_other("icu4x-0.0.0") && !is_other(&version));
        assert!(!is_of_other_tables(&[None, Some(Narrowing::Sparse)]));
        let meta = Meta { collation, ..Meta::default() };
        let key = PartitionKeyDefinition::hash("/k");
        let mut definition = ContainerDefinition::new("c", key);
        let wanted = properties_of(&meta.collation, &[]).expect("the locale is known");
        let older = |property: &ComputedProperty| ComputedProperty {
            name: property.name.replace(COLLATION_DATA_VERSION, "icu4x-0.0.0"),
            query: property.query.clone(),
        };
        definition.computed_properties = Some(wanted.iter().map(older).collect());
        assert!(has_other_sort_keys(&meta, &definition).expect("the locale is known"));
        definition.computed_properties = Some(wanted);
        assert!(!has_other_sort_keys(&meta, &definition).expect("the locale is known"));
    }
}
