//! One server process: started on a free port, killed, stopped, restarted on the same data.
//!
//! The process is ready when its first line on standard output is; that line is the ready record
//! and the only source of the port and the key. Standard error is written to a file next to the
//! data directory and is shown when a test fails. Dropping the fixture kills the process, so a
//! panicking test leaves nothing behind. Then it reads the log: a warning or an error that the test
//! has not announced with [`ServerProcess::expects_log`] fails it.

use crate::{Client, HANG};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Times after which a server gives up on a client. Tests of other subjects reach none of these times,
/// however busy the machine is. A test of such a time sets the flag, which wins over the variable.
const PATIENT: [&str; 3] =
    ["SHARDLAKE_REQUEST_SECONDS", "SHARDLAKE_HEADER_SECONDS", "SHARDLAKE_IDLE_SECONDS"];

/// How to start a server. Each field has a default that suits most tests.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The executable; in tests of the server crate `env!("CARGO_BIN_EXE_shardlake")`.
    pub binary: PathBuf,
    /// Empty: a temporary directory that is deleted with the fixture.
    pub data_dir: Option<PathBuf>,
    pub listen: String,
    pub durability: String,
    /// Further arguments of `shardlake serve`.
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub ready_deadline: Duration,
    /// Words of warnings that may come: see [`ServerProcess::expects_log`].
    pub expected_log: Vec<String>,
}

impl ServerOptions {
    pub fn new(binary: impl Into<PathBuf>) -> ServerOptions {
        ServerOptions {
            binary: binary.into(),
            data_dir: None,
            listen: "127.0.0.1:0".to_owned(),
            durability: "sync".to_owned(),
            arguments: Vec::new(),
            environment: PATIENT.map(|name| (name.into(), "3600".into())).into(),
            ready_deadline: HANG,
            expected_log: Vec::new(),
        }
    }

    /// Announces a warning that may come when the machine is busy.
    #[must_use]
    pub fn may_log(mut self, words: &str) -> ServerOptions {
        self.expected_log.push(words.to_owned());
        self
    }

    #[must_use]
    pub fn durability(mut self, durability: &str) -> ServerOptions {
        durability.clone_into(&mut self.durability);
        self
    }

    #[must_use]
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> ServerOptions {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> ServerOptions {
        self.data_dir = Some(directory.into());
        self
    }

    /// # Panics
    /// When the server does not become ready; the message holds its log.
    #[track_caller]
    pub fn start(self) -> ServerProcess {
        self.try_start().unwrap_or_else(|message| panic!("{message}"))
    }

    pub fn try_start(self) -> Result<ServerProcess, String> {
        let temporary =
            TempDir::with_prefix("shardlake-").map_err(|error| format!("no temporary directory: {error}"))?;
        let data_dir = self.data_dir.clone().unwrap_or_else(|| temporary.path().join("data"));
        let log = temporary.path().join("server.log");
        let running = spawn(&self, &data_dir, &log)?;
        let (running, expected_log) = (Some(running), Mutex::new(self.expected_log.clone()));
        Ok(ServerProcess { options: self, data_dir, log, temporary, running, expected_log })
    }
}

/// The line a server prints when it answers.
#[derive(Debug, Clone)]
pub struct ReadyRecord {
    pub fields: Value,
    /// With the slash at the end, plain HTTP.
    pub http: String,
    /// The same port over TLS.
    pub https: Option<String>,
    pub key: String,
    pub address: SocketAddr,
}

impl ReadyRecord {
    pub fn parse(line: &str) -> Result<ReadyRecord, String> {
        let fields: Value =
            serde_json::from_str(line).map_err(|error| format!("not a ready record: {error}: {line}"))?;
        if fields["ready"] != Value::Bool(true) {
            return Err(format!("not a ready record: {line}"));
        }
        let endpoints = fields["endpoints"].as_array().ok_or_else(|| format!("no endpoints in {line}"))?;
        let with_scheme = |scheme: &str| {
            endpoints.iter().filter_map(Value::as_str).find(|url| url.starts_with(scheme)).map(str::to_owned)
        };
        let http = with_scheme("http://").ok_or_else(|| format!("no plain endpoint in {line}"))?;
        let authority = http.trim_start_matches("http://").trim_end_matches('/');
        let address = authority.parse().map_err(|_| format!("'{authority}' is no address in {line}"))?;
        let key = match (fields["key"].as_str(), fields["key_file"].as_str()) {
            (Some(key), _) => key.to_owned(),
            (None, Some(file)) => primary_key_of(Path::new(file))?,
            (None, None) => return Err(format!("no key in {line}")),
        };
        Ok(ReadyRecord { https: with_scheme("https://"), http, key, address, fields })
    }
}

/// The primary key of a key file.
fn primary_key_of(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let keys: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let key = keys["primary"].as_str().ok_or_else(|| format!("no primary key in {}", file.display()))?;
    Ok(key.to_owned())
}

#[derive(Debug)]
struct Running {
    child: Child,
    ready: ReadyRecord,
}

#[derive(Debug)]
pub struct ServerProcess {
    options: ServerOptions,
    data_dir: PathBuf,
    log: PathBuf,
    temporary: TempDir,
    running: Option<Running>,
    /// Words of warnings and errors that may be in the log.
    expected_log: Mutex<Vec<String>>,
}

/// After a kill in the middle of a write the journal may end in a part of it.
const LOG_OF_A_KILL: &str = "cut a torn write off the journal";

impl ServerProcess {
    /// Announces a warning or an error that holds these words: the test provokes it.
    pub fn expects_log(&self, words: &str) {
        self.expected_log.lock().expect("nothing panics while it holds the list").push(words.to_owned());
    }

