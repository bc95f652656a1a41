//! A small client in Direct mode. It reads the connection TLS record by TLS record, and checks that no record has bytes of two answers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::{Value as Json, json};
use shardlake_gateway_direct::{RequestHead, Token, Value, answer_head, frame_length};
use shardlake_testkit::{EMULATOR_KEY, ServerProcess, authorization, http_date_now};

use crate::support::{ca_of, connect};

pub const DATABASE: u16 = 1;
pub const CONTAINER: u16 = 2;
pub const ITEM: u16 = 3;
pub const PROCEDURE: u16 = 7;

pub const CREATE: u16 = 0x01;
pub const PATCH: u16 = 0x02;
pub const READ: u16 = 0x03;
pub const FEED: u16 = 0x04;
pub const DELETE: u16 = 0x05;
pub const REPLACE: u16 = 0x06;
pub const EXECUTE: u16 = 0x08;
pub const QUERY: u16 = 0x0f;
pub const HEAD: u16 = 0x11;
pub const UPSERT: u16 = 0x13;

pub struct DirectClient {
    stream: TcpStream,
    session: ClientConnection,
    /// Bytes of the socket that are no whole TLS record yet.
    sealed: Vec<u8>,
    /// The content of the records.
    plain: Vec<u8>,
    number: u32,
}

/// A request that is not signed yet.
#[derive(Debug, Clone)]
pub struct Ask {
    pub resource: u16,
    pub operation: u16,
    pub tokens: Vec<(u16, Text)>,
    pub body: Vec<u8>,
    /// The signed verb, type and link.
    pub signed: (&'static str, &'static str, String),
}

#[derive(Debug, Clone)]
pub enum Text {
    Byte(u8),
    ULong(u32),
    Small(String),
    Long(String),
}

impl Text {
    fn value(&self) -> Value<'_> {
        match self {
            Text::Byte(number) => Value::Byte(*number),
            Text::ULong(number) => Value::ULong(*number),
            Text::Small(text) => Value::SmallString(text.as_bytes()),
            Text::Long(text) => Value::String(text.as_bytes()),
        }
    }
}

#[derive(Debug)]
pub struct Answered {
    pub number: u32,
    pub status: u32,
    pub integers: BTreeMap<u16, i64>,
    pub texts: BTreeMap<u16, String>,
    pub body: Vec<u8>,
}

impl Answered {
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn substatus(&self) -> i64 {
        self.integers.get(&0x1c).copied().unwrap_or(0)
    }
}

/// An operation on an item of the container `d`/`c`.
pub fn on_item(operation: u16, id: Option<&str>, key: &Json, body: &[u8]) -> Ask {
    let verb = match operation {
        READ => "get",
        REPLACE => "put",
        PATCH => "patch",
        DELETE => "delete",
        _ => "post",
    };
    let link = match id {
        Some(id) => format!("dbs/d/colls/c/docs/{id}"),
        None => "dbs/d/colls/c".to_owned(),
    };
    let mut tokens = vec![
        (0x15, Text::Long("d".into())),
        (0x16, Text::Long("c".into())),
        (0x2b, Text::Long(key.to_string())),
    ];
    tokens.extend(id.map(|id| (0x17, Text::Long(id.into()))));
    Ask { resource: ITEM, operation, tokens, body: body.to_vec(), signed: (verb, "docs", link) }
}

impl Ask {
    pub fn with(mut self, id: u16, text: Text) -> Ask {
        self.tokens.retain(|(present, _)| *present != id);
        self.tokens.push((id, text));
        self
    }

    /// The frame, with its signature, as the given number.
    pub fn frame(&self, number: u32) -> Vec<u8> {
        let date = http_date_now();
        let (verb, kind, link) = &self.signed;
        let signature = authorization(verb, kind, link, &date, EMULATOR_KEY);
        let mut tokens = self.tokens.clone();
        tokens.extend([
            (0x01, Text::Long(signature)),
            (0x03, Text::Small(date)),
            (0x02, Text::Byte(u8::from(!self.body.is_empty()))),
            (0x4d, Text::ULong(number)),
        ]);
        unsigned(self.resource, self.operation, &tokens, &self.body)
    }
}

/// A frame of exactly these tokens. A body that is not empty follows.
pub fn unsigned(resource: u16, operation: u16, tokens: &[(u16, Text)], body: &[u8]) -> Vec<u8> {
    let tokens = tokens.iter().map(|(id, text)| Token { id: *id, value: text.value() }).collect();
    let mut frame = Vec::new();
    RequestHead { resource, operation, activity_id: [7; 16], tokens }.write(&mut frame);
    if !body.is_empty() {
        frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
        frame.extend_from_slice(body);
    }
    frame
}

pub fn context(version: u32) -> Vec<u8> {
    let tokens = [
        (0x00, Text::ULong(version)),
        (0x01, Text::Small("2020-07-15".into())),
        (0x02, Text::Small("shardlake-tests".into())),
    ];
    unsigned(0, 0, &tokens, &[])
}

impl DirectClient {
    /// Opens a connection, after the answer to its context.
    pub fn open(server: &ServerProcess) -> DirectClient {
        DirectClient::open_at(server.address(), &ca_of(server))
    }

