//! Whose turn it is at the workers.
//!
//! Containers take turns one after the other, and the scripts of one container in the order of their arrival. No container
//! holds all workers, so that another one finds a worker at once, or after one turn of each container that waits before it.
//! A container whose script had to be stopped is an *offender* for a while: it holds one worker, and all offenders together
//! leave one worker to the others.
//!
//! Scripts and functions of queries have workers of their own: a script's query may call functions, and scripts that hold
//! all workers would else wait for functions that wait for them. Both go by the same rules and know the same offenders.
//!
//! One lock, held for a few steps. A waiter that is dropped leaves the queue; where it was granted a turn in that moment, it
//! gives the turn back.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardlake_model::{ContainerRid, Error, ErrorKind, Result};
use shardlake_stdx::Clock;
use tokio::sync::oneshot;

use crate::meter::Meter;

/// How long a container is an offender after its last offence.
pub(crate) const OFFENCE_TIME: Duration = Duration::from_secs(60);
/// What a client is told to wait when its container's queue is full.
const RETRY_AFTER_MS: u64 = 1_000;

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Scripts,
    Functions,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Of each lane.
    pub workers_max: usize,
    /// Of both lanes together.
    pub waiting_max: usize,
    pub waiting_of_container_max: usize,
}

#[derive(Debug)]
pub(crate) struct Turns {
    rules: Rules,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: [LaneState; 2],
    next_ticket: u64,
    /// Until when each is one.
    offenders: HashMap<ContainerRid, Duration>,
}

#[derive(Debug, Default)]
struct LaneState {
    /// Workers that a container holds, where it holds any.
    held: HashMap<ContainerRid, usize>,
    /// Containers with waiters, in the order of their turns.
    queues: VecDeque<(ContainerRid, VecDeque<Waiter>)>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    granted: oneshot::Sender<()>,
}

/// The right of a container to one worker at a time, for one script or several that follow one another. It is given back
/// with the last copy.
#[derive(Debug, Clone)]
pub struct Turn(Arc<Held>);

#[derive(Debug)]
struct Held {
    turns: Arc<Turns>,
    lane: Lane,
    container: ContainerRid,
    meter: Meter,
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
        let turns = &self.0.turns;
        let now = turns.clock.elapsed();
        let mut state = turns.state();
        state.offenders.retain(|_, until| *until > now);
        state.offenders.insert(self.0.container, now + OFFENCE_TIME);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.turns.release(self.lane, self.container);
    }
}

impl Turns {
    pub fn new(rules: Rules, clock: Clock) -> Arc<Turns> {
        assert!(rules.workers_max > 0, "there is a worker to take turns at");
        Arc::new(Turns { rules, clock, state: Mutex::default() })
    }

    /// A turn for those who do not wait.
    pub fn try_turn(self: &Arc<Self>, lane: Lane, container: ContainerRid, meter: Meter) -> Option<Turn> {
        let now = self.clock.elapsed();
        let mut state = self.state();
        // Whoever comes later does not overtake those of the same container.
        let is_first = !state.lane(lane).queues.iter().any(|(waits, _)| *waits == container);
        let is_free = is_first && state.may_take(self.rules, lane, container, now);
        if !is_free {
            return None;
        }
        state.take(lane, container);
        drop(state);
        Some(self.held(lane, container, meter))
    }

    /// Waits for a turn. Refused at once where too many wait.
    pub async fn turn(self: &Arc<Self>, lane: Lane, container: ContainerRid, meter: Meter) -> Result<Turn> {
        if let Some(turn) = self.try_turn(lane, container, meter.clone()) {
            return Ok(turn);
        }
        let mut waiting = self.wait(lane, container)?;
        (&mut waiting.granted).await.map_err(|_| Error::internal("a waiter for a turn was forgotten"))?;
        waiting.is_over = true;
        Ok(self.held(lane, container, meter))
    }

