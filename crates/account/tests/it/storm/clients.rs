//! Clients that compete for a few items, and record their requests and results.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch, key_scope};
use std::collections::BTreeMap;
use std::sync::Arc;

use shardlake_account::{
    BatchReply, ContainerHandle, ItemReply, Number, Outcome, PatchOperation, StoredItem,
};
use shardlake_model::{ETagCondition, Error, ErrorKind, Preconditions, ReplyMeta, RequestContext};
use shardlake_stdx::{Guid, Random};
use shardlake_testkit::history::{Action, Answer, Failure, Guard, Reply, SeenItem};

use super::session::Session;
use super::world::{IDS, LOGICAL, World, body, count, logical_name};
use crate::support::json;

struct Client {
    world: Arc<World>,
    number: u32,
    random: Random,
    session: Session,
    /// The last etag seen of an item, for conditions.
    etags: BTreeMap<(String, String), Guid>,
    /// The first answer to a read of an item, for a client that is to be caught with stale reads.
    stale: BTreeMap<(String, String), Reply>,
    /// Some requests use a routing that the client has held for a while.
    held: ContainerHandle,
    next_value: i64,
}

pub async fn run_client(world: Arc<World>, number: u32) {
    let random = world.random("client", number);
    let held = world.container();
    let lives_before = world.notebooks.recorder.calls().len() as i64;
    let mut client = Client {
        number,
        random,
        session: Session::default(),
        etags: BTreeMap::new(),
        stale: BTreeMap::new(),
        held,
        // Different in every life, so that a number identifies its writer.
        next_value: (lives_before << 32) + i64::from(number + 1) * 1_000_000,
        world,
    };
    let share = client.world.weather.operations / u64::from(client.world.weather.clients);
    let mut done = 0;
    while !client.world.is_over() {
        if done < 2 * share {
            client.step().await;
            done += 1;
            count(&client.world.counts.operations);
        }
        tokio::task::yield_now().await;
    }
    client.world.client_ended();
}

impl Client {
    async fn step(&mut self) {
        let logical = logical_name(self.random.below(LOGICAL));
        let container = self.handle();
        match self.random.below(10) {
            0 | 1 => self.batch(&container, &logical).await,
            2 => self.look(&container, &logical).await,
            _ => {
                let id = IDS[self.random.below(IDS.len() as u64) as usize];
                let action = self.action(&logical, id);
                self.single(&container, &logical, id, action).await;
            }
        }
    }

    fn handle(&mut self) -> ContainerHandle {
        match self.random.below(8) {
            0 => self.held.clone(),
            1 => {
                self.held = self.world.container();
                self.held.clone()
            }
            _ => self.world.container(),
        }
    }

    fn value(&mut self) -> i64 {
        self.next_value += 1;
        self.next_value
    }

    fn action(&mut self, logical: &str, id: &str) -> Action {
        let etag = self.etags.get(&(logical.to_owned(), id.to_owned())).copied();
        let of = |has_guard: bool, guard: fn(Guid) -> Guard| match etag {
            Some(etag) if has_guard => guard(etag),
            _ => Guard::None,
        };
        let has_guard = self.random.below(3) == 0;
        match self.random.below(12) {
            0 | 1 => Action::Create { value: self.value() },
            2 => Action::Upsert { value: self.value() },
            3 | 4 => Action::Replace { value: self.value(), guard: of(has_guard, Guard::Match) },
            5..=7 => Action::Increment { by: 1, guard: of(has_guard, Guard::Match) },
            8 => Action::Delete { guard: of(has_guard, Guard::Match) },
            _ => Action::Read { guard: of(has_guard, Guard::NoneMatch) },
        }
    }

    fn ctx(&self, container: &ContainerHandle) -> RequestContext {
        RequestContext { session: Some(self.session.token(container)), ..self.world.ctx() }
    }

