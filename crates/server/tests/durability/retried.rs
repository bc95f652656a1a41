//! Writes over MongoDB's protocol that are sent until they are answered, while the server is killed under them and partitions
//! move: each is executed once, and answered with its result.

use crate::model::Place;
use crate::motion::Operator;
use bson::{Bson, Document, doc};
use shardlake_stdx::{Clock, Random};
use shardlake_testkit::{ServerOptions, ServerProcess};
use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CYCLES: u64 = 3;
const WRITERS: i64 = 6;
/// Answered writes of all writers together, before a kill.
const ANSWERED_MIN: u64 = 120;
const OP_MSG: i32 = 2013;
/// Only a server that hangs takes as long; no verdict depends on it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Error codes after which drivers retry: the partition of a transaction or a write has moved, or the server is too busy.
const RETRIED: [i32; 6] = [112, 251, 263, 91, 189, 16500];

/// A connection that sends commands as a driver would.
struct Mongo(TcpStream);

impl Mongo {
    fn connect(address: &str) -> Result<Mongo> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Mongo(stream))
    }

    fn of(server: &ServerProcess) -> Mongo {
        Mongo::connect(&address_of(server)).expect("it serves")
    }

    fn send(&mut self, command: &Document) -> Result<()> {
        let body = command.to_vec().expect("BSON");
        let mut message = Vec::with_capacity(21 + body.len());
        for field in [21 + body.len() as i32, 1, 0, OP_MSG, 0] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.push(0);
        message.extend_from_slice(&body);
        self.0.write_all(&message)
    }

    fn receive(&mut self) -> Result<Document> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header)?;
        let size = i32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
        let mut payload = vec![0; size - 16];
        self.0.read_exact(&mut payload)?;
        Ok(Document::from_reader(&payload[5..]).expect("an answer is BSON"))
    }

    fn run(&mut self, command: &Document) -> Result<Document> {
        self.send(command)?;
        self.receive()
    }
}

fn address_of(server: &ServerProcess) -> String {
    let address = server.ready().fields["mongo"][0].as_str().expect("it serves MongoDB's drivers");
    address.trim_start_matches("mongodb://").trim_end_matches('/').to_owned()
}

fn code(reply: &Document) -> Option<i32> {
    (number(reply, "ok") != 1).then(|| number(reply, "code") as i32)
}

fn number(reply: &Document, name: &str) -> i64 {
    match reply.get(name) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        Some(Bson::Double(number)) => *number as i64,
        other => panic!("{name} is {other:?} in {reply}"),
    }
}

/// A writer's operation in progress.
#[derive(Debug, Clone)]
enum Step {
    /// Three statements: two increments of the writer's own counter, and an upsert of a document of the number that it makes.
    Update,
    /// An increment of the writer's own counter; the answer holds the new document.
    Modify,
    Insert,
    /// Its own counter and one of all writers.
    Transaction,
}

/// A writer, and its operations so far.
struct Writer {
    name: i64,
    random: Random,
    number: i64,
    counter: i64,
    made: i64,
    shared: i64,
    with_transactions: bool,
    /// The operation that was sent and has not been answered.
    pending: Option<Step>,
}

