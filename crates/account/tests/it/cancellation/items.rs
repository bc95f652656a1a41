//! Operations on items that their clients abandon: each takes place as a whole or not at all, and
//! no other client notices.

use crate::support::json_door::{BatchKind, BatchOperation, JsonDoor, KeyInput, Patch, Triggers};
use shardlake_account::sql::ItemQuery;
use shardlake_account::{BulkOnError, ChangeFeedRequest, FeedScope, KeyRange, PatchOperation, Value};
use shardlake_account::{ItemsRequest, JsonChanges, ScriptTrial, TrialRole, parse_partition_key};
use shardlake_model::{IndexingPolicy, PartitionKey, ScriptKind};

use crate::support::cancellation::{Case, Work, World, all_or_nothing, cancel_everywhere};
use crate::support::everything::{Items, body, operation};
use crate::support::none;
use crate::support::queries::request;

const KEY: KeyInput<'static> = KeyInput(r#"["a"]"#);
const A: Option<KeyInput<'static>> = Some(KEY);

fn set(items: &mut Items, id: &str, v: u64) {
    items.insert(("a".to_owned(), id.to_owned()), v);
}

fn remove(items: &mut Items, id: &str) {
    items.remove(&("a".to_owned(), id.to_owned()));
}

fn unchanged(before: &Items, now: &Items) -> bool {
    before == now
}

/// An entry: the operation's name, its call on a world, and its allowed results.
macro_rules! case {
    ($name:ident, |$world:ident, $ctx:ident| $call:expr, $may_leave:expr) => {{
        fn run(world: &World) -> Work<'_> {
            Box::pin(async move {
                let ($world, $ctx) = (world, world.fixture.ctx());
                // Dropped or not, it meets no error of its own.
                $call.await.expect(stringify!($name));
            })
        }
        Case { name: stringify!($name), run, may_leave: $may_leave }
    }};
}

fn bulk_operation(kind: BatchKind, id: &str, body: Option<String>) -> BatchOperation {
    BatchOperation { partition_key: Some(KEY.0.to_owned()), ..operation(kind, id, body) }
}

pub fn writes_of_items() -> Vec<Case> {
    vec![
        case!(
            write,
            |w, ctx| w.fixture.account.create_item(&ctx, &w.container, A, body("a", "new", 5).as_bytes()),
            |before, now| all_or_nothing(before, now, |items| set(items, "new", 5))
        ),
        case!(
            write,
            |w, ctx| async {
                let body = body("a", "1", 5);
                w.fixture.account.upsert_item(&ctx, &w.container, A, body.as_bytes(), &none()).await
            },
            |before, now| all_or_nothing(before, now, |items| set(items, "1", 5))
        ),
        case!(
            write,
            |w, ctx| async {
                // Under another id, which is a deletion and a creation.
                let body = body("a", "renamed", 5);
                w.fixture.account.replace_item(&ctx, &w.container, A, "1", body.as_bytes(), &none()).await
            },
            |before, now| all_or_nothing(before, now, |items| {
                remove(items, "1");
                set(items, "renamed", 5);
            })
        ),
        case!(
            write,
            |w, ctx| async {
                let operations = vec![PatchOperation::Set { path: vec!["v".into()], value: Value::Int(5) }];
                let patch = Patch { operations, condition: None };
                w.fixture.account.patch_item(&ctx, &w.container, A, "1", patch, &none()).await
            },
            |before, now| all_or_nothing(before, now, |items| set(items, "1", 5))
        ),
        case!(
            write,
            |w, ctx| async { w.fixture.account.delete_item(&ctx, &w.container, A, "1", &none()).await },
            |before, now| all_or_nothing(before, now, |items| remove(items, "1"))
        ),
        case!(
            batch,
            |w, ctx| async {
                let operations = vec![
                    operation(BatchKind::Create, "new", Some(body("a", "new", 5))),
                    operation(BatchKind::Replace, "1", Some(body("a", "1", 6))),
                    operation(BatchKind::Delete, "2", None),
                ];
                w.fixture.account.json_batch(&ctx, &w.container, KEY, operations).await
            },
            |before, now| all_or_nothing(before, now, |items| {
                set(items, "new", 5);
                set(items, "1", 6);
                remove(items, "2");
            })
        ),
        case!(
            bulk,
            |w, ctx| async {
                let operations = vec![
                    bulk_operation(BatchKind::Create, "new", Some(body("a", "new", 5))),
                    bulk_operation(BatchKind::Delete, "2", None),
                ];
                w.fixture.account.json_bulk(&ctx, &w.container, None, operations, BulkOnError::Stop).await
            },
            // Each operation for itself, in their order.
            |before, now| {
                let first = |items: &mut Items| set(items, "new", 5);
                let both = |items: &mut Items| {
                    first(items);
                    remove(items, "2");
                };
                all_or_nothing(before, now, first) || all_or_nothing(before, now, both)
            }
        ),
        case!(
            delete_partition_key,
            |w, ctx| w.fixture.account.json_key_delete(&ctx, &w.container, KEY),
            |before, now| all_or_nothing(before, now, |items| items.retain(|(pk, _), _| pk != "a"))
        ),
        case!(
            purge_expired,
            |w, _ctx| w.fixture.account.maintenance().purge_expired(&w.container),
            unchanged
        ),
        case!(
            compact_change_logs,
            |w, _ctx| w.fixture.account.maintenance().compact_change_logs(),
            unchanged
        ),
    ]
}

