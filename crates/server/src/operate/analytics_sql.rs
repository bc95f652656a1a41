//! `shardlake analytics sql`: a query over the tables of the analytical store, asked of a running server.
//!
//! Formats for programs pass through as the server streams them. A table is shown when the whole answer is there.

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use shardlake_admin::OperatorRequest;

use super::arguments::Connection;
use super::client::{Asked, Client};
use super::color::Paint;
use super::descriptions::counted;
use super::table::aligned;
use super::values::{members, number, text};
use crate::number_text::{bytes, thousands};
use crate::progress::{Progress, Quiet, Unit};

/// Where a shell expects an interrupted command.
const INTERRUPTED: u8 = 130;
/// The longest text of a query.
const QUERY_BYTES_MAX: u64 = 512 << 10;
/// Largest answer that is shown as a table. The server ends such answers earlier.
const TABLE_BYTES_MAX: usize = 512 << 20;
/// Most rows of a table. Other formats have no limit here.
const TABLE_ROWS_MAX: usize = 1_000;
/// The time that an answer needs in addition to its query.
const ANSWER_GRACE: Duration = Duration::from_secs(30);
const QUERY_ID: &str = "x-shardlake-query-id";
const ERROR_TRAILER: &str = "x-shardlake-error";

#[derive(Debug, Args)]
pub struct Sql {
    /// A query, such as 'SELECT type, count(*) FROM shop.customer GROUP BY type'; - reads it from standard input
    #[arg(value_name = "QUERY")]
    query: String,
    /// The database of tables that are named without one
    #[arg(long, short, value_name = "NAME")]
    database: Option<String>,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// A parameter of the query, such as 't="x"' for $t; may be repeated
    #[arg(long = "param", value_name = "NAME=JSON")]
    parameters: Vec<String>,
    /// Earlier versions: a time such as 2026-11-30T10:00:00Z, or 'shop/customer=812', which may be repeated
    #[arg(long, value_name = "TIME|TABLE=VERSION")]
    as_of: Vec<String>,
    /// Writes that the answer has: 'now' for all, or those of a session token as 'shop/customer=TOKEN', which may be repeated
    #[arg(long, value_name = "now|TABLE=TOKEN", conflicts_with = "as_of")]
    at_least: Vec<String>,
    /// The time that the query may need, at most 600s
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: String,
    /// Characters of a cell of a table, 0 for all
    #[arg(long, value_name = "CHARACTERS", default_value_t = 40)]
    width: usize,
    /// Read the tables below a folder without a server
    #[arg(long, value_name = "ROOT")]
    offline: Option<String>,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns, cut to one line for each row; at most 1,000 rows
    Table,
    /// The server's answer: columns with types, rows, versions of the tables
    Json,
    /// One line for each row
    Jsonl,
    /// A line with the names of the columns, then one for each row
    Csv,
    /// A stream of Arrow record batches, for a file or a pipe
    Arrow,
}

