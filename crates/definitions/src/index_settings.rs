//! Settings of a global secondary index that change while it is there.

use shardlake_catalog::{Definitions, SecondaryIndexRecord};
use shardlake_model::{Error, ErrorKind, ExpiredRows, IndexCharge, IndexReads, Result};
use shardlake_router::LiveCatalog;

use crate::Resources;
use crate::secondary_indexes::{check_settings_of_groups, derivation_of, touch_source};

/// New values; `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexSettingsChange {
    pub reads: Option<IndexReads>,
    pub expired: Option<ExpiredRows>,
    pub charge: Option<IndexCharge>,
}

/// Changes settings of an index. They hold from the next read, and from the next round of its task.
pub(crate) async fn set_index(
    resources: &Resources,
    database: &str,
    container: &str,
    change: IndexSettingsChange,
) -> Result<()> {
    let rid = resources.router().container(database, container)?.entry.record.container.rid;
    let (name, random) = (format!("{database}/{container}"), resources.router().random().clone());
    let plan = move |live: &LiveCatalog, draft: &mut Definitions| {
        let Some(record) = draft.secondary_indexes.get(&rid) else {
            return Err(Error::new(ErrorKind::NotFound, format!("'{name}' is no global secondary index")));
        };
        let mut record = SecondaryIndexRecord::clone(record);
        let (before, source) = (record.settings.clone(), record.source);
        record.settings.reads = change.reads.unwrap_or(before.reads);
        record.settings.expired = change.expired.unwrap_or(before.expired);
        record.settings.charge = change.charge.unwrap_or(before.charge);
        if record.settings == before {
            return Ok(());
        }
        if let Some(entry) = live.container_of_rid(source) {
            check_settings_of_groups(&record.settings, &derivation_of(entry, &record)?)?;
        }
        let lists_differ = record.settings.expired != before.expired;
        draft.secondary_indexes.put(rid, record);
        // The document of the index shows them; the source lists indexes that keep nothing.
        touch_source(draft, rid, &random);
        if lists_differ {
            touch_source(draft, source, &random);
        }
        Ok(())
    };
    resources.router().change(plan).await.map(drop)
}
