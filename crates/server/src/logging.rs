//! Log lines on standard error, as text for people or as JSON for collectors. Standard output belongs to the ready record. Traces
//! go to their collector beside them (`tracing_export.rs`).

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::settings::LogFormat;
use crate::tracing_export::{self, Export};

/// `level` is a level or a list such as `info,shardlake_storage=debug`.
pub fn start(format: LogFormat, level: &str, otlp_endpoint: Option<&str>) -> Result<Export, String> {
    let targets: Targets = level.parse().map_err(|error| {
        format!("--log-level '{level}' is no level (error, warn, info, debug, trace) or list of crate=level: {error}")
    })?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => Box::new(lines.with_ansi(std::io::stderr().is_terminal())),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    };
    let (spans, export) = tracing_export::layer(otlp_endpoint)?;
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .with(spans)
        .try_init()
        .map_err(|error| format!("logging cannot start: {error}"))?;
    Ok(export)
}
