//! `shardlake export`: a container, or the rows of a query, as JSON, JSON lines or CSV.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::formats::{FileFormat, STANDARD, Target};
use super::interrupted::interrupted;
use super::output::Output;
use crate::data::{DataClient, PAUSES, Page, Place, Query, SYSTEM, cell, compact, is_item, members};
use crate::operate::{Connection, bytes, counted};
use crate::progress::{Quiet, Unit};

/// Rows of one page; the server ends a page earlier where rows are large.
const PAGE_ROWS: u64 = 1_000;
const WHOLE_CONTAINER: &str = "SELECT * FROM c";
const COLUMNS_MAX: usize = 10_000;
/// The column of rows that are no objects.
const VALUE: &str = "value";

#[derive(Debug, Args)]
pub struct Export {
    /// The file, or - for standard output
    #[arg(value_name = "FILE", default_value = STANDARD)]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Export the rows of a query instead of all items
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// Ask one logical partition only, such as '["ada"]'
    #[arg(long, value_name = "JSON")]
    partition_key: Option<String>,
    /// The format [default: by the file's ending, else jsonl]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// Columns of CSV, separated by commas [default: all, found by reading everything twice]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Keep the properties that the server adds to items (_rid, _self, _etag, _attachments, _ts)
    #[arg(long)]
    system: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    connection: Connection,
}

/// Columns of CSV by name.
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// Whether properties without a column are left out; they are an error otherwise.
    are_chosen: bool,
}

/// Counts of an export.
#[derive(Debug, Default)]
struct Exported {
    rows: u64,
    bytes: u64,
    charge: f64,
}

pub async fn export(arguments: &Export) -> Result<ExitCode, String> {
    let client = DataClient::new(arguments.connection.client()?);
    let place = arguments.target.place(&client).await?;
    client.existing(&place).await?;
    let format = arguments.format.or(FileFormat::of(&arguments.file)).unwrap_or(FileFormat::Jsonl);
    if !arguments.columns.is_empty() && format != FileFormat::Csv {
        return Err("--columns is for CSV".to_owned());
    }
    let work =
        Work { arguments, client: &client, place: &place, total: total(arguments, &client, &place).await };
    let mut output = Output::create(&arguments.file, arguments.force)?;
    // A signal drops the output, which removes the temporary file.
    let exported = tokio::select! {
        biased;
        () = interrupted() => return Err("the export was cancelled".to_owned()),
        exported = work.run(format, &mut output) => exported?,
    };
    let Some(exported) = exported else { return Ok(ExitCode::SUCCESS) };
    output.finish()?;
    arguments.quiet.report(&format!(
        "exported {} ({}) of {place}{}, {:.2} RU",
        counted(exported.rows, if arguments.query.is_some() { "row" } else { "item" }),
        bytes(exported.bytes),
        match arguments.file.to_str() {
            Some(STANDARD) => String::new(),
            _ => format!(" to {}", arguments.file.display()),
        },
        exported.charge,
    ));
    Ok(ExitCode::SUCCESS)
}

/// The number of items, where the server knows it.
async fn total(arguments: &Export, client: &DataClient, place: &Place) -> Option<u64> {
    if arguments.query.is_some() || arguments.partition_key.is_some() {
        return None;
    }
    client.report(place).await.ok()?["items"].as_u64()
}

struct Work<'a> {
    arguments: &'a Export,
    client: &'a DataClient,
    place: &'a Place,
    total: Option<u64>,
}

