//! An account in memory behind the gateway, and connections that send the messages of a test.

use std::net::SocketAddr;

use shardlake_account::{Account, AccountOptions, Reach};
use shardlake_gateway_mongo::{MongoGateway, MongoSettings};
use shardlake_mql::{Document, Value};
use shardlake_stdx::{Clock, Random, Timestamp};
use shardlake_storage::{Shard, ShardOptions};
use shardlake_testkit::{Logs, reaches_by_loopback};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

pub const NOW: Timestamp = Timestamp(1_700_000_000_000);
pub const OP_REPLY: i32 = 1;
pub const OP_MSG: i32 = 2013;
pub const OP_QUERY: i32 = 2004;
pub const OP_COMPRESSED: i32 = 2012;

pub struct Server {
    pub account: Account,
    pub gateway: MongoGateway,
    pub clock: Clock,
    pub stopping: watch::Sender<bool>,
    /// Last, because parts that end with the account may log warnings, too.
    _logs: Logs,
}

/// A connection, and the number of its last request.
pub struct Client {
    stream: DuplexStream,
    request_id: i32,
}

/// A received message.
#[derive(Debug)]
pub struct Answer {
    pub opcode: i32,
    pub response_to: i32,
    pub payload: Vec<u8>,
}

impl Server {
    pub async fn start() -> Server {
        Server::start_with(MongoSettings::default()).await
    }

    /// The clock stands still, and random numbers are seeded.
    pub async fn start_with(settings: MongoSettings) -> Server {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        Server::over(vec![shard], settings, Clock::manual(NOW)).await
    }

    /// Over shards that may hold something already.
    pub async fn over(shards: Vec<Shard>, settings: MongoSettings, clock: Clock) -> Server {
        Server::with_options(shards, settings, clock, AccountOptions::default()).await
    }

    /// With these options, except for clock and random numbers.
    pub async fn with_options(
        shards: Vec<Shard>,
        settings: MongoSettings,
        clock: Clock,
        options: AccountOptions,
    ) -> Server {
        let logs = Logs::watch();
        let reach = if reaches_by_loopback() { Reach::Loopback } else { Reach::Direct };
        let options = AccountOptions { clock: clock.clone(), random: Random::seeded(7), reach, ..options };
        let account = Account::open(shards, options).await.expect("the account opens");
        let gateway = MongoGateway::new(account.clone(), settings);
        Server { account, gateway, clock, stopping: watch::Sender::new(false), _logs: logs }
    }

    pub fn connect(&self) -> Client {
        let (stream, served) = tokio::io::duplex(64 << 10);
        let (gateway, stopping) = (self.gateway.clone(), self.stopping.subscribe());
        let ends: (SocketAddr, SocketAddr) =
            (([127, 0, 0, 1], 50_000).into(), ([127, 0, 0, 1], 27_017).into());
        tokio::spawn(async move { drop(gateway.serve(served, ends, stopping).await) });
        Client { stream, request_id: 0 }
    }
}

impl Client {
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// Sends a message and returns its number.
    pub async fn send(&mut self, opcode: i32, payload: &[u8]) -> i32 {
        self.request_id += 1;
        self.send_bytes(&framed(self.request_id, opcode, payload)).await;
        self.request_id
    }

    pub async fn receive(&mut self) -> Answer {
        self.receive_or_end().await.expect("an answer comes")
    }

    /// Closes the client's side.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.expect("it can be told");
    }

    /// `None` where the server ends the connection instead.
    pub async fn receive_or_end(&mut self) -> Option<Answer> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).await.ok()?;
        let field = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let mut payload = vec![0; field(0) as usize - 16];
        self.stream.read_exact(&mut payload).await.expect("it comes whole");
        Some(Answer { opcode: field(12), response_to: field(8), payload })
    }

    /// Whether the server has ended the connection without another byte.
    pub async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]).await, Ok(0))
    }

    /// Runs a command and returns its reply, also if it is an error.
    pub async fn run(&mut self, database: &str, command: Document) -> Document {
        let mut body = command;
        body.push("$db", Value::string(database));
        let number = self.send(OP_MSG, &message(0, &[body_section(&body)])).await;
        let answer = self.receive().await;
        assert_eq!((answer.opcode, answer.response_to), (OP_MSG, number));
        answer.document()
    }

    /// The reply of a command that has to succeed.
    pub async fn ok(&mut self, database: &str, command: Document) -> Document {
        let reply = self.run(database, command).await;
        assert_eq!(reply.value("ok").to_f64(), Some(1.0), "{}", Value::from(reply.clone()));
        reply
    }

    /// The code of a command that has to fail.
    pub async fn fails(&mut self, database: &str, command: Document) -> i32 {
        let reply = self.run(database, command).await;
        assert_eq!(reply.value("ok").to_f64(), Some(0.0), "{}", Value::from(reply.clone()));
        assert!(reply.value("errmsg").as_str().is_some_and(|words| !words.is_empty()));
        assert!(reply.value("codeName").as_str().is_some());
        reply.value("code").to_i32_exact().expect("a code")
    }
}

impl Answer {
    /// The document of an OP_MSG with one section.
    pub fn document(&self) -> Document {
        assert_eq!(self.opcode, OP_MSG);
        assert_eq!(&self.payload[..5], [0; 5], "no flags, and a body");
        Document::from_bytes(&self.payload[5..]).expect("BSON")
    }

    /// The one document of an OP_REPLY.
    pub fn document_of_reply(&self) -> Document {
        assert_eq!(self.opcode, OP_REPLY);
        assert_eq!(self.payload[16..20], [1, 0, 0, 0], "one document");
        Document::from_bytes(&self.payload[20..]).expect("BSON")
    }
}

/// The payload of an OP_QUERY.
pub fn query(namespace: &str, query: &Document) -> Vec<u8> {
    let mut payload = 0i32.to_le_bytes().to_vec();
    payload.extend(namespace.bytes().chain([0]));
    payload.extend([0; 4]);
    payload.extend((-1i32).to_le_bytes());
    payload.extend(query.to_bytes());
    payload
}

pub fn framed(request_id: i32, opcode: i32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [16 + payload.len() as i32, request_id, 0, opcode] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// Flags and sections.
pub fn message(flags: u32, sections: &[Vec<u8>]) -> Vec<u8> {
    [flags.to_le_bytes().to_vec(), sections.concat()].concat()
}

pub fn body_section(body: &Document) -> Vec<u8> {
    [vec![0], body.to_bytes()].concat()
}

pub fn sequence_section(name: &str, documents: &[Document]) -> Vec<u8> {
    let content: Vec<u8> = documents.iter().flat_map(Document::to_bytes).collect();
    let size = (4 + name.len() + 1 + content.len()) as i32;
    [vec![1], size.to_le_bytes().to_vec(), name.as_bytes().to_vec(), vec![0], content].concat()
}

/// A document of these members.
pub fn doc<const N: usize>(members: [(&str, Value); N]) -> Document {
    members.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// A document that `bson::doc!` wrote.
pub fn of(document: &bson::Document) -> Document {
    Document::from_bytes(&document.to_vec().expect("BSON")).expect("BSON")
}

/// The documents of a first batch.
pub fn first_batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.value("cursor");
    let batch = cursor.as_document().expect("a cursor").value("firstBatch");
    let documents = batch.as_array().expect("a list").iter();
    documents.map(|item| Document::clone(item.as_document().expect("a document"))).collect()
}

pub fn ping() -> Document {
    doc([("ping", Value::Int(1)), ("$db", Value::string("admin"))])
}
