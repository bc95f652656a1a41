//! Small JSON files in a data directory or store: errors for damaged files and for files of another version.

use serde::de::DeserializeOwned;

/// `place` names the file or object, `remedy` follows where the content is damaged.
///
/// Text that is no JSON is damaged. JSON of another shape is what another version writes: it is never called damaged, since a
/// remedy for damage, such as removing the file, would harm it.
pub fn read<T: DeserializeOwned>(text: &[u8], place: &str, remedy: &str) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| {
        if error.is_data() {
            format!("{place} is of another version of this program, or was edited ({error}): start the version that wrote it")
        } else {
            format!("{place} is damaged ({error}){remedy}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Mark {
        #[allow(dead_code)]
        shards: u16,
    }

    #[test]
    fn json_of_another_shape_is_of_another_version() {
        let read =
            |text: &str| read::<Mark>(text.as_bytes(), "'a.json'", ": remove it").expect_err("it is wrong");
        for text in [r#"{"shards": 1, "replicas": 3}"#, r#"{"shards": {"local": 1}}"#, r#"{"shards": 70000}"#]
        {
            let message = read(text);
            assert!(message.contains("another version") && !message.contains("remove it"), "{message}");
        }
        for text in ["", "{\"shards\": 1", "\0\0\0\0"] {
            let message = read(text);
            assert!(
                message.starts_with("'a.json' is damaged") && message.ends_with(": remove it"),
                "{message}"
            );
        }
    }
}
