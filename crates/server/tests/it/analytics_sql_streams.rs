//! Answers that fail after their first bytes, and clients that disconnect: no answer looks complete, and nothing of a query is left.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use shardlake_testkit::{Request, ServerProcess, eventually};

use crate::sql_support::{ENDLESS, QUERIES, SQL, ask, running, workers};
use crate::support::{connect, metric, on_disk};

/// More than the buffers between worker and client hold, and less than an answer may have.
const LARGE: &str = "SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 200000)";
const FORMS: [&str; 4] =
    ["application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"];
/// The end of an Arrow stream.
const ARROW_END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// An answer in chunks, read as slowly as a test likes.
struct Streamed {
    reader: BufReader<TcpStream>,
    body: Vec<u8>,
}

/// How an answer ended.
#[derive(Debug)]
struct Ended {
    body: Vec<u8>,
    /// The last chunk has come, perhaps with a trailer. Without it the connection broke.
    has_last_chunk: bool,
    trailer: Option<String>,
}

impl Streamed {
    /// The answer to a statement, once its head with status 200 has come.
    fn begin(server: &ServerProcess, statement: &str, form: &str, takes_trailers: bool) -> Streamed {
        let mut streamed = Streamed::send(server, statement, form, takes_trailers);
        let status = streamed.line().unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK", "{statement}");
        let mut headers = Vec::new();
        while let Some(line) = streamed.line().filter(|line| !line.is_empty()) {
            headers.push(line.to_ascii_lowercase());
        }
        assert!(headers.contains(&"transfer-encoding: chunked".to_owned()), "{headers:?}");
        let announces = headers.contains(&"trailer: x-shardlake-error".to_owned());
        assert_eq!(announces, takes_trailers, "{headers:?}");
        streamed
    }

    fn send(server: &ServerProcess, statement: &str, form: &str, takes_trailers: bool) -> Streamed {
        let body = json!({ "query": statement, "timeoutSeconds": 600 }).to_string();
        let mut headers = vec![("accept", form)];
        headers.extend(takes_trailers.then_some(("te", "trailers")));
        let request = Request {
            method: "POST",
            path: SQL,
            headers: &headers,
            body: body.as_bytes(),
            ..Request::default()
        };
        let mut stream = connect(server.address());
        stream.write_all(&server.client().signed_bytes(&request)).unwrap();
        Streamed { reader: BufReader::new(stream), body: Vec::new() }
    }

    /// `None` where the connection broke.
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        read.ok().filter(|length| *length > 0)?;
        Some(String::from_utf8(line).unwrap().strip_suffix("\r\n")?.to_owned())
    }

    /// Reads one chunk. Returns whether more may follow; `None` where the connection broke.
    fn chunk(&mut self) -> Option<bool> {
        let length = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut chunk = vec![0; length];
        self.reader.read_exact(&mut chunk).ok()?;
        self.body.extend(chunk);
        if length > 0 {
            self.line()?;
        }
        Some(length > 0)
    }

    fn first_bytes(&mut self) {
        assert_eq!(self.chunk(), Some(true), "an answer with rows");
    }

    fn into_end(mut self) -> Ended {
        let has_last_chunk = loop {
            match self.chunk() {
                Some(true) => {}
                Some(false) => break true,
                None => break false,
            }
        };
        let mut trailer = None;
        while let Some(line) = self.line().filter(|line| has_last_chunk && !line.is_empty()) {
            trailer = line.strip_prefix("x-shardlake-error: ").map(str::to_owned).or(trailer);
        }
        Ended { body: self.body, has_last_chunk, trailer }
    }
}

impl Ended {
    /// Fails for an answer that a client could take for a whole one.
    #[track_caller]
    fn assert_failed(&self, form: &str, takes_trailers: bool, reason: &str) {
        assert_eq!(self.has_last_chunk, takes_trailers, "{form}: {:?}", self.trailer);
        match &self.trailer {
            Some(trailer) => assert!(takes_trailers && trailer.contains(reason), "{form}: {trailer}"),
            None => assert!(!takes_trailers, "{form}: an answer without its trailer"),
        }
        match form {
            "application/json" => assert!(serde_json::from_slice::<Value>(&self.body).is_err(), "{form}"),
            "application/vnd.apache.arrow.stream" => assert!(!self.body.ends_with(&ARROW_END), "{form}"),
            // Lines have no end of their own: the trailer, or the broken connection, is the sign.
            _ => {}
        }
    }
}

fn server() -> ServerProcess {
    on_disk().argument("--analytics-sql-memory=32MiB").start()
}

/// No query is listed, no worker runs, and no spill file is there.
fn assert_nothing_left(server: &ServerProcess) {
    eventually("the query ends with its worker and its files", || {
        let queries = server.client().get(QUERIES, &[]).expect_status(200).json();
        let spilled = std::fs::read_dir(server.data_dir().join("analytics-spill"));
        queries["queries"] == json!([])
            && workers(server).is_empty()
            && spilled.map_or(0, |entries| entries.count()) == 0
    });
}

