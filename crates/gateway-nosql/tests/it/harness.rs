//! An account in memory behind a gateway, and requests to it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use shardlake_account::{Account, AccountOptions, Reach};
use shardlake_document::{ParseLimits, binary_of_json, json_of_binary};
use shardlake_gateway_nosql::{
    Access, AccountKey, AnswerBody, ConnectionMode, ConnectionSpace, Endpoint, Gateway, GatewaySettings,
    MessageSpace, OperationSeen, Routing, Scheme,
};
use shardlake_hybrid_row::{Operation, is_hybrid_row, results_in, start, write_operation};
use shardlake_model::Limits;
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::{
    EMULATOR_KEY, Logs, authorization, http_date_after_epoch, reaches_by_loopback, resource_of_path,
};

/// Base64 of 64 equal bytes.
pub const READ_ONLY_KEY: &str =
    "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg==";

pub const NOW: Timestamp = Timestamp(1_700_000_000_000);

pub struct Server {
    pub gateway: Gateway,
    pub clock: Clock,
    pub space: Arc<MessageSpace>,
    /// Last, because the account may log warnings when it ends.
    _logs: Logs,
}

/// A request under construction; signed with the read-write key by default.
pub struct Call<'s> {
    server: &'s Server,
    method: &'static str,
    path: String,
    headers: HeaderMap,
    body: Vec<u8>,
    key: &'static str,
    signed: bool,
    scheme: Scheme,
    frame: Option<Frame>,
}

/// Stands for a frame that came in Direct mode.
#[derive(Debug, Clone)]
pub struct Frame {
    pub replica_path: String,
    pub container_rid: Option<String>,
}

/// A request that has only to be handled.
pub struct Prepared<'s> {
    gateway: &'s Gateway,
    request: Request<Full<Bytes>>,
    scheme: Scheme,
    frame: Option<Frame>,
    space: Arc<ConnectionSpace>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// JSON text, whichever form the body came in.
    pub text: String,
    /// Whether it came as Cosmos binary JSON.
    pub is_binary: bool,
    /// Whether the answer is HybridRow, whose results are shown as those of JSON.
    pub is_rows: bool,
}

impl Server {
    pub async fn start() -> Server {
        Server::start_with(GatewaySettings::default()).await
    }

    pub async fn start_with(settings: GatewaySettings) -> Server {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        Server::start_over(shard, settings, Limits::default()).await
    }

    /// With limits that tests can reach, and a container `items`.
    pub async fn with_limits(limits: Limits) -> Server {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        let server = Server::start_over(shard, GatewaySettings::default(), limits).await;
        server.create_items_container().await;
        server
    }

    /// A server over a shard with data.
    pub async fn over(shard: Shard) -> Server {
        Server::start_over(shard, GatewaySettings::default(), Limits::default()).await
    }

    pub async fn over_with_limits(shard: Shard, limits: Limits) -> Server {
        Server::start_over(shard, GatewaySettings::default(), limits).await
    }

    pub async fn with_account(options: AccountOptions) -> Server {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        Server::start_as(shard, GatewaySettings::default(), options).await
    }

    async fn start_over(shard: Shard, settings: GatewaySettings, limits: Limits) -> Server {
        Server::start_as(shard, settings, AccountOptions { limits, ..AccountOptions::default() }).await
    }

    /// Random numbers are seeded and the clock stands still, with all options.
    async fn start_as(shard: Shard, settings: GatewaySettings, options: AccountOptions) -> Server {
        let clock = Clock::manual(NOW);
        let logs = Logs::watch();
        let reach = if reaches_by_loopback() { Reach::Loopback } else { Reach::Direct };
        let options = AccountOptions { clock: clock.clone(), random: Random::seeded(7), reach, ..options };
        let account = Account::open(shard, options).await.expect("the account opens");
        let keys = vec![
            AccountKey { name: "primary", key: EMULATOR_KEY.into(), access: Access::Full },
            AccountKey { name: "primaryReadonly", key: READ_ONLY_KEY.into(), access: Access::ReadOnly },
        ];
        let gateway = Gateway::new(account, GatewaySettings { keys, ..settings }).expect("valid keys");
        let space = MessageSpace::new(1 << 30, 4 << 20);
        Server { gateway, clock, space, _logs: logs }
    }

    /// A server with a database `db` and a container `items`, whose key is `/pk`.
    pub async fn with_container() -> Server {
        let server = Server::start().await;
        server.create_items_container().await;
        server
    }

    pub async fn create_items_container(&self) {
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        self.create_container(json!({ "id": "items", "partitionKey": key })).await;
    }