const TRIED: &str = "function () {
    var items = getContext().getCollection();
    for (var i = 0; i < 3; i++) items.createDocument(items.getSelfLink(), { id: 'new' + i, pk: 'a', v: i, u: 'u' + i });
}";

fn trial(key: &PartitionKey, commits: bool) -> ScriptTrial<'_> {
    ScriptTrial { role: TrialRole::Procedure { arguments: "[]" }, source: TRIED, key: Some(key), commits }
}

fn key() -> PartitionKey {
    parse_partition_key(KEY.0).expect("a key")
}

pub fn scripts() -> Vec<Case> {
    const PRE: &[&str] = &["change"];
    vec![
        case!(
            try_script,
            |w, ctx| async {
                let key = key();
                let tried =
                    w.fixture.account.procedures().try_script(&ctx, &w.container, &trial(&key, true)).await?;
                tried.outcome
            },
            |before, now| all_or_nothing(before, now, |items| {
                (0..3).for_each(|number| set(items, &format!("new{number}"), number));
            })
        ),
        case!(
            execute_procedure,
            |w, ctx| async {
                let script = w.container.script(ScriptKind::Procedure, "run")?;
                w.fixture.account.json_procedure(&ctx, &w.container, A, &script, "[]", false).await
            },
            |before, now| all_or_nothing(before, now, |items| {
                (0..3).for_each(|number| set(items, &format!("new{number}"), number));
            })
        ),
        case!(
            write,
            |w, ctx| async {
                let (pre, body) =
                    (PRE.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), body("a", "new", 5));
                let triggers = Triggers { pre: &pre, post: &[] };
                let account = &w.fixture.account;
                account.create_item_with_triggers(&ctx, &w.container, A, body.as_bytes(), triggers).await
            },
            |before, now| all_or_nothing(before, now, |items| set(items, "new", 5))
        ),
        case!(
            write,
            |w, ctx| async {
                let (pre, body) = (vec![PRE[0].to_owned()], body("a", "1", 5));
                let triggers = Triggers { pre: &pre, post: &[] };
                let (account, any) = (&w.fixture.account, none());
                account
                    .upsert_item_with_triggers(&ctx, &w.container, A, body.as_bytes(), &any, triggers)
                    .await
            },
            |before, now| all_or_nothing(before, now, |items| set(items, "1", 5))
        ),
        case!(
            write,
            |w, ctx| async {
                let (pre, body) = (vec![PRE[0].to_owned()], body("a", "1", 5));
                let triggers = Triggers { pre: &pre, post: &[] };
                let (account, any) = (&w.fixture.account, none());
                let json = body.as_bytes();
                account.replace_item_with_triggers(&ctx, &w.container, A, "1", json, &any, triggers).await
            },
            |before, now| all_or_nothing(before, now, |items| set(items, "1", 5))
        ),
        case!(
            write,
            |w, ctx| async {
                let pre = vec![PRE[0].to_owned()];
                let triggers = Triggers { pre: &pre, post: &[] };
                let (account, any) = (&w.fixture.account, none());
                account.delete_item_with_triggers(&ctx, &w.container, A, "1", &any, triggers).await
            },
            |before, now| all_or_nothing(before, now, |items| remove(items, "1"))
        ),
    ]
}

