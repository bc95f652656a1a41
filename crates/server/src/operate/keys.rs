//! `shardlake keys`: the account's keys shown by their fingerprints, and replaced while clients continue.

use std::io::{self, Write};

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::Value;
use shardlake_admin::{KeyName, OperatorRequest};

use super::arguments::Connection;
use super::show::ignore_closed;
use super::table::aligned;
use super::values::members;
use super::values::text;

#[derive(Debug, Args)]
pub struct Keys {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print name, access and fingerprint of each key, and the file that holds them
    Show(Show),
    /// Make a new key in place of one, and print it; the old one is refused from then on
    ///
    /// Without a refused request: rotate the secondary key, change all clients to it, then rotate the primary key. Resource tokens that were
    /// signed with the old key end with it. Sessions of MongoDB's drivers that are logged in stay so.
    Rotate(Rotate),
}

#[derive(Debug, Args)]
struct Show {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct Rotate {
    /// The key to replace
    #[arg(value_name = "NAME", default_value = "secondary")]
    name: Name,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Primary,
    Secondary,
    PrimaryReadonly,
    SecondaryReadonly,
}

impl Name {
    fn key(self) -> KeyName {
        match self {
            Name::Primary => KeyName::Primary,
            Name::Secondary => KeyName::Secondary,
            Name::PrimaryReadonly => KeyName::PrimaryReadonly,
            Name::SecondaryReadonly => KeyName::SecondaryReadonly,
        }
    }
}

pub async fn run(arguments: &Keys) -> Result<(), String> {
    let printed = match &arguments.action {
        Action::Show(show) => {
            let report = show.connection.client()?.send(&OperatorRequest::of_keys(Method::GET, "")).await?;
            if show.json { format!("{report}\n") } else { show.connection.paint().table(&table(&report)) }
        }
        Action::Rotate(rotate) => {
            let request =
                OperatorRequest::of_keys(Method::POST, &format!("/{}/rotate", rotate.name.key().text()));
            let made = rotate.connection.client()?.send(&request).await?;
            if rotate.json { format!("{made}\n") } else { words(&made, rotate.name) }
        }
    };
    ignore_closed(io::stdout().lock().write_all(printed.as_bytes()))
}

fn table(report: &Value) -> String {
    let mut rows = vec![["key", "access", "fingerprint"].map(str::to_owned)];
    for key in members(&report["keys"]) {
        rows.push([&key["name"], &key["access"], &key["fingerprint"]].map(|value| text(value).to_owned()));
    }
    let mut out: String = aligned(&rows, 3).into_iter().map(|line| line + "\n").collect();
    match text(&report["file"]) {
        "" => out.push_str("no file holds them: they cannot be rotated\n"),
        file => out.push_str(&format!("file: {file}\n")),
    }
    out
}

fn words(made: &Value, name: Name) -> String {
    let next = match name {
        Name::Secondary => "change the clients to it, then run `shardlake keys rotate primary`",
        Name::SecondaryReadonly => {
            "change the clients to it, then run `shardlake keys rotate primary-readonly`"
        }
        Name::Primary | Name::PrimaryReadonly => "clients with the old key are refused from now on",
    };
    let [key, name, file] = [&made["key"], &made["name"], &made["file"]].map(text);
    format!("{key}\nthe new {name} key, also in {file}: {next}\n")
}
