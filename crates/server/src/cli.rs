//! The command line: `serve`, `demo`, `backup`, `migrate`, `verify`, the operator's commands, and those for packages.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use shardlake_admin::LogRing;
use shardlake_stdx::Clock;

use crate::backup::{self, BackupId, Subject};
use crate::config::Config;
use crate::config_command::{self, ConfigCommand};
use crate::copies_command;
use crate::demo::{self, WebStore};
use crate::layers::Layers;
use crate::migrate::{self, Migrate};
use crate::number_text::printable;
use crate::operate::{self, Connection, Operation};
use crate::serve::{self, Introduction};
use crate::settings::{DemoName, DurabilityMode, Settings};
use crate::status::{self, Status};
use crate::store::url_of;
use crate::support_bundle::{self, SupportBundle};
use crate::top::{self, Top};
use crate::usage;
use crate::{emulator, layers, logging, shell, sql_shell, transfer, verify, version};

#[derive(Debug, Parser)]
#[command(
    name = "shardlake",
    version,
    long_version = version::long(),
    about = "A durable, self-hosted, partitioned JSON document database for the Cosmos DB SDKs and MongoDB's drivers",
    after_help = "`shardlake demo webstore` is a server with data to try things on; `shardlake help serve` explains every setting."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // one value, at start
enum Command {
    /// Serve an account
    ///
    /// Every flag is also an environment variable (--data-dir is SHARDLAKE_DATA_DIR; lists have commas) and a key of the TOML
    /// file named by --config (data-dir = "…"). A flag wins over a variable, a variable over the file. Unknown flags and keys are
    /// errors, and so are variables that look like a misspelled setting.
    /// When requests are served, one line of JSON is printed on standard output; logs go to standard error.
    Serve(Serve),
    /// Serve an account with a demo data set, print that data set, or run a demo to its end
    ///
    /// What the demo webstore serves is stored below the user's data home ($XDG_DATA_HOME or ~/.local/share, in
    /// shardlake/demo-webstore) unless --data-dir or --durability memory says otherwise. The other demos store nothing.
    Demo(DemoCommand),
    /// Copy an account and bring it back: create, list, check, restore, delete
    ///
    /// A running server continues meanwhile.
    Backup(backup::Backup),
    /// Move an account from a local disk to an object store, or back
    ///
    /// With --online, as often as you like: copies while the server continues, compares the copy, and follows what the server writes, if
    /// that keeps its log (--restore-window). Without it, the server is stopped: what it wrote since is applied, and the old place is not
    /// served any more. What was cut off continues when the same command is given again.
    #[command(alias = "evacuate")]
    Migrate(Migrate),
    /// Check everything that a server stored, or a backup holds; exits with 1 when something is wrong
    ///
    /// Changes nothing in the data directory, which may be on read-only media or on a full disk. No server can start there
    /// meanwhile; with --online it is that of a running server, which keeps its state of now for as long as it is read.
    Verify(VerifyCommand),
    /// Show the partitions of a container: ranges, sizes, load, budgets, and what comes next
    Partitions(operate::Partitions),
    /// Cut a partition in two, while it is used
    Split(operate::Split),
    /// Join partitions that lie side by side, while they are used
    Merge(operate::Merge),
    /// Have a partition stored on another shard, while it is used
    Move(operate::Move),
    /// Give up a split, merge or move that is in progress
    Abort(operate::Abort),
    /// Divide the throughput of a container over its partitions by hand
    Redistribute(operate::Redistribute),
    /// Rules that keep denormalised copies true: list, show, create, pause, resume, delete
    Projections(operate::Projections),
    /// Global secondary indexes and functions: list, status, create, put, pause, resume, rebuild, try, replay, delete
    Copies(copies_command::Copies),
    /// Analytical stores: tables of columns that follow containers: status, pause, resume, rebuild, compact, verify
    Analytics(operate::Analytics),
    /// Show a running server: health, version, data, last backup, partitions that need attention
    Status(Status),
    /// Query a running server with SQL: a shell at a terminal, one query, or a script
    ///
    /// With a QUERY, or with statements on standard input, the rows are printed and the exit status is 1 where a statement failed. Otherwise a
    /// shell starts: statements end with `;`, `help` lists its commands. All partitions are asked, and the server merges their answers;
    /// --partition-key asks one logical partition. Figures (rows, request units, partitions) follow each result, in scripts on standard error.
    Sql(sql_shell::Sql),
    /// Import items from JSON, JSON lines or CSV into a container of a running server
    ///
    /// Number, size and types of columns are shown before anything is written, and the request units that the import needs after the first
    /// items. Throttled writes wait as the server asks. An import that was cut off continues with --mode upsert.
    Import(transfer::Import),
    /// Export a container, or the rows of a query, of a running server as JSON, JSON lines or CSV
    ///
    /// All partitions are read page by page, also while they are split. The file appears when it is whole. Numbers keep all of their digits.
    Export(transfer::Export),
    /// Watch a running server: requests, request units, 429s, hot keys, connections, processors, memory
    ///
    /// The view is refreshed each second; q or Ctrl-C ends it. --once and --format json are for scripts.
    Top(Top),
    /// Write a file for a report of a problem: version, settings, metrics, log, definitions; no keys, no items
    SupportBundle(SupportBundle),
    /// The account's keys: show, rotate
    Keys(operate::Keys),
    /// Check the settings of a server, or print each with the place that it comes from
    Config(ConfigCommand),
    /// Print the version, the commit it was built from, profile, features and target
    Version,
    /// Print a completion script for bash, zsh, fish, elvish or PowerShell
    Completions(shell::Completions),
    /// Write manual pages
    #[command(hide = true)]
    Man(shell::ManualPages),
}