impl Work<'_> {
    /// `None` where the reader of standard output has closed it.
    async fn run(&self, format: FileFormat, out: &mut Output) -> Result<Option<Exported>, String> {
        let outcome = match format {
            FileFormat::Json => self.json(out).await,
            FileFormat::Jsonl => self.jsonl(out).await,
            FileFormat::Csv => self.csv(out).await,
        };
        match outcome {
            Ok(exported) => Ok(Some(exported)),
            Err(Interrupted::Failed(message)) => Err(message),
            Err(Interrupted::Unwritable(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Err(Interrupted::Unwritable(error)) => Err(out.unwritable(&error)),
        }
    }

    async fn json(&self, out: &mut Output) -> Result<Exported, Interrupted> {
        let mut is_first = true;
        let exported = self.rows("export", out, |row, out| {
            let before = if std::mem::take(&mut is_first) { "[\n" } else { ",\n" };
            write!(out, "{before}{row}").map_err(Interrupted::Unwritable)
        });
        let exported = exported.await?;
        out.write_all(if exported.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        Ok(exported)
    }

    async fn jsonl(&self, out: &mut Output) -> Result<Exported, Interrupted> {
        self.rows("export", out, |row, out| writeln!(out, "{row}").map_err(Interrupted::Unwritable)).await
    }

    async fn csv(&self, out: &mut Output) -> Result<Exported, Interrupted> {
        let mut columns = Columns::new(!self.arguments.columns.is_empty());
        self.arguments.columns.iter().try_for_each(|name| columns.add(name))?;
        let charge = match columns.are_chosen {
            true => 0.0,
            false => self.find(&mut columns).await?,
        };
        if columns.names.is_empty() {
            return Ok(Exported { charge, ..Exported::default() });
        }
        out.write_all(&line(&columns.names)?)?;
        let write = |row: &str, out: &mut Output| Ok(out.write_all(&line(&columns.cells(row)?)?)?);
        let exported = self.rows("export", out, write).await?;
        Ok(Exported { charge: exported.charge + charge, ..exported })
    }

    /// Adds the names of all properties, in the order of their first appearance, and returns the charge.
    async fn find(&self, columns: &mut Columns) -> Result<f64, Interrupted> {
        let mut nowhere = io::sink();
        let found = self.rows("find columns", &mut nowhere, |row, _| match members(row) {
            Some(members) => members.iter().try_for_each(|(name, _)| columns.add(name)),
            None => columns.add(VALUE),
        });
        Ok(found.await?.charge)
    }

    /// Passes each row on, without system properties unless they are wanted.
    async fn rows<W: Write>(
        &self,
        title: &str,
        out: &mut W,
        mut write: impl FnMut(&str, &mut W) -> Result<(), Interrupted>,
    ) -> Result<Exported, Interrupted> {
        let text = self.arguments.query.as_deref().unwrap_or(WHOLE_CONTAINER);
        let key = self.arguments.partition_key.as_deref();
        let key = key.map(crate::data::partition_key).transpose().map_err(Interrupted::Failed)?;
        let mut query = Query::new(self.place.clone(), text.to_owned(), key);
        // Where the number of rows is unknown, bytes show more of how far it is.
        let unit = if self.total.is_some() { Unit::Items } else { Unit::Bytes };
        let progress = self.arguments.quiet.begin(title, unit, self.total);
        let mut exported = Exported::default();
        loop {
            let page = self.page(&mut query).await?;
            exported.charge += page.charge;
            let before = exported.bytes;
            for row in &page.rows {
                let row = self.shown(row.get());
                exported.bytes += row.len() as u64 + 1;
                write(&row, out)?;
            }
            let rows = page.rows.len() as u64;
            exported.rows += rows;
            progress.advance(if unit == Unit::Items { rows } else { exported.bytes - before });
            if query.continuation.is_none() {
                progress.finish("");
                return Ok(exported);
            }
        }
    }

    /// The next page. Where the connection breaks after the first page, it is asked for again.
    async fn page(&self, query: &mut Query) -> Result<Page, Interrupted> {
        let attempts = if query.continuation.is_some() { PAUSES.len() } else { 0 };
        let mut pauses = PAUSES.into_iter().take(attempts);
        loop {
            let failure = match query.next(self.client, PAGE_ROWS).await {
                Ok(page) => return Ok(page),
                Err(failure) => failure,
            };
            match pauses.next() {
                Some(pause) if failure.is_passing() => tokio::time::sleep(pause).await,
                _ => return Err(Interrupted::Failed(failure.to_string())),
            }
        }
    }

    fn shown(&self, row: &str) -> String {
        if self.arguments.system {
            return compact(row);
        }
        match members(row) {
            Some(members) if is_item(&members) => {
                let kept = members.iter().filter(|(name, _)| !SYSTEM.contains(&name.as_str()));
                let kept = kept.map(|(name, value)| {
                    format!("{}:{}", serde_json::Value::from(name.as_str()), compact(value.get()))
                });
                format!("{{{}}}", kept.collect::<Vec<_>>().join(","))
            }
            _ => compact(row),
        }
    }
}

/// Why an export ended early.
enum Interrupted {
    Failed(String),
    Unwritable(io::Error),
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Interrupted::Unwritable(error)
    }
}

impl Columns {
    fn new(are_chosen: bool) -> Columns {
        Columns { names: Vec::new(), places: HashMap::new(), are_chosen }
    }

    fn add(&mut self, name: &str) -> Result<(), Interrupted> {
        if self.places.contains_key(name) {
            return Ok(());
        }
        if self.names.len() == COLUMNS_MAX {
            let message = format!("the items have more than {COLUMNS_MAX} properties: choose with --columns");
            return Err(Interrupted::Failed(message));
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        Ok(())
    }

    fn cells(&self, row: &str) -> Result<Vec<String>, Interrupted> {
        let mut cells = vec![String::new(); self.names.len()];
        let members = members(row);
        let values = match &members {
            Some(members) => members.iter().map(|(name, value)| (name.as_str(), value.get())).collect(),
            None => vec![(VALUE, row)],
        };
        for (name, value) in values {
            match self.places.get(name) {
                Some(place) => cells[*place] = cell(value),
                None if self.are_chosen => {}
                None => {
                    let message = format!(
                        "the property '{name}' appeared during the export: run it again, or choose with --columns"
                    );
                    return Err(Interrupted::Failed(message));
                }
            }
        }
        Ok(cells)
    }
}

/// One record of CSV.
fn line(cells: &[String]) -> Result<Vec<u8>, Interrupted> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(cells).map_err(|error| Interrupted::Failed(error.to_string()));
    written.and_then(|()| writer.into_inner().map_err(|error| Interrupted::Unwritable(error.into_error())))
}
