//! Backups and running servers, to be looked at as accounts: for `verify`, which only reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shardlake_account::Shards;

use super::directory::{self, Directory};
use super::identifier::BackupId;
use super::place::Place;
use super::scaffold::Scaffold;
use super::shelf::Alone;
use super::source::Source;
use crate::operate::Client;
use crate::store::url_of;

/// A state is given up after ten minutes of silence.
const ASK_EVERY: Duration = Duration::from_secs(60);

/// The data to be checked.
pub enum Subject<'a> {
    /// A directory with the layout of a data directory.
    Directory(&'a Path),
    /// Shards that are open to be read, and where they lie.
    Shards(Shards, Vec<PathBuf>),
}

/// Whether a directory or a prefix is marked as one of backups by its `FORMAT`.
pub async fn holds_backups(place: &Path) -> Result<bool, String> {
    match url_of(place) {
        None => Ok(directory::holds_backups(place)),
        Some(url) => holds_backups_in_store(&url).await,
    }
}

/// Has `work` look at a backup, the newest without an id.
pub async fn with_backup<T>(
    at: &Path,
    id: Option<&BackupId>,
    scratch: &Path,
    work: impl AsyncFnOnce(Subject<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let place = Place::open(at).await?;
    let _lock = place.lock(Alone::No).await?;
    let manifest = place.find(id).await?;
    if manifest.is_of_store() {
        let (shards, places) = shards_of(at, &place, &manifest).await?;
        return work(Subject::Shards(shards, places)).await;
    }
    if url_of(at).is_some() {
        return Err(format!(
            "the backup '{}' is of an account on a local disk, and lies in a store: `shardlake backup check` reads every byte of it; restore it to verify more",
            manifest.id
        ));
    }
    let scaffold = Scaffold::of_backup((&place, &Directory::open(at)?), &manifest, scratch).await?;
    work(Subject::Directory(scaffold.path())).await
}

/// Runs `work` on the current state of a running server.
pub async fn with_running<T>(
    client: Client,
    at: &Path,
    scratch: &Path,
    work: impl AsyncFnOnce(Subject<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let source = Source::of_server(client).await?;
    let looked = async {
        let name = source.checkpoint().unwrap_or_default();
        let scaffold;
        let subject = match url_of(at) {
            Some(url) => kept_in_store(&url, &name).await?,
            None if source.state.is_of_store => {
                return Err(format!(
                    "the server has its account in a store: name that instead of '{}'",
                    at.display()
                ));
            }
            None => {
                scaffold = Scaffold::of_checkpoint(at, source.state.shards.len(), &name, scratch)?;
                Subject::Directory(scaffold.path())
            }
        };
        tokio::select! {
            looked = work(subject) => looked,
            lost = source.keep_up(ASK_EVERY) => Err(lost),
        }
    }
    .await;
    source.end(None, None).await;
    looked
}

#[cfg(feature = "object-storage")]
mod in_store {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use shardlake_account::Shards;
    use shardlake_lease::{Gathered, Location};
    use shardlake_storage::object::Moment;

    use crate::backup::look::Subject;
    use crate::backup::manifest::Manifest;
    use crate::backup::place::Place;
    use crate::backup::shelf::{FORMAT, content_path};
    use crate::store::{Prefix, Stopped, StoreUrl, url_of};

    pub async fn holds_backups_in_store(url: &StoreUrl) -> Result<bool, String> {
        let found = Prefix::new(url)?.get("FORMAT", 1024).await?;
        Ok(found.is_some_and(|found| found == FORMAT.as_bytes()))
    }

    pub async fn shards_of(
        at: &Path,
        place: &Place,
        manifest: &Manifest,
    ) -> Result<(Shards, Vec<PathBuf>), String> {
        opened(&gathered(at, place, manifest).await?, &Moment::Latest).await
    }

    /// Refuses a log with a missing object, of any shard of a backup.
    pub async fn check_logs(at: &Path, place: &Place, manifest: &Manifest) -> Result<(), String> {
        gathered(at, place, manifest).await?.check_logs().await
    }

    /// The files of a backup under their paths, as a store that takes no writes.
    async fn gathered(at: &Path, place: &Place, manifest: &Manifest) -> Result<Prefix, String> {
        let location = match url_of(at) {
            Some(url) => Prefix::new(&url)?.location,
            None => {
                let at = std::path::absolute(at).map_err(|error| error.to_string())?;
                let url = format!("file://{}", at.display());
                Location::parse(&url, std::iter::empty()).map_err(|error| error.to_string())?
            }
        };
        let mut names = BTreeMap::new();
        for file in &manifest.files {
            place.look(file).await.map_err(|damage| damage.of(place, file))?;
            names.insert(file.path.clone(), (content_path(&file.sha256), file.size_bytes));
        }
        let url = format!("{}, backup {}", location.url, manifest.id);
        let location = Gathered::over(&location, names, url);
        Ok(Prefix { location })
    }

    pub async fn kept_in_store(url: &StoreUrl, name: &str) -> Result<Subject<'static>, String> {
        let opened = opened(&Prefix::of_account(url).await?, &Moment::Checkpoint(name.to_owned())).await;
        let (shards, places) = opened.map_err(|what| {
            format!("{what}: is '{url}' where the server that --endpoint names has its account?")
        })?;
        Ok(Subject::Shards(shards, places))
    }

    /// Runs `work` on an account whose server is stopped, and which may be in the middle of a migration.
    pub async fn with_stopped<T>(
        url: &StoreUrl,
        (what, moving_to): (&str, Option<&str>),
        work: impl AsyncFnOnce(Subject<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let stopped = Stopped::take(url, what, moving_to).await?;
        let looked = async {
            let (shards, places) = opened(&stopped.prefix, &Moment::Latest).await?;
            work(Subject::Shards(shards, places)).await
        };
        let looked = looked.await;
        stopped.claim.release().await;
        looked
    }

    async fn opened(prefix: &Prefix, moment: &Moment) -> Result<(Shards, Vec<PathBuf>), String> {
        let shards = prefix.shards_to_read(moment).await?;
        let place = |number| PathBuf::from(format!("{}/s/{number:05}-1", prefix.name()));
        let places = (0..shards.count()).map(place).collect();
        Ok((shards, places))
    }
}

#[cfg(not(feature = "object-storage"))]
mod in_store {
    use std::path::{Path, PathBuf};

    use shardlake_account::Shards;

    use crate::backup::look::Subject;
    use crate::backup::manifest::Manifest;
    use crate::backup::place::Place;
    use crate::store::StoreUrl;

    pub async fn holds_backups_in_store(url: &StoreUrl) -> Result<bool, String> {
        Err(url.unsupported())
    }

    pub async fn shards_of(
        _at: &Path,
        _place: &Place,
        manifest: &Manifest,
    ) -> Result<(Shards, Vec<PathBuf>), String> {
        Err(format!(
            "the backup '{}' is of an account in an object store, and this build has none: cargo build --release --features object-storage",
            manifest.id
        ))
    }

    pub async fn check_logs(_at: &Path, _place: &Place, _manifest: &Manifest) -> Result<(), String> {
        Ok(())
    }

    pub async fn kept_in_store(url: &StoreUrl, _name: &str) -> Result<Subject<'static>, String> {
        Err(url.unsupported())
    }

    pub async fn with_stopped<T>(
        url: &StoreUrl,
        _who: (&str, Option<&str>),
        _work: impl AsyncFnOnce(Subject<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        Err(url.unsupported())
    }
}

pub use in_store::{check_logs, with_stopped};
use in_store::{holds_backups_in_store, kept_in_store, shards_of};
