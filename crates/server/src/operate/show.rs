//! `shardlake partitions`: a report as a table or as JSON, once or again and again.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use http::Method;
use shardlake_admin::OperatorRequest;

use super::arguments::{ContainerName, Partitions};
use super::table;

const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Clears a terminal and moves to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub async fn partitions(arguments: &Partitions) -> Result<(), String> {
    let client = arguments.connection.client()?;
    let request = match &arguments.container {
        Some(container) => request(container, arguments.window.as_deref()),
        None => OperatorRequest::of_account(),
    };
    let paint = arguments.connection.paint();
    loop {
        let report = client.send(&request).await?;
        let text = match (arguments.json, &arguments.container) {
            (true, _) => format!("{report}\n"),
            (false, Some(_)) => paint.table(&table::of_container(&report)),
            (false, None) => paint.table(&table::of_account(&report)),
        };
        let clear = if arguments.watch && io::stdout().is_terminal() { CLEAR } else { "" };
        let mut out = io::stdout().lock();
        let written = write!(out, "{clear}{text}").and_then(|()| out.flush());
        let is_closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        drop(out);
        ignore_closed(written)?;
        if !arguments.watch || is_closed {
            return Ok(());
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

pub fn request(container: &ContainerName, window: Option<&str>) -> OperatorRequest {
    let query = window.map(|window| format!("window={window}"));
    OperatorRequest::of_container(Method::GET, container.names(), "partitions").with_query(query)
}

/// A line on standard output.
pub fn print(words: &str) -> Result<(), String> {
    ignore_closed(writeln!(io::stdout(), "{words}"))
}

/// Ignores the error of a pipe whose reader has closed it.
pub fn ignore_closed(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