#[derive(Debug, Args)]
struct Serve {
    /// TOML file with settings, also SHARDLAKE_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// Arguments of an emulator, which are taken out of the command line before it is parsed.
    #[arg(skip)]
    emulator_arguments: Vec<emulator::Argument>,
}

#[derive(Debug, Args)]
struct DemoCommand {
    /// Which one
    name: DemoChoice,
    /// hot-tenant: tell it here as text, with so many seconds of traffic in each act [default: 8]
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<u64>,
    /// webstore: number of customers [default: 500]
    #[arg(long, value_name = "NUMBER")]
    customers: Option<u64>,
    /// The same number makes the same data [default: 1]
    #[arg(long, value_name = "NUMBER")]
    seed_number: Option<u64>,
    /// hot-tenant: serve it for a browser; the default at a terminal, unless --seconds is given
    #[arg(long, conflicts_with = "seconds")]
    browser: bool,
    /// Write the data set to standard output as a seed file, and do not serve
    #[arg(long)]
    print: bool,
    /// Run every access pattern of the data set through the Python SDK against a server of its own, and check the answers
    #[arg(long, conflicts_with = "print")]
    check: bool,
    /// The Python that has the SDK, for --check
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "check")]
    python: String,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoChoice {
    /// Serve a web store
    Webstore,
    /// See a large and a busy tenant exhaust their partitions, and cure it: a guided tour in the browser, or half a minute of text
    HotTenant,
    /// Watch a partition grow until it is split, while it is used, in a few seconds
    Split,
}

impl DemoChoice {
    /// Names and descriptions.
    fn described() -> Vec<(String, String)> {
        let demos = DemoChoice::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let described = demos.map(|demo| {
            let help = demo.get_help().map(ToString::to_string).unwrap_or_default();
            (demo.get_name().to_owned(), help)
        });
        described.collect()
    }
}

