//! Clients that own a part of the account each, change it until the server dies, and check
//! it afterwards.

use crate::choose::{Chooser, Numbers};
use crate::difference::{Breach, differences, torn};
use crate::hang_up::{HangUp, Heard, send_and_hang_up};
use crate::model::{Operation, Place, State};
use crate::observe;
use crate::oracle::{Contradiction, Worlds};
use crate::requests::{question_wire, seen_in, tag_of, wire_of};
use crate::tally::Tally;
use crate::weather::Weather;
use serde_json::json;
use shardlake_stdx::Random;
use shardlake_testkit::{Client, Response, database_path};
use std::io::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The part of the account that only this client changes.
#[derive(Debug, Clone)]
pub enum Estate {
    Databases(Vec<String>),
    LogicalPartition { at: Place, partition: String },
}

/// State that all clients of a cycle share.
pub struct Cycle<'c> {
    pub client: Client,
    pub numbers: &'c Numbers,
    pub weather: Option<&'c Weather>,
    pub clients_hang_up: bool,
    pub acknowledged: &'c AtomicU64,
    /// Changes of definitions, a part of the count above.
    pub defined: &'c AtomicU64,
    pub is_being_killed: &'c AtomicBool,
}

pub struct Owner {
    pub name: String,
    estate: Estate,
    random: Random,
    worlds: Worlds,
    pub tally: Tally,
    /// (physical partition, LSN) of every commit acknowledged in this cycle.
    pub commits: Vec<(String, u64)>,
    /// Saw a contradiction, and does nothing more before the next restart.
    is_confused: bool,
}

