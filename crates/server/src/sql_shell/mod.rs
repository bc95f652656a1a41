//! `shardlake sql`: queries at a terminal or in a script, over all partitions of a container of a running server.
//!
//! | file | contents |
//! |---|---|
//! | `statements.rs` | a text taken apart into queries and commands |
//! | `commands.rs` | one statement after the other; `use`, `show`, `describe` and the other commands |
//! | `session.rs` | the container in use, and its queries |
//! | `answer.rs` | rows as a table, JSON, JSON lines or CSV; the figures below them |
//! | `complaint.rs` | a refusal with its place in the query |
//! | `editor.rs`, `completion.rs`, `memory.rs` | lines at a terminal, the words that complete them, their history |

mod answer;
mod commands;
mod complaint;
mod completion;
mod editor;
mod memory;
mod session;
mod statements;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use clap::Args;

use crate::data::{DataClient, Parameter, Place, partition_key};
use crate::operate::Connection;

use answer::Format;
use session::{Flow, Session};

/// Bytes of a script on standard input.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub struct Sql {
    /// A query; without one, statements come from standard input, or from a shell at a terminal
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// The database
    #[arg(long, short, value_name = "NAME")]
    database: Option<String>,
    /// The container
    #[arg(long, short, value_name = "NAME", requires = "database")]
    container: Option<String>,
    /// Ask one logical partition only, such as '["ada"]'; all partitions without it
    #[arg(long, value_name = "JSON")]
    partition_key: Option<String>,
    /// A parameter of the queries, such as '@customer="ada"'; may be repeated
    #[arg(long = "param", value_name = "@NAME=JSON")]
    parameters: Vec<Parameter>,
    /// How rows are printed
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Rows to fetch at most, 0 for all [default: 1000 for tables, all for other formats]
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// Characters of a cell of a table, 0 for all; at a terminal fewer, down to 12, for a line to hold all columns
    #[arg(long, value_name = "CHARACTERS", default_value_t = 40)]
    width: usize,
    /// Show the system properties of items in tables
    #[arg(long)]
    system: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Exits with 1 at the first statement that fails.
pub async fn run(arguments: &Sql) -> Result<ExitCode, String> {
    let partition_key = arguments.partition_key.as_deref().map(partition_key).transpose()?;
    let client = DataClient::new(arguments.connection.client()?);
    let place = Place {
        database: arguments.database.clone().unwrap_or_default(),
        container: arguments.container.clone().unwrap_or_default(),
    };
    let look = answer::Look {
        format: arguments.format,
        width: arguments.width,
        line: None,
        has_system: arguments.system,
        paint: arguments.connection.paint(),
    };
    let mut session = Session::new(client, place, look);
    session.partition_key = partition_key;
    session.limit = arguments.limit;
    session.parameters.clone_from(&arguments.parameters);
    match &arguments.query {
        Some(query) => run_script(&mut session, query).await,
        None if io::stdin().is_terminal() && io::stdout().is_terminal() => {
            session.is_interactive = true;
            editor::run(&mut session).await
        }
        None => {
            let mut script = String::new();
            let read = io::stdin().lock().take(SCRIPT_BYTES_MAX + 1).read_to_string(&mut script);
            read.map_err(|error| format!("standard input cannot be read: {error}"))?;
            if script.len() as u64 > SCRIPT_BYTES_MAX {
                return Err(format!("standard input is longer than {} MiB", SCRIPT_BYTES_MAX >> 20));
            }
            run_script(&mut session, &script).await
        }
    }
}

async fn run_script(session: &mut Session, script: &str) -> Result<ExitCode, String> {
    let statements = statements::split(script);
    if statements.is_empty() {
        return Err("there is no query: give one as the argument or on standard input".to_owned());
    }
    for statement in &statements {
        match commands::execute(session, statement).await? {
            Flow::Continue => {}
            Flow::Failed => return Ok(ExitCode::FAILURE),
            Flow::Exit => break,
        }
    }
    Ok(ExitCode::SUCCESS)
}
