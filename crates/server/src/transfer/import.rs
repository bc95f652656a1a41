//! `shardlake import`: a file into a container, with a plan in front and a report at the end.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use http::StatusCode;
use tokio::sync::oneshot;

use super::columns::Choice;
use super::formats::{FileFormat, STANDARD, Target};
use super::interrupted::interrupted;
use super::records::Refusal;
use super::rejects::{REJECTS_MAX, Rejects};
use super::survey::{Input, Survey};
use super::writer::{Batch, Mode, Stop, Writer, Written};
use crate::data::{DataClient, Definition, Offer, Place};
use crate::operate::{Connection, counted, thousands};
use crate::progress::{Progress, Quiet, Unit, time};

/// An import that lasts longer is worth the question for a higher throughput.
const ASK_AFTER_SECONDS: f64 = 60.0;
const REMAINS_OF_RAISE: &str = "a raise leaves traces: partitions that it splits are not merged back, and the lowest throughput that is allowed afterwards is 1 % of the highest (10 % under autoscale)";

#[derive(Debug, Args)]
pub struct Import {
    /// The file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// The format [default: by the file's ending]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// Insert items, or replace those whose id exists
    #[arg(long, value_name = "MODE", default_value = "insert")]
    mode: Mode,
    /// Create database and container where they are missing; needs --partition-key
    #[arg(long)]
    create: bool,
    /// The path that the container has as its partition key, such as /customer; paths of a hierarchical key have commas between them
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    partition_key: Vec<String>,
    /// The property or column that becomes the item's id
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// The type of a column of CSV: string, number, boolean, null or json; may be repeated
    #[arg(long = "type", value_name = "COLUMN=TYPE", help_heading = "CSV")]
    types: Vec<Choice>,
    /// The character between cells of CSV
    #[arg(long, value_name = "CHARACTER", default_value = ",", help_heading = "CSV")]
    delimiter: char,
    /// At a refused item: stop, or skip it and continue
    #[arg(long, value_name = "ACTION", default_value = "stop")]
    on_error: OnError,
    /// Where refused items and their reasons are written to [default: FILE.rejects.jsonl]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Set the container's throughput during the import, in RU/s; it is put back afterwards, and a container that --create makes keeps it
    #[arg(long, value_name = "NUMBER")]
    throughput: Option<u64>,
    /// Requests on their way at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Show number, types and keys, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    quiet: Quiet,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    Stop,
    Skip,
}

/// Exits with 1 where an item was refused.
pub async fn import(arguments: &Import) -> Result<ExitCode, String> {
    let client = DataClient::new(arguments.connection.client()?);
    let input = arguments.input()?;
    let place = arguments.target.place(&client).await?;
    let existing = arguments.existing(&client, &place).await?;
    let paths = existing.as_ref().map_or(arguments.partition_key.clone(), Definition::partition_key_paths);
    let survey = input.survey(&paths)?;
    let mode = arguments.mode.to_possible_value();
    let mode = mode.as_ref().map_or("", |mode| mode.get_name());
    arguments.quiet.report(&format!("import into {place}, mode {mode}, partition key {}", paths.join(", ")));
    survey.lines().iter().for_each(|line| arguments.quiet.report(line));
    if arguments.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let rejects = match &arguments.rejects {
        Some(path) => Rejects::at(path.clone())?,
        None => Rejects::beside(&input.file, input.is_standard())?,
    };
    let definition = match existing {
        Some(definition) => definition,
        None => arguments.create(&client, &place, &paths).await?,
    };
    let stop = Stop::default();
    let concurrency = usize::from(arguments.concurrency);
    let writer =
        Writer { client: &client, place, paths, mode: arguments.mode, concurrency, stop: stop.clone() };
    let mut work =
        Work { arguments, writer, definition, rejects, totals: Totals::default(), raised_from: None };
    let mut running = Box::pin(work.run(survey));
    let outcome = tokio::select! {
        // First, so that a signal is caught before the throughput is changed.
        biased;
        () = interrupted() => {
            // Batches on their way are finished, so that the report is true.
            stop.set();
            running.as_mut().await.and(Err("cancelled".to_owned()))
        }
        outcome = &mut running => outcome,
    };
    drop(running);
    // Success or failure: the throughput is put back.
    let restored = work.restore_throughput().await;
    let finished = work.finish(outcome);
    match (restored, finished) {
        (Ok(()), finished) => finished,
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(earlier)) => Err(format!("{earlier}; and {error}")),
    }
}

