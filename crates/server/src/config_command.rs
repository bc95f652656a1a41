//! `shardlake config`: the settings that a server would start with, checked or printed with the place of each.
//!
//! Nothing is opened or written. Files that settings name are read where a start would read them and refuse.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::keys::AccountKeys;
use crate::layers::{self, Layers, Place};
use crate::operate::{aligned, ignore_closed};
use crate::seed::Seed;
use crate::settings::Settings;
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

pub fn run(command: &ConfigCommand, environment: &[(OsString, OsString)]) -> Result<ExitCode, String> {
    let text = match &command.action {
        Action::Check(given) => check(given, environment)?,
        Action::Print(print) => {
            let (layers, settings) = effective(&print.given, environment)?;
            let rows = rows(&layers, &settings)?;
            if print.json { format!("{}\n", as_json(rows)) } else { as_table(rows) }
        }
    };
    ignore_closed(io::stdout().lock().write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn check(given: &Given, environment: &[(OsString, OsString)]) -> Result<String, String> {
    let (layers, settings) = effective(given, environment)?;
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

fn effective(given: &Given, environment: &[(OsString, OsString)]) -> Result<(Layers, Settings), String> {
    let layers = Layers::read(&given.settings, given.config.as_deref(), environment.iter().cloned())?;
    let mut settings = layers.merged()?.settings;
    layers::emulate(&mut settings, &given.settings, &[], environment)?;
    Ok((layers, settings))
}

/// Every setting as `config print --json` shows it: `settings` are those in force, made of `layers`.
pub fn described(layers: &Layers, settings: &Settings) -> Result<Value, String> {
    Ok(as_json(rows(layers, settings)?))
}

fn rows(layers: &Layers, settings: &Settings) -> Result<Vec<Row>, String> {
    let (given, effective) = (layers::to_map(&layers.merged()?.settings), layers::to_map(settings));
    let changed_by = if settings.emulator == Some(true) { "emulator mode" } else { "demo" };
    let file = layers.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let row = |(name, help): (String, String)| {
        let source = match layers.place_of(&name) {
            _ if given.get(&name) != effective.get(&name) => changed_by.to_owned(),
            Some(Place::Flag) => "flag".to_owned(),
            Some(Place::Variable) => format!("variable {}", layers::variable_of(&name)),
            Some(Place::File) => format!("file {file}"),
            None => "default".to_owned(),
        };
        let value = effective.get(&name).cloned().map(|value| masked(&name, value));
        Row { value: value.unwrap_or_else(|| default_of(&help)), name, source }
    };
    Ok(layers::described().into_iter().map(row).collect())
}

/// The text of a help's `[default: …]`. Without one the setting is off or empty.
fn default_of(help: &str) -> Value {
    let default = help.split_once("[default: ").and_then(|(_, rest)| rest.rsplit_once(']'));
    default.map_or(Value::Null, |(default, _)| json!(default))
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
        assert_eq!(default_of("Seconds that a request may be off [default: 900]"), "900");
        assert_eq!(default_of("Further names"), Value::Null);
    }
}
