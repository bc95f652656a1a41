//! The rules of the lease in every order of events: two servers, one record, requests of any duration.
//!
//! The rules are the real ones (`Watch::look`, `deadline`); the store is a number and a writer. Steps are:
//! the time advances, a server begins to renew or to take, a request arrives at the store, its answer
//! arrives, a server looks. The clocks of the two differ in speed by one percent. At no time may both rely on
//! the lease. Each seeded mistake must be found, or the search is too small to mean anything.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use shardlake_lease::{Entry, Look, Record, State as Held, Watch, deadline};

const TTL: Duration = Duration::from_secs(2);
const SECONDS: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The holder counts from the answer.
    FromTheAnswer,
    /// The watcher treats a record that it sees for the first time as long seen.
    Impatient,
    /// The watcher does not begin anew with a new record.
    ForgetsRenewals,
    /// The store lets a record be written twice.
    Overwrites,
    /// A refused renewal counts.
    IgnoresRefusals,
    /// The taker counts from when it began to watch.
    NeverBegins,
}

/// A request that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Request {
    number: u64,
    /// By the clock of the sender.
    began: Duration,
    /// `None` until it arrives at the store.
    stored: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Server {
    /// The record that it wrote last and by which it has the lease.
    holds: Option<u64>,
    relies_until: Duration,
    request: Option<Request>,
    /// The record that the watch has seen, to rebuild it: number, since.
    seen: Option<(u64, Duration)>,
    /// A read of the record on its way back.
    read: Option<Option<(u64, usize)>>,
    /// Time of its last action: it acts once a second.
    began: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    second: u64,
    /// Number and writer of the present record.
    record: Option<(u64, usize)>,
    servers: [Server; 2],
}

fn clock(server: usize, second: u64) -> Duration {
    let rate = [0.99, 1.01][server];
    Duration::from_secs(second).mul_f64(rate)
}

fn entry((number, writer): (u64, usize)) -> Entry {
    let incarnation = writer.to_string();
    let ttl_ms = TTL.as_millis() as u64;
    let record = Record { node: incarnation.clone(), incarnation, term: 1, ttl_ms, state: Held::Held };
    Entry { number, record }
}

impl World {
    fn relies(&self, server: usize) -> bool {
        let held = &self.servers[server];
        held.holds.is_some() && clock(server, self.second) < held.relies_until
    }

    fn next(&self, mistake: Mistake) -> Vec<World> {
        let mut worlds = Vec::new();
        if self.second < SECONDS {
            worlds.push(World { second: self.second + 1, ..self.clone() });
        }
        for server in 0..2 {
            let now = clock(server, self.second);
            let may_begin = self.servers[server].began != Some(self.second);
            let mut change = |make: &dyn Fn(&mut World)| {
                let mut world = self.clone();
                make(&mut world);
                worlds.push(world);
            };
            match (&self.servers[server].request, self.servers[server].holds) {
                (Some(request), _) => match request.stored {
                    None => change(&|world| world.store(server, mistake)),
                    Some(stored) => change(&|world| world.answer(server, stored, now, mistake)),
                },
                (None, Some(number)) if may_begin => change(&|world| {
                    let request = Request { number: number + 1, began: now, stored: None };
                    world.servers[server].request = Some(request);
                    world.servers[server].began = Some(self.second);
                }),
                (None, None) => match self.servers[server].read {
                    None if may_begin => change(&|world| {
                        world.servers[server].read = Some(world.record);
                        world.servers[server].began = Some(self.second);
                    }),
                    None => {}
                    Some(read) => change(&|world| world.look(server, read, now, mistake)),
                },
                (None, Some(_)) => {}
            }
        }
        worlds
    }

    /// A request arrives.
    fn store(&mut self, server: usize, mistake: Mistake) {
        let request = self.servers[server].request.as_mut().unwrap();
        let last = self.record.map_or(0, |(number, _)| number);
        let is_next = request.number > last || mistake == Mistake::Overwrites;
        if is_next {
            self.record = Some((request.number, server));
        }
        request.stored = Some(is_next);
    }

    fn answer(&mut self, server: usize, stored: bool, now: Duration, mistake: Mistake) {
        let held = &mut self.servers[server];
        let request = held.request.take().unwrap();
        if stored || (mistake == Mistake::IgnoresRefusals && held.holds.is_some()) {
            let began = if mistake == Mistake::FromTheAnswer { now } else { request.began };
            held.holds = Some(request.number);
            held.relies_until = deadline(began, TTL);
        } else {
            *held = Server { began: held.began, ..Server::default() };
        }
    }

    fn look(&mut self, server: usize, read: Option<(u64, usize)>, now: Duration, mistake: Mistake) {
        let held = &mut self.servers[server];
        held.read = None;
        let last = read.map(entry);
        let mut watch = Watch::default();
        // The watch is rebuilt by showing it the record at the time when it saw it.
        if let Some((number, since)) = held.seen {
            watch.look(Some(&entry((number, 1 - server))), None, since);
        }
        let look = match (mistake, read) {
            (Mistake::Impatient, Some((number, _))) => Look::Take { number: number + 1 },
            (Mistake::ForgetsRenewals, Some((number, writer))) => {
                let seen = held.seen.map_or(number, |(number, _)| number);
                match watch.look(Some(&entry((seen, writer))), None, now) {
                    Look::Take { .. } => Look::Take { number: number + 1 },
                    wait @ Look::Wait { .. } => wait,
                }
            }
            _ => watch.look(last.as_ref(), None, now),
        };
        match look {
            Look::Take { number } => {
                let began = match mistake {
                    // As if the request took no time and were sent at the end.
                    Mistake::NeverBegins => now + TTL,
                    _ => now,
                };
                held.seen = None;
                held.request = Some(Request { number, began, stored: None });
            }
            Look::Wait { .. } => {
                let number = read.unwrap().0;
                let is_new = held.seen.is_none_or(|(seen, _)| seen != number);
                if is_new && !(mistake == Mistake::ForgetsRenewals && held.seen.is_some()) {
                    held.seen = Some((number, now));
                }
            }
        }
    }
}

/// Worlds in which both rely on the lease, and how many there are in all.
fn search(mistake: Mistake) -> (Option<World>, usize) {
    let first = World { second: 0, record: None, servers: Default::default() };
    let mut seen = HashSet::from([first.clone()]);
    let mut queue = VecDeque::from([first]);
    while let Some(world) = queue.pop_front() {
        if world.relies(0) && world.relies(1) {
            return (Some(world), seen.len());
        }
        for next in world.next(mistake) {
            if seen.insert(next.clone()) {
                queue.push_back(next);
            }
        }
    }
    (None, seen.len())
}

#[test]
fn two_servers_never_rely_on_the_lease_at_once() {
    let (both, worlds) = search(Mistake::None);
    assert!(both.is_none(), "{both:#?}");
    assert!(worlds > 10_000, "{worlds} worlds are too few to mean anything");
}

#[test]
fn every_seeded_mistake_is_found() {
    for mistake in [
        Mistake::FromTheAnswer,
        Mistake::Impatient,
        Mistake::ForgetsRenewals,
        Mistake::Overwrites,
        Mistake::IgnoresRefusals,
        Mistake::NeverBegins,
    ] {
        let (both, worlds) = search(mistake);
        assert!(both.is_some(), "{mistake:?} was not found in {worlds} worlds");
    }
}