    fn wait(self: &Arc<Self>, lane: Lane, container: ContainerRid) -> Result<Waiting<'_>> {
        let mut state = self.state();
        let (all, own) = state.waiting(container);
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
        let waiter = Waiter { ticket, granted: grants };
        let queues = &mut state.lanes[lane as usize].queues;
        match queues.iter_mut().find(|(waits, _)| *waits == container) {
            Some((_, queue)) => queue.push_back(waiter),
            None => queues.push_back((container, VecDeque::from([waiter]))),
        }
        // A turn may have become free since it was tried.
        state.grant(self.rules, lane, self.clock.elapsed());
        Ok(Waiting { turns: self, lane, container, ticket, granted, is_over: false })
    }

    fn held(self: &Arc<Self>, lane: Lane, container: ContainerRid, meter: Meter) -> Turn {
        Turn(Arc::new(Held { turns: Arc::clone(self), lane, container, meter }))
    }

    fn release(&self, lane: Lane, container: ContainerRid) {
        let now = self.clock.elapsed();
        let mut state = self.state();
        let held = state.lanes[lane as usize].held.get_mut(&container);
        let held = held.expect("a turn that is given back was taken");
        *held -= 1;
        if *held == 0 {
            state.lanes[lane as usize].held.remove(&container);
        }
        state.grant(self.rules, lane, now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[lane as usize]
    }

    fn is_offender(&self, container: ContainerRid, now: Duration) -> bool {
        self.offenders.get(&container).is_some_and(|until| *until > now)
    }

    /// Who waits: everybody, and those of one container.
    fn waiting(&self, container: ContainerRid) -> (usize, usize) {
        let queues = || self.lanes.iter().flat_map(|lane| &lane.queues);
        let own = queues().filter(|(waits, _)| *waits == container).map(|(_, queue)| queue.len());
        (queues().map(|(_, queue)| queue.len()).sum(), own.sum())
    }

    fn may_take(&self, rules: Rules, lane: Lane, container: ContainerRid, now: Duration) -> bool {
        let held = &self.lane(lane).held;
        // With one worker there is nothing to leave to others.
        let all_but_one = (rules.workers_max - 1).max(1);
        let own = held.get(&container).copied().unwrap_or(0);
        let has_free = held.values().sum::<usize>() < rules.workers_max;
        if !self.is_offender(container, now) {
            return has_free && own < all_but_one;
        }
        let of_offenders: usize =
            held.iter().filter(|(holder, _)| self.is_offender(**holder, now)).map(|(_, count)| count).sum();
        has_free && own == 0 && of_offenders < all_but_one
    }

    fn take(&mut self, lane: Lane, container: ContainerRid) {
        *self.lanes[lane as usize].held.entry(container).or_default() += 1;
    }

    /// Gives what is free to those who may take it; who got a turn goes to the end.
    fn grant(&mut self, rules: Rules, lane: Lane, now: Duration) {
        let next = |state: &State| {
            let mut queues = state.lane(lane).queues.iter();
            queues.position(|(container, _)| state.may_take(rules, lane, *container, now))
        };
        while let Some(at) = next(self) {
            let queues = &mut self.lanes[lane as usize].queues;
            let (container, mut queue) = queues.remove(at).expect("it was found there");
            let waiter = queue.pop_front().expect("queues without waiters are removed");
            if !queue.is_empty() {
                queues.push_back((container, queue));
            }
            if waiter.granted.send(()).is_ok() {
                self.take(lane, container);
            }
        }
    }

    /// Whether the waiter was still in its queue.
    fn forget(&mut self, lane: Lane, container: ContainerRid, ticket: u64) -> bool {
        let queues = &mut self.lanes[lane as usize].queues;
        let Some(at) = queues.iter().position(|(waits, _)| *waits == container) else { return false };
        let queue = &mut queues[at].1;
        let waiters = queue.len();
        queue.retain(|waiter| waiter.ticket != ticket);
        let was_there = queue.len() < waiters;
        if queue.is_empty() {
            queues.remove(at);
        }
        was_there
    }
}

/// A place in a queue, until it is dropped.
struct Waiting<'a> {
    turns: &'a Arc<Turns>,
    lane: Lane,
    container: ContainerRid,
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
        let was_waiting = self.turns.state().forget(self.lane, self.container, self.ticket);
        if !was_waiting && self.granted.try_recv().is_ok() {
            self.turns.release(self.lane, self.container);
        }
    }
}

#[cfg(test)]
mod tests;
