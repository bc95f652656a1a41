//! A container read in every way that clients have, and compared with its expected content.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, key_scope};
use std::collections::BTreeMap;
use std::time::Duration;

use shardlake_account::{
    BulkOnError, ChangeFeedMode, ChangeFeedRequest, ContainerHandle, FeedScope, FeedStart, KeyRange,
};
use shardlake_document::Value as Row;
use shardlake_model::{ChangeFeedPolicy, ContainerDefinition, ErrorKind, PartitionKeyDefinition, UniqueKey};

use super::{Fixture, json, none};

/// The value of `v` by partition key and id.
pub type Items = BTreeMap<(String, String), u64>;

/// A container with everything that a write must keep in step: an index, unique keys, kept versions.
pub fn definition() -> ContainerDefinition {
    let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    definition.unique_key_policy.unique_keys = vec![UniqueKey { paths: vec!["/u".into()] }];
    definition.change_feed_policy = Some(ChangeFeedPolicy { retention_duration: 60 });
    definition
}

pub fn body(pk: &str, id: &str, v: u64) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","v":{v},"u":"{id} {v}"}}"#)
}

pub fn key_of(pk: &str) -> String {
    format!("[\"{pk}\"]")
}

pub fn operation(kind: BatchKind, id: &str, body: Option<String>) -> BatchOperation {
    BatchOperation {
        kind,
        id: Some(id.to_owned()),
        body: body.map(String::into_bytes),
        patch: None,
        partition_key: None,
        preconditions: none(),
    }
}

/// Where the change feed of all versions is now, which begins nowhere else.
pub async fn position(fixture: &Fixture, container: &ContainerHandle) -> String {
    let mode = ChangeFeedMode::AllVersionsAndDeletes;
    let request = ChangeFeedRequest { mode, start: FeedStart::Now, ..ChangeFeedRequest::default() };
    let page = fixture.account.items().change_feed(&fixture.ctx(), container, &request).await;
    page.expect("a page").etag
}

/// Expected content of a container.
#[derive(Debug, Default)]
pub struct Expected {
    pub items: Items,
    /// Items that must be missing.
    pub absent: Vec<(String, String)>,
    /// The position of the change feed of all versions before the first item was written.
    pub position: String,
}

/// The ways of reading that differ from the expected content; an error is a difference, too.
pub async fn differences(fixture: &Fixture, container: &ContainerHandle, expected: &Expected) -> Vec<String> {
    let Expected { items: expected, absent, position } = expected;
    let look = Look { fixture, container };
    let mut found = Vec::new();
    let mut compare = |way: &str, seen: Result<Items, String>| match seen {
        Ok(seen) if seen == *expected => {}
        Ok(seen) => found.push(format!("{way}: {}", difference(&seen, expected))),
        Err(error) => found.push(format!("{way}: {error}")),
    };
    compare("point reads", look.points(expected, absent).await);
    compare("bulk reads", look.bulk(expected, absent).await);
    compare("a feed of everything", look.feed(FeedScope::All).await);
    compare("feeds of ranges", look.range_feeds().await);
    compare("feeds of keys", look.key_feeds(expected, absent).await);
    compare("a query that scans", look.query("SELECT * FROM c WHERE c.v + 0 >= 0").await);
    compare("a query by the index", look.query("SELECT * FROM c WHERE c.v >= 0").await);
    compare("a query in the index's order", look.query("SELECT * FROM c ORDER BY c.v").await);
    compare("the change feed", look.change_feed(ChangeFeedMode::LatestVersion, None).await);
    compare("the change feed of all versions", look.all_versions(position).await);
    let totals = [
        ("a count", look.count("SELECT VALUE COUNT(1) FROM c").await),
        ("a count by the index", look.count("SELECT VALUE COUNT(1) FROM c WHERE c.v >= 0").await),
        ("the totals", Ok(container.usage().items)),
        ("the change log", look.log().await),
        ("the sizes", look.sizes().await),
    ];
    for (way, total) in totals {
        if total != Ok(expected.len() as u64) {
            found.push(format!("{way}: {total:?} instead of {}", expected.len()));
        }
    }
    found
}

fn difference(seen: &Items, expected: &Items) -> String {
    let all = seen.keys().chain(expected.keys()).collect::<std::collections::BTreeSet<_>>();
    let differing = all.into_iter().filter(|key| seen.get(*key) != expected.get(*key));
    let words = differing
        .map(|key| format!("{}/{} is {:?} instead of {:?}", key.0, key.1, seen.get(key), expected.get(key)));
    words.collect::<Vec<_>>().join(", ")
}

struct Look<'a> {
    fixture: &'a Fixture,
    container: &'a ContainerHandle,
}

