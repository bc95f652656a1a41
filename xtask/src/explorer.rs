//! `cargo xtask explorer build | shots`: what is done by hand to the web interface.
//!
//! `build` writes `explorer/dist` from the committed lock file; the suite `explorer` compares what it wrote byte for byte. `shots`
//! takes a picture of every page, light and dark, wide and narrow, full and empty, for people to look at.

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};

use crate::command::run_to_end;
use crate::suites::explorer::installed;
use crate::{Outcome, prerequisites, project};

#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build `explorer/dist`, which is committed
    Build,
    /// Take pictures of all pages
    Shots {
        /// Where they go
        #[arg(default_value = ".work/shots")]
        directory: PathBuf,
        /// Only these pages, by name, with commas between them
        #[arg(long)]
        pages: Option<String>,
    },
}

pub fn explorer(options: &Options) -> Outcome {
    match &options.task {
        Task::Build => {
            let directory = installed()?;
            run_to_end(Command::new("npm").args(["run", "build"]).current_dir(directory))
        }
        Task::Shots { directory, pages } => {
            prerequisites::for_building()?;
            prerequisites::for_browser()?;
            let mut build = project::cargo();
            build.args(["build", "--locked", "--package", "shardlake"]).current_dir(project::root());
            run_to_end(&mut build)?;
            let mut node = Command::new("node");
            node.arg("test/shots.mjs")
                .arg(std::path::absolute(directory)?)
                .env("SHARDLAKE_BINARY", project::server_binary("debug"))
                .current_dir(installed()?);
            if let Some(pages) = pages {
                node.env("PAGES", pages);
            }
            run_to_end(&mut node)
        }
    }
}
