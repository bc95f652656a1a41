//! Two servers that fight for one prefix of a store, and clients that ask whichever they meet.
//!
//! All answers of both servers form one history, which must be a history of a single account (`testkit/src/history`): if both servers
//! had acknowledged writes at the same time, or one had returned stale data, there would be no order of the operations.
//!
//! In one fight both stand by, and the serving one is killed, or frozen for longer than its lease: then every answer counts. In
//! the other fight each server takes the account from the other at its start. There the loser may answer reads from its memory until
//! its lease ends, as documented; so only the answers to writers count, and the stored state at the end.
//!
//! `SHARDLAKE_FIGHT_SECONDS` is how long a fight lasts, `SHARDLAKE_TEST_STORE` where.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use shardlake_stdx::{Guid, Random};
use shardlake_testkit::history::{Action, Answer, Failure, Guard, Recorder, Reply, Verdict, check};
use shardlake_testkit::{Client, ServerOptions, ServerProcess, eventually};
use tempfile::TempDir;

const CLIENTS: u32 = 6;
const ITEMS: u64 = 3;
/// Operations on one logical partition before clients continue to the next: a search for an order is quick.
const CALLS: u64 = 30;
const LEASE: &str = "--lease=1";
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    StandBy,
    TakeOver,
}

#[test]
fn two_servers_that_freeze_and_die_over_one_prefix_are_one_account() {
    fight(Manner::StandBy);
}

#[test]
fn two_servers_that_take_one_prefix_from_each_other_lose_no_acknowledged_write() {
    fight(Manner::TakeOver);
}

struct Ring {
    manner: Manner,
    url: String,
    directory: TempDir,
    /// Addresses of the two servers, while they serve.
    addresses: [Mutex<Option<SocketAddr>>; 2],
    acknowledged: [AtomicU64; 2],
    starts: AtomicU64,
    is_over: AtomicBool,
    recorder: Recorder,
    calls: AtomicU64,
}

fn fight(manner: Manner) {
    let seconds = std::env::var("SHARDLAKE_FIGHT_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(6);
    let directory = TempDir::with_prefix("shardlake-fight-").unwrap();
    let url = match std::env::var("SHARDLAKE_TEST_STORE") {
        Ok(url) => format!("{url}/{}", Random::System.guid()),
        Err(_) => format!("file://{}/store", directory.path().display()),
    };
    let ring = Arc::new(Ring {
        manner,
        url,
        directory,
        addresses: Default::default(),
        acknowledged: Default::default(),
        starts: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        recorder: Recorder::default(),
        calls: AtomicU64::new(0),
    });
    let mut first = ring.options(0, &[]).start();
    let client = first.client();
    // A store that answers slowly makes a server refuse, and an answer may be lost after its effect.
    let is_made = |status: u16| matches!(status, 201 | 409);
    eventually("the database is made", || is_made(client.create_database("d").status));
    eventually("the container is made", || is_made(client.create_container("d", "c", "/pk").status));
    let _ended = first.terminate(PATIENCE);
    let (tellers, servers): (Vec<Sender<()>>, Vec<_>) = (0..2)
        .map(|number| {
            let (teller, told) = channel();
            let ring = ring.clone();
            (teller, std::thread::spawn(move || ring.serve(number, &told)))
        })
        .unzip();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let ring = ring.clone();
            std::thread::spawn(move || ring.ask(number))
        })
        .collect();
    let (_never, bell) = channel::<()>();
    let _time_is_over = bell.recv_timeout(Duration::from_secs(seconds));
    // On a busy machine the second one may come late.
    eventually("both have served", || {
        let have_served = ring.acknowledged.iter().all(|count| count.load(Ordering::SeqCst) > 0);
        have_served
            || clients.iter().any(JoinHandle::is_finished)
            || servers.iter().any(JoinHandle::is_finished)
    });
    ring.is_over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    drop(tellers);
    servers.into_iter().for_each(|server| server.join().unwrap());
    ring.look_at_the_end();
    let calls = ring.recorder.calls();
    let (one, two) = (&ring.acknowledged[0], &ring.acknowledged[1]);
    let words = format!(
        "{manner:?}, {seconds} s: {} calls, {} and {} answered by the two, {} starts",
        calls.len(),
        one.load(Ordering::SeqCst),
        two.load(Ordering::SeqCst),
        ring.starts.load(Ordering::SeqCst)
    );
    match check(&calls) {
        Verdict::Possible { .. } => println!("fight ok: {words}"),
        other => panic!("{words}: {other:?}"),
    }
}

