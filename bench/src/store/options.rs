//! Options of this benchmark, and a row of its page.

use clap::Args;

#[derive(Debug, Clone, Args)]
pub struct StoreOptions {
    /// A build of the server with the feature object-storage
    #[arg(long)]
    pub server: std::path::PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Items loaded into each place, twice
    #[arg(long, default_value_t = 100_000)]
    pub items: u64,
    /// Between a request to the distant bucket and its answer
    #[arg(long, default_value_t = 30)]
    pub milliseconds: u64,
    /// Another store to measure, such as s3://bucket/prefix of a SeaweedFS; its environment is handed on
    #[arg(long)]
    pub url: Option<String>,
    /// Places to measure in addition to the local disk: `file`, `near`, `url`, `distant` [default: all]
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Write the result to this page
    #[arg(long)]
    pub publish: Option<std::path::PathBuf>,
}

/// A figure, its goal, and whether the goal is met.
pub struct Row {
    pub what: String,
    pub place: String,
    pub found: String,
    pub goal: &'static str,
    /// `None` without a goal to compare with.
    pub is_met: Option<bool>,
}

impl Row {
    pub fn line(&self) -> String {
        let Row { what, place, found, goal, is_met } = self;
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "–",
        };
        format!("| {what} | {place} | {found} | {goal} | {verdict} |")
    }
}