#[derive(Debug, Args)]
struct VerifyCommand {
    /// The data directory, or a directory of backups; or the URL of an account or of backups in an object store
    #[arg(value_name = "DIR|URL")]
    directory: PathBuf,
    /// Of a directory of backups: which one [default: the newest]
    #[arg(long, value_name = "ID", conflicts_with = "online")]
    id: Option<BackupId>,
    /// The server of the data directory or the store runs, at --endpoint
    #[arg(long)]
    online: bool,
    /// Where to copy the journals to: usually less than 100 MB and seldom more than 400 MB a shard, removed at the end
    /// [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub fn main() -> ExitCode {
    // Elapsed time counts from the first look at the clock.
    let _start = Clock::System.elapsed();
    let environment = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
    let line = std::env::args_os().collect();
    let (line, emulator_arguments) = emulator::take(line, &environment, layers::is_setting);
    let demos = line.get(1).is_some_and(|command| command == "demo").then(DemoChoice::described);
    let parsed =
        CommandLine::try_parse_from(line).unwrap_or_else(|error| usage::explained(error, demos).exit());
    let outcome = match parsed.command {
        Command::Serve(serve) => run_server(Serve { emulator_arguments, ..serve }, Introduction::Default),
        Command::Demo(demo) if demo.name == DemoChoice::HotTenant => run_hot_tenant(demo),
        Command::Demo(demo) if demo.name == DemoChoice::Split => run_split(&demo),
        Command::Demo(demo) if demo.seconds.is_some() => {
            Err("--seconds is for the demo hot-tenant".to_owned())
        }
        Command::Demo(demo) if demo.browser => Err("--browser is for the demo hot-tenant".to_owned()),
        Command::Demo(demo) if demo.print => print_demo(&demo),
        Command::Demo(demo) if demo.check => demo::check(&store_of(&demo), &demo.python),
        Command::Demo(demo) => run_server(with_demo(demo), Introduction::OfDemo),
        Command::Backup(backup) => run_backup(&backup),
        Command::Migrate(command) => runtime().and_then(|runtime| runtime.block_on(migrate::run(&command))),
        Command::Verify(command) => verify_directory(&command),
        Command::Partitions(arguments) => operate(Operation::Partitions(arguments)),
        Command::Split(arguments) => operate(Operation::Split(arguments)),
        Command::Merge(arguments) => operate(Operation::Merge(arguments)),
        Command::Move(arguments) => operate(Operation::Move(arguments)),
        Command::Abort(arguments) => operate(Operation::Abort(arguments)),
        Command::Redistribute(arguments) => operate(Operation::Redistribute(arguments)),
        Command::Projections(arguments) => operate(Operation::Projections(arguments)),
        Command::Copies(arguments) => {
            runtime().and_then(|runtime| runtime.block_on(copies_command::run(&arguments)))
        }
        Command::Analytics(arguments) => operate(Operation::Analytics(arguments)),
        Command::Status(arguments) => runtime().and_then(|runtime| runtime.block_on(status::run(&arguments))),
        Command::Sql(arguments) => runtime().and_then(|runtime| runtime.block_on(sql_shell::run(&arguments))),
        Command::Import(arguments) => {
            runtime().and_then(|runtime| runtime.block_on(transfer::import(&arguments)))
        }
        Command::Export(arguments) => {
            runtime().and_then(|runtime| runtime.block_on(transfer::export(&arguments)))
        }
        Command::Top(arguments) => runtime().and_then(|runtime| runtime.block_on(top::run(&arguments))),
        Command::SupportBundle(arguments) => {
            runtime().and_then(|runtime| runtime.block_on(support_bundle::run(&arguments, &environment)))
        }
        Command::Keys(arguments) => operate(Operation::Keys(arguments)),
        Command::Config(command) => config_command::run(&command, &emulator_arguments, &environment),
        Command::Version => print_version(),
        Command::Completions(completions) => {
            completions.print(CommandLine::command(), &mut io::stdout()).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(pages) => pages.write(CommandLine::command()).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|message| {
        // One line with the remedy. Standard error may be closed.
        let _ = writeln!(io::stderr(), "shardlake: {}", printable(&message));
        ExitCode::FAILURE
    })
}

fn with_demo(command: DemoCommand) -> Serve {
    let mut serve = command.serve;
    serve.settings.demo = Some(DemoName::Webstore);
    serve.settings.demo_customers = command.customers.or(serve.settings.demo_customers);
    serve.settings.demo_seed_number = command.seed_number.or(serve.settings.demo_seed_number);
    serve
}

fn run_server(serve: Serve, introduction: Introduction) -> Result<ExitCode, String> {
    let environment = std::env::vars_os().collect::<Vec<(OsString, OsString)>>();
    let config = serve.config.as_deref();
    let layers = Layers::read(&serve.settings, config, environment.iter().cloned())?;
    let mut merged = layers.merged()?;
    layers::emulate(&mut merged.settings, &serve.settings, &serve.emulator_arguments, &environment)?;
    if introduction == Introduction::OfDemo {
        place_demo(&mut merged.settings, &environment)?;
    }
    let described = config_command::described(&layers, &merged.settings)?;
    let config = Config { described, ..Config::new(merged.settings)? };
    let log = Arc::new(LogRing::default());
    let otlp_endpoint = config.otlp_endpoint.as_deref();
    let export = logging::start(config.log_format, &config.log_level, otlp_endpoint, &log)?;
    if !merged.passed_over.is_empty() {
        let names = merged.passed_over.join(", ");
        tracing::warn!("environment variables that are no settings are passed over: {names}");
    }
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve::serve(config, introduction, log));
    // Tasks that are left have had their time.
    runtime.shutdown_timeout(Duration::ZERO);
    export.finish();
    outcome
}