impl Import {
    fn input(&self) -> Result<Input, String> {
        let format = self.format.or(FileFormat::of(&self.file)).ok_or_else(|| {
            format!(
                "the format of '{}' is not known by its ending: give --format json, jsonl or csv",
                self.file.display()
            )
        })?;
        if format != FileFormat::Csv && !self.types.is_empty() {
            return Err("--type is for CSV".to_owned());
        }
        let delimiter = u8::try_from(self.delimiter).ok();
        let delimiter = delimiter.filter(|byte| byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n'));
        Ok(Input {
            file: self.file.clone(),
            format,
            delimiter: delimiter.ok_or("--delimiter is one ASCII character, and no quote")?,
            choices: self.types.clone(),
            id_column: self.id_column.clone(),
            refuses_rows: self.on_error == OnError::Stop,
        })
    }

    /// `None` for a container that is to be created.
    async fn existing(&self, client: &DataClient, place: &Place) -> Result<Option<Definition>, String> {
        if let Some(wrong) = self.partition_key.iter().find(|path| !path.starts_with('/')) {
            return Err(format!("--partition-key {wrong}: a path begins with a slash, such as /{wrong}"));
        }
        match client.definition(place).await {
            Ok(definition) => {
                let paths = definition.partition_key_paths();
                match self.partition_key.is_empty() || self.partition_key == paths {
                    true => Ok(Some(definition)),
                    false => Err(format!(
                        "the partition key of '{place}' is {}, not {}",
                        paths.join(", "),
                        self.partition_key.join(", ")
                    )),
                }
            }
            Err(failure) if !failure.is_not_found() => Err(failure.to_string()),
            Err(_) if self.create && self.partition_key.is_empty() => {
                Err(format!("--create needs the partition key of '{place}': --partition-key /PATH"))
            }
            Err(_) if self.create => Ok(None),
            Err(_) => Err(format!(
                "there is no container '{place}': {}; --create --partition-key /PATH creates it",
                client.known_places().await
            )),
        }
    }

    async fn create(
        &self,
        client: &DataClient,
        place: &Place,
        paths: &[String],
    ) -> Result<Definition, String> {
        client.create_database(&place.database).await?;
        let is_new = client.create_container(place, paths, self.throughput).await?;
        if let Some(units) = self.throughput.filter(|_| is_new) {
            let units = thousands(units);
            self.quiet.report(&format!("{place} is new, with a throughput of {units} RU/s that it keeps"));
        }
        Ok(client.definition(place).await?)
    }
}

#[derive(Debug, Default)]
struct Totals {
    items: u64,
    charge: f64,
    throttled: u64,
    /// A refused item has ended the import.
    is_refused: bool,
}

struct Work<'a> {
    arguments: &'a Import,
    writer: Writer<'a>,
    definition: Definition,
    rejects: Rejects,
    totals: Totals,
    /// The throughput before the import, once it has been changed.
    raised_from: Option<u64>,
}

