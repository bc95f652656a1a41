//! Operations for the comparison of builds: one entry for each path through the server.
//!
//! Signatures depend on the account's key alone, so all builds get the same bytes. Writes of every round have ids of their own.

use std::sync::Arc;

use shardlake_testkit::{Client, EMULATOR_KEY};

use crate::query_workload::{self, GROUP_SIZE, Queries, Target};
use crate::requests::Requests;
use crate::script::{Numbered, Template};
use crate::workload::{Creates, DATABASE, Patches, Reads, Replaces, Signer, key_of};

const PROCEDURE_CONNECTIONS: usize = 8;
const FEED_PAGE_ITEMS: usize = 100;

pub const POINT_READ: &str = "point read";
pub const CREATE: &str = "durable create";
pub const REPLACE: &str = "durable replace";
pub const PATCH: &str = "durable patch of one property";
pub const ONE_ROW: &str = "1 row of 100 in a logical partition";
pub const FIFTY_ROWS: &str = "50 rows of 100 in a logical partition";
pub const TOP: &str = "TOP 100 ORDER BY over 5 partitions";
pub const EQUALITY: &str = "equality of 10 rows over 5 partitions";
pub const FILTER: &str = "filter without an index";
pub const COUNT: &str = "COUNT of an indexed equality";
pub const EMPTY_PROCEDURE: &str = "empty procedure";
pub const PROCEDURE: &str = "procedure of two creates";
pub const BATCH: &str = "batch of two creates";
pub const FEED: &str = "change feed page of 100";

/// Cases that run procedures, and the case that they are compared with.
pub const SCRIPTS: [&str; 3] = [EMPTY_PROCEDURE, PROCEDURE, BATCH];

pub struct Case {
    pub name: &'static str,
    /// As many as the comparison uses.
    pub connections: usize,
    /// Makes the requests of a round.
    pub requests: Box<dyn Fn(usize) -> Arc<dyn Requests>>,
}

/// All cases, reads before writes.
pub fn all(client: &Client, items: u64) -> Vec<Case> {
    let mut cases = reads(items);
    cases.extend(queries(items));
    cases.extend(writes(items));
    cases.extend(scripts(client));
    cases
}

impl Case {
    fn new(
        name: &'static str,
        connections: usize,
        requests: impl Fn(usize) -> Arc<dyn Requests> + 'static,
    ) -> Case {
        Case { name, connections, requests: Box::new(requests) }
    }

    pub fn same_each_round(name: &'static str, connections: usize, requests: impl Requests) -> Case {
        let requests: Arc<dyn Requests> = Arc::new(requests);
        Case::new(name, connections, move |_| requests.clone())
    }
}

fn signer() -> Signer {
    Signer::new(EMULATOR_KEY)
}

fn reads(items: u64) -> Vec<Case> {
    vec![
        Case::same_each_round(POINT_READ, 16, Reads::new(&signer(), items)),
        Case::same_each_round(FEED, 4, FeedPage::new(&signer())),
    ]
}

fn writes(items: u64) -> Vec<Case> {
    vec![
        Case::new(CREATE, 16, |round| Arc::new(Creates::new(&signer(), format!("r{round}")))),
        Case::new(REPLACE, 16, move |round| Arc::new(Replaces::new(&signer(), items, round))),
        Case::new(PATCH, 16, move |round| Arc::new(Patches::new(&signer(), items, round))),
    ]
}

/// Queries of the container in 5 partitions.
pub fn queries(items: u64) -> Vec<Case> {
    let in_one = |condition: fn(u64) -> String| {
        Queries::new((0..2000).map(|n| {
            let text = format!("SELECT * FROM c WHERE {}", condition(n));
            (Target::Key(key_of((n * 7919) % items)), text)
        }))
    };
    let groups = (items / GROUP_SIZE).max(1);
    let equality = (0..500).map(|n| {
        let text = format!("SELECT * FROM c WHERE c[\"group\"] = {}", (n * 7919) % groups);
        (Target::Everything, text)
    });
    let top = [(Target::Everything, "SELECT TOP 100 * FROM c ORDER BY c.rank".to_owned())];
    let count = |filter| [(Target::FirstRange, format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}"))];
    vec![
        Case::same_each_round(ONE_ROW, 16, in_one(|n| format!("c.slot = {}", n % 100))),
        Case::same_each_round(FIFTY_ROWS, 16, in_one(|_| "c.slot < 50".into())),
        Case::same_each_round(TOP, 1, Queries::new(top)),
        Case::same_each_round(EQUALITY, 1, Queries::new(equality)),
        Case::same_each_round(FILTER, 1, Queries::new(count("c.slot % 7 = 99 OR c.price * 2 < 0"))),
        Case::same_each_round(COUNT, 1, Queries::new(count("c.active = true"))),
    ]
}

/// Procedures, and the equivalent batch; each connection has a logical partition of its own.
pub fn scripts(client: &Client) -> Vec<Case> {
    let case = |name, turn, template: &dyn Fn(&Client, &str) -> Template| {
        let of = |connection| template(client, &format!("key-{connection}"));
        let templates: Vec<Template> = (0..PROCEDURE_CONNECTIONS).map(of).collect();
        // The batch and the procedure create different items.
        Case::new(name, PROCEDURE_CONNECTIONS, move |round| {
            Arc::new(Numbered { templates: templates.clone(), round: round * 2 + turn })
        })
    };
    vec![
        case(EMPTY_PROCEDURE, 0, &|client, key| Template::of_procedure(client, "empty", key, "[]")),
        case(PROCEDURE, 0, &Template::of_two),
        case(BATCH, 1, &Template::of_batch),
    ]
}

/// The first page of the change feed of a partition that nothing is written to.
struct FeedPage(Vec<u8>);

impl FeedPage {
    fn new(signer: &Signer) -> FeedPage {
        let link = format!("dbs/{DATABASE}/colls/{}", query_workload::CONTAINER);
        let (authorization, date) = (signer.authorization("get", &link), &signer.date);
        FeedPage(
            format!(
                "GET /{link}/docs HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\nx-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\na-im: Incremental feed\r\nx-ms-documentdb-partitionkeyrangeid: 0\r\nx-ms-max-item-count: {FEED_PAGE_ITEMS}\r\n\r\n"
            )
            .into_bytes(),
        )
    }
}

impl Requests for FeedPage {
    fn next(&self, _connection: usize, _number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn expected_status(&self) -> u16 {
        200
    }
}