    /// Opens a connection to any address.
    pub fn open_at(address: SocketAddr, ca: &[u8]) -> DirectClient {
        let mut client = DirectClient::unopened(address, ca);
        client.send(&context(1));
        let answer = client.read_context();
        assert_eq!(answer, 200);
        client
    }

    /// A TLS connection on which nothing was sent.
    pub fn unopened(address: SocketAddr, ca: &[u8]) -> DirectClient {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = connect(address);
        while session.is_handshaking() {
            session.complete_io(&mut stream).unwrap();
        }
        DirectClient { stream, session, sealed: Vec::new(), plain: Vec::new(), number: 0 }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub fn try_send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.session.writer().write(bytes)?;
            bytes = &bytes[taken..];
            while self.session.wants_write() {
                self.session.write_tls(&mut self.stream)?;
            }
        }
        Ok(())
    }

    /// The number under which the request is answered.
    pub fn ask(&mut self, ask: &Ask) -> u32 {
        self.number += 1;
        let frame = ask.frame(self.number);
        self.send(&frame);
        self.number
    }

    pub fn answer(&mut self, ask: &Ask) -> Answered {
        let number = self.ask(ask);
        let answered = self.read();
        assert_eq!(answered.number, number);
        answered
    }

    /// # Panics
    /// When the connection ends.
    pub fn read(&mut self) -> Answered {
        self.try_read().unwrap().expect("an answer, not an end")
    }

    /// The next answer; `None` at the connection's end.
    pub fn try_read(&mut self) -> io::Result<Option<Answered>> {
        loop {
            if let Some(end) = self.whole_frame() {
                let frame: Vec<u8> = self.plain.drain(..end).collect();
                assert!(
                    self.plain.is_empty(),
                    "a TLS record has the end of one answer and the start of another"
                );
                return Ok(Some(answered(&frame)));
            }
            if !self.read_record()? {
                assert!(self.plain.is_empty(), "the connection ended within an answer");
                return Ok(None);
            }
        }
    }

    fn whole_frame(&self) -> Option<usize> {
        let length = frame_length(&self.plain, 1 << 20).expect("a length")?;
        let head = answer_head(self.plain.get(..length)?).expect("a frame");
        if !head.has_body().expect("a flag") {
            return Some(length);
        }
        let (size, _) = self.plain[length..].split_first_chunk()?;
        let end = length + 4 + u32::from_le_bytes(*size) as usize;
        (self.plain.len() >= end).then_some(end)
    }

    /// The status of the answer to a context, which announces no body.
    pub fn read_context(&mut self) -> u32 {
        while frame_length(&self.plain, 4096)
            .expect("a length")
            .is_none_or(|length| self.plain.len() < length)
        {
            assert!(self.read_record().unwrap(), "the connection ended before the context's answer");
        }
        let length = frame_length(&self.plain, 4096).unwrap().unwrap();
        let status = answer_head(&self.plain[..length]).expect("a frame").status;
        self.plain.drain(..length);
        status
    }

    /// One TLS record. `false`: the connection has ended.
    fn read_record(&mut self) -> io::Result<bool> {
        const HEAD_BYTES: usize = 5;
        loop {
            let record = self
                .sealed
                .get(3..HEAD_BYTES)
                .map(|size| HEAD_BYTES + usize::from(u16::from_be_bytes([size[0], size[1]])));
            if let Some(record) = record.filter(|record| self.sealed.len() >= *record) {
                let bytes: Vec<u8> = self.sealed.drain(..record).collect();
                let mut left = bytes.as_slice();
                while !left.is_empty() {
                    self.session.read_tls(&mut left)?;
                    let state = self.session.process_new_packets().map_err(io::Error::other)?;
                    if state.peer_has_closed() {
                        return Ok(false);
                    }
                }
                let mut part = vec![0; 1 << 15];
                match self.session.reader().read(&mut part) {
                    Ok(length) => {
                        self.plain.extend_from_slice(&part[..length]);
                        return Ok(true);
                    }
                    // A session ticket.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                }
            }
            let mut part = vec![0; 1 << 15];
            let length = self.stream.read(&mut part)?;
            if length == 0 {
                return Ok(false);
            }
            self.sealed.extend_from_slice(&part[..length]);
        }
    }
}

fn answered(frame: &[u8]) -> Answered {
    let length = frame_length(frame, 1 << 20).unwrap().unwrap();
    let head = answer_head(&frame[..length]).unwrap();
    let integers: BTreeMap<u16, i64> =
        head.tokens.iter().filter_map(|token| Some((token.id, token.value.as_integer()?))).collect();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let texts =
        head.tokens.iter().filter_map(|token| Some((token.id, text(token.value.as_bytes()?)))).collect();
    let body = if head.has_body().unwrap() { frame[length + 4..].to_vec() } else { Vec::new() };
    Answered { number: u32::try_from(integers[&0x35]).unwrap(), status: head.status, integers, texts, body }
}

pub fn item(id: &str, key: &str) -> Vec<u8> {
    json!({ "id": id, "pk": key }).to_string().into_bytes()
}

impl DirectClient {
    /// All that comes until the end, which is no frames.
    pub fn read_plain(&mut self) -> Vec<u8> {
        while self.read_record().is_ok_and(|is_more| is_more) {}
        std::mem::take(&mut self.plain)
    }
}
