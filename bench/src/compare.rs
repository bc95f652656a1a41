//! `cargo xtask bench compare REVISION`: what a change costs or saves, in processor time of the server per operation.
//!
//! Two release builds serve the same items at the same time, and only one of them is driven at any moment. They take turns
//! within every round, the later one first in every second round. A ratio compares the two turns of one round; the table
//! gives the median of these ratios and their range, so that a busy machine shows as a wide range and not as a verdict.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use shardlake_testkit::{Client, EMULATOR_KEY, ServerOptions, ServerProcess, container_path};

use crate::load::{self, Measured, Requests};
use crate::point::load_items;
use crate::publish::publish;
use crate::query_workload::{self, Queries, Target};
use crate::script::{Numbered, Template};
use crate::workload::{CONTAINER, Creates, DATABASE, Reads, Replaces, Signer, create_database, key_of};
use crate::{CompareOptions, Outcome, report};

const CONNECTIONS: usize = 16;
const PROCEDURE_CONNECTIONS: usize = 8;

/// One of the two builds, with the same items as the other.
struct Contender {
    server: ServerProcess,
    // Removed when the server has ended.
    _directory: tempfile::TempDir,
}

/// The two builds, with what was measured of each, round by round.
struct Operation {
    name: &'static str,
    connections: usize,
    /// Makes the requests of a round.
    requests: Box<dyn Fn(usize) -> Arc<dyn Requests>>,
    base: Vec<Measured>,
    this: Vec<Measured>,
}

pub fn run(options: &CompareOptions) -> Outcome {
    let machine = report::machine();
    let contenders =
        [Contender::start(&options.base, options.items)?, Contender::start(&options.server, options.items)?];
    let mut operations = operations(&contenders[0].server.client(), options.items);
    for round in 0..options.rounds {
        for operation in &mut operations {
            operation.measure(&contenders, round, Duration::from_secs(options.seconds))?;
        }
        eprintln!("round {} of {} done", round + 1, options.rounds);
    }
    let text = format!(
        "Machine: {machine}. {} rounds of {} s, both builds in each.\n\n{}",
        options.rounds,
        options.seconds,
        table(&operations)
    );
    publish(options.publish.as_ref(), &text)?;
    let Some(percent_max) = options.worse_percent_max else { return Ok(()) };
    let is_worse = |operation: &&Operation| operation.ratio() > 1.0 + percent_max / 100.0;
    let worse: Vec<&str> = operations.iter().filter(is_worse).map(|operation| operation.name).collect();
    match worse.is_empty() {
        true => Ok(()),
        false => Err(format!("worse by more than {percent_max} %: {}", worse.join(", ")).into()),
    }
}

impl Contender {
    fn start(binary: &Path, items: u64) -> Outcome<Contender> {
        let directory = tempfile::TempDir::with_prefix("shardlake-bench-compare-")?;
        let server = ServerOptions::new(binary)
            .data_dir(directory.path().join("data"))
            .argument("--throughput=unlimited")
            .start();
        eprintln!("loading {items} items, twice");
        let client = server.client();
        create_database(&client);
        let body = json!({"id": CONTAINER, "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        let _ = client.create_container_of(DATABASE, &body, &[]).expect_status(201);
        let path = format!("{}/sprocs", container_path(DATABASE, CONTAINER));
        let empty = json!({"id": "empty", "body": "function () {}"});
        let _ = client.post_json(&path, &[], &empty).expect_status(201);
        load_items(&server, items)?;
        query_workload::load(&server, items)?;
        Ok(Contender { server, _directory: directory })
    }
}

/// What is compared. Signatures depend on the account's key alone, so both builds get the same bytes.
fn operations(client: &Client, items: u64) -> Vec<Operation> {
    let reads: Arc<dyn Requests> = Arc::new(Reads::new(&Signer::new(EMULATOR_KEY), items));
    let queries = |condition: fn(u64) -> String| -> Arc<dyn Requests> {
        let query = |n: u64| {
            let text = format!("SELECT * FROM c WHERE {}", condition(n));
            (Target::Key(key_of((n * 7919) % items)), text)
        };
        Arc::new(Queries::new((0..2000).map(query)))
    };
    let one = queries(|n| format!("c.slot = {}", n % 100));
    let fifty = queries(|_| "c.slot < 50".into());
    let templates: Vec<Template> = (0..PROCEDURE_CONNECTIONS)
        .map(|connection| Template::of_procedure(client, "empty", &format!("key-{connection}"), "[]"))
        .collect();
    let operation = |name, requests: Box<dyn Fn(usize) -> Arc<dyn Requests>>| Operation {
        name,
        connections: CONNECTIONS,
        requests,
        base: Vec::new(),
        this: Vec::new(),
    };
    let signer = || Signer::new(EMULATOR_KEY);
    let mut operations = vec![
        operation("point read", Box::new(move |_| reads.clone())),
        operation(
            "durable create",
            Box::new(move |round| Arc::new(Creates::new(&signer(), format!("r{round}")))),
        ),
        operation("durable replace", Box::new(move |round| Arc::new(Replaces::new(&signer(), items, round)))),
        operation("query of 1 row", Box::new(move |_| one.clone())),
        operation("query of 50 rows", Box::new(move |_| fifty.clone())),
        operation(
            "empty procedure",
            Box::new(move |round| Arc::new(Numbered { templates: templates.clone(), round })),
        ),
    ];
    operations.last_mut().expect("there are some").connections = PROCEDURE_CONNECTIONS;
    operations
}

impl Operation {
    fn measure(&mut self, [base, this]: &[Contender; 2], round: usize, time: Duration) -> Outcome {
        let requests = (self.requests)(round);
        let drive = |contender: &Contender| {
            let (address, process) = (contender.server.address(), contender.server.process_id());
            load::drive(address, self.connections, time, requests.clone(), process)
        };
        if round.is_multiple_of(2) {
            self.base.push(drive(base)?);
            self.this.push(drive(this)?);
        } else {
            self.this.push(drive(this)?);
            self.base.push(drive(base)?);
        }
        Ok(())
    }

    /// Processor time of this build by that of the base in the same round, in ascending order.
    fn ratios(&self) -> Vec<f64> {
        let both = self.base.iter().zip(&self.this);
        let mut ratios: Vec<f64> = both.map(|(base, this)| this.cpu_us / base.cpu_us.max(1e-9)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    fn ratio(&self) -> f64 {
        let ratios = self.ratios();
        let middle = ratios.len() / 2;
        match ratios.len() {
            0 => 1.0,
            odd if odd % 2 == 1 => ratios[middle],
            _ => f64::midpoint(ratios[middle - 1], ratios[middle]),
        }
    }
}

fn table(operations: &[Operation]) -> String {
    let mut out = String::from(
        "| operation | connections | CPU µs, base | CPU µs, this | this ÷ base | range | ops/s, base | ops/s, this |\n|---|---:|---:|---:|---:|---|---:|---:|\n",
    );
    for operation in operations {
        let (base, this) = (report::median(&operation.base), report::median(&operation.this));
        let ratios = operation.ratios();
        let (least, most) = (ratios.first().unwrap_or(&1.0), ratios.last().unwrap_or(&1.0));
        writeln!(
            out,
            "| {} | {} | {:.1} | {:.1} | {:.2} | {least:.2}–{most:.2} | {:.0} | {:.0} |",
            operation.name,
            operation.connections,
            base.cpu_us,
            this.cpu_us,
            operation.ratio(),
            base.per_second,
            this.per_second,
        )
        .expect("a string takes any text");
    }
    out
}
