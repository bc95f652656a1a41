//! The shell at a terminal: a line editor with completion and history.

use std::process::ExitCode;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::completion::{Known, complete};
use super::session::{Flow, Session};
use super::statements;
use super::{commands, memory};

struct Words(Known);

impl Helper for Words {}
impl Highlighter for Words {}
impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(line, cursor, &self.0))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match statements::is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

/// Ends with `exit` or Ctrl-D. A statement that fails does not end the shell.
pub async fn run(session: &mut Session) -> Result<ExitCode, String> {
    let unusable = |error: ReadlineError| format!("the terminal cannot be used: {error}");
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(memory::ENTRIES_MAX)
        .map_err(unusable)?
        .auto_add_history(false)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::<Words, MemHistory>::with_history(config, history).map_err(unusable)?;
    let file = memory::place(std::env::vars_os());
    for input in file.as_deref().map(memory::load).unwrap_or_default() {
        editor.add_history_entry(input).map_err(unusable)?;
    }
    // A server that does not answer is reported at once, not at the first query.
    let places = session.client.places().await?;
    session.print("`help` lists the commands, Tab completes, `exit` ends.\n")?;
    if session.place.container.is_empty() && places.len() == 1 {
        session.place = places[0].clone();
    }
    editor.set_helper(Some(Words(Known { places, ..Known::default() })));
    loop {
        if let Some(words) = editor.helper_mut() {
            words.0.properties.clone_from(&session.properties);
            words.0.database.clone_from(&session.place.database);
        }
        let input = match editor.readline(&prompt(session)) {
            Ok(input) => input,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(unusable(error)),
        };
        if input.trim().is_empty() {
            continue;
        }
        editor.add_history_entry(&input).map_err(unusable)?;
        if let Some(file) = &file {
            // A history that cannot be kept is no reason to stop.
            let _best_effort = memory::append(file, &input);
        }
        for statement in statements::split(&input) {
            match commands::execute(session, &statement).await? {
                Flow::Continue => {}
                Flow::Failed => break,
                Flow::Exit => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

fn prompt(session: &Session) -> String {
    let place = &session.place;
    match (place.database.as_str(), place.container.as_str()) {
        ("", _) => "shardlake> ".to_owned(),
        (database, "") => format!("{database}> "),
        (database, container) => format!("{database}/{container}> "),
    }
}
