//! Output of a started server: one JSON record for programs on standard output, a few lines for people on standard error.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::config::Config;
use crate::demo::TOUR_LINK;
use crate::explorer;
use crate::keys::{KeySource, WELL_KNOWN_KEY};

/// The one line on standard output. It is printed when requests are served, never before.
#[derive(Debug, Serialize)]
pub struct ReadyRecord {
    ready: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    emulator: bool,
    version: &'static str,
    /// Every address that answers, plain and TLS.
    pub endpoints: Vec<String>,
    /// For MongoDB's drivers, where they are served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mongo: Vec<String>,
    /// For a browser on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    explorer: Option<String>,
    /// The first step of a tour of the explorer.
    #[serde(skip_serializing_if = "Option::is_none")]
    tour: Option<String>,
    /// Only the well-known key, which is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    durability: &'static str,
    data_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    ca_file: Option<PathBuf>,
    pid: u32,
    start_ms: u64,
}

/// Advice to run the demo that shows the partition key at work: the demo data alone does not.
const TOUR: &str =
    "  See a hot partition made, explained and cured: shardlake demo hot-tenant, or cargo xtask tour\n\n";

impl ReadyRecord {
    pub fn new(
        config: &Config,
        authorities: &[String],
        keys: KeySource,
        ca_file: Option<PathBuf>,
        started: Duration,
    ) -> ReadyRecord {
        let with = |scheme: &str| -> Vec<String> {
            authorities.iter().map(|authority| format!("{scheme}://{authority}/")).collect()
        };
        let (key, key_file) = match keys {
            KeySource::WellKnown => (Some(WELL_KNOWN_KEY), None),
            KeySource::File { path, .. } => (None, Some(absolute(path))),
            KeySource::Variable => (None, None),
        };
        ReadyRecord {
            ready: true,
            emulator: config.emulator.is_some(),
            version: env!("CARGO_PKG_VERSION"),
            endpoints: [with("http"), with("https")].concat(),
            mongo: Vec::new(),
            explorer: explorer::is_on(config).then(|| format!("http://{}{}", authorities[0], explorer::ROOT)),
            tour: None,
            key,
            key_file,
            durability: config.durability.name(),
            data_dir: config.data_dir.clone().map(absolute),
            store: config.store.as_ref().map(|store| store.url.clone()),
            ca_file: ca_file.map(absolute),
            pid: std::process::id(),
            start_ms: started.as_millis() as u64,
        }
    }

    /// Every address that answers MongoDB's drivers, plain and TLS.
    pub fn with_mongo(mut self, authorities: &[String]) -> ReadyRecord {
        self.mongo = authorities.iter().map(|authority| format!("mongodb://{authority}/")).collect();
        self
    }

    /// The server was started to be looked at.
    pub fn lead_to_tour(&mut self) {
        self.tour = self.explorer.as_ref().map(|explorer| format!("{explorer}{TOUR_LINK}"));
    }

    pub fn print(&self) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut out = io::stdout().lock();
        out.write_all(&line)?;
        out.flush()
    }

    /// How to begin, for a person at a terminal.
    pub fn print_introduction(&self, demo: bool) {
        if let Some(tour) = &self.tour {
            let text = format!(
                "\n  Open this in a browser: a hot partition, why it is hot, and what cures it.\n\n  tour       {tour}\n  \
                 endpoint   {}\n  data       in memory only\n  stop       Ctrl-C\n\n",
                self.endpoints.join("  "),
            );
            let _ = io::stderr().lock().write_all(text.as_bytes());
            return;
        }
        let endpoint = &self.endpoints[0];
        let key = match (&self.key, &self.key_file) {
            (Some(key), _) => format!("{key}  (the emulator's well-known key)"),
            (None, Some(file)) => format!("in {}", file.display()),
            (None, None) => "in AZURE_COSMOS_EMULATOR_KEY".to_owned(),
        };
        let ca = match &self.ca_file {
            Some(file) => file.display().to_string(),
            None => "the one your certificate was issued by, or GET /_shardlake/ca.pem".to_owned(),
        };
        let data = match &self.data_dir {
            _ if let Some(store) = &self.store => store.clone(),
            Some(directory) if self.durability != "memory" => directory.display().to_string(),
            _ => "in memory only".to_owned(),
        };
        let (database, container, read) = if demo {
            (
                "webstore",
                "product",
                "for item, _ in zip(products.read_all_items(), range(5)): print(item[\"name\"], item[\"price\"])",
            )
        } else {
            (
                "try",
                "product",
                "print(products.upsert_item({\"id\": \"1\", \"categoryId\": \"bikes\", \"name\": \"Tourer\"}))",
            )
        };
        let mongo = match self.mongo.as_slice() {
            [] => String::new(),
            addresses => format!("  MongoDB    {}\n", addresses.join("  ")),
        };
        let browser = match &self.explorer {
            Some(address) => format!("\n  explorer   {address}"),
            None => String::new(),
        };
        let python_key = self.key.unwrap_or("<a key from the key file>");
        let tour = if demo { TOUR } else { "" };
        let text = format!(
            "\n  Shardlake {} is ready ({} durability)\n{browser}\n  endpoint   {}\n{mongo}  key        {key}\n  data       {data}\n  CA         {ca}\n  stop       Ctrl-C\n\n  \
             Try it: pip install azure-cosmos, then\n\n    \
             from azure.cosmos import CosmosClient, PartitionKey\n    \
             client = CosmosClient(\"{endpoint}\", \"{python_key}\")\n    \
             database = client.create_database_if_not_exists(\"{database}\")\n    \
             products = database.create_container_if_not_exists(\"{container}\", PartitionKey(path=\"/categoryId\"))\n    \
             {read}\n\n{tour}",
            self.version,
            self.durability,
            self.endpoints.join("  "),
        );
        // A closed standard error is ignored.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Prints the lines that the wait strategies of Testcontainers look for, each in the form of an emulator.
///
/// The second ends in CR LF, which the module for Java insists on.
pub fn print_for_wait_strategies(listening: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "Now listening on: {listening}\nStarted\r\n")?;
    out.flush()
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
