//! `tables.json` at the root: the folder and the state of each container's table. It is for people, and never read back.

use std::time::Duration;

use serde::Serialize;

use super::table::Follower;
use crate::State;

const NAME: &str = "tables.json";
/// From one writing to the next, at least: states change often.
const EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct NamesFile {
    written: Option<Vec<u8>>,
    /// In terms of the clock's elapsed time.
    next: Duration,
}

#[derive(Serialize)]
struct Contents<'f> {
    about: &'static str,
    tables: Vec<Entry<'f>>,
}

#[derive(Serialize)]
struct Entry<'f> {
    database: &'f str,
    container: &'f str,
    /// Folder, or address in a store.
    address: String,
    state: &'static str,
}

impl NamesFile {
    /// Writes the file where it differs from the last one.
    pub fn show<'f>(&mut self, state: &State, followers: impl Iterator<Item = &'f Follower>) {
        let now = state.resources.router().clock().elapsed();
        if now < self.next {
            return;
        }
        let mut followers = followers.peekable();
        if self.written.is_none() && followers.peek().is_none() {
            // A server without tables needs no folder for them.
            return;
        }
        let options = state.options.as_ref().expect("a follower has options");
        let entry = |follower: &'f Follower| {
            let (database, container, folder) = follower.names();
            let address = options.root.address(folder);
            Entry { database, container, address, state: follower.state_name() }
        };
        let contents = Contents {
            about: "Folders of analytical tables by container, for people. Programs read the tables; no program reads this file.",
            tables: followers.map(entry).collect(),
        };
        let text = serde_json::to_vec_pretty(&contents).expect("texts are JSON");
        self.next = now + EVERY.max(options.lag);
        if self.written.as_ref() == Some(&text) {
            return;
        }
        let written = options.root.files().and_then(|files| files.write(NAME, &text));
        match written {
            Ok(()) => self.written = Some(text),
            Err(error) => tracing::debug!(%error, "the names of analytical tables are not written"),
        }
    }
}