impl Ring {
    fn options(&self, number: usize, more: &[&str]) -> ServerOptions {
        let node = self.directory.path().join(format!("node-{number}"));
        let options = ServerOptions::new(crate::server_binary()).data_dir(node).argument(LEASE);
        let options = options.argument(format!("--store={}", self.url)).argument("--throughput=unlimited");
        // A store on a busy machine may take longer than the lease for an answer.
        let options =
            options.may_log("the lease could not be renewed").may_log("the object store does not answer");
        more.iter().fold(options, |options, argument| options.argument(argument))
    }

    /// Starts one of the two, lets it serve for a while, and ends it, again and again. When the channel is closed, the fight is over
    /// and the server is stopped in good order.
    fn serve(&self, number: usize, told: &Receiver<()>) {
        let random = Random::seeded(number as u64 + 1);
        let manner = if self.manner == Manner::StandBy { "--standby" } else { "--take-over" };
        while !self.is_over.load(Ordering::SeqCst) {
            // The start fails if the other server takes over meanwhile.
            let Ok(mut server) = self.options(number, &[manner]).try_start() else { continue };
            self.starts.fetch_add(1, Ordering::SeqCst);
            *self.addresses[number].lock().unwrap() = Some(server.address());
            let is_over = is_over_within(told, Duration::from_millis(300 + random.below(900)));
            if !is_over {
                self.trouble(&server, told, &random);
            }
            *self.addresses[number].lock().unwrap() = None;
            server.kill();
            // It would have the account back at once, since it knows that its own former run has ended.
            let _over = is_over_within(told, Duration::from_millis(random.below(4_000)));
            let log = server.take_unexpected_log().join("\n");
            assert!(!log.contains("panicked") && !log.contains("damaged"), "{log}");
        }
    }

    /// Between two starts: frozen for longer than the other one waits, killed, or just left until the other one takes it.
    fn trouble(&self, server: &ServerProcess, told: &Receiver<()>, random: &Random) {
        let process = Pid::from_raw(server.process_id() as i32).unwrap();
        if random.below(3) == 0 {
            return;
        }
        if kill_process(process, Signal::STOP).is_err() {
            return;
        }
        let _over = is_over_within(told, Duration::from_millis(4_200 + random.below(1_000)));
        kill_process(process, Signal::CONT).unwrap();
        // It does not know yet that it has lost the account, and is asked.
        let _over = is_over_within(told, Duration::from_millis(random.below(700)));
    }

