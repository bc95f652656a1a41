//! Queue for the script workers: a *turn* is the right to use one.
//!
//! Containers get turns in rotation, and so do the scripts of one container; the runs of one script are
//! served in the order of their arrival. No container holds all workers, so that another one finds a worker
//! at once, or after one turn of each container that waits before it.
//!
//! A container whose script had to be stopped is an *offender* for a while. All of its scripts are then
//! *suspects*, except those that have lately ended by themselves. Its suspects together hold one worker, and
//! all suspects leave one worker to the others. So an honest script does not wait for an endless one of its
//! container, or waits for one turn of each if it is new.
//!
//! Scripts and functions of queries have separate workers: a script's query may call functions, and otherwise
//! scripts that hold all workers would wait for functions that wait for them. Both follow the same rules and
//! know the same offenders.
//!
//! Functions over changes are background work. One worker is theirs alone, so that scripts without end do not
//! stop them. Further ones they borrow from the scripts, up to half of their number, but never the last that
//! is free. Their offences count among themselves: they slow no script down.
//!
//! One lock is held for a few steps. A waiter that is dropped leaves the queue; if it was granted a turn at
//! that point, it gives the turn back.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_stdx::Clock;
use tokio::sync::oneshot;

use crate::meter::Meter;

/// How long a container is an offender after its last offence.
pub(crate) const OFFENCE_TIME: Duration = Duration::from_secs(60);
/// How long a script that has ended by itself is proven.
pub(crate) const PROOF_TIME: Duration = Duration::from_secs(10 * 60);
/// Limit on proven scripts; further ones are not proven, and wait as suspects if their container has
/// offended.
const PROVEN_MAX: usize = 10_000;
/// The `retry-after` of a client whose container's queue is full.
const RETRY_AFTER_MS: u64 = 1_000;

/// The use of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Scripts,
    Functions,
    /// Functions over changes.
    Changes,
}

impl Lane {
    const COUNT: usize = 3;

    /// Lanes in which a worker that this lane gives back may be used.
    fn shared(self) -> &'static [Lane] {
        match self {
            Lane::Functions => &[Lane::Functions],
            Lane::Scripts | Lane::Changes => &[Lane::Scripts, Lane::Changes],
        }
    }
}

/// A script of a container, which has turns of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScriptKey {
    pub container: ContainerRid,
    /// Unique number in the container; 0 for texts that are not registered.
    pub script: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The number of workers of scripts, and that of functions of queries.
    pub workers_max: usize,
    /// The number of waiters of all lanes together.
    pub waiting_max: usize,
    pub waiting_of_container_max: usize,
}

