//! Traces of requests for an OpenTelemetry collector, in builds with the feature `otlp`.
//!
//! The spans are those of `request` in the gateway and of its steps in account, partition and storage. They are made at level
//! DEBUG, so that a server that neither logs nor exports them pays one comparison for each. A separate thread sends them in batches
//! and drops spans that it cannot send in time.

/// Checks the value of `--otlp-endpoint`; an error where this build cannot export.
pub fn checked(url: &str) -> Result<String, String> {
    if !cfg!(feature = "otlp") {
        return Err("--otlp-endpoint needs a build with traces: cargo build --release --features otlp".into());
    }
    match url.strip_prefix("http://") {
        Some(rest) if !rest.is_empty() => Ok(url.trim_end_matches('/').to_owned()),
        _ => Err(format!(
            "--otlp-endpoint '{url}' is no address of a collector over plain HTTP, such as http://localhost:4318"
        )),
    }
}

#[cfg(feature = "otlp")]
pub use with_collector::{Export, layer};
#[cfg(not(feature = "otlp"))]
pub use without::{Export, layer};

#[cfg(feature = "otlp")]
mod with_collector {
    use std::time::Duration;

    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::registry::LookupSpan;

    const SEND_MAX: Duration = Duration::from_secs(5);
    const LAST_MAX: Duration = Duration::from_secs(2);
    /// Crates whose spans are of a request.
    const TRACED: [&str; 5] = [
        "shardlake_gateway_nosql",
        "shardlake_account",
        "shardlake_partition",
        "shardlake_storage",
        "shardlake",
    ];

    /// Sends the remaining spans when the server ends.
    #[must_use]
    pub struct Export(Option<SdkTracerProvider>);

    impl Export {
        pub fn finish(self) {
            if let Some(Err(error)) = self.0.map(|provider| provider.shutdown_with_timeout(LAST_MAX)) {
                tracing::info!(%error, "the collector did not take the last traces");
            }
        }
    }

    type Spans<S> = Option<Box<dyn Layer<S> + Send + Sync>>;

    pub fn layer<S>(endpoint: Option<&str>) -> Result<(Spans<S>, Export), String>
    where
        S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let Some(endpoint) = endpoint else { return Ok((None, Export(None))) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_timeout(SEND_MAX)
            .build()
            .map_err(|error| format!("--otlp-endpoint {endpoint}: {error}"))?;
        // The environment may give another name, and attributes.
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("shardlake");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        let targets = Targets::new().with_targets(TRACED.map(|name| (name, LevelFilter::DEBUG)));
        let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shardlake"));
        Ok((Some(spans.with_filter(targets).boxed()), Export(Some(provider))))
    }
}

#[cfg(not(feature = "otlp"))]
mod without {
    use tracing_subscriber::layer::Identity;

    #[must_use]
    pub struct Export;

    impl Export {
        pub fn finish(self) {}
    }

    /// `checked` has refused every endpoint.
    /// No layer: a layer that does nothing would still enable every span.
    pub fn layer(_endpoint: Option<&str>) -> Result<(Option<Identity>, Export), String> {
        Ok((None, Export))
    }
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn collectors_are_reached_over_plain_http_by_builds_that_can() {
        let answer = checked("http://localhost:4318/");
        if cfg!(feature = "otlp") {
            assert_eq!(answer.as_deref(), Ok("http://localhost:4318"));
            assert!(checked("https://collector").is_err_and(|message| message.contains("plain HTTP")));
            assert!(checked("http://").is_err());
        } else {
            assert!(answer.is_err_and(|message| message.contains("--features otlp")));
        }
    }
}
