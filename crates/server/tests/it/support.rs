//! Starting servers, TLS clients, and an HTTP/2 client of a few frames.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use shardlake_testkit::{Client, Request, ServerOptions, ServerProcess};

/// Turns a hang into a failure; no test is about how long something takes.
pub const PATIENCE: Duration = shardlake_testkit::HANG;

/// A server without a disk in its way; certificates are still kept in its directory.
pub fn in_memory() -> ServerOptions {
    on_disk().durability("memory")
}

pub fn on_disk() -> ServerOptions {
    ServerOptions::new(env!("CARGO_BIN_EXE_shardlake"))
}

/// The program with no variables of ours.
pub fn command(arguments: &[&str]) -> Command {
    program_without_variables(env!("CARGO_BIN_EXE_shardlake"), arguments)
}

/// The same for a program that starts the server.
pub fn program_without_variables(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SHARDLAKE_") {
            command.env_remove(&name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A start that must fail: exit code 1 and one line on standard error, which is returned.
#[track_caller]
pub fn refused(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "nothing is ready");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// A started process and the first line it prints, for servers that the fixture does not know: those with keys of their own.
pub struct Started {
    child: Child,
    pub record: serde_json::Value,
}

impl Started {
    pub fn new(command: &mut Command) -> Started {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = Vec::new();
        let mut stdout = child.stdout.take().unwrap();
        let mut byte = [0];
        while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        let record = serde_json::from_slice(&line);
        Started {
            child,
            record: record.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line))),
        }
    }

    pub fn address(&self) -> SocketAddr {
        let url = self.record["endpoints"][0].as_str().unwrap();
        url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[track_caller]
pub fn assert_healthy(server: &ServerProcess) {
    let client = server.client();
    let _ready = client.get("/readyz", &[]).expect_status(200);
    let _account = client.get("/", &[]).expect_status(200);
    let log = server.log();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
}

pub fn ca_of(server: &ServerProcess) -> Vec<u8> {
    server.client().get("/_shardlake/ca.pem", &[]).expect_status(200).body
}

/// Everything until the server ends the connection. A reset counts as an end.
pub fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => bytes.extend(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The answer to a request with `connection: close`; the client keeps its half open.
pub fn answer_at(address: SocketAddr, head: &str) -> String {
    let mut stream = connect(address);
    // The server may refuse before it has read everything.
    let _broken = stream.write_all(head.as_bytes());
    read_to_close(&mut stream)
}

/// The answer to these bytes; the client then ends its half.
pub fn answer_to(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may refuse before it has read everything.
    let _broken = stream.write_all(bytes);
    let _already = stream.shutdown(std::net::Shutdown::Write);
    read_to_close(&mut stream)
}

pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A TLS connection by a client that trusts only `ca`; fails where the certificate is not good for `name`.
pub fn tls(address: SocketAddr, ca: &[u8], name: &str, protocol: &str) -> std::io::Result<TlsStream> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = connect(address);
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    assert_eq!(session.alpn_protocol(), Some(protocol.as_bytes()));
    Ok(StreamOwned::new(session, stream))
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// An HTTP/2 connection that sends GET requests. It checks only the properties that the tests need.
pub struct Http2<S> {
    stream: S,
    stream_id: u32,
}

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_OF_STREAM_AND_HEADERS: u8 = 5;

impl<S: Read + Write> Http2<S> {
    pub fn new(stream: S) -> Http2<S> {
        Http2::with_settings(stream, b"")
    }

    /// A client whose flow-control window never admits a byte of an answer's body.
    pub fn without_window(stream: S) -> Http2<S> {
        const INITIAL_WINDOW_SIZE: u8 = 4;
        Http2::with_settings(stream, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0])
    }

    fn with_settings(mut stream: S, settings: &[u8]) -> Http2<S> {
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut connection = Http2 { stream, stream_id: 1 };
        // An empty dynamic table: a status is then always sent in full.
        connection.send(SETTINGS, 0, 0, &[&[0, 1, 0, 0, 0, 0], settings].concat());
        connection
    }

    /// The `:status` of a GET.
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.get_from("localhost", path, headers)
    }

    /// The same with another `:authority`.
    pub fn get_from(&mut self, authority: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let stream_id = self.ask_of(authority, path, headers);
        loop {
            let (kind, flags, of_stream, payload) = self.receive().expect("an answer");
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(SETTINGS, ACK, 0, b""),
                HEADERS if of_stream == stream_id => return status(&payload),
                GOAWAY => panic!("the server went away"),
                _ => {}
            }
        }
    }

    /// Sends a GET, and gives its stream.
    pub fn ask(&mut self, path: &str, headers: &[(&str, &str)]) -> u32 {
        self.ask_of("localhost", path, headers)
    }

    fn ask_of(&mut self, authority: &str, path: &str, headers: &[(&str, &str)]) -> u32 {
        // :method GET and :scheme https, both indexed; the rest as plain text.
        let mut block = vec![0x82, 0x87];
        literal(&mut block, 4, path);
        literal(&mut block, 1, authority);
        for (name, value) in headers {
            block.extend([0x00, u8::try_from(name.len()).unwrap()]);
            block.extend(name.as_bytes());
            text(&mut block, value);
        }
        let stream_id = self.stream_id;
        self.stream_id += 2;
        self.send(HEADERS, END_OF_STREAM_AND_HEADERS, stream_id, &block);
        stream_id
    }

    /// The frame that clients send to keep an idle connection.
    pub fn ping(&mut self) {
        self.send(PING, 0, 0, &[7; 8]);
    }

    fn send(&mut self, kind: u8, flags: u8, stream_id: u32, payload: &[u8]) {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream_id.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).unwrap();
    }

    /// Kind, flags, stream and payload of the next frame; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let stream_id = u32::from_be_bytes(head[5..9].try_into().unwrap());
        Some((head[3], head[4], stream_id, payload))
    }
}

