//! Computation of scripts is charged to the budget, so that throughput bounds clients that compute
//! like clients that read and write.

use crate::support::json_door::{JsonDoor, KeyInput, Triggers};
use crate::support::{Fixture, none};
use shardlake_account::{ContainerHandle, FeedScope, QueryRequest, QueryWants};
use shardlake_model::{
    ErrorKind, Priority, RequestContext, Result, ScriptDefinition, ScriptKind, TriggerDefinition,
    TriggerOperation, TriggerType,
};

/// Many times the free time, on any machine.
const LOOP: &str = "for (let i = 0; i < 3e6; i++);";
const KEY: Option<KeyInput<'static>> = Some(KeyInput(r#"["a"]"#));
/// The initial level of a budget of 400 RU/s.
const CAPACITY_CENTI: i64 = 40_000;

async fn register(fixture: &Fixture, container: &ContainerHandle, kind: ScriptKind, id: &str, body: &str) {
    let trigger = (kind == ScriptKind::Trigger)
        .then_some(TriggerDefinition { trigger_type: TriggerType::Pre, operation: TriggerOperation::All });
    let body = format!("function () {{ {body} }}");
    let definition = ScriptDefinition { kind, id: id.into(), body, trigger, spelling: None };
    fixture
        .account
        .definitions()
        .upsert_script(&fixture.ctx(), container, definition, &none())
        .await
        .expect("registered");
}

/// A container that is held to 400 RU/s while the clock stands still.
async fn enforced() -> (Fixture, ContainerHandle) {
    let fixture = Fixture::new().await;
    let container = fixture.container(400).await;
    for (id, body) in [("small", ""), ("computes", LOOP), ("fails", &format!("{LOOP} throw 1;")[..])] {
        register(&fixture, &container, ScriptKind::Procedure, id, body).await;
    }
    register(&fixture, &container, ScriptKind::Function, "computes", LOOP).await;
    register(&fixture, &container, ScriptKind::Trigger, "computes", LOOP).await;
    let item = br#"{"id":"1","pk":"a"}"#;
    fixture.account.create_item(&fixture.ctx(), &container, None, item).await.expect("created");
    let container = fixture.account.router().container("db", "c").expect("there");
    (fixture, container)
}

/// As a client asks: within its budget.
fn ctx(fixture: &Fixture) -> RequestContext {
    RequestContext { priority: Priority::High, ..fixture.ctx() }
}

/// The charge, whether it ends well or not.
async fn run(fixture: &Fixture, container: &ContainerHandle, id: &str) -> Result<u64> {
    let script = container.script(ScriptKind::Procedure, id).expect("registered");
    let ctx = ctx(fixture);
    let reply = fixture.account.json_procedure(&ctx, container, KEY, &script, "[]", false).await;
    match reply {
        Err(error) if error.kind() == ErrorKind::TooManyRequests => Err(error),
        reply => Ok(reply.map_or_else(|error| error.meta().charge_centi, |reply| reply.meta.charge_centi)),
    }
}

async fn write_with_trigger(fixture: &Fixture, container: &ContainerHandle) -> u64 {
    let (pre, json) = (["computes".to_owned()], br#"{"id":"2","pk":"a"}"#);
    let triggers = Triggers { pre: &pre, post: &[] };
    let ctx = ctx(fixture);
    let written = fixture.account.create_item_with_triggers(&ctx, container, None, json, triggers).await;
    written.expect("written").reply.meta.charge_centi
}

async fn query(fixture: &Fixture, container: &ContainerHandle, fans_out: bool) -> u64 {
    let request = QueryRequest {
        text: "SELECT VALUE udf.computes() FROM c",
        parameters: &[],
        scope: FeedScope::All,
        max_items: None,
        continuation: None,
        resume_filter: None,
        allows_cross_partition: true,
        fans_out,
        wants: QueryWants::default(),
    };
    fixture
        .account
        .queries()
        .query(&ctx(fixture), container, request)
        .await
        .expect("answered")
        .meta
        .charge_centi
}

/// The charge is more than an ordinary script's and is deducted from the budget, repeatedly until the budget refuses.
async fn is_paid_by_the_budget(fixture: &Fixture, container: &ContainerHandle, charge_centi: u64) {
    assert!(charge_centi > 1_500, "{charge_centi}");
    let level = || fixture.account.router().throughput_of(container).partitions[0].1.level_centi;
    assert_eq!(level(), CAPACITY_CENTI - charge_centi as i64);
    let mut spent_centi = charge_centi as i64;
    let refused = loop {
        match run(fixture, container, "computes").await {
            Ok(charge_centi) => spent_centi += charge_centi as i64,
            Err(refused) => break refused,
        }
    };
    assert!(refused.retry_after_ms().is_some());
    assert!(spent_centi >= CAPACITY_CENTI && level() == CAPACITY_CENTI - spent_centi, "{spent_centi}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_procedure_that_computes_pays_for_it_however_it_ends() {
    for id in ["computes", "fails"] {
        let (fixture, container) = enforced().await;
        assert_eq!(run(&fixture, &container, "small").await.expect("runs"), 500, "ordinary ones do not");
        let (fixture, container) = enforced().await;
        let charge_centi = run(&fixture, &container, id).await.expect("admitted");
        is_paid_by_the_budget(&fixture, &container, charge_centi).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_that_computes_pays_for_it() {
    let (fixture, container) = enforced().await;
    let charge_centi = write_with_trigger(&fixture, &container).await;
    is_paid_by_the_budget(&fixture, &container, charge_centi).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_computes_pays_for_it() {
    for fans_out in [false, true] {
        let (fixture, container) = enforced().await;
        let charge_centi = query(&fixture, &container, fans_out).await;
        is_paid_by_the_budget(&fixture, &container, charge_centi).await;
    }
}

/// A script's calls cost as much as the same requests, and pay for processor time of the same cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_work_costs_the_same_every_time() {
    let (fixture, container) = enforced().await;
    let body = "const c = getContext().getCollection();
        for (let i = 0; i < 5; i++) c.createDocument(c.getSelfLink(), {id: 'w' + i, pk: 'a'}, () => {});
        throw 1;";
    register(&fixture, &container, ScriptKind::Procedure, "writes", body).await;
    let container = fixture.account.router().container("db", "c").expect("there");
    let internal = fixture.ctx();
    let script = container.script(ScriptKind::Procedure, "writes").expect("registered");
    let mut charges = Vec::new();
    for _ in 0..20 {
        let run = fixture.account.json_procedure(&internal, &container, KEY, &script, "[]", false).await;
        charges.push(run.expect_err("it throws").meta().charge_centi);
    }
    assert!(charges.iter().all(|charge| *charge == charges[0]), "{charges:?}");
}