    fn ask(&self, client: u32) {
        let random = Random::seeded(u64::from(client) + 100);
        let mut known: [Option<Client>; 2] = [None, None];
        let mut seen: Option<(String, String, Guid)> = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let number = random.below(2) as usize;
            let address = *self.addresses[number].lock().unwrap();
            let Some(address) = address else {
                std::thread::yield_now();
                continue;
            };
            if known[number].as_ref().is_none_or(|client| client.address() != address) {
                known[number] = Some(Client::with_emulator_key(address));
            }
            let server = known[number].as_ref().unwrap();
            let logical = format!("p{}", self.calls.fetch_add(1, Ordering::SeqCst) / CALLS);
            let id = format!("i{}", random.below(ITEMS));
            let value = random.below(1_000_000) as i64;
            let action = match random.below(if self.manner == Manner::StandBy { 6 } else { 2 }) {
                0 => Action::Create { value },
                1 => Action::Upsert { value },
                2 => match &seen {
                    Some((at, of, etag)) if *at == logical && *of == id => {
                        Action::Replace { value, guard: Guard::Match(*etag) }
                    }
                    _ => Action::Replace { value, guard: Guard::None },
                },
                3 => Action::Delete { guard: Guard::None },
                _ => Action::Read { guard: Guard::None },
            };
            let asked = self.recorder.asks(client, &logical, vec![(id.clone(), action.clone())]);
            let reply = self.reply_of(send(server, &logical, &id, &action));
            if reply == Reply::Unknown {
                // A connection that broke is not used again.
                known[number] = None;
            } else {
                self.acknowledged[number].fetch_add(1, Ordering::SeqCst);
            }
            if let Reply::Done(answers) = &reply
                && let [Answer::Found { etag, .. }] = answers[..]
            {
                seen = Some((logical, id, etag));
            }
            asked.answered(reply);
        }
    }

    /// The reply as the history counts it: in a take-over a failure counts as a refusal.
    fn reply_of(&self, reply: Reply) -> Reply {
        match reply {
            // It was not done, though the reason may be out of date.
            Reply::Failed { .. } if self.manner == Manner::TakeOver => Reply::Refused,
            reply => reply,
        }
    }

    /// Adds the state stored at the end to the history.
    fn look_at_the_end(&self) {
        let server = self.options(2, &["--standby"]).start();
        let client = server.client();
        for logical in 0..=self.calls.load(Ordering::SeqCst) / CALLS {
            for item in 0..ITEMS {
                let (logical, id) = (format!("p{logical}"), format!("i{item}"));
                let action = Action::Read { guard: Guard::None };
                let asked = self.recorder.asks(CLIENTS, &logical, vec![(id.clone(), action.clone())]);
                let mut reply = Reply::Unknown;
                // Its lease is short, too, and the machine may be busy.
                eventually("a server that is alone answers", || {
                    reply = send(&client, &logical, &id, &action);
                    reply != Reply::Unknown
                });
                asked.answered(reply);
            }
        }
        let _known = server.take_unexpected_log();
    }
}

fn is_over_within(told: &Receiver<()>, time: Duration) -> bool {
    told.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
}

fn send(client: &Client, logical: &str, id: &str, action: &Action) -> Reply {
    let key = json!([logical]).to_string();
    let mut headers = vec![("x-ms-documentdb-partitionkey", key.as_str())];
    let (items, item) = ("/dbs/d/colls/c/docs".to_owned(), format!("/dbs/d/colls/c/docs/{id}"));
    let body = |value: i64| json!({ "id": id, "pk": logical, "n": value }).to_string();
    let condition;
    let (method, path, body) = match action {
        Action::Create { value } => ("POST", items, body(*value)),
        Action::Upsert { value } => {
            headers.push(("x-ms-documentdb-is-upsert", "true"));
            ("POST", items, body(*value))
        }
        Action::Replace { value, guard } => {
            if let Guard::Match(etag) = guard {
                condition = format!("\"{etag}\"");
                headers.push(("if-match", &condition));
            }
            ("PUT", item, body(*value))
        }
        Action::Delete { .. } => ("DELETE", item, String::new()),
        _ => ("GET", item, String::new()),
    };
    let Ok(response) = client.try_request(method, &path, &headers, body.as_bytes()) else {
        return Reply::Unknown;
    };
    let etag = || Guid::parse(response.etag().unwrap().trim_matches('"')).unwrap();
    let failed = |failure| Reply::Failed { index: 0, failure };
    match (response.status, action) {
        (201, _) => Reply::Done(vec![Answer::Created { etag: etag() }]),
        (200, Action::Read { .. }) => {
            let found: Value = response.json();
            Reply::Done(vec![Answer::Found { value: found["n"].as_i64().unwrap(), etag: etag() }])
        }
        (200, _) => Reply::Done(vec![Answer::Replaced { etag: etag() }]),
        (204, _) => Reply::Done(vec![Answer::Deleted]),
        (404, _) if response.sub_status() == 0 => failed(Failure::NotFound),
        (409, _) => failed(Failure::Conflict),
        (412, _) => failed(Failure::PreconditionFailed),
        (408 | 429 | 449 | 500 | 503, _) => Reply::Unknown,
        (status, _) => panic!("{status}: {}", response.text()),
    }
}