    pub async fn create_container(&self, definition: Value) -> Value {
        let created = self.post("/dbs").json(json!({ "id": "db" })).send().await;
        assert!(matches!(created.status, 201 | 409), "{created:?}");
        self.post("/dbs/db/colls").json(definition).send().await.expect(201).json()
    }

    pub fn call(&self, method: &'static str, path: impl Into<String>) -> Call<'_> {
        Call {
            server: self,
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            key: EMULATOR_KEY,
            signed: true,
            scheme: Scheme::Http,
            frame: None,
        }
    }

    pub fn get(&self, path: impl Into<String>) -> Call<'_> {
        self.call("GET", path)
    }

    pub fn post(&self, path: impl Into<String>) -> Call<'_> {
        self.call("POST", path)
    }

    pub fn put(&self, path: impl Into<String>) -> Call<'_> {
        self.call("PUT", path)
    }

    pub fn delete(&self, path: impl Into<String>) -> Call<'_> {
        self.call("DELETE", path)
    }

    /// Creates an item in `db/items`.
    pub async fn create(&self, item: Value) -> Answer {
        let key = json!([item["pk"]]).to_string();
        self.post(ITEMS).key(&key).json(item).send().await.expect(201)
    }

    /// A permission of user `ann` of a database; both users and permissions are made as they are needed. Gives the token.
    pub async fn permit_in(&self, database: &str, definition: Value) -> String {
        let user = self.post(format!("/dbs/{database}/users")).json(json!({ "id": "ann" })).send().await;
        assert!(matches!(user.status, 201 | 409), "{user:?}");
        let path = format!("/dbs/{database}/users/ann/permissions");
        let upsert = self.post(path).header("x-ms-documentdb-is-upsert", "true");
        let answer = upsert.json(definition).send().await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()["_token"].as_str().expect("a token").to_owned()
    }

    /// A token for a resource below `dbs/db/colls/`.
    pub async fn token_for(&self, mode: &str, resource: &str) -> String {
        let id = format!("{mode}-{}", resource.replace('/', "-"));
        let resource = format!("dbs/db/colls/{resource}");
        self.permit_in("db", json!({ "id": id, "permissionMode": mode, "resource": resource })).await
    }

    /// The date of requests that are sent now.
    fn date(&self) -> String {
        http_date_after_epoch(std::time::Duration::from_millis(self.clock.now().milliseconds()))
    }

    pub fn item(&self, method: &'static str, id: &str, key: &str) -> Call<'_> {
        self.call(method, format!("{ITEMS}/{id}")).key(key)
    }
}

pub const ITEMS: &str = "/dbs/db/colls/items/docs";

impl<'s> Call<'s> {
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
        self.headers.append(HeaderName::from_static(name), value);
        self
    }

    /// The partition key header.
    pub fn key(self, key: &str) -> Self {
        self.header("x-ms-documentdb-partitionkey", key)
    }

    pub fn json(self, body: Value) -> Self {
        self.body(body.to_string())
    }

    /// Sends JSON as Cosmos binary JSON.
    pub fn binary(self, body: &Value) -> Self {
        self.body(binary_of_json(body.to_string().as_bytes()).expect("JSON"))
    }

    /// Sends operations as HybridRow.
    pub fn rows(self, operations: &[Operation<'_>]) -> Self {
        let mut body = Vec::new();
        start(&mut body);
        operations.iter().for_each(|operation| write_operation(&mut body, operation));
        self.body(body)
    }

    /// Asks for answers in these formats.
    pub fn in_formats(self, formats: &str) -> Self {
        self.header("x-ms-cosmos-supported-serialization-formats", formats)
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub fn signed_with(mut self, key: &'static str) -> Self {
        self.key = key;
        self
    }

    pub fn unsigned(mut self) -> Self {
        self.signed = false;
        self
    }

    /// Brings a resource token instead of a signature; encoded as clients do it.
    pub fn token(self, token: &str) -> Self {
        let encoded: String = token
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        self.unsigned().header("authorization", &encoded)
    }

    pub fn over(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Comes as a frame instead of HTTP.
    pub fn framed(mut self, frame: &Frame) -> Self {
        self.frame = Some(frame.clone());
        self
    }

    /// Signed as another request is: type and link of the signature differ from those of the path.
    pub fn signed_as(self, resource_type: &str, link: &str) -> Self {
        let date = self.server.date();
        let token = authorization(self.method, resource_type, link, &date, self.key);
        self.unsigned().header("x-ms-date", &date).header("authorization", &token)
    }

    pub async fn send(self) -> Answer {
        Answer::of(self.prepared().handled().await).await
    }

    /// The request as it arrives at the gateway, signed.
    pub fn prepared(mut self) -> Prepared<'s> {
        if self.signed {
            let date = self.server.date();
            let (resource_type, link) = resource_of_path(&self.path);
            let token = authorization(self.method, &resource_type, &link, &date, self.key);
            self = self.header("x-ms-date", &date).header("authorization", &token);
        }
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.path.as_str())
            .body(Full::new(self.body.into()))
            .expect("a request");
        *request.headers_mut() = self.headers;
        let space = self.server.space.connection();
        Prepared { gateway: &self.server.gateway, request, scheme: self.scheme, frame: self.frame, space }
    }
}