impl Writer {
    fn numbered(&self, mut command: Document) -> Document {
        let id = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![self.name as u8; 16] };
        command.insert("lsid", doc! { "id": id });
        command.insert("txnNumber", self.number);
        command
    }

    fn own(&self) -> Document {
        doc! { "_id": format!("counter-{}", self.name), "k": self.name }
    }

    fn command(&self, write: &Step) -> Document {
        let increment =
            |filter: Document| doc! { "q": filter, "u": { "$inc": { "n": 1i64 } }, "upsert": true };
        let made =
            doc! { "_id": format!("made-{}-{}", self.name, self.number), "k": self.name + self.number };
        self.numbered(match write {
            Step::Update => {
                let updates = [increment(self.own()), increment(made), increment(self.own())];
                doc! { "update": "c", "updates": updates.to_vec(), "$db": "d" }
            }
            Step::Modify => doc! {
                "findAndModify": "c", "query": self.own(), "update": { "$inc": { "n": 1i64 } },
                "new": true, "upsert": true, "$db": "d"
            },
            Step::Insert => doc! { "insert": "c", "documents": [made], "$db": "d" },
            Step::Transaction => doc! {
                "update": "c", "updates": [increment(self.own()), increment(doc! { "_id": "all", "k": 0i64 })],
                "startTransaction": true, "autocommit": false, "$db": "d"
            },
        })
    }

    /// Writes until the server is killed.
    fn write_until_killed(&mut self, address: &str, answered: &AtomicU64) {
        while let Ok(mut connection) = Mongo::connect(address) {
            while self.write_once(&mut connection).is_ok() {
                answered.fetch_add(1, Ordering::Relaxed);
                if self.random.below(10) == 0 && self.hang_up(&mut connection).is_err() {
                    break;
                }
            }
        }
    }

    fn begin(&mut self) -> Step {
        self.number += 1;
        let write = match self.random.below(if self.with_transactions { 4 } else { 3 }) {
            0 => Step::Update,
            1 => Step::Modify,
            2 => Step::Insert,
            _ => Step::Transaction,
        };
        self.pending = Some(write.clone());
        write
    }

    /// Sends a write and disconnects without waiting for the answer. A transaction ends in its own way.
    fn hang_up(&mut self, connection: &mut Mongo) -> Result<()> {
        let write = self.begin();
        if !matches!(write, Step::Transaction) {
            connection.send(&self.command(&write))?;
        }
        connection.0.shutdown(Shutdown::Both)
    }

    fn write_once(&mut self, connection: &mut Mongo) -> Result<()> {
        let write = match self.pending.clone() {
            Some(write) => write,
            None => self.begin(),
        };
        if let Step::Transaction = write {
            return self.transact(connection);
        }
        let reply = loop {
            let reply = connection.run(&self.command(&write))?;
            match code(&reply) {
                None => break reply,
                Some(code) if RETRIED.contains(&code) => {}
                Some(_) => panic!("{write:?} was answered with {reply}"),
            }
        };
        if reply.contains_key("writeErrors") {
            // The answer holds the error of one statement: those before it are executed, and the whole command is sent again.
            let codes: Vec<_> =
                reply.get_array("writeErrors").unwrap().iter().map(|error| error.to_string()).collect();
            let may_come_again = codes
                .iter()
                .all(|told| RETRIED.iter().any(|code| told.contains(&format!("\"code\": {code}"))));
            assert!(may_come_again, "{write:?} of {}: {reply}", self.name);
            return Ok(());
        }
        match write {
            Step::Update => {
                assert_eq!(number(&reply, "n"), 3, "{reply}");
                (self.counter, self.made) = (self.counter + 2, self.made + 1);
            }
            Step::Insert => {
                assert_eq!(number(&reply, "n"), 1, "{reply}");
                self.made += 1;
            }
            _ => {
                self.counter += 1;
                let value = reply.get_document("value").unwrap();
                assert_eq!(number(value, "n"), self.counter, "the answer is that of the write: {reply}");
            }
        }
        self.pending = None;
        Ok(())
    }

    /// Begins anew with another number until it is committed; a commit is sent again until its outcome is known.
    fn transact(&mut self, connection: &mut Mongo) -> Result<()> {
        loop {
            let commit = doc! { "commitTransaction": 1, "autocommit": false, "$db": "admin" };
            // Nothing is sent again of a transaction but its commit: that is known, or was not done.
            let outcome = code(&connection.run(&self.numbered(commit.clone()))?);
            match outcome {
                None => break,
                Some(251 | 112) => {}
                Some(other) => panic!("a commit was answered with {other}"),
            }
            self.number += 1;
            let reply = connection.run(&self.command(&Step::Transaction))?;
            assert!(code(&reply).is_none_or(|code| RETRIED.contains(&code)), "{reply}");
        }
        (self.counter, self.shared) = (self.counter + 1, self.shared + 1);
        self.pending = None;
        Ok(())
    }
}

