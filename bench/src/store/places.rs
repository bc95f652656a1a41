//! Places of the accounts of this benchmark, and their servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use shardlake_testkit::bucket::{Bucket, Weather};
use shardlake_testkit::{ServerOptions, ServerProcess};

use super::options::StoreOptions;
use crate::cpu::settle;
use crate::workload::{CONTAINER, DATABASE};
use crate::{Outcome, loading, query_workload};

/// The longest wait for remaining work after loading.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub enum Place {
    Disk,
    /// A directory as a store.
    Directory,
    Bucket(Arc<Bucket>),
    Url(String),
}

impl Place {
    pub fn bucket() -> Place {
        Place::Bucket(Arc::new(Bucket::open()))
    }

    pub fn name(&self) -> String {
        match self {
            Place::Disk => "local disk".into(),
            Place::Directory => "file://".into(),
            Place::Bucket(_) => "bucket, near".into(),
            Place::Url(url) => url.clone(),
        }
    }
}

/// A server, and the parts that must outlive it.
pub struct Started {
    pub server: ServerProcess,
    pub place: Place,
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Started {
    pub fn empty(options: &StoreOptions, place: Place) -> Outcome<Started> {
        let directory = tempfile::TempDir::with_prefix("shardlake-bench-store-")?;
        let program = options.server.clone();
        let server = server(&program, &place, directory.path(), "one", &[]).try_start()?;
        Ok(Started { server, place, directory, program })
    }

    /// With the containers of the point and of the query benchmark.
    pub fn with_items(options: &StoreOptions, place: Place) -> Outcome<Started> {
        let started = Started::empty(options, place)?;
        eprintln!("loading {} items, twice, into {}", options.items, started.place.name());
        loading::load(&started.server, options.items)?;
        query_workload::load(&started.server, options.items)?;
        settle(started.server.process_id(), PATIENCE);
        Ok(started)
    }

    /// A spare for the same account, which starts when the other server has ended.
    pub fn spare(&self) -> ServerOptions {
        server(&self.program, &self.place, self.directory.path(), "spare", &["--standby"])
    }

    /// Drops everything cached. `delay` is that of a bucket from then on.
    pub fn cold(&mut self, delay: Duration) {
        self.server.kill();
        self.server.restart();
        self.set_delay(delay);
    }

    /// With a cache on the disk that is empty.
    pub fn restart_with_disk_cache(&mut self) -> Outcome {
        self.server.kill();
        let cache = format!("--disk-cache={}", self.directory.path().join("cache").display());
        let options = server(&self.program, &self.place, self.directory.path(), "one", &[&cache]);
        self.server = options.try_start()?;
        Ok(())
    }

    pub fn set_delay(&self, delay: Duration) {
        if let Place::Bucket(bucket) = &self.place {
            bucket.set(Weather { delay, ..Weather::default() });
        }
    }

    pub fn container(&self) -> String {
        format!("/dbs/{DATABASE}/colls/{CONTAINER}")
    }
}

fn server(
    program: &std::path::Path,
    place: &Place,
    directory: &std::path::Path,
    node: &str,
    arguments: &[&str],
) -> ServerOptions {
    let mut options = ServerOptions::new(program)
        .durability("sync")
        .data_dir(directory.join(node))
        .argument("--throughput=unlimited")
        .may_log("the lease could not be renewed");
    let url = match place {
        Place::Disk => None,
        Place::Directory => Some(format!("file://{}/account", directory.display())),
        Place::Bucket(bucket) => {
            options
                .environment
                .extend(bucket.environment().into_iter().map(|(name, value)| (name.into(), value.into())));
            Some("s3://bucket/account".to_owned())
        }
        Place::Url(url) => {
            let handed_on = |(name, _): &(std::ffi::OsString, std::ffi::OsString)| {
                let name = name.to_string_lossy();
                ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix))
            };
            options.environment.extend(std::env::vars_os().filter(handed_on));
            Some(format!(
                "{}/{}",
                url.trim_end_matches('/'),
                directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            ))
        }
    };
    if let Some(url) = url {
        options = options
            .argument(format!("--store={url}"))
            .argument("--lease=3")
            .argument(format!("--node-name={node}"));
    }
    arguments.iter().fold(options, |options, argument| options.argument(argument))
}
