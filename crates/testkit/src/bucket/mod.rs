//! A bucket in this process: an object store in memory behind the protocol of S3, as far as a
//! server needs it, which can be slow, fail, misreport its effects, or be silent.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the bucket, its faults, and its connections |
//! | `weather.rs` | faults of requests, here and at a proxy |
//! | `objects.rs` | its objects: puts with their conditions, ranges, lists, uploads in parts |
//! | `message.rs` | requests and answers of HTTP/1.1 as bytes |
//!
//! Signatures are not checked. Conditions hold as S3 promises them: of concurrent puts with
//! `If-None-Match: *` one succeeds.

mod message;
mod objects;
mod weather;

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use message::{Answer, Request};
use objects::Objects;
pub(crate) use weather::Sky;
pub use weather::{Fault, Weather};

/// Ends with its last handle.
pub struct Bucket {
    state: Arc<State>,
    address: SocketAddr,
}

struct State {
    objects: Mutex<Objects>,
    sky: Sky,
    puts: AtomicU64,
    put_bytes: AtomicU64,
}

impl Bucket {
    /// On a port of loopback.
    ///
    /// # Panics
    /// When the system has no port.
    pub fn open() -> Bucket {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            objects: Mutex::default(),
            sky: Sky::default(),
            puts: AtomicU64::new(0),
            put_bytes: AtomicU64::new(0),
        });
        let accepting = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.sky.is_closed() {
                    return;
                }
                if let Ok(stream) = stream {
                    let state = accepting.clone();
                    thread::spawn(move || state.converse(stream));
                }
            }
        });
        Bucket { state, address }
    }

    /// Environment for a server.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "anybody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "anything".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    pub fn set(&self, weather: Weather) {
        self.state.sky.set(weather);
    }

    /// Requests so far, and how many of them a fault befell.
    pub fn counts(&self) -> (u64, u64) {
        self.state.sky.counts()
    }

    /// Objects that were stored so far.
    pub fn puts(&self) -> u64 {
        self.state.puts.load(Ordering::SeqCst)
    }

    /// Total bytes of the puts.
    pub fn put_bytes(&self) -> u64 {
        self.state.put_bytes.load(Ordering::SeqCst)
    }

    /// The names and lengths of the objects below a prefix.
    pub fn objects(&self, prefix: &str) -> Vec<(String, usize)> {
        self.state.objects().below(prefix)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.state.sky.close();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

impl State {
    fn objects(&self) -> std::sync::MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converse(&self, stream: TcpStream) {
        let _ended = self.converse_until(&stream);
        let _gone = stream.shutdown(Shutdown::Both);
    }

    fn converse_until(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut input = BufReader::new(stream);
        let mut output = stream;
        while let Some(request) = Request::read(&mut input)? {
            let fault = self.sky.wait_and_choose();
            if fault == Some(Fault::Reset) || self.sky.is_closed() {
                return Ok(());
            }
            let answer = match fault {
                Some(Fault::Status(status)) => Answer::error(status, "InternalError"),
                _ => self.answer(&request),
            };
            match fault {
                Some(Fault::AnswerLost) => return Ok(()),
                Some(Fault::ClaimsFailure) if request.has_condition() => {
                    output.write_all(&Answer::error(412, "PreconditionFailed").encode(&request))?;
                }
                _ => output.write_all(&answer.encode(&request))?,
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Answer {
        let answer = self.objects().answer(request);
        if request.method == "PUT" && answer.status == 200 {
            self.puts.fetch_add(1, Ordering::SeqCst);
            self.put_bytes.fetch_add(request.body.len() as u64, Ordering::SeqCst);
        }
        answer
    }
}
