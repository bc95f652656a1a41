//! A front end that speaks BSON, in a few lines: it creates, reads, filters, batches and follows
//! without a line of JSON or of SQL, and its ids are of any kind. It stands for front ends of other
//! protocols: the façade must offer everything that it needs.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};
use shardlake_account::sql::{ItemQuery, Predicate, SortDirection};
use shardlake_account::{
    Body, Change, ChangeFeedMode, ChangeFeedRequest, ChangeSink, ContainerHandle, FeedScope, FeedStart,
    ItemId, ItemOperation, ItemRead, ItemWrite, ItemsRequest, KeyedOperation, Patch, PatchOperation,
    ReadCommand, Shards, StoredItem, Value, WriteCommand, verify,
};
use shardlake_document::RawDocument;
use shardlake_model::{
    ChangeFeedPolicy, ContainerDefinition, ErrorKind, KeyComponent, PartitionKey, PartitionKeyDefinition,
    Preconditions, Result,
};

use crate::support::{Fixture, memory_shards};

/// In documents the id is called `_id`, in items `id`.
fn renamed(document: &Document, from: &str, to: &str) -> Document {
    let name = |name: &String| if name == from { to.to_owned() } else { name.clone() };
    document.iter().map(|(own, value)| (name(own), value.clone())).collect()
}

fn body_of(document: &Document) -> Body {
    let bytes = renamed(document, "_id", "id").to_vec().expect("BSON");
    Body::from_bson(bytes).expect("an item")
}

fn document_of(body: &[u8]) -> Document {
    renamed(&Document::from_reader(body).expect("BSON"), "id", "_id")
}

/// A value in a document, as conditions compare it.
fn value_of(value: impl Into<Bson>) -> Value {
    let body = Body::from_bson(doc! { "": value.into() }.to_vec().expect("BSON")).expect("a value");
    body.raw().get("").map(Value::from_raw).expect("a value")
}

fn id_of(id: impl Into<Bson>) -> ItemId {
    let bytes = doc! { "": id.into() }.to_vec().expect("BSON");
    let value = RawDocument::validate(&bytes).expect("valid").get("").expect("a value");
    ItemId::of_value(value).expect("a kind that ids may have")
}

fn key_of(shop: &str) -> PartitionKey {
    PartitionKey::single(KeyComponent::String(shop.to_owned()))
}

fn path(name: &str) -> Vec<String> {
    name.split('.').map(str::to_owned).collect()
}

/// The changes of a page: the written documents and the ended ones.
#[derive(Debug, Default)]
struct Documents {
    changes: Vec<(Option<Document>, Option<Document>)>,
}

impl ChangeSink for Documents {
    fn push(&mut self, change: &Change<'_>) {
        let document = |item: &StoredItem| document_of(item.body().as_bytes());
        self.changes.push(match change {
            Change::Latest(item) => (Some(document(item)), None),
            Change::Version { current, previous, .. } => (current.map(document), previous.map(document)),
        });
    }

    /// In changes, which is as good a measure.
    fn size_bytes(&self) -> usize {
        self.changes.len()
    }

    fn cut(&mut self, size: usize) {
        self.changes.truncate(size);
    }
}

struct BsonDoor {
    fixture: Fixture,
    container: ContainerHandle,
}

impl BsonDoor {
    async fn open(throughput: u64) -> BsonDoor {
        BsonDoor::over(memory_shards(1).await, throughput).await
    }

    async fn over(shards: Shards, throughput: u64) -> BsonDoor {
        let fixture = Fixture::over(shards).await;
        let mut definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/shop"));
        definition.change_feed_policy = Some(ChangeFeedPolicy { retention_duration: 10 });
        let container = fixture.container_with(definition, throughput).await;
        BsonDoor { fixture, container }
    }

    async fn insert(&self, document: &Document) -> Result<Document> {
        let command = WriteCommand::create(body_of(document));
        let ctx = self.fixture.ctx();
        let written = self.fixture.account.items().write_item(&ctx, &self.container, command).await?;
        Ok(document_of(written.item.expect("a version").body().as_bytes()))
    }

