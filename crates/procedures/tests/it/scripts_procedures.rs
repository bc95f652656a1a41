//! Stored procedures: reads and writes of a script in its transaction, its error callbacks, its cost.

use crate::support::Fixture;
use crate::support::json_door::JsonDoor;
use serde_json::{Value, json};
use shardlake_account::{AccountOptions, ContainerHandle};
use shardlake_model::{ErrorKind, Limits};

async fn fixture() -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    (fixture, container)
}

#[tokio::test]
async fn a_procedure_is_one_commit_or_nothing() {
    let (fixture, container) = fixture().await;
    let body = "for (const doc of docs) c.createDocument(self, doc, must);
        c.readDocument(alt + '/docs/' + docs[0].id, (err, doc) => { done({first: must(err, doc)}); });
        console.log('wrote %s', docs.length);
        if (fails) last(() => { throw new Error('on purpose'); });";
    fixture.procedure(&container, "order", "docs, fails", body).await;
    let docs = r#"[{"id":"1","pk":"a","v":1},{"id":"2","pk":"a","v":2}]"#;
    let error = fixture.run("order", "a", &format!("[{docs},true]")).await.expect_err("it throws");
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.message().contains("on purpose"), "{error}");
    // Two creates of a 1-KB item with few terms, a read, and the run itself.
    assert!(error.meta().charge_centi > 500 + 2 * 495 + 100, "{:?}", error.meta());
    assert_eq!(fixture.stored("a", "1").await, None);
    let lsn = container.partition_key_ranges()[0].lsn;

    let reply = fixture.run("order", "a", &format!("[{docs},false]")).await.expect("runs");
    assert_eq!(reply.log, "wrote 2");
    assert_eq!((reply.meta.lsn, reply.meta.item_lsn), (lsn + 1, lsn + 1), "one commit");
    let told: Value = serde_json::from_str(&reply.body.expect("set")).expect("JSON");
    let (first, second) = (fixture.stored("a", "1").await, fixture.stored("a", "2").await);
    assert_eq!(first.as_ref(), Some(&told["first"]), "rid, etag and time are as the script saw them");
    assert_eq!(second.expect("there")["v"], 2);
    let ctx = fixture.ctx();
    let single = fixture
        .account
        .create_item(&ctx, &container, None, br#"{"id":"3","pk":"a","v":1}"#)
        .await
        .expect("created");
    // A read of 1 KB is 1 RU.
    assert_eq!(reply.meta.charge_centi, 500 + 2 * single.meta.charge_centi + 100);
}