impl Look<'_> {
    async fn points(&self, expected: &Items, absent: &[(String, String)]) -> Result<Items, String> {
        let mut seen = Items::new();
        for (pk, id) in expected.keys().chain(absent) {
            let (ctx, any, key) = (self.fixture.ctx(), none(), key_of(pk));
            let read = self.fixture.account.read_item(&ctx, self.container, Some(KeyInput(&key)), id, &any);
            match read.await {
                Ok(reply) => seen.extend([named(&json(&reply.item.expect("a read has an item")))]),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(seen)
    }

    async fn bulk(&self, expected: &Items, absent: &[(String, String)]) -> Result<Items, String> {
        let read = |(pk, id): &(String, String)| {
            let partition_key = Some(key_of(pk));
            BatchOperation { partition_key, ..operation(BatchKind::Read, id, None) }
        };
        let reads: Vec<_> = expected.keys().chain(absent).map(read).collect();
        let mut seen = Items::new();
        for some in reads.chunks(100) {
            let ctx = self.fixture.ctx();
            let account = &self.fixture.account;
            let replies = account.json_bulk(&ctx, self.container, None, some.to_vec(), BulkOnError::Continue);
            for reply in replies.await.map_err(|error| error.to_string())? {
                match reply {
                    Ok(reply) => seen.extend([named(&json(&reply.item.expect("a read has an item")))]),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
        Ok(seen)
    }

    async fn feed(&self, scope: FeedScope) -> Result<Items, String> {
        let (mut seen, mut continuation) = (Items::new(), None::<String>);
        loop {
            let ctx = self.fixture.ctx();
            let token = continuation.as_deref();
            let account = &self.fixture.account;
            let page = account.items().read_feed(&ctx, self.container, scope.clone(), Some(7), token).await;
            let page = page.map_err(|error| error.to_string())?;
            seen.extend(page.items.iter().map(|item| named(&json(item))));
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(seen);
            }
        }
    }

    async fn range_feeds(&self) -> Result<Items, String> {
        let mut seen = Items::new();
        for range in self.container.partition_key_ranges() {
            let scope = FeedScope::Range { range_id: Some(range.id), epk: None };
            seen.extend(self.feed(scope).await?);
        }
        Ok(seen)
    }

    async fn key_feeds(&self, expected: &Items, absent: &[(String, String)]) -> Result<Items, String> {
        let mut seen = Items::new();
        let keys: std::collections::BTreeSet<_> = expected.keys().chain(absent).map(|(pk, _)| pk).collect();
        for pk in keys {
            seen.extend(self.feed(key_scope(key_of(pk))).await?);
        }
        Ok(seen)
    }

    async fn query(&self, text: &str) -> Result<Items, String> {
        let answer = self.fixture.answer(self.container, text, 7).await.map_err(|error| error.to_string())?;
        let rows = answer.rows.iter().map(|row| {
            named(&serde_json::from_str(&row.to_json().expect("rows are JSON")).expect("rows are JSON"))
        });
        Ok(rows.collect())
    }

    async fn count(&self, text: &str) -> Result<u64, String> {
        let answer = self.fixture.answer(self.container, text, 7).await.map_err(|error| error.to_string())?;
        match &answer.rows[..] {
            [Row::Int(number)] => Ok(*number as u64),
            other => Err(format!("{other:?}")),
        }
    }

    async fn all_versions(&self, after: &str) -> Result<Items, String> {
        self.change_feed(ChangeFeedMode::AllVersionsAndDeletes, Some(after.to_owned())).await
    }

    /// Result of the changes, read from a position or the beginning.
    async fn change_feed(&self, mode: ChangeFeedMode, after: Option<String>) -> Result<Items, String> {
        let (mut seen, mut etag) = (Items::new(), after);
        loop {
            let start = etag.as_deref().map_or(FeedStart::Beginning, FeedStart::After);
            let request =
                ChangeFeedRequest { mode, start, max_items: Some(7), ..ChangeFeedRequest::default() };
            let page =
                self.fixture.account.items().change_feed(&self.fixture.ctx(), self.container, &request).await;
            let page = page.map_err(|error| error.to_string())?;
            let text = [b"[", &page.changes[..], b"]"].concat();
            let changes: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("changes are JSON");
            for change in changes {
                match (mode, change["metadata"]["operationType"].as_str()) {
                    (ChangeFeedMode::LatestVersion, _) => seen.extend([named(&change)]),
                    (_, Some("delete")) => {
                        seen.remove(&named(&change["previous"]).0);
                    }
                    _ => seen.extend([named(&change["current"])]),
                }
            }
            if page.is_last && page.count == 0 {
                return Ok(seen);
            }
            etag = Some(page.etag);
        }
    }

    /// Number of items by the partitions' logs: creations minus deletions.
    async fn log(&self) -> Result<u64, String> {
        use shardlake_account::ChangeKind;
        let mut items = 0u64;
        for range in self.container.partition_key_ranges() {
            let full = KeyRange::full();
            let log = self.fixture.account.items().changes(self.container, range.id, &full, 0, 100_000);
            for (_, entry) in log.await.map_err(|error| error.to_string())?.entries {
                for operation in entry.operations {
                    match operation.kind {
                        ChangeKind::Create => items += 1,
                        ChangeKind::Delete | ChangeKind::Expire => items = items.wrapping_sub(1),
                        ChangeKind::Replace => {}
                    }
                }
            }
        }
        Ok(items)
    }

    /// Items by the sizes of the logical partitions.
    async fn sizes(&self) -> Result<u64, String> {
        let report = self
            .fixture
            .account
            .maintenance()
            .container_report(self.container, Duration::from_secs(60))
            .await;
        let report = report.map_err(|error| error.to_string())?;
        let largest = report.partitions.iter().flat_map(|partition| &partition.largest);
        Ok(largest.map(|key| key.size.items).sum())
    }
}

pub fn named(item: &serde_json::Value) -> ((String, String), u64) {
    let text = |name: &str| item[name].as_str().unwrap_or_else(|| panic!("{name} in {item}")).to_owned();
    ((text("pk"), text("id")), item["v"].as_u64().expect("a number"))
}