/// A field whose name has an index of the static table, not to be remembered.
fn literal(block: &mut Vec<u8>, name: u8, value: &str) {
    block.push(name);
    text(block, value);
}

/// A length in seven bits, continued in further bytes, then the bytes.
fn text(block: &mut Vec<u8>, value: &str) {
    if value.len() < 127 {
        block.push(u8::try_from(value.len()).unwrap());
    } else {
        block.push(127);
        let mut rest = value.len() - 127;
        while rest >= 128 {
            block.push((rest % 128) as u8 | 128);
            rest /= 128;
        }
        block.push(rest as u8);
    }
    block.extend(value.as_bytes());
}

/// `:status` is the first field of an answer: from the static table, or three digits in Huffman code.
fn status(block: &[u8]) -> u16 {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    // A change of the table's size may come first.
    let block = if block[0] & 0xE0 == 0x20 { &block[1..] } else { block };
    match block[0] {
        first @ 0x88..=0x8E => INDEXED[usize::from(first - 0x88)],
        // A literal under the name of the eighth entry.
        0x48 | 0x08 if block[1] & 0x80 != 0 => digits(&block[2..]),
        other => panic!("a status with the opening byte {other:#x}"),
    }
}

/// Three digits: 0 to 2 have five bits of Huffman code, the others six.
fn digits(code: &[u8]) -> u16 {
    let bits = code.iter().take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let (mut place, mut number) = (24, 0);
    for _ in 0..3 {
        let six = (bits >> (place - 6)) & 0x3F;
        let (digit, length) = if six < 6 { (six >> 1, 5) } else { (six - 0x19 + 3, 6) };
        place -= length;
        number = number * 10 + digit as u16;
    }
    number
}

/// The headers that sign a GET of a path.
pub fn signed_headers(client: &Client, path: &str) -> Vec<(String, String)> {
    let bytes = client.signed_bytes(&Request { method: "GET", path, ..Request::default() });
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().skip(1).filter_map(|line| line.split_once(": "));
    let of_http1 = |name: &str| matches!(name, "host" | "content-length");
    lines.filter(|(name, _)| !of_http1(name)).map(|(name, value)| (name.into(), value.into())).collect()
}

/// A number on the metrics page; 0 where it is not there yet.
#[track_caller]
pub fn metric(client: &Client, name: &str) -> u64 {
    let page = client.get("/metrics", &[]).expect_status(200).text();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Runs the program to its end.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    let mut command = command(&[]);
    command.args(arguments).output().unwrap()
}