/// # Panics
/// When a write was done twice, or not, or was answered with something else.
fn write_through_kills(shards: u16) {
    let seed = std::env::var("SHARDLAKE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| Clock::System.now().milliseconds());
    println!("SHARDLAKE_SEED={seed}");
    let random = Random::seeded(seed);
    let options = ServerOptions::new(crate::server_binary()).argument("--throughput=unlimited");
    let options = options.argument(format!("--shards={shards}")).argument("--mongo-listen=127.0.0.1:0");
    let mut server = options.start();
    let made = doc! { "shardCollection": "d.c", "key": { "k": "hashed" }, "$db": "admin" };
    let reply = Mongo::of(&server).run(&made).unwrap();
    assert_eq!(code(&reply), None, "{reply}");
    let with_transactions = shards == 1;
    let mut writers: Vec<Writer> = (1..=WRITERS)
        .map(|name| {
            let random = Random::seeded(random.u64());
            Writer {
                name,
                random,
                number: 0,
                counter: 0,
                made: 0,
                shared: 0,
                with_transactions,
                pending: None,
            }
        })
        .collect();
    let mut moved = crate::tally::Tally::default();
    for _ in 0..CYCLES {
        let answered = AtomicU64::new(0);
        let enough = ANSWERED_MIN + random.below(ANSWERED_MIN);
        let address = address_of(&server);
        let places = vec![Place { database: "d".to_owned(), container: "c".to_owned() }];
        let (client, random) = (server.client(), Random::seeded(random.u64()));
        let operator = Operator { client, random, shards, weather: None, places, hangs_up: false };
        std::thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(|| writer.write_until_killed(&address, &answered));
            }
            let operating = (shards > 1).then(|| scope.spawn(move || operator.move_until_killed()));
            crate::weather::wait_until("writers write", || answered.load(Ordering::Relaxed) > enough);
            server.kill();
            operating.into_iter().for_each(|operating| moved.take_over(operating.join().unwrap()));
        });
        server.restart();
    }
    println!("{moved}");
    // Operations that the last kill cut off are answered now.
    for writer in &mut writers {
        let mut connection = Mongo::of(&server);
        while writer.pending.is_some() {
            writer.write_once(&mut connection).expect("nobody kills the server any more");
        }
    }
    let mut connection = Mongo::of(&server);
    for writer in &writers {
        let find =
            |filter: Document| doc! { "find": "c", "filter": filter, "$db": "d", "batchSize": 100_000 };
        let mut rows = |filter: Document| {
            let reply = connection.run(&find(filter)).unwrap();
            let cursor = reply.get_document("cursor").unwrap_or_else(|_| panic!("{reply}"));
            cursor.get_array("firstBatch").unwrap().clone()
        };
        let counter = rows(writer.own());
        let counted = counter.first().map_or(0, |found| number(found.as_document().unwrap(), "n"));
        assert_eq!(counted, writer.counter, "writer {}", writer.name);
        let made = rows(doc! { "_id": { "$regex": format!("^made-{}-", writer.name) } });
        assert_eq!(made.len() as i64, writer.made, "writer {}", writer.name);
    }
    let all = doc! { "find": "c", "filter": { "_id": "all" }, "$db": "d" };
    let reply = connection.run(&all).unwrap();
    let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    let counted = found.first().map_or(0, |found| number(found.as_document().unwrap(), "n"));
    assert_eq!(
        counted,
        writers.iter().map(|writer| writer.shared).sum::<i64>(),
        "the counter of all writers"
    );
    drop(connection);
    assert!(server.terminate(PATIENCE).success());
    let output = server.verify();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // Only the sums at the end reveal the damage of a kill, so all cycles are reported together.
    for cycle in 1..=CYCLES {
        println!("cycle {cycle} ok: of {CYCLES} whose retried writes add up");
    }
}

#[test]
fn retried_writes_and_transactions_are_done_once_through_kill_9() {
    write_through_kills(1);
}

#[test]
fn retried_writes_are_done_once_through_kill_9_while_partitions_split_merge_and_move() {
    write_through_kills(2);
}

/// A unique index whose build is interrupted by a kill enforces uniqueness once it is built.
#[test]
fn a_unique_index_build_that_is_killed_is_finished_by_the_next() {
    let options = ServerOptions::new(crate::server_binary()).argument("--throughput=unlimited");
    let mut server = options.argument("--mongo-listen=127.0.0.1:0").start();
    let random = Random::seeded(Clock::System.now().milliseconds());
    let documents: Vec<_> = (0..400i64).map(|n| doc! { "_id": n, "value": n }).collect();
    let insert = doc! { "insert": "u", "documents": documents, "$db": "d" };
    assert_eq!(code(&Mongo::of(&server).run(&insert).unwrap()), None);
    let index = doc! { "key": { "value": 1 }, "name": "value", "unique": true };
    let make = doc! { "createIndexes": "u", "indexes": [index], "$db": "d" };
    for cycle in 1..=CYCLES {
        let drop_all = doc! { "dropIndexes": "u", "index": "*", "$db": "d" };
        assert_eq!(code(&Mongo::of(&server).run(&drop_all).unwrap()), None);
        let mut connection = Mongo::of(&server);
        connection.send(&make).unwrap();
        std::thread::sleep(Duration::from_millis(random.below(120)));
        server.kill();
        server.restart();
        let mut connection = Mongo::of(&server);
        let reply = connection.run(&make).unwrap();
        assert_eq!(code(&reply), None, "{reply}");
        let listed = connection.run(&doc! { "listIndexes": "u", "$db": "d" }).unwrap();
        let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
        let own = listed
            .iter()
            .filter_map(Bson::as_document)
            .find(|index| index.get_str("name").is_ok_and(|name| name == "value"));
        assert!(own.is_some_and(|own| own.get_bool("unique").is_ok_and(|unique| unique)), "{listed:?}");
        for value in [0i64, 150, 399] {
            let twice = doc! { "insert": "u", "documents": [{ "value": value }], "$db": "d" };
            let reply = connection.run(&twice).unwrap();
            let error =
                reply.get_array("writeErrors").unwrap_or_else(|_| panic!("{value} was taken: {reply}"))[0]
                    .clone();
            assert_eq!(number(error.as_document().unwrap(), "code"), 11000);
        }
        println!("cycle {cycle} ok: the index is made and unique");
    }
    assert!(server.terminate(PATIENCE).success());
    assert!(server.verify().status.success());
}
