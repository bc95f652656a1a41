//! Queries over items with summaries in the index: every answer is that of a scan, every prediction that
//! of the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shardlake_charge::ChargeTable;
use shardlake_document::{PatchOperation, Value, parse_item};
use shardlake_index::IndexLayout;
use shardlake_model::{
    ConsistencyLevel, Container, ContainerDefinition, ContainerRid, DatabaseRid, ErrorKind, KeyComponent,
    PartitionKey, PartitionKeyDefinition, Preconditions, Result,
};
use shardlake_routing::{KeyRange, effective_partition_key};
use shardlake_sql::{
    AccessPlan, ComputedProperties, GeometryKind, PageLimits, PreparedQuery, QueryEnvironment, parse_query,
    plan_access,
};
use shardlake_stdx::{Clock, CommitTimes, Guid, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use crate::{
    CommandContext, ContainerSchema, FeedFilter, ItemReply, LogicalKey, Operation, PageWork, Partition,
    PartitionIdentity, PartitionUid, PartitionWrite, QueryPage, QueryPageRequest, QueryStatistics, QueryWay,
    SampledIndex, SampledItems, SketchedPart, prepare_body, verify_partition,
};

const QUERIES: [&str; 8] = [
    "ARRAY_CONTAINS(c.t, 3)",
    "ARRAY_CONTAINS(c.t, 3) OR ARRAY_CONTAINS(c.u, 3)",
    "ARRAY_CONTAINS(c.t, 3) OR ARRAY_CONTAINS(c.t, 5) OR c.n = 1",
    "c.n = 1 OR ARRAY_CONTAINS(c.u, 7)",
    "ARRAY_CONTAINS(c.t, 3) AND ARRAY_CONTAINS(c.u, 3)",
    "EXISTS(SELECT VALUE t FROM t IN c.t WHERE t > 4 AND t < 7)",
    "EXISTS(SELECT VALUE w FROM w IN c.w WHERE w.x = 2) OR c.t[0] = 2",
    "c.n > 1 AND c.n <= 3",
];

/// Conditions on array elements in every form that the planner reads, and on properties around them.
const MORE: [&str; 26] = [
    "NOT ARRAY_CONTAINS(c.t, 3)",
    "NOT (ARRAY_CONTAINS(c.t, 3) OR c.n > 5)",
    "c.t[0] IN (2, 3)",
    "c.t[1] != 3",
    "c.t[0] >= 88",
    "IS_DEFINED(c.t[5])",
    "NOT IS_DEFINED(c.t[2])",
    "IS_DEFINED(c.w[1].x) AND c.n < 9",
    "IS_NUMBER(c.t[3]) AND ARRAY_CONTAINS(c.u, 7)",
    "IS_NULL(c.w[0].s)",
    "c.t = [3]",
    "ARRAY_CONTAINS(c.w, {'x': 2}, true)",
    "ARRAY_CONTAINS(c.w, {'x': 2, 's': 'b1'})",
    "ARRAY_CONTAINS_ANY(c.t, 3, 5, 200)",
    "ARRAY_CONTAINS_ALL(c.t, 3, 5)",
    "ARRAY_LENGTH(c.t) > 7 AND ARRAY_CONTAINS(c.t, 3)",
    "EXISTS(SELECT VALUE w FROM w IN c.w WHERE STARTSWITH(w.s, 'b'))",
    "EXISTS(SELECT VALUE w FROM w IN c.w WHERE CONTAINS(w.s, 'b') AND w.x = 1)",
    "EXISTS(SELECT VALUE i FROM w IN c.w JOIN i IN w.i WHERE i = 4)",
    "EXISTS(SELECT VALUE i FROM i IN c.o.i WHERE i > 1 AND i < 3)",
    "ARRAY_CONTAINS(c.o.i, 2) OR ARRAY_CONTAINS(c.t, 3) OR EXISTS(SELECT VALUE w FROM w IN c.w WHERE w.x = 2)",
    "(ARRAY_CONTAINS(c.t, 3) OR c.n = 4) AND (ARRAY_CONTAINS(c.u, 5) OR c.n < 30)",
    "ARRAY_CONTAINS(c.t, 3) AND c.n IN (1, 2, 3, 4, 5, 6, 7, 8)",
    "c.w[0].i[0] = 4",
    "c.o.i[0] = c.t[0]",
    "ARRAY_CONTAINS(c.t, c.n)",
];

/// Whole queries: joins, counts, groups and orders.
const WHOLE: [&str; 9] = [
    "SELECT VALUE c.id FROM c JOIN t IN c.t WHERE t > 4 AND t < 9",
    "SELECT VALUE c.id FROM c JOIN t IN c.t JOIN u IN c.u WHERE t = 3 AND u < 20",
    "SELECT VALUE COUNT(1) FROM c WHERE ARRAY_CONTAINS(c.t, 3)",
    "SELECT VALUE COUNT(1) FROM c WHERE c.n > 1 AND c.n <= 30",
    "SELECT VALUE COUNT(1) FROM c JOIN t IN c.t WHERE t = 3 OR c.n = 1",
    "SELECT c.n, COUNT(1) AS k FROM c WHERE ARRAY_CONTAINS(c.u, 7) GROUP BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(c.t, 3) ORDER BY c.n DESC",
    "SELECT DISTINCT VALUE t FROM c JOIN t IN c.t WHERE t < 9",
];

struct Fixture {
    shard: Shard,
    shape: Arc<ContainerSchema>,
    partition: Arc<Partition>,
}

fn identity() -> PartitionIdentity {
    PartitionIdentity {
        uid: PartitionUid(3),
        range_id: 0,
        epk_range: KeyRange::full(),
        rid_prefix: 0,
        inherited_prefixes: Vec::new(),
        session_version: 0,
    }
}

impl Fixture {
    /// An index with summaries of the arrays of items with more terms than this; `None`: no index.
    async fn new(exact_terms_max: Option<usize>) -> Fixture {
        let container = Container {
            rid: ContainerRid { database: DatabaseRid(1), number: 1 },
            etag: [0; 16],
            timestamp: 0,
            definition: ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk")),
            kept: None,
            is_collection: false,
            narrowings: Vec::new(),
            bounds: None,
        };
        let policy = &container.definition.indexing_policy;
        let layout = IndexLayout::new(1, policy, ComputedProperties::default()).expect("compiles");
        let layout = layout.filter(|_| exact_terms_max.is_some());
        let layouts = (layout.map(|layout| Arc::new(layout.with_exact_terms_max(exact_terms_max))), None);
        let shape = ContainerSchema::new(&container, layouts, Arc::default(), ChargeTable::default());
        let shape = Arc::new(shape.expect("a plain container"));
        let shard = Shard::open(ShardOptions::memory()).await.expect("opens");
        let times = CommitTimes::new(Clock::manual(Timestamp(0)));
        let partition = Partition::open((shard.clone(), times), identity(), shape.maintained()).await;
        Fixture { shard, shape, partition: Arc::new(partition.expect("opens")) }
    }

    fn command(&self) -> CommandContext {
        CommandContext {
            now: Timestamp(1_700_000_000_000),
            consistency: ConsistencyLevel::default(),
            etags: vec![Guid([1; 16])],
            patience: Duration::from_secs(60),
            unwanted: Vec::new(),
            commit: Default::default(),
        }
    }

    async fn upsert(&self, json: &str) {
        let body = parse_item(json.as_bytes(), &Default::default()).expect("a body");
        let item = prepare_body(body, &self.shape).expect("valid");
        self.write(Operation::Upsert { item, preconditions: Preconditions::default() }).await;
    }

    async fn write(&self, operation: Operation) {
        self.written(operation).await.expect("written");
    }

    async fn write_if_there(&self, operation: Operation) {
        if let Err(error) = self.written(operation).await {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
    }

    async fn written(&self, operation: Operation) -> Result<ItemReply> {
        let partition_key = PartitionKey::single(KeyComponent::String("p".to_owned()));
        let epk = effective_partition_key(&self.shape.key_definition, &partition_key);
        let key = LogicalKey { epk, partition_key };
        let write = PartitionWrite { key, operations: vec![operation], context: self.command() };
        self.partition.write(&self.shape, &Arc::new(write)).await
    }

    fn planned(&self, filter: &str) -> (PreparedQuery, AccessPlan) {
        let filtered = format!("SELECT VALUE c.id FROM c WHERE {filter}");
        let text = if filter.starts_with("SELECT") { filter } else { &filtered };
        let query = parse_query(text).expect("parses");
        let environment = QueryEnvironment {
            computed: &self.shape.computed,
            geometry: GeometryKind::Geography,
            now: Timestamp(1_700_000_000_000),
            random_seed: 1,
            scripts: None,
        };
        let query = PreparedQuery::prepare(&query, &[], &environment).expect("binds");
        let access = plan_access(&query, &self.shape.index_schema(), &[]).expect("plans");
        (query, access)
    }

    async fn page(
        &self,
        (query, access): &(PreparedQuery, AccessPlan),
        rows: usize,
        resume: Option<&[u8]>,
    ) -> QueryPage {
        let request = QueryPageRequest {
            query,
            access,
            filter: &FeedFilter::Range(KeyRange::full()),
            own: None,
            within: None,
            resume,
            resume_filter: None,
            limits: PageLimits { rows, size_bytes: 1 << 20 },
            collects: None,
            kept: None,
            functions: None,
            is_page_time_spent: &|| false,
            is_interrupted: &|| false,
            work: &PageWork::default(),
            clock: None,
        };
        self.partition.query_page(&self.shape, &self.command(), request).await.expect("answers")
    }

    /// The ids that a filter finds, page by page, and the accesses taken.
    async fn ids(&self, filter: &str, page: usize) -> (Vec<String>, BTreeSet<String>) {
        let planned = self.planned(filter);
        let (mut ids, mut accesses, mut resume) = (Vec::new(), BTreeSet::new(), None::<Vec<u8>>);
        loop {
            let found = self.page(&planned, page, resume.as_deref()).await;
            accesses.insert(found.access.into_owned());
            ids.extend(found.rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()));
            resume = found.next;
            if resume.is_none() {
                ids.sort();
                return (ids, accesses);
            }
        }
    }

    /// The index of a sample that has all items.
    async fn sampled(&self) -> SampledIndex {
        let limits = crate::PageLimits { items: 1000, size_bytes: 1 << 24 };
        let all = FeedFilter::Range(KeyRange::full());
        let page = self.partition.read_page(&self.shape, &self.command(), &all, None, limits).await;
        let items = page.expect("items").items;
        SampledIndex::new(&Arc::new(SampledItems::new(items, &self.shape)), &self.shape)
    }
}

fn item(random: &Random, id: u64) -> String {
    let below = |end: u64| random.below(end);
    let numbers = |random: &Random, most: u64, values: u64| {
        let list: Vec<String> = (0..random.below(most)).map(|_| random.below(values).to_string()).collect();
        format!("[{}]", list.join(","))
    };
    let object = |_| {
        let (x, inner, text) = (below(6), numbers(random, 4, 30), ["null", "\"a1\"", "\"b1\"", "\"b2\""]);
        format!(r#"{{"x":{x},"s":{},"i":{inner}}}"#, text[below(4) as usize])
    };
    let objects: Vec<String> = (0..below(4)).map(object).collect();
    let (t, u, i, n) = (numbers(random, 9, 90), numbers(random, 9, 90), numbers(random, 3, 9), below(60));
    format!(r#"{{"id":"{id}","pk":"p","n":{n},"t":{t},"u":{u},"w":[{}],"o":{{"i":{i}}}}}"#, objects.join(","))
}

/// A write that may take an item across the maximum of exact terms, in either direction.
enum Change {
    Upsert(String),
    Append(u64, Vec<Value>),
    Truncate(u64),
    Delete(u64),
}

impl Change {
    fn random(random: &Random, id: u64) -> Change {
        match random.below(10) {
            0 => Change::Append(id, (0..12).map(|_| Value::Int(random.below(90) as i64)).collect()),
            1 => Change::Truncate(id),
            2 => Change::Delete(id),
            _ => Change::Upsert(item(random, id)),
        }
    }
}

impl Fixture {
    async fn change(&self, change: &Change) {
        let set = |id: &u64, path: &[&str], value: Value| Operation::Patch {
            id: id.to_string(),
            operations: vec![PatchOperation::Set {
                path: path.iter().map(|name| (*name).to_owned()).collect(),
                value,
            }],
            condition: None,
            preconditions: Preconditions::default(),
        };
        match change {
            Change::Upsert(json) => self.upsert(json).await,
            Change::Append(id, values) => {
                self.write_if_there(set(id, &["u"], Value::Array(values.clone()))).await;
            }
            Change::Truncate(id) => self.write_if_there(set(id, &["t"], Value::Array(vec![]))).await,
            Change::Delete(id) => {
                let preconditions = Preconditions::default();
                self.write_if_there(Operation::Delete { id: id.to_string(), preconditions }).await;
            }
        }
    }
}

#[tokio::test]
async fn answers_are_those_of_a_scan_with_and_without_summaries() {
    let random = Random::seeded(7);
    let (bare, exact) = (Fixture::new(None).await, Fixture::new(Some(8192)).await);
    let (few, all) = (Fixture::new(Some(40)).await, Fixture::new(Some(0)).await);
    let fixtures = [&bare, &exact, &few, &all];
    // Enough for the index to be worth its while, and each item more than once.
    for _ in 0..900 {
        let change = Change::random(&random, random.below(600));
        for fixture in fixtures {
            fixture.change(&change).await;
        }
    }
    let mut by_index = [0; 4];
    for filter in QUERIES.into_iter().chain(MORE).chain(WHOLE) {
        let (expected, _) = bare.ids(filter, 1000).await;
        for (fixture, by_index) in fixtures.iter().zip(&mut by_index).skip(1) {
            for page in [3, 1000] {
                let (found, accesses) = fixture.ids(filter, page).await;
                assert_eq!(found, expected, "{filter}, {page} a page, by {accesses:?}");
                *by_index += usize::from(accesses.iter().any(|access| access.starts_with("index")));
            }
        }
    }
    let [_, exactly, with_few, _] = by_index;
    assert!(exactly > 30 && with_few > 20, "answers by the index: {by_index:?}");
    for fixture in fixtures {
        let report =
            verify_partition(&fixture.shard, &identity(), &fixture.shape, &|_| ()).await.expect("readable");
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

/// Without rows and steps of evaluation.
fn reads(statistics: &QueryStatistics) -> QueryStatistics {
    QueryStatistics {
        postings_read: statistics.postings_read,
        items_loaded: statistics.items_loaded,
        items_loaded_bytes: statistics.items_loaded_bytes,
        items_scanned: statistics.items_scanned,
        ..QueryStatistics::default()
    }
}

#[tokio::test]
async fn predictions_from_all_items_have_the_figures_of_the_engine() {
    let mut by_entries = 0;
    for exact_terms_max in [40, 0] {
        let (random, fixture) = (Random::seeded(7), Fixture::new(Some(exact_terms_max)).await);
        for id in 0..500 {
            fixture.upsert(&item(&random, id)).await;
        }
        let index = fixture.sampled().await;
        let full = KeyRange::full();
        let part = SketchedPart { range: full.clone(), items: 500, filter: FeedFilter::Range(full) };
        for filter in QUERIES {
            let planned = fixture.planned(filter);
            let page = fixture.page(&planned, 1000, None).await;
            let (query, access) = &planned;
            let sketch = index
                .sketch(query, access, (std::slice::from_ref(&part), false), &|| false)
                .expect("a sketch");
            let [predicted] = &sketch.pages[..] else { panic!("one page per part") };
            assert_eq!(reads(&predicted.statistics), reads(&page.statistics), "{filter}: {}", page.access);
            by_entries += usize::from(predicted.way == QueryWay::Entries);
        }
    }
    assert!(by_entries > 2, "{by_entries} by entries");
}
