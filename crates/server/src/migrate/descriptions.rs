//! Output of `shardlake migrate`.

use shardlake_storage::Followed;

use super::command::Migrate;
use super::rows::Evened;
use crate::operate::counted;
use crate::store::url_of;

/// Results of the steps that ran while the source's server was serving.
#[derive(Default)]
pub struct Ahead {
    pub copied: Option<Evened>,
    /// `None` where the server keeps no log.
    pub followed: Option<Followed>,
    /// The reason why an earlier copy could not continue.
    pub cut: Option<String>,
}

/// How the target became equal to the source.
pub enum Moved {
    Followed(Followed),
    Compared {
        evened: Evened,
        /// The reason why a copy that was made ahead could not continue.
        cut: Option<String>,
    },
}

pub fn of_ahead(command: &Migrate, ahead: &Ahead) -> String {
    let to = command.to.display();
    let mut lines = Vec::new();
    if let Some(what) = &ahead.cut {
        lines.push(format!("what was copied before does not go on ({what}): copied anew"));
    }
    if let Some(evened) = &ahead.copied {
        lines.push(format!("copied to {to}: {}", rows(evened)));
    }
    match &ahead.followed {
        Some(followed) => {
            lines.push(format!("followed to {to}: {}", writes(followed)));
            lines.push("next: stop the server, and give the same command without --online; it has only to do what the server writes until then".to_owned());
        }
        None => lines.push(
            "next: stop the server, and give the same command without --online; it reads both sides, since the server keeps no log. To have it shorter, start the server with --restore-window 1d, and give this command once more before"
                .to_owned(),
        ),
    }
    lines.join("\n")
}

pub fn of_moved(command: &Migrate, moved: &Moved) -> String {
    let (from, to) = (command.from.display(), command.to.display());
    let log = command.wal_store.as_ref().map_or_else(String::new, |log| format!(" --wal-store {log}"));
    let did = match moved {
        Moved::Followed(followed) => format!("{} since the copy", writes(followed)),
        Moved::Compared { evened, cut: None } => rows(evened),
        Moved::Compared { evened, cut: Some(what) } => {
            format!("{}; all were read, because the copy could not go on ({what})", rows(evened))
        }
    };
    let next = match url_of(&command.to) {
        Some(url) => format!("shardlake serve --store {url}{log} --data-dir NEW_DIRECTORY"),
        None => format!("shardlake serve --data-dir {to}"),
    };
    format!(
        "moved to {to}: {did}\nnext: {next}\nwhat lies in {from} is not served any more, and may be removed"
    )
}

fn rows(evened: &Evened) -> String {
    let (all, put, deleted) = (counted(evened.rows, "row"), evened.put, evened.deleted);
    format!("{all}, of which {put} were written and {deleted} removed")
}

fn writes(followed: &Followed) -> String {
    format!("{} of the log with {}", counted(followed.groups, "write"), counted(followed.size_bytes, "byte"))
}