impl Format {
    fn accept(self) -> &'static str {
        match self {
            Format::Table | Format::Json => "application/json",
            Format::Jsonl => "application/x-ndjson",
            Format::Csv => "text/csv",
            Format::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

pub async fn run(sql: &Sql) -> Result<ExitCode, String> {
    if sql.offline.is_some() {
        return Err(
            "--offline is not built yet: ask a server, or read the tables with DuckDB, Polars or Spark"
                .into(),
        );
    }
    if sql.format == Format::Arrow && io::stdout().is_terminal() {
        return Err("--format arrow is no text: write it to a file or a pipe".into());
    }
    let client = sql.connection.client()?;
    let timeout = seconds(&sql.timeout)?;
    let request = request(sql, timeout)?;
    // A log needs no lines of progress: the rows show it.
    let shown = Quiet { quiet: sql.quiet.quiet || !io::stderr().is_terminal() };
    let progress = shown.begin("reads", Unit::Bytes, None);
    let mut query = Running { client: &client, id: None };
    let outcome = tokio::select! {
        // First, so that the signal is caught before the request is sent.
        biased;
        _ = tokio::signal::ctrl_c() => {
            drop(progress);
            query.cancel().await;
            return Ok(ExitCode::from(INTERRUPTED));
        }
        outcome = query.answer(sql, &request, timeout, &progress) => outcome,
    };
    progress.finish("done");
    let (answer, end) = outcome?;
    match end {
        End::Closed => Ok(ExitCode::SUCCESS),
        End::Failed(message) => Err(message),
        End::Whole => {
            show(sql, &answer)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How an answer ended.
enum End {
    Whole,
    /// The reader of standard output wants no more.
    Closed,
    /// The server's words, after the first rows.
    Failed(String),
}

/// A query at the server. Its number is known from the head of the answer.
struct Running<'c> {
    client: &'c Client,
    id: Option<String>,
}

impl Running<'_> {
    /// Asks, and prints or collects the answer.
    async fn answer(
        &mut self,
        sql: &Sql,
        request: &OperatorRequest,
        timeout: Duration,
        progress: &Progress,
    ) -> Result<(Vec<u8>, End), String> {
        let wait = timeout + ANSWER_GRACE;
        let asked = self.client.ask(request, sql.format.accept(), wait).await?;
        let Asked { response, _link } = asked;
        self.id = response.headers().get(QUERY_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let mut collected = Vec::new();
        let collects = sql.format == Format::Table;
        let end = read(response, wait, |data| {
            progress.advance(data.len() as u64);
            if !collects {
                return print(&data);
            }
            if collected.len() + data.len() > TABLE_BYTES_MAX {
                return Err("the answer is too large for a table: use --format jsonl, or LIMIT".into());
            }
            collected.extend_from_slice(&data);
            Ok(true)
        })
        .await?;
        Ok((collected, end))
    }

    /// The server may have ended the query by itself, so that its answer does not matter.
    async fn cancel(&self) {
        if let Some(id) = &self.id {
            let _outcome = self.client.send(&OperatorRequest::of_analytics_query(id)).await;
        }
    }
}

/// Reads a body piece by piece until its end, its trailers, or a closed standard output.
async fn read(
    mut response: Response<Incoming>,
    wait: Duration,
    mut take: impl FnMut(Bytes) -> Result<bool, String>,
) -> Result<End, String> {
    loop {
        let frame = tokio::time::timeout(wait, response.body_mut().frame()).await;
        let Some(frame) = frame.map_err(|_| "the server sends no more".to_owned())? else {
            return Ok(End::Whole);
        };
        let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
        match frame.into_data() {
            Ok(data) => {
                if !take(data)? {
                    return Ok(End::Closed);
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                if let Some(error) = trailers.get(ERROR_TRAILER) {
                    return Ok(End::Failed(String::from_utf8_lossy(error.as_bytes()).into_owned()));
                }
            }
        }
    }
}

/// Whether standard output took the bytes. A closed pipe is no error.
fn print(data: &[u8]) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(data).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("standard output cannot be written: {error}")),
    }
}

fn show(sql: &Sql, answer: &[u8]) -> Result<(), String> {
    let answer: Value = match sql.format {
        Format::Table => serde_json::from_slice(answer)
            .map_err(|error| format!("the server's answer is no JSON: {error}"))?,
        Format::Json | Format::Jsonl | Format::Csv | Format::Arrow => return Ok(()),
    };
    let shown = table(&answer, sql.width, sql.connection.paint());
    print(shown.as_bytes())?;
    if !sql.quiet.quiet {
        // Figures stay out of a file that the rows are written to.
        let figures = format!("{}\n", figures(&answer));
        match io::stdout().is_terminal() {
            true => print(sql.connection.paint().faint(&figures).as_bytes()).map(|_| ())?,
            false => {
                let _closed = io::stderr().write_all(figures.as_bytes());
            }
        }
    }
    Ok(())
}

fn table(answer: &Value, width: usize, paint: Paint) -> String {
    let names: Vec<String> =
        members(&answer["columns"]).map(|column| cut(text(&column["name"]), width)).collect();
    if names.is_empty() {
        return String::new();
    }
    let columns = names.len();
    let row = |row: &Value| -> Vec<String> {
        let mut cells: Vec<String> = members(row).map(|value| cut(&cell(value), width)).collect();
        cells.resize(columns, String::new());
        cells
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(names).chain(members(&answer["rows"]).take(TABLE_ROWS_MAX).map(row)).collect();
    let is_number = |column: &Value| {
        ["int", "uint", "float", "double", "long", "decimal"]
            .iter()
            .any(|kind| text(&column["type"]).to_lowercase().starts_with(kind))
    };
    let left = members(&answer["columns"]).take_while(|column| !is_number(column)).count();
    let mut out: String = aligned(&rows, left.max(1)).into_iter().map(|line| line + "\n").collect();
    out = paint.table(&out);
    let more = members(&answer["rows"]).count().saturating_sub(TABLE_ROWS_MAX);
    if more > 0 {
        out.push_str(&format!("… and {} more rows: use --format csv\n", thousands(more as u64)));
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// In one line of at most `width` characters, none of which commands a terminal.
fn cut(text: &str, width: usize) -> String {
    let shown = |character: char| if character.is_control() { '·' } else { character };
    if width == 0 || text.chars().nth(width).is_none() {
        return text.chars().map(shown).collect();
    }
    text.chars().take(width - 1).map(shown).chain(std::iter::once('…')).collect()
}

/// `3 rows, 0 RU, 41 ms, 1.1 MiB read; shop/customer at version 812`.
fn figures(answer: &Value) -> String {
    let statistics = &answer["statistics"];
    let mut out = format!("{}, 0 RU", counted(members(&answer["rows"]).count() as u64, "row"));
    if let Some(elapsed) = statistics["elapsedMs"].as_f64() {
        out.push_str(&format!(", {elapsed:.0} ms"));
    }
    if let Some(read) = statistics["bytesRead"].as_u64() {
        out.push_str(&format!(", {} read", bytes(read)));
    }
    let versions = answer["snapshot"].as_object().into_iter().flatten();
    let versions: Vec<String> =
        versions.map(|(name, table)| format!("{name} at version {}", number(&table["version"]))).collect();
    if !versions.is_empty() {
        out.push_str(&format!("; {}", versions.join(", ")));
    }
    out
}

fn request(sql: &Sql, timeout: Duration) -> Result<OperatorRequest, String> {
    let query = match sql.query.as_str() {
        "-" => {
            let mut text = String::new();
            let read = io::stdin().take(QUERY_BYTES_MAX + 1).read_to_string(&mut text);
            read.map_err(|error| format!("standard input cannot be read: {error}"))?;
            text
        }
        text => text.to_owned(),
    };
    let mut body = Map::new();
    body.insert("query".into(), query.into());
    body.insert("timeoutSeconds".into(), timeout.as_secs().into());
    if let Some(database) = &sql.database {
        body.insert("database".into(), database.clone().into());
    }
    if !sql.parameters.is_empty() {
        let parameters = sql.parameters.iter().map(|parameter| parsed(parameter));
        body.insert(
            "parameters".into(),
            Value::Object(parameters.collect::<Result<Map<String, Value>, String>>()?),
        );
    }
    if !sql.as_of.is_empty() {
        body.insert("asOf".into(), as_of(&sql.as_of)?);
    }
    if !sql.at_least.is_empty() {
        body.insert("atLeast".into(), at_least(&sql.at_least)?);
    }
    Ok(OperatorRequest::of_analytics_sql(Value::Object(body).to_string()))
}

/// `t="x"`, also with the sign that the query has before the name.
fn parsed(parameter: &str) -> Result<(String, Value), String> {
    let malformed =
        || format!("--param '{parameter}' is no NAME=JSON: write 't=\"x\"' for a text, 'n=3' for a number");
    let (name, value) = parameter.split_once('=').ok_or_else(malformed)?;
    let name = name.trim_start_matches(['$', '@']);
    let value = serde_json::from_str(value).map_err(|_| malformed())?;
    if name.is_empty() { Err(malformed()) } else { Ok((name.to_owned(), value)) }
}

fn as_of(texts: &[String]) -> Result<Value, String> {
    let malformed = |text: &str| {
        format!("--as-of '{text}' is neither a time such as 2026-11-30T10:00:00Z nor shop/customer=812")
    };
    if let [time] = texts
        && !time.contains('=')
    {
        let is_time = time.len() >= 11 && time.as_bytes()[4] == b'-' && time.contains('T');
        return if is_time { Ok(json!({ "time": time })) } else { Err(malformed(time)) };
    }
    let mut versions = Map::new();
    for text in texts {
        let (table, version) = text.split_once('=').ok_or_else(|| malformed(text))?;
        let version: u64 = version.parse().map_err(|_| malformed(text))?;
        if !table.contains('/') {
            return Err(malformed(text));
        }
        versions.insert(table.to_owned(), version.into());
    }
    Ok(json!({ "version": versions }))
}

fn at_least(texts: &[String]) -> Result<Value, String> {
    if let [now] = texts
        && now == "now"
    {
        return Ok(json!(now));
    }
    let mut tokens = Map::new();
    for text in texts {
        let parts = text.split_once('=').filter(|(table, token)| table.contains('/') && !token.is_empty());
        let malformed = || format!("--at-least '{text}' is neither 'now' nor shop/customer=TOKEN");
        let (table, token) = parts.ok_or_else(malformed)?;
        tokens.insert(table.to_owned(), token.into());
    }
    Ok(Value::Object(tokens))
}

/// `60s` or `2m`; a number alone counts seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let malformed = || format!("--timeout '{text}' is no time between 1s and 600s");
    let (digits, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds =
        digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(malformed)?;
    if (1..=600).contains(&seconds) { Ok(Duration::from_secs(seconds)) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parameters_and_versions_are_read_or_refused_with_their_form() {
        assert_eq!(seconds("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["0s", "601s", "11m", "x", "", "1h"] {
            assert!(seconds(wrong).is_err_and(|error| error.contains("600s")), "{wrong}");
        }
        assert_eq!(parsed("t=\"x\""), Ok(("t".to_owned(), json!("x"))));
        assert_eq!(parsed("$n=[1,2]"), Ok(("n".to_owned(), json!([1, 2]))));
        for wrong in ["t", "t=x", "=1", "$=1"] {
            assert!(parsed(wrong).is_err_and(|error| error.contains("NAME=JSON")), "{wrong}");
        }
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(as_of(&texts(&["2026-11-30T10:00:00Z"])), Ok(json!({ "time": "2026-11-30T10:00:00Z" })));
        assert_eq!(as_of(&texts(&["a/b=1", "a/c=2"])), Ok(json!({ "version": { "a/b": 1, "a/c": 2 } })));
        for wrong in [vec!["yesterday"], vec!["a=1"], vec!["a/b=x"], vec!["a/b=1", "2026-11-30T10:00:00Z"]] {
            assert!(as_of(&texts(&wrong)).is_err(), "{wrong:?}");
        }
        assert_eq!(at_least(&texts(&["now"])), Ok(json!("now")));
        let tokens = at_least(&texts(&["a/b=0:1#2=3", "a/c=0:1#4"]));
        assert_eq!(tokens, Ok(json!({ "a/b": "0:1#2=3", "a/c": "0:1#4" })));
        for wrong in [vec!["a=1"], vec!["a/b="], vec!["now", "a/b=1"], vec!["later"]] {
            assert!(
                at_least(&texts(&wrong)).is_err_and(|error| error.contains("shop/customer=TOKEN")),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn tables_are_aligned_and_cut_and_command_no_terminal() {
        let answer = json!({
            "columns": [{ "name": "type", "type": "Utf8" }, { "name": "n", "type": "Int64" }],
            "rows": [["salesOrder", 12], ["\u{1b}[2J", null], ["abcdefghijklmnop", { "a": 1 }]],
            "statistics": { "elapsedMs": 41.4, "bytesRead": 1_200_000 },
            "snapshot": { "shop/customer": { "version": 812 } },
        });
        let shown = table(&answer, 12, Paint::default());
        assert_eq!(
            shown,
            "type                n\nsalesOrder         12\n·[2J             NULL\nabcdefghijk…  {\"a\":1}\n"
        );
        assert_eq!(figures(&answer), "3 rows, 0 RU, 41 ms, 1.1 MiB read; shop/customer at version 812");
        assert_eq!(table(&json!({}), 12, Paint::default()), "");
    }
}