impl Prepared<'_> {
    pub async fn handled(self) -> Response<AnswerBody> {
        let mode = self.frame.as_ref().map_or(ConnectionMode::Http, |frame| {
            let container_rid = frame.container_rid.as_deref();
            ConnectionMode::Direct(Routing { replica_path: &frame.replica_path, container_rid })
        });
        let endpoint = Endpoint {
            scheme: self.scheme,
            authority: None,
            space: &self.space,
            mode,
            seen: &OperationSeen::default(),
        };
        self.gateway.handle(self.request, endpoint).await
    }
}

impl Answer {
    pub async fn of(response: Response<AnswerBody>) -> Answer {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("bodies in memory do not break off").to_bytes();
        let (is_binary, is_rows) = (body.first() == Some(&0x80), is_hybrid_row(&body));
        let text = match is_rows {
            true => json_of_rows(&body).to_string().into_bytes(),
            false => text_of(&body),
        };
        let text = String::from_utf8(text).expect("bodies are UTF-8");
        let status = parts.status.as_u16();
        let answer = Answer { status, headers: parts.headers, text, is_binary, is_rows };
        answer.is_well_formed();
        answer
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub fn refused(self, status: u16, substatus: u32, words: &str) -> Answer {
        assert_eq!((self.status, self.substatus()), (status, substatus), "{self:?}");
        assert!(self.message().contains(words), "'{words}' is not in {}", self.message());
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as JSON, where there is one.
    pub fn json_body(&self) -> Option<Value> {
        serde_json::from_str(&self.text).ok()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("ASCII"))
    }

    pub fn etag(&self) -> String {
        self.header("etag").expect("an etag").to_owned()
    }

    pub fn lsn(&self) -> u64 {
        self.header("lsn").expect("an LSN").parse().expect("a number")
    }

    pub fn charge(&self) -> f64 {
        self.header("x-ms-request-charge").expect("a charge").parse().expect("a number")
    }

    pub fn substatus(&self) -> u32 {
        self.header("x-ms-substatus").map_or(0, |text| text.parse().expect("a number"))
    }

    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks the properties that every response must have.
    fn is_well_formed(&self) {
        assert!(self.charge() >= 0.0);
        assert_eq!(self.header("x-ms-activity-id").map(str::len), Some(36), "{self:?}");
        if self.status >= 400 {
            assert!(!self.is_binary && !self.is_rows, "{self:?}");
            let body = self.json();
            assert!(body["code"].is_string() && body["message"].is_string(), "{self:?}");
        }
        if matches!(self.status, 204 | 304) {
            assert!(self.text.is_empty(), "{self:?}");
        }
        let media_type =
            if self.is_binary || self.is_rows { "application/octet-stream" } else { "application/json" };
        assert_eq!(self.header("content-type"), (!self.text.is_empty()).then_some(media_type), "{self:?}");
    }
}

/// JSON text or Cosmos binary JSON as text.
fn text_of(body: &[u8]) -> Vec<u8> {
    match body.first() {
        Some(0x80) => json_of_binary(body, &ParseLimits::default()).expect("answers are valid"),
        _ => body.to_vec(),
    }
}

/// The results in HybridRow as they would be in JSON. A substatus of 0 is left out there.
pub fn json_of_rows(body: &[u8]) -> Value {
    let one = |result: shardlake_hybrid_row::OperationResult<'_>| {
        let mut members = json!({ "statusCode": result.status_code });
        if result.substatus_code != 0 {
            members["subStatusCode"] = json!(result.substatus_code);
        }
        if let Some(charge) = result.request_charge {
            members["requestCharge"] = json!(charge);
        }
        if let Some(etag) = result.etag {
            members["eTag"] = json!(etag);
        }
        if let Some(body) = result.resource_body {
            members["resourceBody"] = serde_json::from_slice(&text_of(body)).expect("an item is JSON");
        }
        if let Some(milliseconds) = result.retry_after_milliseconds {
            members["retryAfterMilliseconds"] = json!(milliseconds);
        }
        members
    };
    results_in(body).expect("a segment row").map(|result| one(result.expect("a result"))).collect()
}

/// Waits for background work. The guard turns a hang into a failure; no test is about how long something takes.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let guard = std::time::Duration::from_secs(600);
    tokio::time::timeout(guard, waiting).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}