pub fn reads() -> Vec<Case> {
    vec![
        case!(
            try_script,
            |w, ctx| async {
                let key = key();
                let tried = w
                    .fixture
                    .account
                    .procedures()
                    .try_script(&ctx, &w.container, &trial(&key, false))
                    .await?;
                tried.outcome
            },
            unchanged
        ),
        case!(
            try_function,
            |w, ctx| async {
                let one = ["1".to_owned()];
                let source = "function (n) { return n + 1; }";
                w.fixture.account.procedures().try_function(&ctx, &w.container, source, &one).await?.outcome
            },
            unchanged
        ),
        case!(
            preview_queries,
            |w, ctx| async {
                let policy = IndexingPolicy::default();
                let queries = [("SELECT * FROM c WHERE c.v = 1".to_owned(), vec![])];
                w.fixture.account.queries().preview_queries(&ctx, &w.container, policy, &queries, 10).await
            },
            unchanged
        ),
        case!(schema, |w, ctx| w.fixture.account.items().schema(&ctx, &w.container, 10), unchanged),
        case!(
            preview_policy,
            |w, ctx| {
                let policy = IndexingPolicy::default();
                w.fixture.account.items().preview_policy(&ctx, &w.container, policy, 10)
            },
            unchanged
        ),
        case!(
            key_report,
            |w, _ctx| async { w.fixture.account.maintenance().key_report(&w.container, &key()).await },
            unchanged
        ),
        case!(shard_states, |w, _ctx| w.fixture.account.shard_states(), unchanged),
        case!(
            read,
            |w, ctx| async { w.fixture.account.read_item(&ctx, &w.container, A, "1", &none()).await },
            unchanged
        ),
        case!(item_id, |w, _ctx| w.fixture.account.json_item_id(&w.container, A, "1"), unchanged),
        case!(
            query,
            |w, ctx| w.fixture.account.queries().query(
                &ctx,
                &w.container,
                request("SELECT * FROM c ORDER BY c.v", 2, None)
            ),
            unchanged
        ),
        case!(
            read_feed,
            |w, ctx| w.fixture.account.items().read_feed(&ctx, &w.container, FeedScope::All, Some(2), None),
            unchanged
        ),
        case!(
            changes_in,
            |w, ctx| async {
                let request = ChangeFeedRequest { max_items: Some(2), ..ChangeFeedRequest::default() };
                w.fixture.account.items().changes_in::<JsonChanges>(&ctx, &w.container, &request).await
            },
            unchanged
        ),
        case!(
            find_items,
            |w, ctx| async {
                let built = ItemQuery::default().build();
                let (scope, max_items, continuation) = (FeedScope::All, Some(2), None);
                let in_any_order = false;
                let request = ItemsRequest {
                    built: &built,
                    scope,
                    max_items,
                    continuation,
                    in_any_order,
                    within: None,
                };
                w.fixture.account.queries().find_items(&ctx, &w.container, request).await
            },
            unchanged
        ),
        case!(
            change_feed,
            |w, ctx| async {
                let request = ChangeFeedRequest { max_items: Some(2), ..ChangeFeedRequest::default() };
                w.fixture.account.items().change_feed(&ctx, &w.container, &request).await
            },
            unchanged
        ),
        case!(
            changes,
            |w, _ctx| async {
                w.fixture.account.items().changes(&w.container, 0, &KeyRange::full(), 0, 10).await
            },
            unchanged
        ),
    ]
}

#[tokio::test]
async fn a_write_that_is_dropped_takes_place_as_a_whole_or_not_at_all() {
    for case in writes_of_items() {
        let syncs = cancel_everywhere(&case).await;
        // There is nothing to compact in so small a log.
        assert_eq!(syncs > 0, case.name != "compact_change_logs", "{} waited for {syncs} syncs", case.name);
    }
}

#[tokio::test]
async fn a_script_that_is_dropped_takes_place_as_a_whole_or_not_at_all() {
    for case in scripts() {
        assert_eq!(cancel_everywhere(&case).await, 1, "{} is one commit", case.name);
    }
}

#[tokio::test]
async fn a_read_that_is_dropped_changes_nothing() {
    for case in reads() {
        assert_eq!(cancel_everywhere(&case).await, 0, "{} waits for no sync", case.name);
    }
}