    /// The warnings and errors so far that were not announced; this call announces them. For
    /// runners that report them in their own way.
    pub fn take_unexpected_log(&self) -> Vec<String> {
        let lines = self.unexpected_log();
        lines.iter().for_each(|line| self.expects_log(line));
        lines
    }

    fn unexpected_log(&self) -> Vec<String> {
        let expected = self.expected_log.lock().expect("nothing panics while it holds the list");
        unexpected_lines(&self.log(), &expected)
    }

    /// # Panics
    /// While the server is stopped.
    #[track_caller]
    pub fn ready(&self) -> &ReadyRecord {
        &self.running.as_ref().expect("the test stopped the server").ready
    }

    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.ready().address
    }

    /// A client with the key of the ready record and a connection of its own.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::new(self.address(), &self.ready().key)
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A directory that lives as long as the fixture, for seed and configuration files.
    pub fn scratch(&self) -> &Path {
        self.temporary.path()
    }

    #[track_caller]
    pub fn process_id(&self) -> u32 {
        self.running.as_ref().expect("the test stopped the server").child.id()
    }

    /// Everything the server wrote to standard error, over all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// kill -9: no drain, no flush, no goodbye.
    ///
    /// # Panics
    /// When the server is not running.
    #[track_caller]
    pub fn kill(&mut self) {
        self.expects_log(LOG_OF_A_KILL);
        let mut running = self.running.take().expect("the server is already stopped");
        running.child.kill().expect("a process we have not waited for can be killed");
        running.child.wait().expect("our own child can be waited for");
    }

    /// SIGTERM, then waits for the drain.
    ///
    /// # Panics
    /// When the server is not running or is still there after `deadline`.
    #[track_caller]
    pub fn terminate(&mut self, deadline: Duration) -> ExitStatus {
        let running = self.running.as_ref().expect("the server is already stopped");
        let identifier = rustix::process::Pid::from_child(&running.child);
        rustix::process::kill_process(identifier, rustix::process::Signal::TERM)
            .expect("the child still exists");
        self.wait(deadline)
    }

    /// Waits for a server that ends by itself.
    ///
    /// # Panics
    /// When the server is not running or is still there after `deadline`.
    #[track_caller]
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let mut running = self.running.take().expect("the server is already stopped");
        let started = Instant::now();
        loop {
            if let Some(status) = running.child.try_wait().expect("our own child can be waited for") {
                return status;
            }
            if started.elapsed() > deadline {
                let _gone = running.child.kill();
                panic!("still running after {deadline:?}\n{}", tail(&self.log));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts again on the same data with the same options, on another port.
    ///
    /// # Panics
    /// When the server is running, or does not become ready.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "kill or terminate the server before restarting it");
        let running = spawn(&self.options, &self.data_dir, &self.log);
        self.running = Some(running.unwrap_or_else(|message| panic!("{message}")));
    }

    /// `shardlake verify` over the data directory; the server must be stopped.
    ///
    /// # Panics
    /// When the server is running or the command cannot be started.
    #[track_caller]
    pub fn verify(&self) -> Output {
        assert!(self.running.is_none(), "verify reads a directory that no server owns");
        let mut command = Command::new(&self.options.binary);
        command.arg("verify").arg(&self.data_dir);
        without_our_variables(&mut command);
        command.output().expect("the binary that served can verify")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _gone = running.child.kill();
            let _reaped = running.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the server ---\n{}", tail(&self.log));
            return;
        }
        let unexpected = self.unexpected_log();
        assert!(
            unexpected.is_empty(),
            "the server warned, and no test announced it:\n{}",
            unexpected.join("\n")
        );
    }
}