#[tokio::test]
async fn scripts_see_their_own_writes_in_every_way_to_read() {
    let (fixture, _container) = fixture().await;
    let setup = "for (let i = 0; i < 6; i++) c.createDocument(self, {id: 'i' + i, pk: 'a', v: i, tags: ['t' + i % 2]}, must);";
    fixture.ran("a", setup).await.expect("runs");
    let body = "
        c.deleteDocument(alt + '/docs/i0', must);
        c.upsertDocument(self, {id: 'i1', pk: 'a', v: 10, tags: ['t0']}, must);
        c.createDocument(self, {id: 'i2b', pk: 'a', v: 20, tags: ['t0']}, must);
        const seen = {};
        c.readDocuments(self, (err, docs) => { seen.page = must(err, docs).map(d => d.id); });
        const query = (name, text) => c.queryDocuments(self, text, (err, rows) => { seen[name] = must(err, rows); });
        query('filtered', \"SELECT VALUE r.id FROM r WHERE ARRAY_CONTAINS(r.tags, 't0')\");
        query('ordered', 'SELECT VALUE r.v FROM r ORDER BY r.v DESC');
        query('sum', 'SELECT VALUE SUM(r.v) FROM r');
        query('count', 'SELECT VALUE COUNT(1) FROM r');
        query('parameters', {query: 'SELECT VALUE r.id FROM r WHERE r.v = @v', parameters: [{name: '@v', value: 20}]});
        last(() => done(seen));";
    let seen = fixture.ran("a", body).await.expect("runs");
    let expected = json!({
        "page": ["i1", "i2", "i3", "i4", "i5", "i2b"],
        "filtered": ["i1", "i2", "i4", "i2b"],
        "ordered": [20, 10, 5, 4, 3, 2],
        "sum": [44],
        "count": [6],
        "parameters": ["i2b"],
    });
    assert_eq!(seen, expected);
    // Only the last writes remain afterwards.
    assert_eq!(fixture.stored("a", "i0").await, None);
    assert_eq!(fixture.stored("a", "i1").await.expect("there")["v"], 10);
}

#[tokio::test]
async fn pages_go_on_where_they_ended_with_and_without_own_writes() {
    let (fixture, _container) = fixture().await;
    let setup =
        "for (let i = 10; i < 40; i++) c.createDocument(self, {id: 'i' + i, pk: 'a', v: 100 - i}, must);";
    fixture.ran("a", setup).await.expect("runs");
    for writes in [
        "",
        "c.createDocument(self, {id: 'i255', pk: 'a', v: -1}, must); c.deleteDocument(alt + '/docs/i10', must);",
    ] {
        for call in [
            "c.readDocuments(self, options, next)",
            "c.queryDocuments(self, 'SELECT r.id FROM r', options, next)",
            "c.queryDocuments(self, 'SELECT r.id FROM r ORDER BY r.v', options, next)",
        ] {
            let body = format!(
                "{writes} const ids = []; let pages = 0;
                const page = continuation => {{
                    const options = {{pageSize: 7, continuation}};
                    const next = (err, docs, info) => {{
                        must(err); pages++;
                        ids.push(...docs.map(d => d.id));
                        if (info.continuation) page(info.continuation); else done({{ids, pages}});
                    }};
                    if (!{call}) throw new Error('not accepted');
                }};
                page();"
            );
            let seen = fixture.ran("a", &format!("{body} ")).await.expect("runs");
            let mut ids: Vec<String> = serde_json::from_value(seen["ids"].clone()).expect("ids");
            let in_order = ids.clone();
            ids.sort();
            let mut expected: Vec<String> = (10..40).map(|number| format!("i{number}")).collect();
            if fixture.stored("a", "i255").await.is_some() {
                expected.retain(|id| id != "i10");
                expected.push("i255".to_owned());
                expected.sort();
            }
            assert_eq!(ids, expected, "{call}");
            assert!(seen["pages"].as_i64().expect("a number") >= 4, "{seen}");
            if call.contains("ORDER BY") {
                assert_eq!(in_order.iter().rev().take(3).count(), 3);
                let mut by_value: Vec<&String> = expected.iter().collect();
                by_value.sort_by_key(|id| {
                    if *id == "i255" { -1 } else { 100 - id[1..].parse::<i64>().expect("a number") }
                });
                assert_eq!(in_order.iter().collect::<Vec<_>>(), by_value);
            }
            if !writes.is_empty() {
                // Back to how it was.
                let undo = "c.deleteDocument(alt + '/docs/i255', must); c.createDocument(self, {id: 'i10', pk: 'a', v: 90}, must);";
                fixture.ran("a", undo).await.expect("runs");
            }
        }
    }
}

#[tokio::test]
async fn a_failed_call_leaves_no_trace_and_the_script_goes_on() {
    let (fixture, _container) = fixture().await;
    let body = "
        const seen = [];
        const note = err => { seen.push(err ? err.number : 0); };
        c.createDocument(self, {id: 'one', pk: 'a', v: 1}, note);
        c.createDocument(self, {id: 'one', pk: 'a', v: 2}, note);
        c.readDocument(alt + '/docs/none', note);
        c.replaceDocument(alt + '/docs/one', {id: 'one', pk: 'a', v: 3}, {etag: 'another'}, note);
        c.deleteDocument(alt + '/docs/one', {etag: 'another'}, note);
        c.createDocument(self, {id: 'two', pk: 'b'}, note);
        c.createDocument(self, {id: 'x'.repeat(1024), pk: 'a'}, note);
        c.createDocument(self, {pk: 'a'}, {disableAutomaticIdGeneration: true}, note);
        c.queryDocuments(self, 'SELECT nonsense FROM', note);
        c.createDocument(self, {id: 'big', pk: 'a', text: 'x'.repeat(2 * 1024 * 1024)}, note);
        c.createDocument(self, {id: 'last', pk: 'a'}, note);
        last(() => done(seen));";
    let seen = fixture.ran("a", body).await.expect("runs");
    assert_eq!(seen, json!([0, 409, 404, 412, 412, 400, 400, 400, 400, 413, 0]));
    assert_eq!(fixture.stored("a", "one").await.expect("there")["v"], 1);
    assert!(fixture.stored("a", "last").await.is_some());
    assert!(fixture.stored("b", "two").await.is_none());
}

#[tokio::test]
async fn ids_are_made_where_there_are_none() {
    let (fixture, _container) = fixture().await;
    let body = "
        const ids = [];
        const given = {pk: 'a'};
        for (const doc of [given, {id: '', pk: 'a'}, {id: null, pk: 'a'}])
            c.createDocument(self, doc, (err, made) => ids.push(must(err, made).id));
        c.upsertDocument(self, JSON.stringify({pk: 'a'}), (err, made) => ids.push(must(err, made).id));
        last(() => done({ids, given}));";
    let made = fixture.ran("a", body).await.expect("runs");
    let ids: Vec<String> = serde_json::from_value(made["ids"].clone()).expect("ids");
    let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), 4);
    for id in &ids {
        assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{id}");
        assert!(fixture.stored("a", id).await.is_some());
    }
    assert_eq!(made["given"], json!({"pk": "a"}), "the script's own object stays as it is");
}