    async fn read(&self, shop: &str, id: impl Into<Bson>) -> Result<Document> {
        let read = ItemRead { item: id_of(id).into(), preconditions: Preconditions::default() };
        let command = ReadCommand { key: Some(key_of(shop)), read };
        let reply = self.fixture.account.items().read(&self.fixture.ctx(), &self.container, command).await?;
        Ok(document_of(reply.item.expect("a version").body().as_bytes()))
    }

    async fn find(&self, query: &ItemQuery, scope: FeedScope) -> Vec<Document> {
        let (built, mut found, mut continuation) = (query.build(), Vec::new(), None::<String>);
        loop {
            let request = ItemsRequest {
                built: &built,
                scope: scope.clone(),
                max_items: Some(3),
                continuation: continuation.as_deref(),
                in_any_order: false,
                within: None,
            };
            let ctx = self.fixture.ctx();
            let page = self
                .fixture
                .account
                .queries()
                .find_items(&ctx, &self.container, request)
                .await
                .expect("a page");
            found.extend(page.rows.iter().map(document_of));
            continuation = page.continuation;
            if continuation.is_none() {
                return found;
            }
        }
    }

    /// All or nothing; returns which operation failed.
    async fn batch(&self, shop: &str, writes: Vec<ItemWrite>) -> Result<(), (usize, ErrorKind)> {
        let keyed =
            |write| Ok(KeyedOperation { key: None, operation: ItemOperation::Write(write), content: true });
        let operations = writes.into_iter().map(keyed).collect();
        let (ctx, key) = (self.fixture.ctx(), key_of(shop));
        let reply =
            self.fixture.account.items().batch(&ctx, &self.container, &key, operations).await.expect("runs");
        reply.outcome.map(drop).map_err(|failure| (failure.index, failure.error.kind()))
    }

    async fn changes(&self, mode: ChangeFeedMode, start: FeedStart<'_>) -> (Documents, String) {
        let request = ChangeFeedRequest { mode, start, max_items: Some(100), ..Default::default() };
        let ctx = self.fixture.ctx();
        let page =
            self.fixture.account.items().changes_in(&ctx, &self.container, &request).await.expect("a page");
        (page.changes, page.etag)
    }
}

fn none() -> Preconditions {
    Preconditions::default()
}

#[tokio::test]
async fn documents_of_every_kind_come_back_as_they_were() {
    let door = BsonDoor::open(400).await;
    let document = doc! {
        "_id": ObjectId::from_bytes([7; 12]), "shop": "a", "small": 1i32, "wide": 1i64, "real": 1.0,
        "nothing": f64::NAN, "at": DateTime::from_millis(1_700_000_000_000), "price": "1.10".parse::<bson::Decimal128>().expect("a decimal"),
        "picture": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2] },
        "nested": [{ "least": Bson::MinKey }, Bson::Undefined, Bson::Symbol("s".to_owned())],
    };
    // NaN is not equal to itself, but its bytes are.
    let bytes = |document: &Document| document.to_vec().expect("BSON");
    assert_eq!(bytes(&door.insert(&document).await.expect("inserted")), bytes(&document));
    let read = door.read("a", ObjectId::from_bytes([7; 12])).await.expect("read");
    assert_eq!(bytes(&read), bytes(&document));
}

#[tokio::test]
async fn ids_of_different_kinds_are_different_items_and_equal_numbers_are_one() {
    let shards = memory_shards(1).await;
    let door = BsonDoor::over(shards.clone(), 400).await;
    let ids = [Bson::Int32(1), "1".into(), true.into(), Bson::Null, DateTime::from_millis(1).into()];
    for id in &ids {
        door.insert(&doc! { "_id": id.clone(), "shop": "a" }).await.expect("inserted");
    }
    for id in &ids {
        assert_eq!(door.read("a", id.clone()).await.expect("read").get("_id"), Some(id));
    }
    let taken = door.insert(&doc! { "_id": 1.0, "shop": "a" }).await.expect_err("1 is there");
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    let list = door.insert(&doc! { "_id": [1], "shop": "a" }).await.expect_err("no id");
    assert_eq!(list.kind(), ErrorKind::BadRequest);
    let report = verify(shards).await.expect("readable");
    assert_eq!(report.problem_count(), 0, "{report:?}");
}

