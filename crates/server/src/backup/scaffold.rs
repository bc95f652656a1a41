//! A scratch data directory of links to files elsewhere: for `verify`, which only reads.
//!
//! For a backup each file is a link to its content; for a running server each shard is a link to its checkpoint.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::{Directory, make_directory};
use super::manifest::Manifest;
use super::place::Place;

/// Removed when dropped.
#[derive(Debug)]
pub struct Scaffold(PathBuf);

impl Scaffold {
    fn new(scratch: &Path) -> Result<Scaffold, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = scratch.join(format!("shardlake-verify-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scaffold(path)),
                // Left by a killed process of this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unusable(&path, &error)),
            }
        }
    }

    /// The shards of a backup.
    pub async fn of_backup(
        (place, directory): (&Place, &Directory),
        manifest: &Manifest,
        scratch: &Path,
    ) -> Result<Scaffold, String> {
        let scaffold = Scaffold::new(scratch)?;
        let failed = |error: io::Error| unusable(&scaffold.0, &error);
        for file in &manifest.files {
            place.look(file).await.map_err(|damage| damage.of(place, file))?;
            let content = directory.object_path(&file.sha256).canonicalize().map_err(failed)?;
            let link = scaffold.0.join(&file.path);
            link.parent().map_or(Ok(()), make_directory).map_err(failed)?;
            symlink(content, link).map_err(failed)?;
        }
        Ok(scaffold)
    }

    /// Links to the checkpoint of a running server's shards.
    pub fn of_checkpoint(
        data_dir: &Path,
        shards: usize,
        name: &str,
        scratch: &Path,
    ) -> Result<Scaffold, String> {
        let scaffold = Scaffold::new(scratch)?;
        for number in 0..shards {
            let shard = if number == 0 { "shard".to_owned() } else { format!("shard-{number}") };
            let kept = data_dir.join(&shard).join("checkpoints").join(name);
            let kept = kept.canonicalize().map_err(|error| {
                format!(
                    "'{}' cannot be read ({error}): is '{}' the data directory of the server that --endpoint names?",
                    kept.display(),
                    data_dir.display()
                )
            })?;
            symlink(kept, scaffold.0.join(shard)).map_err(|error| unusable(&scaffold.0, &error))?;
        }
        Ok(scaffold)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scaffold {
    fn drop(&mut self) {
        // Deletes the links; their targets stay.
        let _stays = fs::remove_dir_all(&self.0);
    }
}

fn unusable(path: &Path, error: &io::Error) -> String {
    format!("the scratch directory '{}' cannot be used: {error}", path.display())
}
