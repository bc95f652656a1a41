//! `shardlake config`: the settings that a server would start with, checked or printed with the place of each.
//!
//! Nothing is opened or written. Files that settings name are read where a start would read them and refuse.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::config::{Config, ListenAddress};
use crate::emulator::Argument;
use crate::keys::AccountKeys;
use crate::layers::{self, Layers, Place};
use crate::operate::{aligned, ignore_closed};
use crate::seed::Seed;
use crate::settings::{DurabilityMode, Settings};
use crate::tls::Tls;

/// Settings whose URLs may have a password in them.
const URLS: [&str; 3] = ["store", "wal-store", "otlp-endpoint"];
const MASK: &str = "****";

#[derive(Debug, Args)]
pub struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check the settings, and the files that they name, without a start; exits with 1 when something is wrong
    Check(Given),
    /// Print every setting with its value and the place that it comes from: flag, variable, file or default
    Print(Print),
}

#[derive(Debug, Args)]
struct Print {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    given: Given,
}

#[derive(Debug, Args)]
struct Given {
    /// TOML file with settings, also SHARDLAKE_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// A setting with the value that a server would use.
struct Row {
    name: String,
    value: Value,
    source: String,
}

/// `arguments` are those of an emulator.
pub fn run(
    command: &ConfigCommand,
    arguments: &[Argument],
    environment: &[(OsString, OsString)],
) -> Result<ExitCode, String> {
    let text = match &command.action {
        Action::Check(given) => check(given, arguments, environment)?,
        Action::Print(print) => {
            let (layers, settings) = effective(&print.given, arguments, environment)?;
            let rows = rows(&layers, &settings)?;
            if print.json { format!("{}\n", as_json(rows)) } else { as_table(rows) }
        }
    };
    ignore_closed(io::stdout().lock().write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn check(
    given: &Given,
    arguments: &[Argument],
    environment: &[(OsString, OsString)],
) -> Result<String, String> {
    let (layers, settings) = effective(given, arguments, environment)?;
    let config = Config::new(settings)?;
    AccountKeys::check(&config)?;
    Tls::check(&config)?;
    if let Some(seed) = &config.seed {
        Seed::read(seed)?;
    }
    let passed_over = layers.merged()?.passed_over;
    let warning = match passed_over.as_slice() {
        [] => String::new(),
        names => format!("environment variables that are no settings: {}\n", names.join(", ")),
    };
    Ok(format!("{warning}the settings are good\n"))
}

fn effective(
    given: &Given,
    arguments: &[Argument],
    environment: &[(OsString, OsString)],
) -> Result<(Layers, Settings), String> {
    let layers = Layers::read(&given.settings, given.config.as_deref(), environment.iter().cloned())?;
    let mut settings = layers.merged()?.settings;
    layers::emulate(&mut settings, &given.settings, arguments, environment)?;
    Ok((layers, settings))
}

/// Every setting as `config print --json` shows it: `settings` are those in force, made of `layers`.
pub fn described(layers: &Layers, settings: &Settings) -> Result<Value, String> {
    Ok(as_json(rows(layers, settings)?))
}

fn rows(layers: &Layers, settings: &Settings) -> Result<Vec<Row>, String> {
    let (given, effective) = (layers::to_map(&layers.merged()?.settings), layers::to_map(settings));
    let changed_by = if settings.emulator == Some(true) { "emulator mode" } else { "demo" };
    let emulator = settings.emulated.as_ref().and_then(|_| Config::new(settings.clone()).ok());
    let listen = emulator.map(|config| config.listen.iter().map(ListenAddress::text).collect::<Vec<_>>());
    let file = layers.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let row = |(name, help): (String, String)| {
        // Emulator mode adds listeners to those of the setting.
        if let Some(listen) =
            listen.as_ref().filter(|_| name == "listen" && layers.place_of(&name) != Some(Place::Flag))
        {
            return Row { name, value: json!(listen), source: "emulator mode".to_owned() };
        }
        let (default, note) = default_of(&help);
        let is_stored = settings.durability != Some(DurabilityMode::Memory);
        let default = default.filter(|_| name != "data-dir" || is_stored);
        let source = match layers.place_of(&name) {
            _ if given.get(&name) != effective.get(&name) => changed_by.to_owned(),
            Some(Place::Flag) => "flag".to_owned(),
            Some(Place::Variable) => format!("variable {}", layers::variable_of(&name)),
            Some(Place::File) => format!("file {file}"),
            None => note.map_or("default".to_owned(), |note| format!("default: {note}")),
        };
        let value = effective.get(&name).cloned().map(|value| masked(&name, value));
        Row { value: value.or(default).unwrap_or_default(), name, source }
    };
    Ok(layers::described().into_iter().map(row).collect())
}

/// The value in a help's `[default: …]`, or its text where the value depends on something else. Without either the setting
/// is off or empty.
fn default_of(help: &str) -> (Option<Value>, Option<String>) {
    let default = help.split_once("[default: ").and_then(|(_, rest)| rest.rsplit_once(']'));
    let Some((default, _)) = default else { return (None, None) };
    let end = default.find([',', ';']).unwrap_or(default.len());
    let (value, rest) = (&default[..end], default[end..].trim_start_matches([',', ';', ' ']));
    let is_alternative = rest.starts_with("or ") || !rest.is_empty() && value == "none";
    if value.contains(' ') || is_alternative {
        return (None, Some(default.to_owned()));
    }
    let value =
        (value != "none").then(|| value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number)));
    (value, None)
}

/// Hides the part of a URL in which a user and a password may be.
fn masked(name: &str, value: Value) -> Value {
    let Value::String(text) = &value else { return value };
    let parts = text.split_once("://").filter(|_| URLS.contains(&name));
    let Some((scheme, rest)) = parts else { return value };
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    match authority.rsplit_once('@') {
        Some((_, host)) => json!(format!("{scheme}://{MASK}@{host}{path}")),
        None => value,
    }
}

fn as_json(rows: Vec<Row>) -> Value {
    let members = rows.into_iter().map(|row| {
        let member = json!({ "value": row.value, "source": row.source });
        (row.name, member)
    });
    Value::Object(members.collect::<Map<_, _>>())
}

fn as_table(rows: Vec<Row>) -> String {
    let text = |value: Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text,
        Value::Array(texts) => {
            let texts = texts.iter().map(|text| text.as_str().unwrap_or_default());
            texts.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let head = ["setting", "value", "source"].map(str::to_owned);
    let rows = rows.into_iter().map(|row| [row.name, text(row.value), row.source]);
    let lines = aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>(), 3);
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_masked() {
        let shown = |name, text: &str| masked(name, json!(text));
        assert_eq!(shown("otlp-endpoint", "http://me:secret@host:4318/x"), "http://****@host:4318/x");
        assert_eq!(shown("store", "s3://bucket/a@b"), "s3://bucket/a@b");
        assert_eq!(shown("explorer-label", "a://b@c"), "a://b@c");
    }

    #[test]
    fn defaults_come_from_the_help() {
        let value = |value: Value| (Some(value), None);
        let note = |note: &str| (None, Some(note.to_owned()));
        assert_eq!(default_of("Seconds that a request may be off [default: 900]"), value(json!(900)));
        assert_eq!(default_of("x [default: 64KiB, at least 8KiB]"), value(json!("64KiB")));
        assert_eq!(default_of("x [default: data; with --durability memory: nowhere]"), value(json!("data")));
        assert_eq!(default_of("x [default: as many as there are]"), note("as many as there are"));
        assert_eq!(default_of("x [default: 9, or as many as fit]"), note("9, or as many as fit"));
        assert_eq!(default_of("x [default: none; y with demo data]"), note("none; y with demo data"));
        assert_eq!(
            [default_of("x [default: none]"), default_of("Further names")],
            [(None, None), (None, None)]
        );
    }
}
