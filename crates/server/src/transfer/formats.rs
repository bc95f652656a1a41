//! Formats of files, and the container that a command names.

use std::path::Path;

use clap::{Args, ValueEnum};

use crate::data::{DataClient, Place};

/// Standard input or output.
pub const STANDARD: &str = "-";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// An array of items, or items one after the other
    Json,
    /// One item in each line
    Jsonl,
    /// A line with names of columns, then one for each item
    Csv,
}

impl FileFormat {
    /// By the ending of the name.
    pub fn of(path: &Path) -> Option<FileFormat> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "json" => Some(FileFormat::Json),
            "jsonl" | "ndjson" => Some(FileFormat::Jsonl),
            "csv" => Some(FileFormat::Csv),
            _ => None,
        }
    }
}

/// The container of a command.
#[derive(Debug, Args)]
pub struct Target {
    /// The database
    #[arg(long, short, value_name = "NAME")]
    database: Option<String>,
    /// The container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
}

impl Target {
    /// The container's names, or an error that lists the containers.
    pub async fn place(&self, client: &DataClient) -> Result<Place, String> {
        match (&self.database, &self.container) {
            (Some(database), Some(container)) => {
                Ok(Place { database: database.clone(), container: container.clone() })
            }
            _ => {
                let known = client.known_places().await;
                Err(format!("give the container with --database and --container: {known}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_the_ending() {
        let of = |name: &str| FileFormat::of(Path::new(name));
        assert_eq!(of("a.JSON"), Some(FileFormat::Json));
        assert_eq!([of("a.jsonl"), of("b/c.ndjson")], [Some(FileFormat::Jsonl); 2]);
        assert_eq!([of("a.csv"), of("-"), of("a.txt")], [Some(FileFormat::Csv), None, None]);
    }
}
