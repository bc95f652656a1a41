//! Concurrent builds of the same index, and index builds that are interrupted.

use bson::doc;
use shardlake_account::{ItemWrite, WriteCommand, item_of_json};
use shardlake_model::{ErrorKind, PartitionKey, RequestContext};
use shardlake_mql::Document;
use shardlake_stdx::Guid;

use crate::client::{Client, Server, first_batch, of};
use crate::transactions::Session;

async fn ok(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

fn made(path: &str, is_unique: bool) -> bson::Document {
    let mut index = doc! { "key": { path: 1 }, "name": path };
    if is_unique {
        index.insert("unique", true);
    }
    doc! { "createIndexes": "c", "indexes": [index] }
}

/// The names of indexes, with `!` if unique, and `?` if prepared to be unique.
async fn indexes(client: &mut Client) -> Vec<String> {
    let listed = first_batch(&ok(client, doc! { "listIndexes": "c" }).await);
    let told = |index: &Document| {
        let mark = match (index.has("unique"), index.has("prepareUnique")) {
            (false, false) => "",
            (true, false) => "!",
            (_, true) => "?",
        };
        format!("{}{mark}", index.value("name").as_str().unwrap_or_default())
    };
    listed.iter().map(told).collect()
}

async fn fill(client: &mut Client, count: i32) {
    let documents: Vec<_> = (0..count).map(|n| doc! { "_id": n, "a": n, "same": n / 2 }).collect();
    ok(client, doc! { "insert": "c", "documents": documents }).await;
}

#[tokio::test]
async fn clients_that_ask_for_the_same_unique_index_at_once_all_get_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    // As a driver's file store does with each new file while its index is missing.
    for is_there in [false, true] {
        if is_there {
            ok(&mut client, doc! { "dropIndexes": "c", "index": "*" }).await;
            fill(&mut client, 50).await;
        }
        let makers = (0..10).map(|_| {
            let mut client = server.connect();
            async move { ok(&mut client, made("a", true)).await }
        });
        let replies = futures::future::join_all(makers).await;
        let counts = |reply: &Document| {
            (reply.value("numIndexesBefore").to_i64_exact(), reply.value("numIndexesAfter").to_i64_exact())
        };
        let who_made_it = replies.iter().filter(|reply| counts(reply) == (Some(1), Some(2))).count();
        let who_found_it = replies.iter().filter(|reply| counts(reply) == (Some(2), Some(2))).count();
        assert_eq!((who_made_it, who_found_it), (1, 9), "{replies:?}");
        assert_eq!(indexes(&mut client).await, ["_id_", "a!"]);
    }
}

#[tokio::test]
async fn a_unique_index_that_cannot_be_takes_no_other_with_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    fill(&mut client, 50).await;
    let (mut left, mut right, mut third) = (server.connect(), server.connect(), server.connect());
    let (refused, _, _) = tokio::join!(
        left.run("d", of(&made("same", true))),
        ok(&mut right, made("a", true)),
        ok(&mut third, made("b", false)),
    );
    assert_eq!(refused.value("code").to_i32_exact(), Some(11000), "{refused:?}");
    let mut names = indexes(&mut client).await;
    names.sort_unstable();
    assert_eq!(names, ["_id_", "a!", "b"]);
}

#[tokio::test]
async fn a_unique_index_build_that_is_broken_off_is_finished_by_the_next() {
    let mut is_seen_unfinished = false;
    for steps in (0..400).step_by(7) {
        let server = Server::start().await;
        let mut client = server.connect();
        fill(&mut client, 8).await;
        let mut leaving = server.connect();
        {
            let build = leaving.run("d", of(&made("a", true)));
            futures::pin_mut!(build);
            for _ in 0..steps {
                if futures::poll!(&mut build).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        drop(leaving);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        is_seen_unfinished |= indexes(&mut client).await == ["_id_", "a?"];
        ok(&mut client, made("a", true)).await;
        assert_eq!(indexes(&mut client).await, ["_id_", "a!"], "after {steps} steps");
        let twice = doc! { "insert": "c", "documents": [{ "_id": "x", "a": 5 }] };
        let reply = ok(&mut client, twice).await;
        assert!(reply.has("writeErrors"), "{reply:?}");
    }
    assert!(is_seen_unfinished, "some builds were broken off in their midst");
}

#[tokio::test]
async fn a_write_that_began_before_a_unique_index_was_made_goes_by_it() {
    let server = Server::start().await;
    let mut client = server.connect();
    fill(&mut client, 8).await;
    let ctx = RequestContext::internal(&server.clock, Guid([1; 16]));
    // The container as a write gets it at its beginning.
    let before = server.account.router().container_for_items("d", "c").expect("the container");
    ok(&mut client, made("a", true)).await;
    let write = |text: &str| {
        let body = item_of_json(text.as_bytes(), server.account.router().limits()).expect("an item");
        let write = WriteCommand::of(Some(PartitionKey(vec![])), ItemWrite::Create { body });
        let (account, ctx, before) = (&server.account, &ctx, &before);
        async move { account.items().write_item(ctx, before, write).await.err().map(|error| error.kind()) }
    };
    assert_eq!(write(r#"{"id":"x","a":5}"#).await, Some(ErrorKind::Conflict));
    assert_eq!(write(r#"{"id":"y","a":99}"#).await, None);
    let twice = doc! { "insert": "c", "documents": [{ "_id": "z", "a": 99 }] };
    assert!(ok(&mut client, twice).await.has("writeErrors"), "it has claimed its value");
}

#[tokio::test]
async fn a_transaction_that_began_before_a_unique_index_was_made_is_not_committed() {
    let server = Server::start().await;
    let mut client = server.connect();
    fill(&mut client, 8).await;
    let mut session = Session::new(1);
    session.begin();
    let twice = doc! { "insert": "c", "documents": [{ "_id": "x", "a": 5 }] };
    client.ok("d", session.part(&twice)).await;
    ok(&mut client, made("a", true)).await;
    assert_eq!(client.fails("admin", session.commit()).await, 112);
    let found = first_batch(&ok(&mut client, doc! { "find": "c", "filter": { "a": 5 } }).await);
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn an_index_shows_whether_it_was_to_be_made_in_the_background() {
    let server = Server::start().await;
    let mut client = server.connect();
    let index = |name: &str| doc! { "key": { name: 1 }, "name": name };
    let with = |name: &str, background: bson::Bson| {
        let mut index = index(name);
        index.insert("background", background);
        index
    };
    let wanted =
        [index("plain"), with("no", false.into()), with("yes", true.into()), with("number", 1.into())];
    let create = doc! { "createIndexes": "c", "indexes": wanted.to_vec() };
    ok(&mut client, create.clone()).await;
    // Repeated definitions, also with a further option, create no other indexes.
    ok(&mut client, create).await;
    ok(&mut client, doc! { "createIndexes": "c", "indexes": [with("plain", true.into())] }).await;
    let listed = first_batch(&ok(&mut client, doc! { "listIndexes": "c" }).await);
    let shown: Vec<String> = listed.iter().map(|index| index.value("background").to_string()).collect();
    assert_eq!(shown, ["MISSING", "MISSING", "false", "true", "1"]);
}
