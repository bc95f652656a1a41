//! `shardlake analytics sql` against a server that answers as its documentation describes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::command;

/// A request as the server received it.
struct Received {
    /// Method and path.
    line: String,
    head: String,
    body: String,
}

impl Received {
    fn read(stream: &mut TcpStream) -> Received {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |length| length.parse().unwrap());
                if bytes.len() >= end + 4 + length {
                    let line = String::from_utf8_lossy(&bytes[..end]).lines().next().unwrap().to_owned();
                    let body = String::from_utf8(bytes[end + 4..].to_vec()).unwrap();
                    return Received { line, head, body };
                }
            }
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the request ends early");
            bytes.extend_from_slice(&piece[..read]);
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A server that gives one answer after the other, each on a connection of its own.
struct Stub {
    address: SocketAddr,
    running: JoinHandle<Vec<Received>>,
}

impl Stub {
    fn start(answers: Vec<Vec<u8>>) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let running = std::thread::spawn(move || {
            let mut open = Vec::new();
            let mut received = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                received.push(Received::read(&mut stream));
                // A client may close its side early, as one whose output is closed does.
                let _outcome = stream.write_all(&answer);
                open.push(stream);
            }
            received
        });
        Stub { address, running }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut all = vec!["analytics", "sql"];
        all.extend(arguments);
        let mut command = command(&all);
        command.args(["--endpoint", &format!("http://{}", self.address)]);
        command
    }

    fn run(self, arguments: &[&str]) -> (Output, Vec<Received>) {
        let output = self.command(arguments).output().unwrap();
        (output, self.running.join().unwrap())
    }
}

fn whole(status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nx-shardlake-query-id: q7\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A body in pieces; `end` is the part behind the last piece.
fn pieces(pieces: &[&str], end: &str) -> Vec<u8> {
    let mut out = "HTTP/1.1 200 OK\r\nx-shardlake-query-id: q7\r\ntransfer-encoding: chunked\r\ntrailer: x-shardlake-error\r\n\r\n".to_owned();
    for piece in pieces {
        out.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
    }
    (out + end).into_bytes()
}

#[track_caller]
fn texts(output: Output, code: i32) -> (String, String) {
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    (String::from_utf8(output.stdout).unwrap(), error)
}

#[test]
fn a_query_is_asked_with_its_settings_and_shown_as_a_table() {
    let answer = json!({
        "columns": [{ "name": "type", "type": "Utf8" }, { "name": "n", "type": "Int64" }],
        "rows": [["salesOrder", 12], [null, 9_007_199_254_740_993_i64]],
        "snapshot": { "shop/customer": { "version": 812 } },
        "statistics": { "elapsedMs": 41, "bytesRead": 2048 },
    });
    let stub = Stub::start(vec![whole("200 OK", "application/json", answer.to_string().as_bytes())]);
    let arguments = [
        "SELECT type, count(*) AS n FROM customer WHERE type = $t GROUP BY 1",
        "--database",
        "shop",
        "--param",
        "t=\"x\"",
        "--param",
        "$n=3",
        "--as-of",
        "shop/customer=812",
        "--timeout",
        "2m",
    ];
    let (output, received) = stub.run(&arguments);
    let (rows, figures) = texts(output, 0);
    assert_eq!(
        rows,
        "type                       n\nsalesOrder                12\nNULL        9007199254740993\n"
    );
    assert_eq!(figures, "2 rows, 0 RU, 41 ms, 2.0 KiB read; shop/customer at version 812\n");
    assert_eq!(received[0].line, "POST /_shardlake/v1/analytics/sql HTTP/1.1");
    assert!(
        received[0].head.contains("accept: application/json")
            && received[0].head.contains("authorization: type")
    );
    let expected = json!({
        "query": arguments[0], "timeoutSeconds": 120, "database": "shop",
        "parameters": { "t": "x", "n": 3 }, "asOf": { "version": { "shop/customer": 812 } },
    });
    assert_eq!(received[0].json(), expected);
}

#[test]
fn formats_for_programs_pass_through_byte_by_byte() {
    for (format, accept, body) in [
        ("json", "application/json", &b"{\"columns\":[],\"rows\":[[1.50]]}"[..]),
        ("jsonl", "application/x-ndjson", b"{\"n\":12345678901234567890}\n"),
        ("csv", "text/csv", b"a,b\r\n1,\"x\ny\"\r\n"),
        ("arrow", "application/vnd.apache.arrow.stream", b"\xff\xff\xff\xff\x00\x01"),
    ] {
        let stub = Stub::start(vec![whole("200 OK", accept, body)]);
        let (output, received) = stub.run(&["SELECT 1", "--format", format, "--quiet"]);
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (body, &b""[..]), "{format}");
        assert!(
            output.status.success() && received[0].head.contains(&format!("accept: {accept}")),
            "{format}"
        );
    }
}