/// Lines of the text format (`2026-11-22T07:32:50.0Z  WARN shardlake::tls: …`) or of JSON, above the level of information.
fn unexpected_lines(log: &str, expected: &[String]) -> Vec<String> {
    let is_loud = |line: &&str| {
        let level = line.split_whitespace().nth(1).unwrap_or_default();
        matches!(level, "WARN" | "ERROR")
            || ["\"level\":\"WARN\"", "\"level\":\"ERROR\"", "panicked at"]
                .iter()
                .any(|words| line.contains(words))
    };
    let lines = log.lines().filter(is_loud);
    let lines = lines.filter(|line| expected.iter().all(|words| !line.contains(words.as_str())));
    lines.map(str::to_owned).collect()
}

fn spawn(options: &ServerOptions, data_dir: &Path, log: &Path) -> Result<Running, String> {
    let log_file = OpenOptions::new().create(true).append(true).open(log);
    let log_file = log_file.map_err(|error| format!("{}: {error}", log.display()))?;
    let mut command = Command::new(&options.binary);
    without_our_variables(&mut command);
    command
        .args(["serve", "--listen", &options.listen, "--durability", &options.durability, "--data-dir"])
        .arg(data_dir)
        .args(&options.arguments)
        .envs(options.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file);
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", options.binary.display()))?;
    let stdout = child.stdout.take().expect("standard output was piped above");
    match read_ready_record(stdout, options.ready_deadline) {
        Ok(ready) => Ok(Running { child, ready }),
        Err(message) => {
            let _gone = child.kill();
            let status = child.wait();
            Err(format!("{message} ({status:?})\n{}", tail(log)))
        }
    }
}

/// The server reads settings from `SHARDLAKE_*` too, and rejects unknown ones or warns of them.
fn without_our_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SHARDLAKE_") {
            command.env_remove(&name);
        }
    }
}

fn read_ready_record(stdout: ChildStdout, deadline: Duration) -> Result<ReadyRecord, String> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        let _nobody_waits = sender.send(lines.next());
        // Further output is drained, so that a talkative server never blocks on a full pipe.
        lines.for_each(drop);
    });
    match receiver.recv_timeout(deadline) {
        Ok(Some(Ok(line))) => ReadyRecord::parse(&line),
        Ok(Some(Err(error))) => Err(format!("the server's standard output: {error}")),
        Ok(None) => Err("the server ended before it was ready".to_owned()),
        Err(RecvTimeoutError::Timeout) => Err(format!("the server was not ready after {deadline:?}")),
        Err(RecvTimeoutError::Disconnected) => Err("the thread reading the server's output died".to_owned()),
    }
}

/// The end of the log, enough to see why.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loud_lines_are_found_in_either_format_unless_announced() {
        let log = "2026-11-22T07:32:50.0Z  INFO shardlake::tls: a WARN in a text\n\
                   2026-11-22T07:32:50.0Z  WARN shardlake::serve: it took too long\n\
                   2026-11-22T07:32:50.0Z ERROR shardlake::front: a handler ended\n\
                   {\"timestamp\":\"x\",\"level\":\"WARN\",\"message\":\"in JSON\"}\n\
                   thread 'main' (1) panicked at src/a.rs:1:1:\n";
        assert_eq!(unexpected_lines(log, &[]).len(), 4);
        let announced = ["too long", "a handler", "in JSON"].map(str::to_owned);
        assert_eq!(unexpected_lines(log, &announced), ["thread 'main' (1) panicked at src/a.rs:1:1:"]);
    }
}
