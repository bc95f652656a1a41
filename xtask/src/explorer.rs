//! `cargo xtask explorer build | shots | budgets`: manual tasks of the web interface.
//!
//! `build` writes `explorer/dist` from the committed lock file; the suite `explorer` compares its
//! output byte for byte. `shots` takes a picture of every page, light and dark, wide and narrow,
//! full and empty, for people to look at. `budgets` measures sizes and times in a browser next to
//! an optimised server with a million items, and fails where one is over its budget.

use std::path::{Path, PathBuf};
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
    /// Measure the pages against their budgets: sizes, first rows, typing, scrolling, the heat map, an idle server
    Budgets {
        /// Where the items that are browsed are kept for the next time; nowhere without it
        #[arg(long)]
        directory: Option<PathBuf>,
        /// How many
        #[arg(long, default_value_t = 1_000_000)]
        items: u64,
    },
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
        Task::Budgets { directory, items } => budgets(directory.as_deref(), *items),
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

fn budgets(directory: Option<&Path>, items: u64) -> Outcome {
    prerequisites::for_building()?;
    prerequisites::for_browser()?;
    let mut build = project::cargo();
    build.args(["build", "--locked", "--profile", "quick", "--package", "shardlake"]);
    run_to_end(build.current_dir(project::root()))?;
    let mut node = Command::new("node");
    node.arg("test/budgets.mjs")
        .env("SHARDLAKE_BINARY", project::server_binary("quick"))
        .env("ITEMS", items.to_string())
        .current_dir(installed()?);
    if let Some(directory) = directory {
        node.env("DIRECTORY", std::path::absolute(directory)?);
    }
    run_to_end(&mut node)
}