    async fn single(&mut self, container: &ContainerHandle, logical: &str, id: &str, action: Action) {
        let pending =
            self.world.notebooks.recorder.asks(self.number, logical, vec![(id.to_owned(), action.clone())]);
        let outcome = self.send(container, logical, id, &action).await;
        let mut reply = match &outcome {
            Ok(reply) => {
                let is_commit = !matches!(action, Action::Read { .. });
                self.note(&reply.meta, is_commit.then_some(&reply.meta));
                if is_commit {
                    self.world.notebooks.acknowledged.note(logical, id, &reply.meta);
                }
                Reply::Done(vec![self.answer(logical, id, reply)])
            }
            Err(error) => {
                self.note(error.meta(), None);
                self.failed(error, 0)
            }
        };
        if self.world.weather.stale_reads && matches!(action, Action::Read { guard: Guard::None }) {
            let first =
                self.stale.entry((logical.to_owned(), id.to_owned())).or_insert_with(|| reply.clone());
            reply = first.clone();
        }
        pending.answered(reply);
    }

    async fn send(
        &self,
        container: &ContainerHandle,
        logical: &str,
        id: &str,
        action: &Action,
    ) -> shardlake_model::Result<ItemReply> {
        let account = &self.world.account;
        let ctx = &self.ctx(container);
        let key_text = format!("[\"{logical}\"]");
        let key = Some(KeyInput(&key_text));
        let none = Preconditions::default();
        match action {
            Action::Create { value } => {
                account.create_item(ctx, container, key, body(id, logical, *value, false).as_bytes()).await
            }
            Action::Upsert { value } => {
                let body = body(id, logical, *value, false);
                account.upsert_item(ctx, container, key, body.as_bytes(), &none).await
            }
            Action::Replace { value, guard } => {
                let body = body(id, logical, *value, false);
                account.replace_item(ctx, container, key, id, body.as_bytes(), &conditions(*guard)).await
            }
            Action::Increment { by, guard } => {
                account.patch_item(ctx, container, key, id, increment(*by), &conditions(*guard)).await
            }
            Action::Delete { guard } => {
                account.delete_item(ctx, container, key, id, &conditions(*guard)).await
            }
            Action::Read { guard } => account.read_item(ctx, container, key, id, &conditions(*guard)).await,
        }
    }

    async fn batch(&mut self, container: &ContainerHandle, logical: &str) {
        let twins =
            |first: Action, second: Action| vec![("left".to_owned(), first), ("right".to_owned(), second)];
        let value = self.value();
        let actions = match self.random.below(4) {
            0 => twins(Action::Upsert { value }, Action::Upsert { value }),
            1 => {
                let more = || Action::Increment { by: 1, guard: Guard::None };
                twins(more(), more())
            }
            2 => twins(Action::Create { value }, Action::Upsert { value }),
            _ => {
                let read = Action::Read { guard: Guard::None };
                let mut actions = twins(read, Action::Increment { by: 2, guard: Guard::None });
                actions.push(("a".to_owned(), Action::Upsert { value }));
                actions
            }
        };
        let operations = actions.iter().map(|(id, action)| operation(logical, id, action)).collect();
        let pending = self.world.notebooks.recorder.asks(self.number, logical, actions.clone());
        let key_text = format!("[\"{logical}\"]");
        let ctx = self.ctx(container);
        let outcome = self.world.account.json_batch(&ctx, container, KeyInput(&key_text), operations).await;
        let reply = match outcome {
            Ok(BatchReply { outcome: Ok(replies), meta }) => {
                let commit = replies.last().map(|reply| reply.meta);
                self.note(&meta, commit.as_ref());
                let named = actions.iter().zip(&replies);
                for ((id, action), reply) in named.clone() {
                    if !matches!(action, Action::Read { .. }) {
                        self.world.notebooks.acknowledged.note(logical, id, &reply.meta);
                    }
                }
                Reply::Done(named.map(|((id, _), reply)| self.answer(logical, id, reply)).collect())
            }
            Ok(BatchReply { outcome: Err(failure), meta }) => {
                self.note(&meta, None);
                self.failed(&failure.error, failure.index)
            }
            Err(error) => self.failed(&error, 0),
        };
        pending.answered(reply);
    }