impl Rules {
    /// The number of workers that one lane may hold.
    fn workers_of(self, lane: Lane) -> usize {
        match lane {
            Lane::Scripts | Lane::Functions => self.workers_max,
            Lane::Changes => (self.workers_max / 2).max(1),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Turns {
    rules: Rules,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: [LaneState; Lane::COUNT],
    next_ticket: u64,
    records: [Records; 2],
}

/// How scripts have ended lately: those of scripts and functions of queries, or those of functions over
/// changes.
#[derive(Debug, Default)]
struct Records {
    /// The end of each container's time as an offender.
    offenders: HashMap<ContainerRid, Duration>,
    /// The end of each script's time as proven to end by itself.
    proven: HashMap<ScriptKey, Duration>,
}

#[derive(Debug, Default)]
struct LaneState {
    /// The number of workers held by each script.
    held: HashMap<ScriptKey, usize>,
    /// Containers with waiters, in the order of their turns.
    queues: VecDeque<(ContainerRid, ScriptQueues)>,
}

/// Scripts of a container with waiters, in the order of their turns.
type ScriptQueues = VecDeque<(ScriptKey, VecDeque<Waiter>)>;

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    granted: oneshot::Sender<()>,
}

/// The right of a script to one worker at a time, for one script or several that follow one another. It is
/// given back with the last copy.
#[derive(Debug, Clone)]
pub struct Turn(Arc<Held>);

#[derive(Debug)]
struct Held {
    turns: Arc<Turns>,
    lane: Lane,
    key: ScriptKey,
    meter: Meter,
    has_ended: AtomicBool,
    has_offended: AtomicBool,
}

impl Turn {
    /// Where the processor time of this turn is counted.
    pub fn meter(&self) -> &Meter {
        &self.0.meter
    }

    pub(crate) fn is_for(&self, lane: Lane) -> bool {
        self.0.lane == lane
    }

    /// A script of this turn had to be stopped.
    pub(crate) fn offended(&self) {
        let Held { turns, lane, key, has_offended, .. } = &*self.0;
        has_offended.store(true, Ordering::Relaxed);
        let now = turns.clock.elapsed();
        let mut state = turns.state();
        let records = state.records_mut(*lane);
        records.offenders.retain(|_, until| *until > now);
        records.offenders.insert(key.container, now + OFFENCE_TIME);
        records.proven.remove(key);
    }

    /// A script of this turn has ended.
    pub(crate) fn ended(&self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let is_proven = *self.has_ended.get_mut() && !*self.has_offended.get_mut();
        self.turns.release(self.lane, self.key, is_proven);
    }
}

impl Turns {
    pub fn new(rules: Rules, clock: Clock) -> Arc<Turns> {
        assert!(rules.workers_max > 0, "there is a worker to take turns at");
        Arc::new(Turns { rules, clock, state: Mutex::default() })
    }

    /// A turn for callers that do not wait.
    pub fn try_turn(self: &Arc<Self>, lane: Lane, key: ScriptKey, meter: Meter) -> Option<Turn> {
        let now = self.clock.elapsed();
        let mut state = self.state();
        // A later run does not overtake earlier ones of the same script.
        let is_free = !state.waits(lane, key) && state.may_take(self.rules, lane, key, now);
        if !is_free {
            return None;
        }
        state.take(lane, key);
        state.check(self.rules, lane);
        drop(state);
        Some(self.held(lane, key, meter))
    }

    /// Waits for a turn. Refused at once if too many wait.
    pub async fn turn(self: &Arc<Self>, lane: Lane, key: ScriptKey, meter: Meter) -> Result<Turn> {
        if let Some(turn) = self.try_turn(lane, key, meter.clone()) {
            return Ok(turn);
        }
        let mut waiting = self.wait(lane, key)?;
        (&mut waiting.granted).await.map_err(|_| Error::internal("a waiter for a turn was forgotten"))?;
        waiting.is_over = true;
        Ok(self.held(lane, key, meter))
    }

    fn wait(self: &Arc<Self>, lane: Lane, key: ScriptKey) -> Result<Waiting<'_>> {
        let mut state = self.state();
        let (all, own) = state.waiting(key.container);
        if all >= self.rules.waiting_max {
            let message = "too many scripts wait to be run";
            return Err(Error::new(ErrorKind::Unavailable, message).with_retry_after_ms(RETRY_AFTER_MS));
        }
        if own >= self.rules.waiting_of_container_max {
            let message = "too many scripts of this container wait to be run";
            return Err(Error::new(ErrorKind::TooManyRequests, message).with_retry_after_ms(RETRY_AFTER_MS));
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (grants, granted) = oneshot::channel();
        let queues = queue_of(&mut state.lanes[lane as usize].queues, key.container);
        queue_of(queues, key).push_back(Waiter { ticket, granted: grants });
        // A turn may have become free since the attempt.
        state.grant(self.rules, lane, self.clock.elapsed());
        Ok(Waiting { turns: self, lane, key, ticket, granted, is_over: false })
    }

    fn held(self: &Arc<Self>, lane: Lane, key: ScriptKey, meter: Meter) -> Turn {
        let (has_ended, has_offended) = Default::default();
        Turn(Arc::new(Held { turns: Arc::clone(self), lane, key, meter, has_ended, has_offended }))
    }

    fn release(&self, lane: Lane, key: ScriptKey, is_proven: bool) {
        let now = self.clock.elapsed();
        let mut state = self.state();
        if is_proven {
            state.records_mut(lane).note_proven(key, now);
        }
        let held = state.lanes[lane as usize].held.get_mut(&key);
        let held = held.expect("a turn that is given back was taken");
        assert!(*held > 0, "a turn is given back once");
        *held -= 1;
        if *held == 0 {
            state.lanes[lane as usize].held.remove(&key);
        }
        lane.shared().iter().for_each(|lane| state.grant(self.rules, *lane, now));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LaneState {
    /// The number of workers that are held.
    fn count(&self) -> usize {
        self.held.values().sum()
    }
}

impl Records {
    /// Whether a script is possibly endless.
    fn is_suspect(&self, key: ScriptKey, now: Duration) -> bool {
        let is_offender = self.offenders.get(&key.container).is_some_and(|until| *until > now);
        is_offender && self.proven.get(&key).is_none_or(|until| *until <= now)
    }

    fn note_proven(&mut self, key: ScriptKey, now: Duration) {
        if self.proven.len() >= PROVEN_MAX && !self.proven.contains_key(&key) {
            self.proven.retain(|_, until| *until > now);
        }
        if self.proven.len() < PROVEN_MAX || self.proven.contains_key(&key) {
            self.proven.insert(key, now + PROOF_TIME);
        }
        assert!(self.proven.len() <= PROVEN_MAX, "the list of proven scripts is bounded");
    }
}

impl State {
    fn lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[lane as usize]
    }

    fn records(&self, lane: Lane) -> &Records {
        &self.records[usize::from(lane == Lane::Changes)]
    }

    fn records_mut(&mut self, lane: Lane) -> &mut Records {
        &mut self.records[usize::from(lane == Lane::Changes)]
    }

    fn waits(&self, lane: Lane, key: ScriptKey) -> bool {
        self.lane(lane).queues.iter().any(|(_, queues)| queues.iter().any(|(waits, _)| *waits == key))
    }

    /// The number of waiters: in all, and of one container.
    fn waiting(&self, container: ContainerRid) -> (usize, usize) {
        let queues = || self.lanes.iter().flat_map(|lane| &lane.queues);
        let count = |queues: &ScriptQueues| queues.iter().map(|(_, queue)| queue.len()).sum::<usize>();
        let own = queues().filter(|(waits, _)| *waits == container).map(|(_, queues)| count(queues));
        (queues().map(|(_, queues)| count(queues)).sum(), own.sum())
    }

    fn may_take(&self, rules: Rules, lane: Lane, key: ScriptKey, now: Duration) -> bool {
        let held = &self.lane(lane).held;
        let workers_max = rules.workers_of(lane);
        // A single worker cannot be left to others.
        let all_but_one = (workers_max - 1).max(1);
        let count = |is_meant: &dyn Fn(&ScriptKey) -> bool| -> usize {
            held.iter().filter(|(holder, _)| is_meant(holder)).map(|(_, count)| count).sum()
        };
        let is_of_container = |holder: &ScriptKey| holder.container == key.container;
        let records = self.records(lane);
        let is_suspect = |holder: &ScriptKey| records.is_suspect(*holder, now);
        if count(&|_| true) >= workers_max || count(&is_of_container) >= all_but_one {
            return false;
        }
        if !self.leaves_enough(rules, lane) {
            return false;
        }
        let own_suspects = || count(&|holder| is_of_container(holder) && is_suspect(holder));
        !records.is_suspect(key, now) || (own_suspects() == 0 && count(&is_suspect) < all_but_one)
    }

    /// The number of workers of scripts that functions over changes have borrowed.
    fn borrowed(&self) -> usize {
        self.lane(Lane::Changes).count().saturating_sub(1)
    }

    /// Whether one more worker for this lane is there, and leaves the other lanes their own.
    fn leaves_enough(&self, rules: Rules, lane: Lane) -> bool {
        let used = self.lane(Lane::Scripts).count() + self.borrowed();
        match lane {
            Lane::Functions => true,
            Lane::Scripts => used < rules.workers_max,
            Lane::Changes => self.lane(lane).count() == 0 || used + 1 < rules.workers_max,
        }
    }

    fn check(&self, rules: Rules, lane: Lane) {
        debug_assert!(self.lane(lane).count() <= rules.workers_of(lane), "a worker has one holder");
        let used = self.lane(Lane::Scripts).count() + self.borrowed();
        debug_assert!(used <= rules.workers_max, "a worker has one holder");
    }

    fn take(&mut self, lane: Lane, key: ScriptKey) {
        *self.lanes[lane as usize].held.entry(key).or_default() += 1;
    }

    /// Grants free workers to the first waiters that may have them. After a grant, the container and its
    /// script move to the end of their queues.
    fn grant(&mut self, rules: Rules, lane: Lane, now: Duration) {
        let next = |state: &State| {
            let mut places = state.lane(lane).queues.iter().enumerate();
            places.find_map(|(at, (_, queues))| {
                let script = queues.iter().position(|(key, _)| state.may_take(rules, lane, *key, now));
                script.map(|script| (at, script))
            })
        };
        while let Some((at, script)) = next(self) {
            let all = &mut self.lanes[lane as usize].queues;
            let (container, mut queues) = all.remove(at).expect("it was found there");
            let (key, mut queue) = queues.remove(script).expect("it was found there");
            let waiter = queue.pop_front().expect("queues without waiters are removed");
            if !queue.is_empty() {
                queues.push_back((key, queue));
            }
            if !queues.is_empty() {
                all.push_back((container, queues));
            }
            if waiter.granted.send(()).is_ok() {
                self.take(lane, key);
                self.check(rules, lane);
            }
        }
    }

    /// Whether the waiter was still in its queue.
    fn forget(&mut self, lane: Lane, key: ScriptKey, ticket: u64) -> bool {
        let all = &mut self.lanes[lane as usize].queues;
        let Some((_, queues)) = all.iter_mut().find(|(container, _)| *container == key.container) else {
            return false;
        };
        let Some((_, queue)) = queues.iter_mut().find(|(waits, _)| *waits == key) else { return false };
        let waiters = queue.len();
        queue.retain(|waiter| waiter.ticket != ticket);
        let was_there = queue.len() < waiters;
        queues.retain(|(_, queue)| !queue.is_empty());
        all.retain(|(_, queues)| !queues.is_empty());
        was_there
    }
}

/// The queue of this key, added at the end if it is new.
fn queue_of<K: PartialEq + Copy, V>(queues: &mut VecDeque<(K, VecDeque<V>)>, key: K) -> &mut VecDeque<V> {
    let place = queues.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        queues.push_back((key, VecDeque::new()));
        queues.len() - 1
    });
    &mut queues[place].1
}

/// A place in a queue, until it is dropped.
struct Waiting<'a> {
    turns: &'a Arc<Turns>,
    lane: Lane,
    key: ScriptKey,
    ticket: u64,
    granted: oneshot::Receiver<()>,
    /// The turn was taken.
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let was_waiting = self.turns.state().forget(self.lane, self.key, self.ticket);
        if !was_waiting && self.granted.try_recv().is_ok() {
            self.turns.release(self.lane, self.key, false);
        }
    }
}

#[cfg(test)]
mod tests;
