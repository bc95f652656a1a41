//! Syncs that are slow, or stand still until the test releases them, by a small library that is
//! loaded before the server.
//!
//! Where there is no C compiler, or no Linux, the weather is always calm, and the tests report a
//! skip. The library counts the syncs that begin and end, so that a test waits for "a sync is under
//! way" and not for some time.

use shardlake_testkit::{ServerOptions, note_skipped};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Interval of polls of another process.
pub const LOOK_AGAIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Weather {
    directory: TempDir,
    library: PathBuf,
}

impl Weather {
    /// `None`, and a skip that is counted, where the library cannot be made.
    pub fn new(test: &str) -> Option<Weather> {
        if !cfg!(target_os = "linux") {
            note_skipped(test, "syncs are slowed on Linux only");
            return None;
        }
        let directory = TempDir::with_prefix("shardlake-weather-").expect("a temporary directory");
        let library = directory.path().join("slow_sync.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/durability/slow_sync.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .status();
        match compiled {
            Ok(status) if status.success() => Some(Weather { directory, library }),
            Ok(status) => panic!("cc cannot compile slow_sync.c: {status}"),
            Err(error) => {
                note_skipped(test, &format!("syncs are not slowed, there is no 'cc': {error}"));
                None
            }
        }
    }

    pub fn over(&self, mut options: ServerOptions) -> ServerOptions {
        options.environment.push(("LD_PRELOAD".into(), self.library.clone().into_os_string()));
        options.environment.push(("SLOW_SYNC_DIR".into(), self.directory.path().as_os_str().to_owned()));
        options
    }

    pub fn delay(&self, delay: Duration) {
        self.write("delay_us", &delay.as_micros().to_string());
    }

    /// No sync ends before [`Weather::release`].
    pub fn hold(&self) {
        self.write("hold", "");
    }

    pub fn release(&self) {
        let _was_not_held = std::fs::remove_file(self.directory.path().join("hold"));
    }

    /// A killed server leaves syncs that never end.
    pub fn server_was_killed(&self) {
        self.release();
        self.write("begun", "");
        self.write("ended", "");
    }

    pub fn begun(&self) -> u64 {
        self.count("begun")
    }

    pub fn is_a_sync_under_way(&self) -> bool {
        // In this order: a sync that ends in between is not taken for one under way.
        let begun = self.count("begun");
        begun > self.count("ended")
    }

    fn count(&self, name: &str) -> u64 {
        std::fs::metadata(self.directory.path().join(name)).map_or(0, |file| file.len())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).expect("a file of ours can be written");
    }
}

/// Looks again and again. The bound only ends a run that hangs.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    panic!("never: {what}");
}