#[tokio::test]
async fn links_name_by_rid_or_by_name_and_nothing_outside() {
    let (fixture, container) = fixture().await;
    let other = fixture
        .container_with(
            shardlake_model::ContainerDefinition::new(
                "other",
                container.container().definition.partition_key.clone(),
            ),
            400,
        )
        .await;
    let body = format!(
        "const seen = [];
        c.createDocument(alt, {{id: 'one', pk: 'a', v: 1}}, (err, doc) => {{
            must(err);
            c.readDocument(doc._self, (err, read) => seen.push(must(err, read).v));
            c.replaceDocument(doc._self, {{id: 'one', pk: 'a', v: 2}}, {{etag: doc._etag}}, (err, next) => {{
                must(err);
                c.readDocument(next._self, {{ifNoneMatch: next._etag}}, (err, read, options) => seen.push([read === undefined, options.notModified]));
                c.deleteDocument(next._self, err => {{ must(err); c.readDocument(alt + '/docs/one', err => seen.push(err.number)); }});
            }});
        }});
        for (const link of ['{}docs/abc', '{}/docs/one', 'dbs/db/colls/none/docs/one', 'nonsense'])
            try {{ c.readDocument(link, err => seen.push(err ? 'refused' : 'read')); }}
            catch (error) {{ seen.push('refused'); }}
        last(() => done(seen));",
        other.self_link(),
        other.alt_link(),
    );
    let seen = fixture.ran("a", &body).await.expect("runs");
    let expected = json!([1, [true, true], 404, "refused", "refused", "refused", "refused"]);
    // Callbacks may run at once or when the script's first pass is over.
    let sorted = |value: &Value| {
        let mut all: Vec<String> = value.as_array().expect("an array").iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&seen), sorted(&expected));
}

#[tokio::test]
async fn who_only_reads_commits_nothing() {
    let (fixture, container) = fixture().await;
    fixture.ran("a", "c.createDocument(self, {id: 'one', pk: 'a'}, must);").await.expect("runs");
    let lsn = container.partition_key_ranges()[0].lsn;
    for body in [
        "c.readDocument(alt + '/docs/one', (err, doc) => done(must(err, doc).id));",
        // Made and unmade: no difference is left.
        "c.createDocument(self, {id: 'two', pk: 'a'}, err => { must(err); c.deleteDocument(alt + '/docs/two', must); });",
        "done(1);",
    ] {
        fixture.procedure(&container, "p", "", body).await;
        let reply = fixture.run("p", "a", "[]").await.expect("runs");
        assert_eq!((reply.meta.lsn, reply.meta.item_lsn), (lsn, 0), "{body}");
    }
    assert_eq!(container.partition_key_ranges()[0].lsn, lsn);
}

#[tokio::test]
async fn calls_are_not_accepted_once_the_request_units_are_spent() {
    let limits = Limits { script_charge_centi_max: 10_000, ..Limits::default() };
    let fixture = Fixture::with_options(AccountOptions { limits, ..AccountOptions::default() }).await;
    let container = fixture.container(400).await;
    // The usual form of a bulk import: create until one is not accepted, and return the number created.
    let body = "
        let made = 0;
        const next = () => {
            if (made === 100 || !c.createDocument(self, {id: 'i' + made, pk: 'a'}, err => { must(err); made++; next(); })) done(made);
        };
        next();";
    fixture.procedure(&container, "p", "", body).await;
    let reply = fixture.run("p", "a", "[]").await.expect("runs");
    let made: usize = serde_json::from_str(&reply.body.expect("set")).expect("a number");
    assert!((10..20).contains(&made), "{made} creates of about 6 RU for 90 RU");
    assert!((9_000..12_000).contains(&reply.meta.charge_centi), "{:?}", reply.meta);
    assert!(fixture.stored("a", &format!("i{}", made - 1)).await.is_some());
    assert!(fixture.stored("a", &format!("i{made}")).await.is_none());
}

#[tokio::test]
async fn procedures_name_one_logical_partition() {
    let (fixture, container) = fixture().await;
    fixture.procedure(&container, "p", "", "done(1);").await;
    let container = fixture.account.router().container("db", "c").expect("there");
    let script = container.script(shardlake_model::ScriptKind::Procedure, "p").expect("there");
    let ctx = fixture.ctx();
    let run = fixture.account.json_procedure(&ctx, &container, None, &script, "[]", false);
    assert_eq!(run.await.expect_err("no key").kind(), ErrorKind::BadRequest);
    // Items of another logical partition are not seen.
    fixture.ran("b", "c.createDocument(self, {id: 'one', pk: 'b'}, must);").await.expect("runs");
    let body = "c.readDocuments(self, (err, docs) => done(must(err, docs).length));";
    assert_eq!(fixture.ran("a", body).await.expect("runs"), json!(0));
    assert_eq!(fixture.ran("b", body).await.expect("runs"), json!(1));
}
