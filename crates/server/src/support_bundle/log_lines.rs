//! Lines of the log, reduced to the parts that hold no values of clients.
//!
//! Numbers stay. Texts stay in known fields alone, without quoted texts and without the part of a path that names an item.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::{Map, Value, json};

/// Bytes that are read from the end of a log file.
const FILE_BYTES_MAX: u64 = 2 << 20;
const CUT: &str = "…";
/// Fields whose texts the program makes.
const FIELDS: [&str; 38] = [
    "activity_id",
    "api",
    "caller",
    "checkpoint",
    "code",
    "collection",
    "command",
    "container",
    "database",
    "directory",
    "durability",
    "endpoints",
    "error",
    "failure",
    "fault",
    "file",
    "files",
    "index",
    "journal",
    "kind",
    "namespace",
    "new",
    "note",
    "old",
    "operation",
    "outcome",
    "panic",
    "path",
    "projection",
    "reason",
    "resource",
    "result",
    "rid",
    "shard",
    "state",
    "status",
    "step",
    "targets",
];

/// A line of the operator's interface, `{time, level, target, message, fields}`.
pub fn of_ring(line: &Value) -> Value {
    json!({
        "time": line["time"],
        "level": line["level"],
        "target": line["target"],
        "message": without_values(line["message"].as_str().unwrap_or_default()),
        "fields": fields(line["fields"].as_object()),
    })
}