/// So many queries have been cancelled.
fn assert_cancelled(server: &ServerProcess, count: u64) {
    eventually("the cancelled queries are counted", || {
        metric(&server.client(), "shardlake_sql_queries_total{outcome=\"cancelled\"}") == count
    });
}

#[test]
fn a_worker_that_is_killed_in_mid_stream_leaves_no_whole_answer() {
    let server = server();
    for form in FORMS {
        for takes_trailers in [true, false] {
            let mut streamed = Streamed::begin(&server, LARGE, form, takes_trailers);
            streamed.first_bytes();
            let worker = workers(&server);
            assert_eq!(worker.len(), 1, "{form}");
            let killed = Command::new("kill").args(["-KILL", &worker[0].to_string()]).status().unwrap();
            assert!(killed.success());
            streamed.into_end().assert_failed(form, takes_trailers, "--analytics-sql-memory");
            assert_nothing_left(&server);
        }
    }
    let whole = ask(&server, &json!({ "query": "SELECT 1" }), &[]).expect_status(200);
    assert_eq!(whole.json()["rows"], json!([[1]]));
}

#[test]
fn a_statement_that_fails_behind_its_first_rows_leaves_no_whole_answer() {
    let server = server();
    let too_large = "SELECT value, repeat('x', 100) FROM generate_series(1, 20000) \
                     UNION ALL SELECT CAST(array_length(array_agg(value)) AS BIGINT), '' FROM generate_series(1, 20000000)";
    let by_zero = "SELECT 100 / (value - 150000) FROM generate_series(1, 200000)";
    for (statement, reason) in [(too_large, "--analytics-sql-memory"), (by_zero, "zero")] {
        for form in FORMS {
            for takes_trailers in [true, false] {
                let ended = Streamed::begin(&server, statement, form, takes_trailers).into_end();
                ended.assert_failed(form, takes_trailers, reason);
            }
        }
    }
    let failed = metric(&server.client(), "shardlake_sql_queries_total{outcome=\"limited\"}");
    assert_eq!(failed, 8);
}

#[test]
fn answers_beyond_the_limits_of_their_form_break_off() {
    let server = server();
    let many = "SELECT value FROM generate_series(1, 1100000)";
    for form in &FORMS[..3] {
        let ended = Streamed::begin(&server, many, form, true).into_end();
        ended.assert_failed(form, true, "LIMIT");
    }
    let arrow = Streamed::begin(&server, many, FORMS[3], true).into_end();
    assert!(arrow.has_last_chunk && arrow.trailer.is_none() && arrow.body.ends_with(&ARROW_END));
}

#[test]
fn a_client_that_leaves_at_the_end_of_the_rows_has_cancelled_nothing() {
    let server = on_disk().argument("--analytics-sql-workers=1").start();
    let done = || metric(&server.client(), "shardlake_sql_queries_total{outcome=\"done\"}");
    let mut worker = None;
    for number in 1..=20 {
        // As pyarrow does: an Arrow stream has an end of its own, before that of the HTTP message.
        let mut streamed = Streamed::begin(&server, "SELECT 1", FORMS[3], false);
        while !streamed.body.ends_with(&ARROW_END) {
            streamed.first_bytes();
        }
        drop(streamed);
        eventually("the query is counted", || done() == number);
        let workers = workers(&server);
        assert_eq!(worker.get_or_insert(workers.clone()), &workers, "the worker stays");
    }
}

#[test]
fn a_client_that_disconnects_ends_its_query() {
    let server = on_disk().start();
    // In the middle of the rows, with bytes that wait for it.
    let mut streamed = Streamed::begin(&server, LARGE, FORMS[1], false);
    streamed.first_bytes();
    drop(streamed);
    assert_nothing_left(&server);
    assert_cancelled(&server, 1);
    // Behind the first rows, while nothing comes.
    let quiet = format!(
        "SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 5000) UNION ALL SELECT n, '' FROM ({ENDLESS}) AS e(n)"
    );
    let mut streamed = Streamed::begin(&server, &quiet, FORMS[2], true);
    streamed.first_bytes();
    drop(streamed);
    assert_nothing_left(&server);
    assert_cancelled(&server, 2);
    // Before the answer begins.
    let streamed = Streamed::send(&server, ENDLESS, FORMS[0], false);
    running(&server);
    drop(streamed);
    assert_nothing_left(&server);
    assert_cancelled(&server, 3);
    let whole = ask(&server, &json!({ "query": "SELECT 1" }), &[]).expect_status(200);
    assert_eq!(whole.json()["rows"], json!([[1]]));
}