#[test]
fn refusals_are_printed_in_the_servers_words() {
    let refusals = [
        ("400 Bad Request", "line 1, column 8: there is no column 'x'", "there is no column 'x'"),
        ("404 Not Found", "there is no table 'shop.x'", "`shardlake analytics status` shows the tables"),
        ("501 Not Implemented", "SQL over the analytical store is not in this build", "not in this build"),
        ("429 Too Many Requests", "16 queries wait", "16 queries wait"),
    ];
    for (status, message, expected) in refusals {
        let body = json!({ "code": "x", "message": message }).to_string();
        let stub = Stub::start(vec![whole(status, "application/json", body.as_bytes())]);
        let (output, _received) = stub.run(&["SELECT x", "--quiet"]);
        let (rows, error) = texts(output, 1);
        assert_eq!((rows.as_str(), error.lines().count()), ("", 1), "{error}");
        assert!(error.starts_with("shardlake: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn errors_behind_the_first_rows_fail_the_command() {
    let trailer = "0\r\nx-shardlake-error: the query needs more than 4 GB\r\n\r\n";
    let stub = Stub::start(vec![pieces(&["{\"n\":1}\n"], trailer)]);
    let (rows, error) = texts(stub.run(&["SELECT 1", "--format", "jsonl"]).0, 1);
    assert_eq!(rows, "{\"n\":1}\n");
    assert!(error.contains("the query needs more than 4 GB"), "{error}");

    let cut_off = pieces(&["n\n1\n"], "5\r\n");
    let stub = Stub::start(vec![cut_off]);
    let (rows, error) = texts(stub.run(&["SELECT 1", "--format", "csv", "--quiet"]).0, 1);
    assert_eq!(rows, "n\n1\n");
    assert!(error.contains("broke off"), "{error}");
}

/// The first line of a running command's output.
fn first_line(child: &mut Child) -> (String, BufReader<std::process::ChildStdout>) {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (line, out)
}

#[test]
fn ctrl_c_ends_the_query_at_the_server() {
    let stub = Stub::start(vec![pieces(&["{\"n\":1}\n"], ""), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()]);
    let mut running = stub.command(&["SELECT 1", "--format", "jsonl", "--quiet"]);
    let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (line, _out) = first_line(&mut running);
    assert_eq!(line, "{\"n\":1}\n");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let received = stub.running.join().unwrap();
    assert_eq!(received[1].line, "DELETE /_shardlake/v1/analytics/queries/q7 HTTP/1.1");
}

#[test]
fn a_closed_pipe_ends_the_command_without_words() {
    let many = "{\"n\":1}\n".repeat(1 << 20);
    let stub = Stub::start(vec![whole("200 OK", "application/x-ndjson", many.as_bytes())]);
    let mut running = stub.command(&["SELECT 1", "--format", "jsonl", "--quiet"]);
    let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (line, out) = first_line(&mut running);
    assert_eq!(line, "{\"n\":1}\n");
    drop(out);
    let output = running.wait_with_output().unwrap();
    assert_eq!(texts(output, 0).1, "");
    assert_eq!(stub.running.join().unwrap().len(), 1);
}

#[test]
fn arguments_that_cannot_be_meant_are_refused_before_a_server_is_asked() {
    for (arguments, expected) in [
        (vec!["SELECT 1", "--offline", "/tmp/x"], "--offline is not built yet"),
        (vec!["SELECT 1", "--timeout", "601s"], "between 1s and 600s"),
        (vec!["SELECT 1", "--param", "t=x"], "no NAME=JSON"),
        (vec!["SELECT 1", "--as-of", "yesterday"], "neither a time"),
        (vec!["SELECT 1", "--at-least", "later"], "neither 'now' nor shop/customer=TOKEN"),
    ] {
        let mut all = vec!["analytics", "sql"];
        all.extend(arguments);
        let (rows, error) = texts(command(&all).output().unwrap(), 1);
        assert_eq!((rows.as_str(), error.lines().count()), ("", 1), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
