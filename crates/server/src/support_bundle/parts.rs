//! The files of a bundle, each within a bound, and the files that could not be made.

use serde_json::{Value, json};

use super::keys::KeyFilter;
use super::names::{Pseudonyms, names_in};
use crate::operate::{aligned, bytes};
use crate::version;

/// Bytes of one file. Longer texts are cut at a line; longer documents are left out.
const FILE_BYTES_MAX: usize = 8 << 20;
/// Name of the list of all files in a bundle.
const CONTENTS: &str = "contents.json";

/// A file before it is written.
#[derive(Debug)]
struct Part {
    name: &'static str,
    description: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Document(Value),
    /// One JSON object a line.
    Lines(Vec<Value>),
    /// Text in the format of Prometheus, whose labels hold names.
    Metrics(String),
    Text(String),
}

#[derive(Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    missing: Vec<(&'static str, String)>,
}

/// Files that are ready to be written.
#[derive(Debug)]
pub struct Files {
    pub files: Vec<(&'static str, Vec<u8>)>,
    descriptions: Vec<&'static str>,
    missing: Vec<(&'static str, String)>,
}

impl Parts {
    fn add(&mut self, name: &'static str, description: &'static str, content: Content) {
        debug_assert!(self.parts.iter().all(|part| part.name != name), "{name} is added once");
        self.parts.push(Part { name, description, content });
    }

    pub fn add_version(&mut self) {
        let text = format!("{} {}\n", env!("CARGO_PKG_NAME"), version::long());
        self.add("version.txt", "version of this program", Content::Text(text));
    }

    pub fn add_document(
        &mut self,
        name: &'static str,
        description: &'static str,
        found: Result<Value, String>,
    ) {
        match found {
            Ok(document) => self.add(name, description, Content::Document(document)),
            Err(reason) => self.missing.push((name, reason)),
        }
    }

    pub fn add_lines(
        &mut self,
        name: &'static str,
        description: &'static str,
        found: Result<Vec<Value>, String>,
    ) {
        match found {
            Ok(lines) => self.add(name, description, Content::Lines(lines)),
            Err(reason) => self.missing.push((name, reason)),
        }
    }

    pub fn add_metrics(&mut self, found: Result<String, String>) {
        match found {
            Ok(text) => self.add("metrics.txt", "page of metrics", Content::Metrics(text)),
            Err(reason) => self.missing.push(("metrics.txt", reason)),
        }
    }

    /// Replaces the names of databases, containers, projections and properties in all files.
    pub fn replace_names(&mut self, pseudonyms: &Pseudonyms) {
        let documents = self.parts.iter().filter_map(|part| match &part.content {
            Content::Document(document) => Some(document),
            _ => None,
        });
        let names = names_in(documents);
        for part in &mut self.parts {
            match &mut part.content {
                Content::Document(document) => pseudonyms.replace(&names, document),
                Content::Lines(lines) => lines.iter_mut().for_each(|line| pseudonyms.replace(&names, line)),
                Content::Metrics(text) => *text = pseudonyms.of_metrics(text),
                Content::Text(_) => {}
            }
        }
    }

    pub fn finish(self, keys: &KeyFilter) -> Files {
        let mut files = Files { files: Vec::new(), descriptions: Vec::new(), missing: self.missing };
        for part in self.parts {
            match part.content.written() {
                Ok(text) => {
                    files.files.push((part.name, keys.without_keys(&text).into_bytes()));
                    files.descriptions.push(part.description);
                }
                Err(reason) => files.missing.push((part.name, reason)),
            }
        }
        let contents = files.contents(keys);
        files.files.push((CONTENTS, contents));
        files.descriptions.push("list of these files, and of those that are missing");
        files
    }
}

impl Content {
    fn written(self) -> Result<String, String> {
        match self {
            Content::Document(document) => {
                let text = format!("{document:#}\n");
                match text.len() > FILE_BYTES_MAX {
                    true => Err(format!("larger than {}", bytes(FILE_BYTES_MAX as u64))),
                    false => Ok(text),
                }
            }
            Content::Lines(lines) => {
                let lines = lines.into_iter().map(|line| format!("{line}\n"));
                Ok(cut(lines.collect()))
            }
            Content::Metrics(text) | Content::Text(text) => Ok(cut(text)),
        }
    }
}

/// Whole lines from the beginning, as many as fit.
fn cut(mut text: String) -> String {
    if text.len() > FILE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(FILE_BYTES_MAX));
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    }
    text
}

impl Files {
    fn contents(&self, keys: &KeyFilter) -> Vec<u8> {
        let files = self.files.iter().zip(&self.descriptions).map(|((name, content), description)| {
            json!({ "file": name, "sizeBytes": content.len(), "description": description })
        });
        let missing = self.missing.iter().map(|(name, reason)| json!({ "file": name, "reason": reason }));
        let contents = json!({
            "files": files.collect::<Vec<_>>(),
            "missing": missing.collect::<Vec<_>>(),
            "program": version::SHORT,
        });
        keys.without_keys(&format!("{contents:#}\n")).into_bytes()
    }

    /// The files with their sizes, then the missing ones with the reason.
    pub fn table(&self) -> String {
        let files = self.files.iter().zip(&self.descriptions);
        let mut rows: Vec<[String; 3]> = files
            .map(|((name, content), description)| {
                [(*name).to_owned(), bytes(content.len() as u64), (*description).to_owned()]
            })
            .collect();
        let missing = self.missing.iter();
        rows.extend(missing.map(|(name, reason)| [(*name).to_owned(), "missing".to_owned(), reason.clone()]));
        aligned(&rows, 3).into_iter().map(|line| format!("  {line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_line_and_long_documents_are_left_out() {
        let mut parts = Parts::default();
        parts.add_metrics(Ok("line of a metric\n".repeat(1 << 20)));
        parts.add_document("server.json", "", Ok(json!("x".repeat(FILE_BYTES_MAX))));
        parts.add_document("gone.json", "", Err("not there".to_owned()));
        let files = parts.finish(&KeyFilter::new(&[]));
        let (name, content) = &files.files[0];
        assert_eq!(*name, "metrics.txt");
        assert!(content.len() <= FILE_BYTES_MAX && content.ends_with(b"metric\n"), "{}", content.len());
        let table = files.table();
        assert!(table.contains("larger than 8.0 MiB") && table.contains("not there"), "{table}");
        assert!(files.files.iter().all(|(name, _)| *name != "server.json"));
    }
}
