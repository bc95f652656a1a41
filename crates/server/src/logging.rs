//! Log lines on standard error, as text for people or as JSON for collectors. Standard output belongs to the ready record. Traces
//! go to their collector (`tracing_export.rs`).

use std::io::IsTerminal;
use std::sync::Arc;

use shardlake_admin::LogRing;
use tracing::Subscriber;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::json_lines::JsonLines;
use crate::log_capture::LogCapture;
use crate::settings::LogFormat;
use crate::tracing_export::{self, Export};

/// The target of the audit log.
const AUDIT: &str = "audit";

/// `level` is a level or a list such as `info,shardlake_storage=debug`. The latest lines are kept in `ring`.
pub fn start(
    format: LogFormat,
    level: &str,
    otlp_endpoint: Option<&str>,
    ring: &Arc<LogRing>,
) -> Result<Export, String> {
    let (subscriber, export) = subscriber(format, level, otlp_endpoint, ring)?;
    subscriber.try_init().map_err(|error| format!("logging cannot start: {error}"))?;
    Ok(export)
}

/// A word without `=` is a level: a misspelled one would be the name of a crate, and switch off all other lines.
fn check_level(text: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    for part in text.split(',').map(str::trim).filter(|part| !part.contains('=')) {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        if !is_level && part.parse::<u8>().is_err() {
            return Err(format!(
                "--log-level '{text}': '{part}' is no level. Levels are {}; shardlake=debug sets that of a crate",
                LEVELS.join(", ")
            ));
        }
    }
    Ok(())
}

fn subscriber(
    format: LogFormat,
    level: &str,
    otlp_endpoint: Option<&str>,
    ring: &Arc<LogRing>,
) -> Result<(impl Subscriber + Send + Sync + use<>, Export), String> {
    check_level(level)?;
    let targets: Targets = level.parse().map_err(|error| {
        format!("--log-level '{level}' is no level (error, warn, info, debug, trace) or list of crate=level: {error}")
    })?;
    // Changes of definitions, keys and permissions are always on record.
    let targets = targets.with_target(AUDIT, LevelFilter::INFO);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => Box::new(lines.with_ansi(takes_colours())),
        LogFormat::Json => Box::new(lines.fmt_fields(JsonFields::new()).event_format(JsonLines)),
    };
    let (spans, export) = tracing_export::layer(otlp_endpoint)?;
    let kept = LogCapture::new(ring.clone()).with_filter(targets.clone());
    let lines = lines.with_filter(targets);
    Ok((tracing_subscriber::registry().with(lines).with(kept).with(spans), export))
}

/// Whether standard error shows colours, and the user has not asked for none (https://no-color.org).
fn takes_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_nobody_listens_to_are_not_made() {
        let is_made = |level: &str| {
            let ring = Arc::new(LogRing::default());
            let made = subscriber(LogFormat::Text, level, None, &ring);
            let (subscriber, _export) = made.expect("a level");
            tracing::subscriber::with_default(subscriber, || !tracing::debug_span!("request").is_disabled())
        };
        assert!(!is_made("info"));
        assert!(is_made("debug"));
    }
}
