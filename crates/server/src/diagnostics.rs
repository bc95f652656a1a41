//! Settings, formats and process limits for reports of problems: of a running server, or of one that is stopped.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{backup, heat_file, memory, shards};

/// Bytes of a format file; ours have some 20.
const FORMAT_BYTES_MAX: usize = 100;

/// `settings` are as `config print --json` shows them.
pub fn describe(settings: &Value, data_dir: Option<&Path>) -> Value {
    json!({
        "settings": settings,
        "formats": {
            "program": { "backups": backup::FORMAT.trim(), "heat": heat_file::FORMAT },
            "dataDir": data_dir.map(stored_formats),
        },
        "process": process(),
    })
}

/// The first line of each shard's `FORMAT`.
fn stored_formats(data_dir: &Path) -> Value {
    let entries = fs::read_dir(data_dir).into_iter().flatten().flatten();
    let formats = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| shards::is_name(name))?;
        let text = fs::read(entry.path().join("FORMAT")).ok()?;
        let text = text[..text.len().min(FORMAT_BYTES_MAX)].escape_ascii().to_string();
        Some((name, json!(text.trim_end_matches("\\n"))))
    });
    Value::Object(formats.collect::<Map<_, _>>())
}

fn process() -> Value {
    let limits = fs::read_to_string("/proc/self/limits").ok();
    let limits = limits.as_ref().map(|text| text.lines().map(str::trim_end).collect::<Vec<_>>());
    json!({
        "processors": std::thread::available_parallelism().ok().map(std::num::NonZero::get),
        "memoryAvailableBytes": memory::available_bytes(),
        "limits": limits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_shards_are_read_and_limits_are_listed() {
        let data = tempfile::tempdir().expect("a directory");
        for (shard, format) in
            [("shard", "shardlake shard 7\n"), ("shard-1", "shardlake shard 8\n"), ("tls", "x")]
        {
            fs::create_dir(data.path().join(shard)).expect("made");
            fs::write(data.path().join(shard).join("FORMAT"), format).expect("written");
        }
        let found = describe(&json!({ "listen": 1 }), Some(data.path()));
        let formats = json!({ "shard": "shardlake shard 7", "shard-1": "shardlake shard 8" });
        assert_eq!((&found["formats"]["dataDir"], &found["settings"]["listen"]), (&formats, &json!(1)));
        assert!(found["process"]["processors"].as_u64().is_some_and(|count| count > 0), "{found}");
        #[cfg(target_os = "linux")]
        assert!(found["process"]["limits"].to_string().contains("Max open files"), "{found}");
    }
}