    /// All items of a logical partition at one point in time.
    async fn look(&mut self, container: &ContainerHandle, logical: &str) {
        let pending = self.world.notebooks.recorder.asks(self.number, logical, vec![]);
        let scope = key_scope(format!("[\"{logical}\"]"));
        let ctx = self.ctx(container);
        match self.world.account.items().read_feed(&ctx, container, scope, Some(-1), None).await {
            Ok(page) => {
                self.note(&page.meta, None);
                if page.continuation.is_some() {
                    self.world.problem("a look at four items took more than a page");
                }
                pending.answered(Reply::Snapshot(page.items.iter().map(seen).collect()));
            }
            Err(error) => pending.answered(self.failed(&error, 0)),
        }
    }

    fn answer(&mut self, logical: &str, id: &str, reply: &ItemReply) -> Answer {
        let place = (logical.to_owned(), id.to_owned());
        let Some(item) = &reply.item else {
            return match reply.outcome {
                Outcome::NotModified => Answer::NotModified,
                _ => Answer::Deleted,
            };
        };
        let etag = item.etag();
        self.etags.insert(place, etag);
        match reply.outcome {
            Outcome::Created => Answer::Created { etag },
            Outcome::Replaced => Answer::Replaced { etag },
            Outcome::Patched => Answer::Incremented { value: seen(item).value, etag },
            Outcome::Deleted => Answer::Deleted,
            Outcome::Read => Answer::Found { value: seen(item).value, etag },
            Outcome::NotModified => Answer::NotModified,
        }
    }

    fn failed(&self, error: &Error, index: usize) -> Reply {
        let failure = match error.kind() {
            ErrorKind::NotFound => Failure::NotFound,
            ErrorKind::Conflict => Failure::Conflict,
            ErrorKind::PreconditionFailed => Failure::PreconditionFailed,
            ErrorKind::TooManyRequests => return Reply::Refused,
            ErrorKind::Unavailable | ErrorKind::Timeout if self.world.weather.crashes => {
                self.world.end();
                return Reply::Unknown;
            }
            _ => {
                self.world.problem(format!("client {}: {error} ({:?})", self.number, error.kind()));
                return Reply::Unknown;
            }
        };
        Reply::Failed { index, failure }
    }

    fn note(&mut self, meta: &ReplyMeta, commit: Option<&ReplyMeta>) {
        let backwards = self.session.note(&self.world.container(), meta);
        let twice = commit.and_then(|meta| self.world.notebooks.commits.note(meta));
        for problem in [backwards, twice].into_iter().flatten() {
            self.world.problem(format!("client {}: {problem}", self.number));
        }
    }
}

pub fn seen(item: &StoredItem) -> SeenItem {
    let etag = item.etag();
    let item = json(item);
    let id = item["id"].as_str().expect("items have ids").to_owned();
    SeenItem { id, value: item["v"].as_i64().expect("items have numbers"), etag }
}

fn conditions(guard: Guard) -> Preconditions {
    let one = |etag: Guid| Some(ETagCondition::OneOf(vec![etag.to_string()]));
    match guard {
        Guard::None => Preconditions::default(),
        Guard::Match(etag) => Preconditions { if_match: one(etag), if_none_match: None },
        Guard::NoneMatch(etag) => Preconditions { if_match: None, if_none_match: one(etag) },
    }
}

fn increment(by: i64) -> Patch {
    let by = Number::Int(by);
    Patch { operations: vec![PatchOperation::Increment { path: vec!["v".into()], by }], condition: None }
}

fn operation(logical: &str, id: &str, action: &Action) -> BatchOperation {
    let (kind, value, patch, guard) = match action {
        Action::Create { value } => (BatchKind::Create, Some(*value), None, Guard::None),
        Action::Upsert { value } => (BatchKind::Upsert, Some(*value), None, Guard::None),
        Action::Replace { value, guard } => (BatchKind::Replace, Some(*value), None, *guard),
        Action::Increment { by, guard } => (BatchKind::Patch, None, Some(increment(*by)), *guard),
        Action::Delete { guard } => (BatchKind::Delete, None, None, *guard),
        Action::Read { guard } => (BatchKind::Read, None, None, *guard),
    };
    BatchOperation {
        kind,
        id: Some(id.to_owned()),
        body: value.map(|value| body(id, logical, value, false).into_bytes()),
        patch,
        partition_key: None,
        preconditions: conditions(guard),
    }
}
