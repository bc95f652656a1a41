//! Random concurrent transactions of several sessions, step by step, against a model of snapshot isolation.

use std::collections::BTreeMap;

use bson::doc as bson_doc;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use crate::client::{Client, Server, first_batch, of};
use crate::transactions::Session;

const SESSIONS: usize = 3;
const DOCUMENTS: i32 = 4;
const HISTORIES: u64 = 40;
const STEPS: usize = 60;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Increments a document, or makes it.
    Write(usize, i32),
    Remove(usize, i32),
    ReadAll(usize),
    Commit(usize),
    Abort(usize),
    /// A write outside of transactions, of a document that no transaction holds.
    Plain(i32),
}

fn step(random: &Random) -> Step {
    let (session, id) = (random.below(SESSIONS as u64) as usize, random.below(DOCUMENTS as u64) as i32);
    match random.below(11) {
        0..4 => Step::Write(session, id),
        4 => Step::Remove(session, id),
        5..7 => Step::ReadAll(session),
        7..9 => Step::Commit(session),
        9 => Step::Abort(session),
        _ => Step::Plain(id),
    }
}

type State = BTreeMap<i32, i64>;

/// An open transaction as the model has it.
struct Open {
    /// The committed state when it began, with the count of commits then.
    began: (State, usize),
    seen: State,
    written: Vec<i32>,
}

#[derive(Default)]
struct Model {
    committed: State,
    /// The last commit of each document.
    last: BTreeMap<i32, usize>,
    commits: usize,
    open: BTreeMap<usize, Open>,
}

impl Model {
    fn begun(&mut self, session: usize) -> &mut Open {
        let began = (self.committed.clone(), self.commits);
        self.open.entry(session).or_insert_with(|| Open { seen: began.0.clone(), began, written: Vec::new() })
    }

    fn is_taken(&self, by_others_than: Option<usize>, id: i32) -> bool {
        self.open.iter().any(|(own, open)| Some(*own) != by_others_than && open.written.contains(&id))
    }

    /// Whether a transaction may not write the document.
    fn conflicts(&mut self, session: usize, id: i32) -> bool {
        let began = &self.begun(session).began;
        let (was_there, commit) = (began.0.contains_key(&id), began.1);
        // A document that was missing then and is missing now has not changed.
        let is_same = !was_there && !self.committed.contains_key(&id);
        let is_newer = self.last.get(&id).is_some_and(|last| *last > commit);
        self.is_taken(Some(session), id) || (is_newer && !is_same)
    }

    fn commit(&mut self, open: Open) {
        self.commits += 1;
        for id in open.written {
            match open.seen.get(&id) {
                Some(n) => self.committed.insert(id, *n),
                None => self.committed.remove(&id),
            };
            self.last.insert(id, self.commits);
        }
    }
}

fn increment(id: i32) -> bson::Document {
    bson_doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$inc": { "n": 1 } }, "upsert": true }] }
}

fn remove(id: i32) -> bson::Document {
    bson_doc! { "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] }
}

fn state_of(reply: &Document) -> State {
    let number = |document: &Document, name: &str| document.value(name).to_i64_exact().expect("a number");
    first_batch(reply).iter().map(|found| (number(found, "_id") as i32, number(found, "n"))).collect()
}

struct World {
    client: Client,
    sessions: Vec<Session>,
    model: Model,
}

impl World {
    fn part(&mut self, session: usize, command: &bson::Document) -> Document {
        if !self.model.open.contains_key(&session) {
            self.sessions[session].begin();
        }
        self.sessions[session].part(command)
    }

    async fn write(&mut self, session: usize, id: i32, removes: bool) {
        let command = self.part(session, &if removes { remove(id) } else { increment(id) });
        let reply = self.client.run("d", command).await;
        let was_there = self.model.begun(session).seen.contains_key(&id);
        if removes && !was_there {
            assert_eq!(reply.value("n").to_i32_exact(), Some(0), "{}", Value::from(reply));
            return;
        }
        if self.model.conflicts(session, id) {
            assert_eq!(reply.value("code").to_i32_exact(), Some(112), "{}", Value::from(reply));
            self.model.open.remove(&session);
            return;
        }
        assert_eq!(reply.value("n").to_i32_exact(), Some(1), "{}", Value::from(reply));
        let open = self.model.begun(session);
        match removes {
            true => drop(open.seen.remove(&id)),
            false => *open.seen.entry(id).or_insert(0) += 1,
        }
        open.written.push(id);
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Write(session, id) => self.write(session, id, false).await,
            Step::Remove(session, id) => self.write(session, id, true).await,
            Step::ReadAll(session) => {
                let command = self.part(session, &bson_doc! { "find": "c" });
                let reply = self.client.ok("d", command).await;
                assert_eq!(state_of(&reply), self.model.begun(session).seen);
            }
            Step::Commit(session) => {
                if let Some(open) = self.model.open.remove(&session) {
                    self.client.ok("admin", self.sessions[session].commit()).await;
                    self.model.commit(open);
                }
            }
            Step::Abort(session) => {
                if self.model.open.remove(&session).is_some() {
                    self.client.ok("admin", self.sessions[session].abort()).await;
                }
            }
            Step::Plain(id) => {
                if !self.model.is_taken(None, id) {
                    self.client.ok("d", of(&increment(id))).await;
                    self.model.commits += 1;
                    *self.model.committed.entry(id).or_insert(0) += 1;
                    self.model.last.insert(id, self.model.commits);
                }
            }
        }
        let reply = self.client.ok("d", of(&bson_doc! { "find": "c" })).await;
        assert_eq!(state_of(&reply), self.model.committed, "others see what is committed");
    }
}

#[tokio::test]
async fn histories_are_those_of_snapshot_isolation() {
    for seed in 0..HISTORIES {
        let random = Random::seeded(seed);
        let steps: Vec<Step> = (0..STEPS).map(|_| step(&random)).collect();
        let server = Server::start().await;
        let mut client = server.connect();
        // Half of the histories begin without the collection.
        if seed % 2 == 0 {
            client.ok("d", of(&bson_doc! { "create": "c" })).await;
        }
        let sessions = (0..SESSIONS).map(|id| Session::new(id as u8 + 1)).collect();
        let mut world = World { client, sessions, model: Model::default() };
        for (at, step) in steps.into_iter().enumerate() {
            println!("history {seed}, step {at}: {step:?}");
            world.take(step).await;
        }
    }
}
