//! The latest lines of the log, within a bounded memory.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde::Serialize;
use serde_json::{Map, Value};
use shardlake_stdx::Timestamp;

const LINES_MAX: usize = 2_000;
const BYTES_MAX: usize = 1 << 20;
/// Longer texts are cut: one line must not push out all others.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Memory of a line besides its texts.
const LINE_BYTES: usize = 160;

#[derive(Debug, Clone, Serialize)]
pub struct LogLine {
    /// Unix milliseconds.
    pub time: u64,
    pub level: &'static str,
    pub target: String,
    pub message: String,
    pub fields: Map<String, Value>,
    #[serde(skip)]
    severity: u8,
}

#[derive(Debug, Default)]
pub struct LogRing(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Number of the line after the last one; the first line ever has the number 0.
    next: u64,
}

/// Lines after a position in the log.
#[derive(Debug, Serialize)]
pub(crate) struct Lines {
    pub sequence: u64,
    /// Lines after the position that are dropped already.
    pub dropped: u64,
    pub lines: Vec<LogLine>,
}

/// From the gravest.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// 0 for errors; `None` for an unknown level.
pub(crate) fn severity_of(level: &str) -> Option<u8> {
    LEVELS.iter().position(|known| *known == level).map(|place| place as u8)
}

impl LogLine {
    /// `level` in any letters.
    pub fn new(
        time: Timestamp,
        level: &str,
        target: &str,
        message: &str,
        fields: Map<String, Value>,
    ) -> LogLine {
        let severity = severity_of(&level.to_ascii_lowercase()).unwrap_or(2);
        LogLine {
            time: time.milliseconds(),
            level: LEVELS[usize::from(severity)],
            target: target.to_owned(),
            message: cut(message),
            fields: fields.into_iter().map(|(name, value)| (name, cut_value(value))).collect(),
            severity,
        }
    }

    fn bytes(&self) -> usize {
        let field = |(name, value): (&String, &Value)| name.len() + value_bytes(value) + 48;
        LINE_BYTES + self.target.len() + self.message.len() + self.fields.iter().map(field).sum::<usize>()
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list_bytes(list),
        _ => 8,
    }
}

fn list_bytes(list: &[Value]) -> usize {
    list.iter().map(|value| value_bytes(value) + 24).sum()
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

fn cut_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(&text)),
        // Of a long list, the start of its text.
        Value::Array(list) if list_bytes(&list) > TEXT_BYTES_MAX => {
            Value::String(cut(&Value::Array(list).to_string()))
        }
        value => value,
    }
}

impl LogRing {
    pub fn push(&self, line: LogLine) {
        let Ok(mut kept) = self.0.lock() else { return };
        kept.bytes += line.bytes();
        kept.lines.push_back(line);
        kept.next += 1;
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.bytes();
        }
        assert!(kept.lines.len() <= LINES_MAX, "the log in memory is bounded");
        assert!(!kept.lines.is_empty() || kept.bytes == 0, "the bytes of each line are counted");
    }

    /// Lines from a number on that are at least so grave: the latest of them, oldest first.
    pub(crate) fn lines(&self, since: Option<u64>, severity: u8, limit: usize) -> Lines {
        let Ok(kept) = self.0.lock() else { return Lines { sequence: 0, dropped: 0, lines: vec![] } };
        assert!(kept.next >= kept.lines.len() as u64, "each line in memory has a number");
        let oldest = kept.next - kept.lines.len() as u64;
        // A number from an earlier run of the server is ignored.
        let since = since.filter(|since| *since <= kept.next).unwrap_or(oldest);
        let skipped = since.saturating_sub(oldest) as usize;
        let wanted = kept.lines.iter().skip(skipped).filter(|line| line.severity <= severity);
        let mut lines: Vec<LogLine> = wanted.rev().take(limit).cloned().collect();
        lines.reverse();
        Lines { sequence: kept.next, dropped: oldest.saturating_sub(since), lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: &str, message: &str) -> LogLine {
        LogLine::new(Timestamp(5), level, "x", message, Map::new())
    }

    #[test]
    fn lines_follow_one_another_and_the_oldest_are_counted_when_they_are_gone() {
        let ring = LogRing::default();
        ring.push(line("WARN", "0"));
        ring.push(line("INFO", "1"));
        let first = ring.lines(None, 4, 100);
        assert_eq!((first.sequence, first.dropped, first.lines.len()), (2, 0, 2));
        assert_eq!(ring.lines(None, 1, 100).lines.len(), 1, "warnings alone");
        for number in 2..3_000 {
            ring.push(line("DEBUG", &number.to_string()));
        }
        let next = ring.lines(Some(first.sequence), 4, 3);
        assert_eq!((next.sequence, next.dropped), (3_000, 998));
        let told: Vec<&str> = next.lines.iter().map(|line| &*line.message).collect();
        assert_eq!(told, ["2997", "2998", "2999"], "the latest");
        assert_eq!(ring.lines(Some(9_999), 4, 5).dropped, 0, "a number of another life");
    }

    #[test]
    fn long_lists_are_cut_as_long_texts_are() {
        let of = |length: usize| {
            let list: Vec<Value> = (0..length).map(Value::from).collect();
            let fields = Map::from_iter([("ids".to_owned(), Value::Array(list))]);
            LogLine::new(Timestamp(5), "INFO", "x", "m", fields)
        };
        assert!(of(2).fields["ids"].is_array());
        let long = of(100_000);
        assert!(long.fields["ids"].is_string() && long.bytes() < 2 * TEXT_BYTES_MAX + LINE_BYTES);
    }

    #[test]
    fn long_lines_do_not_push_out_everything() {
        let ring = LogRing::default();
        for _ in 0..1_000 {
            ring.push(line("ERROR", &"x".repeat(100_000)));
        }
        let kept = ring.0.lock().expect("not poisoned");
        assert!(kept.bytes <= BYTES_MAX && kept.lines.len() > 100, "{} lines", kept.lines.len());
    }
}
