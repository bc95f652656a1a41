//! Log lines as JSON objects, with typed fields (`log_fields.rs`).

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::log_fields::Fields;

/// A line per event: `timestamp`, `level`, the event's fields, `target`, and `spans` where it has any, the outermost first.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), time.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.insert("message".to_owned(), fields.message.into());
        line.extend(fields.others);
        line.insert("target".to_owned(), event.metadata().target().into());
        let spans = context.event_scope().into_iter().flat_map(|scope| scope.from_root());
        let spans: Vec<Value> = spans
            .map(|span| {
                let mut shown = Map::new();
                shown.insert("name".to_owned(), span.name().into());
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<JsonFields>>();
                let fields = fields.and_then(|fields| serde_json::from_str(&fields.fields).ok());
                if let Some(Value::Object(fields)) = fields {
                    shown.extend(fields);
                }
                Value::Object(shown)
            })
            .collect();
        if !spans.is_empty() {
            line.insert("spans".to_owned(), spans.into());
        }
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn fields_keep_their_types() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let span = tracing::info_span!("request", path = "/a");
            let _within = span.enter();
            let (names, ids) = (vec!["http://a/", "b \"c\""], [1u32, 2]);
            tracing::info!(
                ?names,
                ?ids,
                bytes = 7,
                share = 0.5,
                is_so = true,
                missing = None::<u64>,
                text = "[x",
                "said"
            );
        });
        let bytes = kept.0.lock().expect("not poisoned").clone();
        let line: Value = serde_json::from_slice(&bytes).expect("one JSON object");
        let expected = serde_json::json!({
            "names": ["http://a/", "b \"c\""], "ids": [1, 2], "bytes": 7, "share": 0.5, "is_so": true, "text": "[x",
            "message": "said", "level": "INFO", "spans": [{ "name": "request", "path": "/a" }],
        });
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&line[name], value, "{name} in {line}");
        }
        assert!(line["timestamp"].is_string() && line["target"].is_string() && line.get("missing").is_none());
    }
}