/// Last lines of a log file, as text or as JSON.
pub fn of_file(path: &Path) -> Result<Vec<Value>, String> {
    let read = || -> std::io::Result<(Vec<u8>, bool)> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let begin = size.saturating_sub(FILE_BYTES_MAX);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok((bytes, begin > 0))
    };
    let (bytes, is_cut) =
        read().map_err(|error| format!("the log file '{}' cannot be read: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be a part of one.
    Ok(text.lines().skip(usize::from(is_cut)).filter(|line| !line.is_empty()).map(of_line).collect())
}

fn of_line(line: &str) -> Value {
    match serde_json::from_str(line) {
        Ok(Value::Object(mut line)) => {
            let mut member = |name: &str| line.remove(name).unwrap_or_default();
            let (time, level, target) = (member("timestamp"), member("level"), member("target"));
            let message = member("message");
            json!({
                "time": time,
                "level": level,
                "target": target,
                "message": without_values(message.as_str().unwrap_or_default()),
                "fields": fields(Some(&line)),
            })
        }
        _ => json!({ "message": of_text(&without_colours(line)) }),
    }
}

/// The fields that may stay, and the number of the others.
fn fields(all: Option<&Map<String, Value>>) -> Value {
    let mut kept = Map::new();
    let mut removed = 0;
    for (name, value) in all.into_iter().flatten() {
        match value {
            Value::Number(_) | Value::Bool(_) | Value::Null => kept.insert(name.clone(), value.clone()),
            Value::String(text) if FIELDS.contains(&name.as_str()) => {
                kept.insert(name.clone(), without_values(text).into())
            }
            _ => {
                removed += 1;
                None
            }
        };
    }
    if removed > 0 {
        kept.insert("removedFields".to_owned(), removed.into());
    }
    Value::Object(kept)
}

/// A line of text: `time LEVEL target: message name=value …`, from which fields are taken as those of JSON are.
fn of_text(line: &str) -> String {
    let mut out = String::new();
    for (number, part) in fields_of_text(line).into_iter().enumerate() {
        let field = part.split_once('=').filter(|_| number > 0);
        match field {
            None => out += &without_values(part),
            Some((name, value)) if value.parse::<f64>().is_ok() || matches!(value, "true" | "false") => {
                out += &format!(" {name}={value}");
            }
            Some((name, value)) if FIELDS.contains(&name) => {
                let bare = value.trim_matches('"');
                out += &format!(" {name}={}", without_values(bare));
            }
            Some((name, _)) => out += &format!(" {name}={CUT}"),
        }
    }
    out
}

/// The line up to its first field, then each `name=value`.
fn fields_of_text(line: &str) -> Vec<&str> {
    let is_name =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let mut starts = Vec::new();
    let mut place = 0;
    let mut is_quoted = false;
    for word in line.split(' ') {
        let begins = word.split_once('=').is_some_and(|(name, _)| is_name(name));
        if begins && !is_quoted && place > 0 {
            starts.push(place);
        }
        if !starts.is_empty() && word.matches('"').count() % 2 == 1 {
            is_quoted = !is_quoted;
        }
        place += word.len() + 1;
    }
    let mut parts = Vec::new();
    let mut from = 0;
    for start in starts {
        parts.push(line[from..start].trim_end());
        from = start;
    }
    parts.push(line[from..].trim_end());
    parts
}

/// A text without quoted values, values in brackets and ids of items. Quoted paths and flags stay.
fn without_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(character) = rest.chars().next() {
        let opens = matches!(character, '"' | '`' | '[')
            || character == '\'' && !before.is_some_and(char::is_alphanumeric);
        let closer = if character == '[' { ']' } else { character };
        let closing = opens.then(|| rest[1..].find(closer)).flatten();
        match closing {
            Some(end) => {
                let quoted = &rest[1..=end];
                let stays = quoted.starts_with('/') && !quoted.contains("/docs/") || quoted.starts_with("--");
                out.push(character);
                out.push_str(if stays { quoted } else { CUT });
                out.push(closer);
                rest = &rest[end + 2..];
                before = Some(closer);
            }
            // An opening mark alone: the value may reach to the end.
            None if opens => {
                out.push_str(CUT);
                break;
            }
            None => {
                out.push(character);
                before = Some(character);
                rest = &rest[character.len_utf8()..];
                // An id may hold spaces.
                if out.ends_with("docs/") {
                    out.push_str(CUT);
                    break;
                }
            }
        }
    }
    out
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once('m').map_or("", |(_, text)| text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_clients_are_removed_and_numbers_stay() {
        let line = json!({
            "time": 5, "level": "info", "target": "shardlake::slow_request", "message": "slow request",
            "fields": { "path": "dbs/shop/colls/orders/docs/secret 1", "milliseconds": 7, "item": "secret", "ids": ["secret"],
                        "error": "the item 'secret' is too large", "directory": "/var/lib/x" },
        });
        let shown = of_ring(&line);
        assert_eq!(shown["fields"]["milliseconds"], 7);
        assert_eq!(shown["fields"]["path"], "dbs/shop/colls/orders/docs/…");
        assert_eq!(shown["fields"]["removedFields"], 2);
        assert_eq!(shown["fields"]["directory"], "/var/lib/x");
        assert!(!shown.to_string().contains("secret"), "{shown}");
    }

    #[test]
    fn lines_of_text_are_taken_apart() {
        let line = "\x1b[2m2026-11-29T01:02:03Z\x1b[0m \x1b[32m INFO\x1b[0m shardlake::slow_request: slow request path=\"dbs/d/colls/c/docs/secret x\" \
                    item=secret milliseconds=7 reason=\"the key [\\\"secret\\\"] of [42]\"";
        let shown = of_line(line)["message"].as_str().expect("text").to_owned();
        assert!(!shown.contains("secret") && !shown.contains("42"), "{shown}");
        for words in ["INFO shardlake::slow_request: slow request", "milliseconds=7", "item=…"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let of_json = of_line(
            r#"{"timestamp":"t","level":"WARN","message":"it's `secret`","projection":"p","item":"secret","target":"x"}"#,
        );
        assert_eq!(of_json["message"], "it's `…`");
        assert_eq!((&of_json["fields"]["projection"], &of_json["level"]), (&json!("p"), &json!("WARN")));
        assert!(!of_json.to_string().contains("secret"), "{of_json}");
    }

    #[test]
    fn quoted_paths_stay_and_open_quotes_end_a_text() {
        assert_eq!(without_values("'/var/lib' and --x"), "'/var/lib' and --x");
        assert_eq!(without_values("the server's 'secret"), "the server's …");
        assert_eq!(without_values("'/dbs/d/colls/c/docs/secret'"), "'…'");
    }
}