/// A demo does not store into the current directory unasked.
fn place_demo(settings: &mut Settings, environment: &[(OsString, OsString)]) -> Result<(), String> {
    if settings.data_dir.is_none() && settings.durability != Some(DurabilityMode::Memory) {
        settings.data_dir = Some(demo::place(environment)?);
    }
    Ok(())
}

fn print_version() -> Result<ExitCode, String> {
    match writeln!(io::stdout(), "{} {}", env!("CARGO_PKG_NAME"), version::long()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output cannot be written: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot start: {error}"))
}

fn run_hot_tenant(command: DemoCommand) -> Result<ExitCode, String> {
    if command.print || command.check || command.customers.is_some() {
        return Err(
            "the demo hot-tenant takes --seconds or --browser, --seed-number and settings only".into()
        );
    }
    if command.browser || command.seconds.is_none() && io::stdout().is_terminal() {
        return run_tour(command);
    }
    let demo = demo::HotTenant {
        seconds: command.seconds.unwrap_or(demo::DEFAULT_HOT_TENANT_SECONDS).clamp(1, 600),
        seed_number: command.seed_number.unwrap_or(demo::defaults::DEFAULT_SEED_NUMBER),
    };
    runtime()?.block_on(demo::run_hot_tenant(demo))
}

/// A server for a browser, with everything in memory.
fn run_tour(command: DemoCommand) -> Result<ExitCode, String> {
    let mut serve = command.serve;
    let settings = &mut serve.settings;
    if settings.data_dir.is_some() || settings.durability.is_some_and(|mode| mode != DurabilityMode::Memory) {
        return Err("the demo hot-tenant stores nothing: leave out --data-dir and --durability".into());
    }
    settings.durability = Some(DurabilityMode::Memory);
    let seed_number = command.seed_number.unwrap_or(demo::defaults::DEFAULT_SEED_NUMBER);
    run_server(serve, Introduction::OfTour(demo::Tour { seed_number }))
}

fn run_split(command: &DemoCommand) -> Result<ExitCode, String> {
    if command.print
        || command.check
        || command.browser
        || command.customers.is_some()
        || command.seconds.is_some()
    {
        return Err("the demo split takes no options".into());
    }
    runtime()?.block_on(demo::run_split())
}

fn store_of(command: &DemoCommand) -> WebStore {
    let settings = &command.serve.settings;
    WebStore {
        customers: command.customers.or(settings.demo_customers).unwrap_or(demo::defaults::DEFAULT_CUSTOMERS),
        seed_number: command
            .seed_number
            .or(settings.demo_seed_number)
            .unwrap_or(demo::defaults::DEFAULT_SEED_NUMBER),
    }
}

fn print_demo(command: &DemoCommand) -> Result<ExitCode, String> {
    match demo::print(&store_of(command), &mut BufWriter::new(io::stdout().lock())) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // The reader closed the pipe: not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(format!("the data set cannot be printed: {error}")),
    }
}

fn verify_directory(command: &VerifyCommand) -> Result<ExitCode, String> {
    let scratch = command.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let look = async |subject: Subject<'_>| verify::verify(subject, &scratch, command.json).await;
    runtime()?.block_on(async {
        if command.online {
            let client = command.connection.client()?;
            backup::with_running(client, &command.directory, &scratch, look).await
        } else if command.id.is_some() || backup::holds_backups(&command.directory).await? {
            backup::with_backup(&command.directory, command.id.as_ref(), &scratch, look).await
        } else {
            match url_of(&command.directory) {
                Some(url) => backup::with_stopped(&url, ("shardlake verify", None), look).await,
                None => look(Subject::Directory(&command.directory)).await,
            }
        }
    })
}

fn run_backup(backup: &backup::Backup) -> Result<ExitCode, String> {
    runtime()?.block_on(backup::run(backup))
}

fn operate(operation: Operation) -> Result<ExitCode, String> {
    runtime()?.block_on(operate::operate(operation))
}
