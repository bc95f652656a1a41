//! Scripts run in real worker processes, against a store that keeps documents in a map.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use shardlake_model::{ContainerRid, DatabaseRid, ErrorKind, Result};
use shardlake_script::{
    Completion, Functions, Invocation, Meter, Role, ScriptKey, ScriptLimits, ScriptSettings, Scripts, Store,
    StoreAnswer, StoreFailure, StoreOperation, StoreReply, StoreRequest, WorkerKind,
};

/// The container of most scripts, and another one.
pub const HERE: ContainerRid = ContainerRid { database: DatabaseRid(1), number: 1 };
pub const ELSEWHERE: ContainerRid = ContainerRid { database: DatabaseRid(1), number: 2 };

pub const SELF_LINK: &str = "dbs/AAAA/colls/BBBB/";

pub fn processes(workers_max: usize) -> Scripts {
    let program = env!("CARGO_BIN_EXE_shardlake-script-worker").into();
    let workers = WorkerKind::Process { program, arguments: Vec::new() };
    Scripts::new(ScriptSettings { workers, workers_max, ..ScriptSettings::default() })
}

/// Functions of a query, with a turn.
pub fn functions(scripts: &Scripts, definitions: &[(&str, &str)], limits: ScriptLimits) -> Result<Functions> {
    // Also called where a runtime runs already.
    let turn = futures::executor::block_on(
        scripts.function_turn(ScriptKey { container: HERE, script: 1 }, Meter::default()),
    )?;
    scripts.functions(&turn, definitions, limits)
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("starts").block_on(work)
}

/// Documents by id; everything that was asked.
#[derive(Debug, Default, Clone)]
pub struct Documents {
    pub items: BTreeMap<String, Value>,
    pub requests: Vec<StoreRequest>,
    /// Calls after which further ones are refused.
    pub calls_max: Option<usize>,
}

impl Documents {
    pub fn with(items: &[Value]) -> Documents {
        let by_id = |item: &Value| (item["id"].as_str().expect("has an id").to_owned(), item.clone());
        Documents { items: items.iter().map(by_id).collect(), ..Documents::default() }
    }

    fn answer(&mut self, request: &StoreRequest) -> Result<StoreAnswer, StoreFailure> {
        let body = request.body.as_ref().map(|body| serde_json::from_str::<Value>(body).expect("JSON"));
        let document =
            |value: &Value| StoreAnswer { body: Some(value.to_string()), ..StoreAnswer::default() };
        let failure = |number, message: &str| StoreFailure { number, message: message.into() };
        let id = request.link.rsplit('/').next().unwrap_or_default().to_owned();
        match request.operation {
            StoreOperation::ReadDocument => {
                self.items.get(&id).map(document).ok_or_else(|| failure(404, "there is no such document"))
            }
            StoreOperation::ReadDocuments | StoreOperation::QueryDocuments => Ok(self.page(request)),
            StoreOperation::CreateDocument | StoreOperation::UpsertDocument => {
                let mut body = body.expect("a body");
                if body.get("id").is_none() {
                    body["id"] = json!(format!("generated-{}", self.items.len()));
                }
                let id = body["id"].as_str().ok_or_else(|| failure(400, "the id is no text"))?.to_owned();
                if request.operation == StoreOperation::CreateDocument && self.items.contains_key(&id) {
                    return Err(failure(409, "a document with this id exists already"));
                }
                self.items.insert(id, body.clone());
                Ok(document(&body))
            }
            StoreOperation::ReplaceDocument => {
                let body = body.expect("a body");
                let item =
                    self.items.get_mut(&id).ok_or_else(|| failure(404, "there is no such document"))?;
                if request.if_match.as_deref().is_some_and(|etag| item["_etag"] != etag) {
                    return Err(failure(412, "the document has changed"));
                }
                *item = body;
                Ok(document(item))
            }
            StoreOperation::DeleteDocument => {
                self.items.remove(&id).ok_or_else(|| failure(404, "there is no such document"))?;
                Ok(StoreAnswer::default())
            }
        }
    }

    /// The continuation is the position.
    fn page(&self, request: &StoreRequest) -> StoreAnswer {
        let start = request.continuation.as_ref().map_or(0, |text| text.parse().expect("our own"));
        let size = request.page_size.filter(|size| *size > 0).unwrap_or(100) as usize;
        let rows: Vec<&Value> = self.items.values().skip(start).take(size).collect();
        let end = start + rows.len();
        StoreAnswer {
            body: Some(json!(rows).to_string()),
            continuation: (end < self.items.len()).then(|| end.to_string()),
            not_modified: false,
        }
    }
}

impl Store for Documents {
    fn call<'a>(&'a mut self, request: StoreRequest) -> BoxFuture<'a, StoreReply> {
        let outcome = self.answer(&request);
        self.requests.push(request);
        let accepts_more = self.calls_max.is_none_or(|max| self.requests.len() < max);
        Box::pin(async move { StoreReply { outcome, accepts_more } })
    }
}

pub fn procedure<'a>(source: &'a str, arguments: &'a str) -> Invocation<'a> {
    Invocation {
        name: "p",
        source,
        role: Role::Procedure { arguments },
        self_link: SELF_LINK,
        alt_link: "dbs/d/colls/c",
        usage: "collectionSize=1;",
        quota: "collectionSize=2;",
        logs: true,
        foresees: false,
        limits: ScriptLimits::default(),
    }
}

/// Runs a procedure and parses its answer.
pub fn run(
    scripts: &Scripts,
    documents: &mut Documents,
    source: &str,
    arguments: &str,
) -> Result<Completion> {
    block_on(scripts.run(HERE, procedure(source, arguments), documents))
}

pub fn body(completion: &Completion) -> Value {
    let body = completion.response_body.as_deref().expect("a body");
    serde_json::from_str(body).expect("JSON")
}

pub fn refusal<T: std::fmt::Debug>(outcome: Result<T>) -> (ErrorKind, String) {
    let error = outcome.expect_err("is refused");
    (error.kind(), error.message().to_owned())
}

pub type Shared<T> = Arc<Mutex<T>>;

/// Processes that this thread started.
#[cfg(target_os = "linux")]
pub fn children() -> String {
    std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default()
}

/// The kernel's status of a process.
#[cfg(target_os = "linux")]
pub fn status_of(process: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

#[cfg(target_os = "linux")]
pub fn signal(process: &str, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process.parse().expect("a number")).expect("is not 0");
    rustix::process::kill_process(process, signal).expect("is ours");
}
