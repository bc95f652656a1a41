//! A source with indexes, the actions of clients on it, and the comparison of each index with its definition.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shardlake_account::{ContainerHandle, FeedScope, IndexReport, IndexVerification, Repair, VerifyState};
use shardlake_model::{
    ContainerDefinition, IndexSettings, PartitionKey, PartitionKeyDefinition, SecondaryIndexDefinition,
    Throughput,
};
use shardlake_partition::{ItemRow, StoredItem, item_of_position};
use shardlake_router::IndexRows;
use shardlake_sql::GroupState;

use crate::support::json_door::{JsonDoor, KeyInput};
use crate::support::{Fixture, eventually, json as json_of, none};

/// The containers `db/source` and its indexes.
pub struct Store<'f> {
    pub fixture: &'f Fixture,
}

impl<'f> Store<'f> {
    pub async fn new(fixture: &'f Fixture, default_ttl: Option<i64>, throughput: u64) -> Store<'f> {
        let mut definition = ContainerDefinition::new("source", PartitionKeyDefinition::hash("/pk"));
        definition.default_ttl = default_ttl;
        fixture.container_with(definition, throughput).await;
        Store { fixture }
    }

    pub fn container(&self, id: &str) -> ContainerHandle {
        self.fixture.account.router().container("db", id).expect("there")
    }

    /// Creates an index of a container.
    pub async fn index(&self, source: &str, id: &str, key: &str, definition: &str) {
        self.index_with(source, (id, key), definition, IndexSettings::default()).await;
    }

    pub async fn index_with(
        &self,
        source: &str,
        name: (&str, &str),
        definition: &str,
        settings: IndexSettings,
    ) {
        self.small_index(source, name, definition, settings, 100_000).await;
    }

    /// An index with a throughput.
    pub async fn small_index(
        &self,
        source: &str,
        (id, key): (&str, &str),
        definition: &str,
        settings: IndexSettings,
        throughput: u64,
    ) {
        self.try_index(source, (id, key), definition, settings, throughput).await.expect("created");
    }

    pub async fn create_index(
        &self,
        source: &str,
        id: &str,
        key: &str,
        definition: &str,
    ) -> shardlake_model::Result<()> {
        self.try_index(source, (id, key), definition, IndexSettings::default(), 100_000).await
    }

    async fn try_index(
        &self,
        source: &str,
        (id, key): (&str, &str),
        definition: &str,
        settings: IndexSettings,
        throughput: u64,
    ) -> shardlake_model::Result<()> {
        let index = SecondaryIndexDefinition {
            source_collection_id: source.to_owned(),
            source_collection_rid: None,
            definition: definition.to_owned(),
            shardlake: settings,
        };
        let container = ContainerDefinition::new(id, PartitionKeyDefinition::hash(key));
        let throughput = Some(Throughput::Manual(throughput));
        self.fixture
            .account
            .definitions()
            .create_secondary_index(&self.fixture.ctx(), "db", container, index, throughput)
            .await
            .map(drop)
    }

    pub async fn upsert(&self, item: &Value) -> shardlake_model::Result<()> {
        let (account, context, source) =
            (&self.fixture.account, self.fixture.ctx(), self.container("source"));
        account.upsert_item(&context, &source, None, item.to_string().as_bytes(), &none()).await.map(drop)
    }

    pub async fn put(&self, pk: &str, id: &str, k: &str) {
        self.upsert(&json!({ "id": id, "pk": pk, "k": k, "n": 1 })).await.expect("written");
    }

    pub async fn delete(&self, pk: &str, id: &str) -> shardlake_model::Result<()> {
        let (account, context, source) =
            (&self.fixture.account, self.fixture.ctx(), self.container("source"));
        let key = json!([pk]).to_string();
        account.delete_item(&context, &source, Some(KeyInput(&key)), id, &none()).await.map(drop)
    }

    pub async fn all(&self, container: &str) -> Vec<Value> {
        let container = self.container(container);
        let (mut items, mut next) = (Vec::new(), None);
        loop {
            let (account, context) = (&self.fixture.account, self.fixture.ctx());
            let page = account
                .items()
                .read_feed(&context, &container, FeedScope::All, Some(-1), next.as_deref())
                .await;
            let page = page.expect("read");
            items.extend(page.items.iter().map(json_of));
            next = page.continuation;
            if next.is_none() {
                return items;
            }
        }
    }

    pub async fn report(&self, index: &str) -> IndexReport {
        self.fixture.account.copies().index("db", index).await.expect("there")
    }

    /// Waits until every index is level.
    pub async fn settled(&self) {
        let mut tries = 0;
        eventually("every index is level", async || {
            // Budgets live by this clock.
            self.fixture.clock.advance(std::time::Duration::from_millis(10));
            let reports = self.fixture.account.copies().indexes().await;
            tries += 1;
            assert!(tries < 5000, "{reports:#?}");
            reports.iter().all(|report| report.state == "Active" && report.lag.changes == 0)
        })
        .await;
    }

    /// Names and bodies of an index's rows, without system properties.
    pub async fn rows(&self, index: &str) -> BTreeMap<String, Value> {
        let mut rows = BTreeMap::new();
        for mut row in self.all(index).await {
            let whole = row.to_string();
            let members = row.as_object_mut().expect("an object");
            members.retain(|name, _| {
                !["_rid", "_self", "_etag", "_attachments", "_ts", "_state"].contains(&name.as_str())
            });
            let name = format!("{} {}", row["id"], row);
            let before = rows.insert(name, row);
            assert_eq!(before, None, "a row of {index} is there once: {whole}");
        }
        rows
    }

    /// The rows that an index should have, by its definition over the stored items of the source. Items
    /// that have expired are stored until they are removed.
    pub async fn expected(&self, source: &str, index: &str) -> BTreeMap<String, Value> {
        let live = self.fixture.account.router().live_catalog();
        let (from, to) = (self.container(source), self.container(index));
        let rid = to.entry.record.container.rid;
        let record = live.definitions.secondary_indexes.get(&rid).expect("an index");
        let compiled = IndexRows::of_index(&live.definitions, rid, record, &from.entry.shape);
        let compiled = compiled.expect("compiles");
        let (mut expected, mut groups) = (BTreeMap::new(), Groups::default());
        for partition in from.entry.map.iter() {
            let partition = partition.hosted().partition();
            let mut round = partition.items_round(&partition.epk_range, usize::MAX).await.expect("begins");
            while let Some(page) = round.next_page().await.expect("read") {
                for ItemRow { key, record } in page {
                    let (logical, _) = item_of_position(&key).expect("a key");
                    let item = StoredItem::decode(record, &from.entry.shape).expect("sound");
                    if compiled.is_grouped() {
                        groups.add(&compiled, &item, &logical.partition_key);
                        continue;
                    }
                    for row in compiled.rows_of(&item.view(), &logical.partition_key).rows {
                        let mut text = Vec::new();
                        shardlake_document::write_json(row.row.body.raw(), &mut text);
                        let row: Value = serde_json::from_slice(&text).expect("JSON");
                        expected.insert(format!("{} {}", row["id"], row), row);
                    }
                }
            }
        }
        expected.extend(groups.into_rows(&compiled));
        expected
    }

    /// Compares an index with its source by the server's own means.
    pub async fn verified(&self, index: &str, repair: Repair) -> IndexVerification {
        let copies = self.fixture.account.copies();
        copies.verify("db", index, repair).await.expect("it follows its source");
        let mut last = None;
        eventually("the comparison ends", async || {
            self.fixture.clock.advance(std::time::Duration::from_millis(10));
            last = copies.verification("db", index).expect("an index");
            last.as_ref().is_some_and(|report| report.state != VerifyState::Running)
        })
        .await;
        last.expect("it was begun")
    }

    /// Expects no difference.
    pub async fn verify(&self, index: &str, seed: u64) {
        let report = self.verified(index, Repair::No).await;
        assert_eq!((&report.state, report.differences), (&VerifyState::Done, 0), "seed {seed}: {report:#?}");
    }

    pub async fn check(&self, source: &str, index: &str) {
        assert_eq!(self.rows(index).await, self.expected(source, index).await, "{index} over {source}");
    }
}

/// Groups that are counted from items.
#[derive(Default)]
struct Groups(BTreeMap<String, (Vec<shardlake_account::Value>, GroupState)>);

impl Groups {
    fn add(&mut self, compiled: &IndexRows, item: &StoredItem, key: &PartitionKey) {
        for one in compiled.contributions_of(&item.view(), key).contributions {
            let begin = || (one.contribution.keys, compiled.derivation().new_group());
            self.0.entry(one.contribution.id).or_insert_with(begin).1.add(&one.contribution.arguments);
        }
    }

    fn into_rows(self, compiled: &IndexRows) -> BTreeMap<String, Value> {
        let row = |(id, (keys, state)): (String, (Vec<shardlake_account::Value>, GroupState))| {
            let row = compiled.derivation().group_row(&id, &keys, &state).ok()?;
            let mut text = Vec::new();
            shardlake_document::write_json(row.raw(), &mut text);
            let mut row: Value = serde_json::from_slice(&text).expect("JSON");
            row.as_object_mut().expect("an object").retain(|name, _| name != "_state");
            Some((format!("{} {}", row["id"], row), row))
        };
        self.0.into_iter().filter_map(row).collect()
    }
}
