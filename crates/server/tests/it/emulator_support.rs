//! A server in emulator mode, started as the image starts it, with free ports in place of the fixed ones.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value as Json;
use shardlake_testkit::{Client, EMULATOR_KEY};
use tempfile::TempDir;

use crate::support::{answer_at, tls};

/// The line that ends the output of a start.
pub const STARTED: &str = "Started\r\n";

/// How a client of the emulators starts its container.
#[derive(Default)]
pub struct Form<'f> {
    pub variables: &'f [(&'f str, &'f str)],
    pub arguments: &'f [&'f str],
}

pub struct Emulator {
    child: Child,
    pub directory: TempDir,
    /// Standard output until the last line of a start.
    pub output: String,
    record: Json,
}

impl Form<'_> {
    pub fn command(&self, directory: &TempDir) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardlake"));
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        command
            .env_clear()
            .args(["serve", "--emulator"])
            .args(self.arguments)
            .envs([("PORT", "0"), ("EXPLORER_PORT", "0"), ("HEALTH_PORT", "0"), ("LOG_LEVEL", "info")])
            .env("DATA_PATH", directory.path().join("data"))
            .env("SHARDLAKE_DURABILITY", "memory")
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        command
    }

    /// Waits for the last line of a start, as a wait strategy does.
    #[track_caller]
    pub fn start(&self) -> Emulator {
        let directory = tempfile::tempdir().unwrap();
        let mut child = self.command(&directory).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        while !output.ends_with(STARTED) {
            if lines.read_line(&mut output).unwrap() == 0 {
                let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
                panic!("the server ended: {output}{log}");
            }
        }
        let record = serde_json::from_str(output.lines().next().unwrap()).unwrap();
        Emulator { child, directory, output, record }
    }
}

impl Emulator {
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Listeners in the order of the ready record: API, explorer where it is served, health.
    pub fn listeners(&self) -> Vec<SocketAddr> {
        let endpoints = self.record["endpoints"].as_array().unwrap().iter();
        let plain = endpoints.filter_map(|url| url.as_str()?.strip_prefix("http://")?.strip_suffix('/'));
        plain.map(|address| address.parse().unwrap()).collect()
    }

    pub fn api(&self) -> SocketAddr {
        self.listeners()[0]
    }

    pub fn health(&self) -> SocketAddr {
        *self.listeners().last().unwrap()
    }

    pub fn client(&self) -> Client {
        Client::new(self.api(), EMULATOR_KEY)
    }

    /// The API at an address of this machine that is none of loopback, where the machine has one.
    pub fn api_from_outside(&self) -> SocketAddr {
        // Connecting sends nothing: it chooses the address that packets would leave from.
        let chosen = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            socket.local_addr()
        });
        let address = chosen.map_or(IpAddr::from([127, 0, 0, 1]), |local| local.ip());
        SocketAddr::new(address, self.api().port())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The answer to a plain GET without a signature.
pub fn get(address: SocketAddr, host: &str, path: &str, lines: &str) -> String {
    answer_at(address, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{lines}connection: close\r\n\r\n"))
}

#[track_caller]
pub fn body(answer: &str) -> &str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body
}

/// The first certificate of `/_explorer/emulator.pem`, as clients take it that trust nothing yet.
///
/// They ask over TLS without a check of the certificate; the answer is the same over plain HTTP.
#[track_caller]
pub fn downloaded_certificate(address: SocketAddr) -> Vec<u8> {
    let answer = get(address, "localhost", "/_explorer/emulator.pem", "");
    let pem = body(&answer);
    let mut certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates.next().expect("a certificate").expect("valid");
    pem.as_bytes().to_vec()
}

/// The answer to a signed GET over TLS, by a client that trusts `ca` and calls the server `name`.
#[track_caller]
pub fn signed_get_over_tls(server: &Emulator, ca: &[u8], name: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream =
        tls(server.api(), ca, name, "http/1.1").unwrap_or_else(|error| panic!("{name}: {error}"));
    let headers = [("connection", "close")];
    let request = shardlake_testkit::Request { method: "GET", path, headers: &headers, ..Default::default() };
    stream.write_all(&server.client().signed_bytes(&request)).unwrap();
    let mut answer = Vec::new();
    // A peer may close without the alert that ends TLS.
    let _end = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}
