//! Proxy in front of an HTTP store that injects faults: answers are late, lost after their effect,
//! or replaced by others; connections break; and the store is silent for a while.
//!
//! ```text
//! server ──▶ proxy ──▶ SeaweedFS
//!              │ delay, 503, 500, reset         before the store has the request
//!              │ lost, 412                      after it has carried it out
//! ```
//! A request and its answer are read completely before they are forwarded, so that a fault hits all
//! of one or nothing. Signed parts, the name of the store among them, are forwarded unchanged.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::bucket::{Fault, Sky, Weather};

const BODY_BYTES_MAX: usize = 256 << 20;

/// Ends with its last handle.
pub struct FaultProxy {
    sky: Arc<Sky>,
    address: SocketAddr,
}

impl FaultProxy {
    /// On a port of loopback, before a store at this address.
    ///
    /// # Panics
    /// When the system has no port.
    pub fn before(store: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("it is bound");
        let sky = Arc::new(Sky::default());
        let accepting = sky.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_closed() {
                    return;
                }
                if let Ok(stream) = stream {
                    let sky = accepting.clone();
                    thread::spawn(move || {
                        let _ended = pass_on(&sky, &stream, store);
                        let _gone = stream.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        FaultProxy { sky, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, weather: Weather) {
        self.sky.set(weather);
    }

    /// Requests so far, and how many of them a fault befell.
    pub fn counts(&self) -> (u64, u64) {
        self.sky.counts()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.sky.close();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn pass_on(sky: &Sky, client: &TcpStream, store: SocketAddr) -> io::Result<()> {
    let store = TcpStream::connect(store)?;
    client.set_nodelay(true)?;
    store.set_nodelay(true)?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&store));
    let (mut to_client, mut to_store) = (client, &store);
    while let Some(request) = Message::read(&mut requests, Body::AsToldOrNone)? {
        let fault = sky.wait_and_choose();
        match fault {
            Some(Fault::Reset) => return Ok(()),
            Some(Fault::Status(status)) => {
                to_client.write_all(&refusal(status))?;
                continue;
            }
            _ if sky.is_closed() => return Ok(()),
            _ => {}
        }
        to_store.write_all(&request.head)?;
        to_store.write_all(&request.body)?;
        let body = if request.is_head() { Body::None } else { Body::AsTold };
        let Some(answer) = Message::read(&mut answers, body)? else { return Ok(()) };
        match fault {
            Some(Fault::AnswerLost) => return Ok(()),
            Some(Fault::ClaimsFailure) if request.has("if-none-match") || request.has("if-match") => {
                to_client.write_all(&refusal(412))?;
            }
            _ => {
                to_client.write_all(&answer.head)?;
                to_client.write_all(&answer.body)?;
            }
        }
    }
    Ok(())
}

fn refusal(status: u16) -> Vec<u8> {
    let text = "<Error><Code>InternalError</Code><Message>as the test wants it</Message></Error>";
    let length = text.len();
    format!(
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n\r\n{text}"
    )
    .into_bytes()
}

/// Body after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    /// Body of a request: without a length it has none.
    AsToldOrNone,
    /// Body of an answer.
    AsTold,
}

/// A request or an answer, byte by byte as received.
struct Message {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Message {
    /// `None` at the end of the connection.
    fn read(input: &mut impl BufRead, body: Body) -> io::Result<Option<Message>> {
        let mut message = Message { head: Vec::new(), body: Vec::new() };
        loop {
            let before = message.head.len();
            if input.read_until(b'\n', &mut message.head)? == 0 {
                return Ok(None);
            }
            if message.head.len() - before <= 2 {
                break;
            }
        }
        if body == Body::None || message.has_no_body() {
            return Ok(Some(message));
        }
        if message.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            message.read_chunks(input)?;
            return Ok(Some(message));
        }
        match message.header("content-length").map(|length| length.parse::<usize>()) {
            Some(Ok(length)) if length <= BODY_BYTES_MAX => {
                message.body = vec![0; length];
                input.read_exact(&mut message.body)?;
            }
            None if body == Body::AsToldOrNone => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(Some(message))
    }

    fn read_chunks(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        loop {
            let start = self.body.len();
            input.read_until(b'\n', &mut self.body)?;
            let line = String::from_utf8_lossy(&self.body[start..]);
            let length = usize::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16);
            let length = length.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            // The data, and the end of its line.
            let rest = self.body.len();
            self.body.resize(rest + length + 2, 0);
            input.read_exact(&mut self.body[rest..])?;
            if length == 0 || self.body.len() > BODY_BYTES_MAX {
                return Ok(());
            }
        }
    }

    fn is_head(&self) -> bool {
        self.head.starts_with(b"HEAD ")
    }

    /// Whether the status rules out a body.
    fn has_no_body(&self) -> bool {
        let status = self.head.get(9..12).filter(|_| self.head.starts_with(b"HTTP/"));
        status.is_some_and(|status| [&b"204"[..], b"304"].contains(&status))
    }

    fn header(&self, name: &str) -> Option<String> {
        let head = String::from_utf8_lossy(&self.head);
        let mut headers = head.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    }

    fn has(&self, name: &str) -> bool {
        self.header(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, body: Body) -> (String, String) {
        let mut input = text.as_bytes();
        let message = Message::read(&mut input, body).expect("reads").expect("a message");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (text(message.head), text(message.body))
    }

    #[test]
    fn messages_are_passed_on_whole() {
        let head = "PUT /b/k HTTP/1.1\r\nContent-Length: 4\r\n\r\n";
        assert_eq!(read(&format!("{head}bodyGET"), Body::AsToldOrNone), (head.into(), "body".into()));
        let head = "GET /b/k HTTP/1.1\r\nhost: h\r\n\r\n";
        assert_eq!(read(&format!("{head}GET /"), Body::AsToldOrNone), (head.into(), String::new()));
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        assert_eq!(read(&format!("{head}{body}HTTP"), Body::AsTold), (head.into(), body.into()));
        let head = "HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(read(&format!("{head}HTTP"), Body::AsTold), (head.into(), String::new()));
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n";
        assert_eq!(read(&format!("{head}HTTP"), Body::None), (head.into(), String::new()));
        assert!(Message::read(&mut &b""[..], Body::AsTold).expect("reads").is_none());
    }
}