impl Work<'_> {
    async fn run(&mut self, mut survey: Survey) -> Result<(), String> {
        if let Some(units) = self.arguments.throughput {
            self.set_throughput(units).await?;
        }
        // The charge of the first items is the measure for the others.
        let probe = Batch::probe(&mut survey.records, &survey.shape, &self.writer.paths)?;
        let Some(probe) = probe else { return Ok(()) };
        let written = self.writer.write(probe).await;
        let first = written.items;
        add(self.arguments, &mut self.totals, &mut self.rejects, written)?;
        self.estimate(survey.items).await?;
        let progress = self.arguments.quiet.begin("import", Unit::Items, survey.items);
        progress.advance(first);
        self.write_rest(survey, progress).await
    }

    async fn write_rest(&mut self, survey: Survey, progress: Progress) -> Result<(), String> {
        let Work { arguments, writer, totals, rejects, .. } = self;
        let writing = writer.write_all(survey.records, survey.shape, |written| {
            progress.advance(written.items + written.refusals.len() as u64);
            add(arguments, totals, rejects, written)
        });
        let outcome = writing.await;
        progress.finish("");
        outcome
    }

    /// Request units and time of the whole import, and the question whether to raise the throughput.
    async fn estimate(&mut self, items: Option<u64>) -> Result<(), String> {
        if self.totals.items == 0 {
            return Ok(());
        }
        let each = self.totals.charge / self.totals.items as f64;
        let report = self.writer.client.report(&self.writer.place).await?;
        let throughput = &report["throughput"];
        let (units, is_enforced) = (throughput["ruPerSecond"].as_u64(), throughput["enforced"] == true);
        let needed = items.map(|items| each * items as f64);
        let mut line = format!("measured {each:.2} RU an item");
        if let Some(needed) = needed {
            line.push_str(&format!(", {} RU in all", thousands(needed.ceil() as u64)));
        }
        let seconds =
            needed.zip(units.filter(|units| *units > 0)).map(|(needed, units)| needed / units as f64);
        match (units, seconds) {
            (Some(units), _) if !is_enforced => {
                line.push_str(&format!("; the throughput of {} RU/s is not enforced", thousands(units)));
            }
            (Some(units), Some(seconds)) => {
                line.push_str(&format!("; about {} at {} RU/s", time(seconds), thousands(units)))
            }
            (Some(units), None) => line.push_str(&format!(" at {} RU/s", thousands(units))),
            (None, _) => {}
        }
        self.arguments.quiet.report(&line);
        let may_ask = self.arguments.throughput.is_none()
            && !self.arguments.quiet.quiet
            && io::stdin().is_terminal()
            && io::stderr().is_terminal();
        if may_ask && is_enforced && seconds.is_some_and(|seconds| seconds > ASK_AFTER_SECONDS) {
            self.ask().await?;
        }
        Ok(())
    }

    async fn ask(&mut self) -> Result<(), String> {
        self.arguments.quiet.report(REMAINS_OF_RAISE);
        let question = "raise the throughput during the import, to how many RU/s? [Enter: leave it] ";
        let _shown = write!(io::stderr(), "{question}").and_then(|()| io::stderr().flush());
        let (sender, receiver) = oneshot::channel();
        // A thread of its own, which nothing waits for after Ctrl-C.
        std::thread::spawn(move || {
            let mut answer = String::new();
            let _abandoned = sender.send(io::stdin().read_line(&mut answer).map(|_| answer));
        });
        let answer = tokio::select! {
            answer = receiver => answer.map_err(|_| "no answer can be read".to_owned())?,
            () = self.writer.stop.wait() => return Err("cancelled".to_owned()),
        };
        match answer.map_err(|error| format!("no answer can be read: {error}"))?.trim() {
            answer if matches!(answer.to_ascii_lowercase().as_str(), "" | "n" | "no") => Ok(()),
            units => match units.parse() {
                Ok(units) => self.set_throughput(units).await,
                Err(_) => Err(format!("'{units}' is no number of RU/s, and not n")),
            },
        }
    }

    async fn set_throughput(&mut self, units: u64) -> Result<(), String> {
        let offer = self.offer().await?;
        if offer.ru_per_second() == units {
            return Ok(());
        }
        // A change would be the beginning of enforcement, and would outlast the import.
        let report = self.writer.client.report(&self.writer.place).await?;
        if report["throughput"]["enforced"] == false {
            self.arguments.quiet.report("the throughput is not enforced, and stays as it is");
            return Ok(());
        }
        let before = offer.ru_per_second();
        // A question has shown it already.
        if units > before && self.arguments.throughput.is_some() {
            self.arguments.quiet.report(REMAINS_OF_RAISE);
        }
        // A change without an answer may have been made, and is undone, too.
        self.raised_from = Some(before);
        let changed = self.writer.client.set_offer(&offer.with_ru_per_second(units)).await;
        if let Err(failure) = changed {
            self.raised_from.take_if(|_| failure.status.is_some());
            return Err(failure.to_string());
        }
        let line =
            format!("throughput {} RU/s during the import, {} before", thousands(units), thousands(before));
        self.arguments.quiet.report(&line);
        Ok(())
    }

    async fn offer(&self) -> Result<Offer, String> {
        let offer = self.writer.client.offer(&self.definition).await?;
        offer.ok_or_else(|| {
            format!("the throughput of '{}' belongs to its database: change it there", self.writer.place)
        })
    }

    async fn restore_throughput(&mut self) -> Result<(), String> {
        let Some(units) = self.raised_from.take() else { return Ok(()) };
        let restored = self.lower_throughput(units).await.map_err(|error| {
            format!(
                "the throughput of '{}' could not be put back to {} RU/s, do so by hand: {error}",
                self.writer.place,
                thousands(units)
            )
        })?;
        self.arguments.quiet.report(&match restored == units {
            true => format!("throughput {} RU/s again", thousands(units)),
            false => format!(
                "throughput {} RU/s, the lowest that the server allows after the raise; before, it was {} RU/s",
                thousands(restored),
                thousands(units)
            ),
        });
        Ok(())
    }

    /// The throughput that is then set: the wanted one, or the lowest that is allowed.
    async fn lower_throughput(&self, units: u64) -> Result<u64, String> {
        // Under autoscale, the server has changed other members of the offer meanwhile.
        let (offer, client) = (self.offer().await?, self.writer.client);
        let refusal = match client.set_offer(&offer.with_ru_per_second(units)).await {
            Ok(()) => return Ok(units),
            Err(failure) if failure.status == Some(StatusCode::BAD_REQUEST) => failure,
            Err(failure) => return Err(failure.into()),
        };
        match client.minimum_of(&offer).await? {
            Some(minimum) if minimum > units => {
                client.set_offer(&offer.with_ru_per_second(minimum)).await?;
                Ok(minimum)
            }
            _ => Err(refusal.into()),
        }
    }

    fn finish(self, outcome: Result<(), String>) -> Result<ExitCode, String> {
        let Work { arguments, writer, rejects, totals, .. } = self;
        let refused = rejects.count();
        let first = rejects.first().unwrap_or_default();
        let file = rejects.finish()?;
        let outcome = match outcome {
            Err(_) if totals.is_refused => {
                Err(format!("{first} (--on-error skip passes over refused items)"))
            }
            outcome => outcome,
        };
        let mut line = format!(
            "imported {} into {}, {:.2} RU",
            counted(totals.items, "item"),
            writer.place,
            totals.charge
        );
        if totals.throttled > 0 {
            line.push_str(&format!(", {} throttled and repeated", counted(totals.throttled, "write")));
        }
        arguments.quiet.report(&line);
        let is_standard = arguments.file == Path::new(STANDARD);
        let again = match arguments.mode {
            Mode::Insert if totals.items > 0 => "; continue with --mode upsert",
            Mode::Insert => "",
            // The same item would be refused, standard input is read, and an own file of refused items exists.
            _ if totals.is_refused || is_standard || arguments.rejects.is_some() && file.is_some() => "",
            Mode::Upsert => "; the same command continues",
        };
        match (outcome, file) {
            (Err(error), Some(file)) => {
                Err(format!("the import stopped: {error}{again}; refused items are in '{}'", file.display()))
            }
            (Err(error), None) => Err(format!("the import stopped: {error}{again}")),
            (Ok(()), Some(file)) => Err(format!(
                "{} refused, the first at {}; they are in '{}'",
                if refused == 1 {
                    "1 item was".to_owned()
                } else {
                    format!("{} items were", thousands(refused))
                },
                first,
                file.display()
            )),
            (Ok(()), None) => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Counts a batch, and keeps its refused items. An error ends the import.
fn add(
    arguments: &Import,
    totals: &mut Totals,
    rejects: &mut Rejects,
    written: Written,
) -> Result<(), String> {
    totals.items += written.items;
    totals.charge += written.charge;
    totals.throttled += written.throttled;
    for refusal in &written.refusals {
        rejects.add(refusal)?;
    }
    if let Some(error) = written.error {
        return Err(error);
    }
    match written.refusals.first() {
        Some(Refusal { line, reason, .. }) if arguments.on_error == OnError::Stop => {
            totals.is_refused = true;
            Err(format!("line {line}: {reason}"))
        }
        _ if rejects.count() > REJECTS_MAX => {
            Err(format!("more than {} items are refused", thousands(REJECTS_MAX)))
        }
        _ => Ok(()),
    }
}
