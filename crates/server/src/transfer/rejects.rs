//! Refused items: a file of JSON lines with line, reason and item, of bounded length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use serde_json::value::RawValue;

use super::records::Refusal;

/// More refused items end the import: then the file does not fit the container.
pub const REJECTS_MAX: u64 = 10_000;

pub struct Rejects {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    count: u64,
    /// Line and reason of the refused item that is first in the file: requests end in any order.
    first: Option<(u64, String)>,
}

impl Rejects {
    /// Fails where the file exists. It is created with the first refused item.
    pub fn at(path: PathBuf) -> Result<Rejects, String> {
        if fs::symlink_metadata(&path).is_ok() {
            return Err(format!(
                "'{}' exists: remove it, or name another file with --rejects",
                path.display()
            ));
        }
        Ok(Rejects { path, file: None, count: 0, first: None })
    }

    /// `orders.csv.rejects.jsonl`, or the next free name such as `orders.csv.rejects-2.jsonl`: an import that continues another one
    /// keeps the refused items of both.
    pub fn beside(file: &Path, is_standard: bool) -> Result<Rejects, String> {
        const NAMES_MAX: u32 = 100;
        let begin = if is_standard { "import".into() } else { file.as_os_str().to_owned() };
        let name = |number: u32| {
            let mut name = begin.clone();
            name.push(if number == 1 {
                ".rejects.jsonl".to_owned()
            } else {
                format!(".rejects-{number}.jsonl")
            });
            PathBuf::from(name)
        };
        let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        let path = (1..=NAMES_MAX).map(name).find(is_free);
        Rejects::at(path.unwrap_or_else(|| name(1)))
    }

    pub fn add(&mut self, refusal: &Refusal) -> Result<(), String> {
        self.count += 1;
        if self.first.as_ref().is_none_or(|(line, _)| refusal.line < *line) {
            self.first = Some((refusal.line, refusal.reason.clone()));
        }
        if self.count > REJECTS_MAX {
            return Ok(());
        }
        let written = self.write(refusal);
        written.map_err(|error| format!("'{}' cannot be written: {error}", self.path.display()))
    }

    fn write(&mut self, refusal: &Refusal) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().write(true).create_new(true).open(&self.path)?;
                self.file.insert(BufWriter::new(file))
            }
        };
        let (line, reason) = (refusal.line, json!(refusal.reason));
        let item: Result<&RawValue, _> = serde_json::from_str(&refusal.text);
        match item {
            // The item stays the text that it was, in one line.
            Ok(item) => writeln!(
                file,
                "{{\"line\":{line},\"reason\":{reason},\"item\":{}}}",
                crate::data::compact(item.get())
            ),
            Err(_) => {
                writeln!(file, "{{\"line\":{line},\"reason\":{reason},\"text\":{}}}", json!(refusal.text))
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Line and reason of the first one.
    pub fn first(&self) -> Option<String> {
        self.first.as_ref().map(|(line, reason)| format!("line {line}: {reason}"))
    }

    /// The file, if there is one.
    pub fn finish(mut self) -> Result<Option<PathBuf>, String> {
        let Some(file) = &mut self.file else { return Ok(None) };
        file.flush().map_err(|error| format!("'{}' cannot be written: {error}", self.path.display()))?;
        Ok(Some(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_items_are_kept_as_they_were() {
        let directory = tempfile::tempdir().expect("a directory");
        let beside = || Rejects::beside(&directory.path().join("a.csv"), false).expect("a free name");
        let path = directory.path().join("a.csv.rejects.jsonl");
        assert_eq!(beside().finish(), Ok(None));
        let mut rejects = beside();
        let mut add = |line, text: &str| {
            let refusal = Refusal { line, reason: "no \"id\"".into(), text: text.into() };
            rejects.add(&refusal).expect("written");
        };
        add(5, "{\"n\": 1e400}");
        add(3, "a,b");
        assert_eq!((rejects.count(), rejects.first().as_deref()), (2, Some("line 3: no \"id\"")));
        assert_eq!(rejects.finish(), Ok(Some(path.clone())));
        assert_eq!(
            fs::read_to_string(&path).expect("text"),
            "{\"line\":5,\"reason\":\"no \\\"id\\\"\",\"item\":{\"n\":1e400}}\n{\"line\":3,\"reason\":\"no \\\"id\\\"\",\"text\":\"a,b\"}\n"
        );
        let mut second = beside();
        second.add(&Refusal { line: 1, reason: String::new(), text: String::new() }).expect("written");
        assert_eq!(second.finish(), Ok(Some(directory.path().join("a.csv.rejects-2.jsonl"))));
        assert!(Rejects::at(path).is_err_and(|message| message.contains("--rejects")));
    }
}
