//! Pseudonyms of names, the same for a name in all files of one bundle.
//!
//! They are hashes with a random salt that is not kept: a name cannot be guessed from its pseudonym.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest, Sha256};
use shardlake_stdx::Random;

/// Members of documents and labels of metrics that hold a name.
const NAMES: [&str; 5] = ["database", "container", "projection", "collection", "id"];
/// Properties that all items have, and parts of paths that are no names.
const SYSTEM: [&str; 9] = ["id", "_ts", "_etag", "_rid", "_self", "*", "?", "[]", ""];
const DIGITS: usize = 10;

pub struct Pseudonyms {
    salt: [u8; 16],
}

/// Names in the documents of a bundle, longest first.
pub fn names_in<'d>(documents: impl Iterator<Item = &'d Value>) -> Vec<String> {
    let mut names = BTreeSet::new();
    documents.for_each(|document| collect(document, &mut names));
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names
}

fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| collect(value, names)),
        Value::Object(members) => {
            for (member, value) in members {
                match value {
                    // Ids of partitions are numbers.
                    Value::String(name)
                        if NAMES.contains(&member.as_str()) && name.parse::<u64>().is_err() =>
                    {
                        names.insert(name.clone());
                    }
                    _ => collect(value, names),
                }
            }
        }
        _ => {}
    }
}

impl Pseudonyms {
    pub fn new(random: &Random) -> Pseudonyms {
        let mut salt = [0; 16];
        random.fill(&mut salt);
        Pseudonyms { salt }
    }

    fn of(&self, name: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        digest.update(name);
        let hexadecimal: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("name-{}", &hexadecimal[..DIGITS])
    }

    /// Replaces the names, and the properties in paths, in all texts of a document. Members keep their names.
    pub fn replace(&self, names: &[String], value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with('/') => *text = self.of_path(text),
            Value::String(text) => {
                for name in names {
                    if text.contains(name.as_str()) {
                        *text = self.in_text(text, name);
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.replace(names, value)),
            Value::Object(members) => {
                for (member, value) in members {
                    match value {
                        // The text of a computed property names other properties.
                        Value::String(text) if member == "query" => "removed".clone_into(text),
                        Value::String(text) if member == "name" => *text = self.of(text),
                        Value::String(text)
                            if NAMES.contains(&member.as_str()) && text.parse::<u64>().is_err() =>
                        {
                            *text = self.of(text);
                        }
                        value => self.replace(names, value),
                    }
                }
            }
            _ => {}
        }
    }

    /// `/address/city/?` and files; a name between slashes stays the name that it is elsewhere.
    fn of_path(&self, path: &str) -> String {
        let segments = path.split('/').map(|segment| {
            let bare = segment.trim_matches('"');
            if SYSTEM.contains(&bare) { segment.to_owned() } else { self.of(bare) }
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// Replaces a name where it is a word of its own.
    fn in_text(&self, text: &str, name: &str) -> String {
        let is_inside =
            |character: Option<char>| character.is_some_and(|found| found.is_alphanumeric() || found == '_');
        let (mut out, mut kept) = (String::with_capacity(text.len()), 0);
        for (begin, _) in text.match_indices(name) {
            let end = begin + name.len();
            if !is_inside(text[..begin].chars().next_back()) && !is_inside(text[end..].chars().next()) {
                out.push_str(&text[kept..begin]);
                out.push_str(&self.of(name));
                kept = end;
            }
        }
        out.push_str(&text[kept..]);
        out
    }

    /// The page of metrics with pseudonyms in the labels that hold names.
    pub fn of_metrics(&self, text: &str) -> String {
        text.lines().map(|line| self.of_metric(line) + "\n").collect()
    }

    fn of_metric(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for label in NAMES {
            let begin = [format!("{{{label}=\""), format!(",{label}=\"")]
                .iter()
                .find_map(|opening| Some(line.find(opening.as_str())? + opening.len()));
            let Some(begin) = begin else { continue };
            if let Some(end) = end_of_label(&line[begin..]) {
                let name = line[begin..begin + end].replace("\\\"", "\"").replace("\\\\", "\\");
                line.replace_range(begin..begin + end, &self.of(&name));
            }
        }
        line
    }
}

/// The place of the closing quotation mark.
fn end_of_label(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(place, character)| {
        let ends = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends.then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_properties_are_replaced_everywhere_by_one_pseudonym() {
        let pseudonyms = Pseudonyms::new(&Random::System);
        let mut document = json!({
            "database": "shop", "partitions": 2,
            "definition": { "id": "orders", "partitionKey": { "paths": ["/tenant/\"a b\"/?", "/id"] }, "kind": "Hash",
                            "computedProperties": [{ "name": "lower", "query": "SELECT VALUE LOWER(c.city) FROM c" }] },
            "note": "a split of shop/orders; workshops stay",
        });
        let names = names_in(std::iter::once(&document));
        pseudonyms.replace(&names, &mut document);
        let (shop, orders) = (pseudonyms.of("shop"), pseudonyms.of("orders"));
        assert_eq!((&document["database"], &document["definition"]["id"]), (&json!(shop), &json!(orders)));
        assert_eq!(document["note"], format!("a split of {shop}/{orders}; workshops stay"));
        assert_eq!(document["definition"]["kind"], "Hash");
        let text = document.to_string();
        for name in ["tenant", "a b", "lower", "city", "orders"] {
            assert!(!text.contains(name), "{name} in {text}");
        }
        let line = r#"x_total{database="a\"b",container="orders",shard="0"} 3"#;
        let expected =
            format!(r#"x_total{{database="{}",container="{orders}",shard="0"}} 3"#, pseudonyms.of("a\"b"));
        assert_eq!(pseudonyms.of_metrics(line), expected + "\n");
    }
}