#[tokio::test]
async fn filters_orders_and_limits_hold_over_all_partitions() {
    let door = BsonDoor::open(30_000).await;
    let owner = ObjectId::from_bytes([1; 12]);
    for number in 0i64..20 {
        let shop = format!("s{}", number % 5);
        let owned = if number % 2 == 0 { Bson::ObjectId(owner) } else { Bson::Null };
        door.insert(&doc! { "_id": number, "shop": shop, "n": { "v": number }, "owner": owned })
            .await
            .expect("inserted");
    }
    let owned = Predicate::Equal { path: path("owner"), value: value_of(owner) };
    let range = Predicate::Range {
        path: path("n.v"),
        from: Some((Value::Int(4), true)),
        to: Some((Value::Int(16), false)),
    };
    let order_by = vec![(path("n.v"), SortDirection::Descending)];
    let numbers = |found: Vec<Document>| -> Vec<i64> {
        found.iter().map(|document| document.get_i64("_id").expect("as it was inserted")).collect()
    };
    let filter = Some(Predicate::All(vec![owned, range]));
    let query = ItemQuery { filter, order_by, limit: Some(4) };
    assert_eq!(numbers(door.find(&query, FeedScope::All).await), [14, 12, 10, 8]);
    let of_one = ItemQuery { limit: None, ..query };
    assert_eq!(numbers(door.find(&of_one, FeedScope::Key(key_of("s2"))).await), [12]);
    let either = [3, 17].map(|number| Predicate::Equal { path: path("n.v"), value: Value::Int(number) });
    let any = ItemQuery { filter: Some(Predicate::Any(either.to_vec())), ..ItemQuery::default() };
    let mut found = numbers(door.find(&any, FeedScope::All).await);
    found.sort_unstable();
    assert_eq!(found, [3, 17]);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing_and_followers_see_what_it_did() {
    let door = BsonDoor::open(400).await;
    let (_, start) = door.changes(ChangeFeedMode::AllVersionsAndDeletes, FeedStart::Now).await;
    let old = doc! { "_id": 1i64, "shop": "a", "wide": 1i64 };
    door.insert(&old).await.expect("inserted");
    let (first, second) = (doc! { "_id": 2, "shop": "a" }, doc! { "_id": 1i32, "shop": "a" });
    let create = |document: &Document| ItemWrite::Create { body: body_of(document) };
    let failed = door.batch("a", vec![create(&first), create(&second)]).await;
    assert_eq!(failed, Err((1, ErrorKind::Conflict)));
    assert_eq!(door.read("a", 2).await.expect_err("nothing was done").kind(), ErrorKind::NotFound);

    let set = PatchOperation::Set { path: path("seen"), value: Value::Bool(true) };
    let patch = Patch { operations: vec![set], condition: None };
    let patched = ItemWrite::Patch { item: id_of(1).into(), patch, preconditions: none() };
    door.batch("a", vec![create(&first), patched]).await.expect("done");
    let new = doc! { "_id": 1i64, "shop": "a", "wide": 1i64, "seen": true };
    assert_eq!(door.read("a", 1).await.expect("read"), new, "a patch keeps the kinds of what it leaves");
    let delete = ItemWrite::Delete { item: id_of(2).into(), preconditions: none() };
    door.batch("a", vec![delete]).await.expect("done");

    let (latest, _) = door.changes(ChangeFeedMode::LatestVersion, FeedStart::Beginning).await;
    assert_eq!(latest.changes, [(Some(new.clone()), None)]);
    let (all, _) = door.changes(ChangeFeedMode::AllVersionsAndDeletes, FeedStart::After(&start)).await;
    let expected =
        [(Some(old.clone()), None), (Some(first.clone()), None), (Some(new), Some(old)), (None, Some(first))];
    assert_eq!(all.changes, expected);
}