/// After an answer that leaves open whether the operation took place.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl Owner {
    pub fn new(name: String, estate: Estate, random: &Random, state: State) -> Owner {
        Owner {
            name,
            estate,
            random: Random::seeded(random.u64()),
            worlds: Worlds::new(state),
            tally: Tally::default(),
            commits: Vec::new(),
            is_confused: false,
        }
    }

    pub fn work_until_killed(&mut self, cycle: &Cycle<'_>) {
        let may_go_on = |owner: &Owner| {
            !owner.is_confused && !owner.worlds.is_full() && !owner.worlds.has_too_many_pending()
        };
        while may_go_on(self) && !cycle.is_being_killed.load(Ordering::Relaxed) {
            let operation = self.choose(cycle, |chooser, estate| match estate {
                Estate::Databases(names) => chooser.in_databases(names),
                Estate::LogicalPartition { at, partition } => chooser.in_partition(at, partition),
            });
            if let Err(error) = self.carry_out(cycle, operation) {
                if !cycle.is_being_killed.load(Ordering::SeqCst) {
                    self.confused(Breach::Answer, format!("no answer from a server that runs: {error}"));
                }
                return;
            }
        }
    }

    fn choose<T>(&self, cycle: &Cycle<'_>, choice: impl FnOnce(&Chooser<'_>, &Estate) -> T) -> T {
        let (random, numbers, state) = (&self.random, cycle.numbers, self.worlds.believed());
        choice(&Chooser { random, numbers, state }, &self.estate)
    }

    fn carry_out(&mut self, cycle: &Cycle<'_>, operation: Operation) -> Result<()> {
        let offer = match &operation {
            Operation::ReplaceOffer { database, container, .. } => {
                let Some(rid) = offer_of(&cycle.client, database, container.as_ref())? else { return Ok(()) };
                Some(rid)
            }
            _ => None,
        };
        let wire = wire_of(&operation, offer.as_deref());
        let one_in = if operation.changes_a_definition() { 4 } else { 12 };
        let question = self.choose(cycle, |chooser, _| chooser.question_about(&operation));
        let may_hang_up = cycle.clients_hang_up && self.worlds.may_have_more_pending();
        if may_hang_up && self.random.below(one_in) == 0 {
            let how = HangUp::choose(&self.random);
            let outcome = send_and_hang_up(&cycle.client, &wire, how, &self.random, cycle.weather)?;
            self.count_hang_up(&operation, how, outcome.in_a_sync);
            match outcome.heard {
                Heard::NeverAsked => {}
                Heard::Nothing => self.worlds.unanswered(operation),
                Heard::Status(status) => self.answered(cycle, operation, status, None),
            }
        } else {
            match wire.send(&cycle.client) {
                Ok(response) => self.answered(cycle, operation, response.status, Some(&response)),
                Err(error) => {
                    self.tally.count("killed before the answer");
                    self.worlds.unanswered(operation);
                    return Err(error);
                }
            }
        }
        let one_in = if self.worlds.pending() > 0 { 3 } else { 12 };
        if self.random.below(one_in) == 0 && !self.is_confused {
            let response = question_wire(&question).send(&cycle.client)?;
            if let Some(seen) = seen_in(&question, &response) {
                self.tally.count("reads in between");
                let result = self.worlds.seen(&question, &seen);
                self.judge(result);
            }
        }
        Ok(())
    }

    fn answered(
        &mut self,
        cycle: &Cycle<'_>,
        operation: Operation,
        status: u16,
        response: Option<&Response>,
    ) {
        match status {
            // Too much load, or a conflict with another change: nothing was done.
            429 | 449 => {
                self.tally.count("refused under load");
                std::thread::sleep(Duration::from_millis(2));
            }
            408 | 503 => {
                self.tally.count("answered with 408 or 503");
                self.worlds.unanswered(operation);
                // Wait for a store that does not answer.
                std::thread::sleep(RETRY_AFTER);
            }
            _ => {
                if status < 300 && status != 207 {
                    *self.tally.acknowledged.entry(operation.kind()).or_default() += 1;
                    cycle.acknowledged.fetch_add(1, Ordering::Relaxed);
                    if matches!(self.estate, Estate::LogicalPartition { .. }) {
                        self.commits.extend(response.map(commit_of));
                    }
                    if operation.changes_a_definition() {
                        self.tally.count("definition changes acknowledged");
                        cycle.defined.fetch_add(1, Ordering::Relaxed);
                    }
                } else {
                    self.tally.count("refused");
                }
                let result = self.worlds.answered(&operation, status);
                if result.is_err() {
                    let text = response.map(ToString::to_string).unwrap_or_default();
                    self.tally.findings.push(format!("{}: the answer: {text}", self.name));
                }
                self.judge(result);
            }
        }
    }

    fn count_hang_up(&mut self, operation: &Operation, how: HangUp, in_a_sync: bool) {
        let is_definition = operation.changes_a_definition();
        self.tally.count("hung up");
        if is_definition {
            self.tally.count("hung up, definition changes");
        }
        if how == HangUp::ResetOfAStream {
            self.tally.count("hung up, HTTP/2 resets");
        }
        if in_a_sync {
            self.tally.count("cancelled in the middle of a sync");
            if is_definition {
                self.tally.count("cancelled in the middle of a sync, definition changes");
            }
        }
    }

    fn judge(&mut self, result: std::result::Result<(), Contradiction>) {
        if let Err(Contradiction { message, .. }) = result {
            self.confused(Breach::Answer, message);
        }
    }

    fn confused(&mut self, breach: Breach, message: String) {
        self.is_confused = true;
        self.tally.breach(breach, format!("{}: {message}", self.name));
    }

    /// Checks that the oracle allows the stored state of the estate.
    pub fn settle(&mut self, client: &Client) {
        let stored = self.observe(client);
        let pending: Vec<Operation> = self.worlds.pending_operations().cloned().collect();
        self.tally.add("pending at the restart", pending.len() as u64);
        match self.worlds.settle(&stored) {
            Ok(applied) => self.tally.add("pending at the restart and applied", applied as u64),
            Err(Contradiction { message, nearest }) => {
                let mut found = differences(&nearest, &stored);
                found.extend(torn(pending.iter(), &nearest, &stored));
                for (breach, difference) in found {
                    self.tally.breach(breach, format!("{}: {difference}", self.name));
                }
                self.tally.findings.push(format!("{}: {message}", self.name));
            }
        }
        self.is_confused = false;
    }

    fn observe(&self, client: &Client) -> State {
        match &self.estate {
            Estate::Databases(names) => observe::databases(client, names),
            Estate::LogicalPartition { at, partition } => observe::logical_partition(client, at, partition),
        }
    }

    /// Deletes one container, if the client has one, so that the others can be looked at without
    /// it.
    pub fn delete_a_container(&mut self, client: &Client) -> bool {
        let Estate::Databases(_) = self.estate else { return false };
        let databases = self.worlds.believed().databases.iter();
        let mut places = databases.flat_map(|(database, found)| {
            found.containers.keys().map(|name| Place { database: database.clone(), container: name.clone() })
        });
        let Some(at) = places.next() else { return false };
        drop(places);
        let operation = Operation::DeleteContainer { at };
        let status = wire_of(&operation, None).send(client).map(|response| response.status);
        let result = self.worlds.answered(&operation, status.expect("a server that runs answers"));
        self.judge(result);
        true
    }
}

/// The rid of the offer of a container that still has this tag, or of a database.
pub fn offer_of(
    client: &Client,
    database: &str,
    container: Option<&(String, u64)>,
) -> Result<Option<String>> {
    let mut path = database_path(database);
    if let Some((name, _)) = container {
        path = format!("{path}/colls/{name}");
    }
    let resource = client.try_request("GET", &path, &[], b"")?;
    if resource.status != 200 {
        return Ok(None);
    }
    let resource = resource.json();
    if container.is_some_and(|(_, tag)| tag_of(&resource) != *tag) {
        return Ok(None);
    }
    let query = json!({
        "query": "SELECT * FROM root r WHERE r.offerResourceId = @rid",
        "parameters": [{ "name": "@rid", "value": resource["_rid"] }],
    });
    let headers = [("content-type", "application/query+json"), ("x-ms-documentdb-isquery", "True")];
    let found = client.try_request("POST", "/offers", &headers, query.to_string().as_bytes())?;
    if found.status != 200 {
        return Ok(None);
    }
    Ok(found.json()["Offers"][0]["_rid"].as_str().map(str::to_owned))
}

/// The physical partition and LSN of an acknowledged write.
fn commit_of(response: &Response) -> (String, u64) {
    let partition = response.header("x-ms-documentdb-partitionkeyrangeid");
    let partition = partition.unwrap_or_else(|| panic!("a write names no partition: {response}"));
    (partition.to_owned(), response.lsn().expect("writes have an LSN"))
}
