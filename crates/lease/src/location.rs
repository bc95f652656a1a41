//! The store and the prefix that a URL names.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path as Directory;
use std::sync::Arc;

use shardlake_stdx::Clock;
use shardlake_storage::object::object_store::local::LocalFileSystem;
use shardlake_storage::object::object_store::path::Path;
use shardlake_storage::object::object_store::{ObjectStore, ObjectStoreScheme, parse_url_opts};
use url::Url;

use crate::ClusterError;
use crate::metered::{Metered, Observe};
use crate::reader_limit::ReaderLimit;

/// Store and prefix of an account.
#[derive(Debug, Clone)]
pub struct Location {
    pub store: Arc<dyn ObjectStore>,
    pub prefix: Path,
    /// As given by the user; it holds no secrets.
    pub url: String,
}

impl Location {
    /// Credentials and options come from `environment`, by the names that the object-store library reads:
    /// `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `AZURE_STORAGE_ACCOUNT_NAME`, `GOOGLE_SERVICE_ACCOUNT` and so on.
    ///
    /// # Errors
    /// [`ClusterError::Url`] for a text that is no such URL, or a store that cannot be set up.
    pub fn parse(
        url: &str,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Location, ClusterError> {
        let wrong = |why: String| ClusterError::Url { url: url.to_owned(), why };
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
            return Err(wrong("credentials and options belong into environment variables".into()));
        }
        let (scheme, _) = ObjectStoreScheme::parse(&parsed).map_err(|error| wrong(error.to_string()))?;
        let (store, prefix): (Arc<dyn ObjectStore>, Path) = match scheme {
            ObjectStoreScheme::Local => {
                let directory = parsed.to_file_path().map_err(|()| wrong("it names no directory".into()))?;
                (local(&directory).map_err(wrong)?, Path::default())
            }
            ObjectStoreScheme::AmazonS3
            | ObjectStoreScheme::MicrosoftAzure
            | ObjectStoreScheme::GoogleCloudStorage => {
                let options = environment.map(|(name, value)| (name.to_ascii_lowercase(), value));
                let (store, prefix) =
                    parse_url_opts(&parsed, options).map_err(|error| wrong(error.to_string()))?;
                (Arc::from(store), prefix)
            }
            _ => return Err(wrong(format!("'{}' is no kind of store", parsed.scheme()))),
        };
        Ok(Location { store, prefix, url: url.to_owned() })
    }

    /// The same location, with `observe` called for each request.
    #[must_use]
    pub fn observed(self, observe: Observe, clock: Clock) -> Location {
        Location { store: Arc::new(Metered::new(self.store, observe, clock)), ..self }
    }

    pub fn place(&self, name: &str) -> Path {
        self.prefix.parts().chain(Path::from(name).parts()).collect()
    }
}

/// A directory, for one machine: acknowledged writes are on stable storage.
fn local(directory: &Directory) -> Result<Arc<dyn ObjectStore>, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("the directory cannot be used: {error}");
    // The directory holds keys, too.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| cannot(&error))?;
    let store = LocalFileSystem::new_with_prefix(directory).map_err(|error| cannot(&error))?;
    Ok(ReaderLimit::of(store.with_fsync(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Location, ClusterError> {
        Location::parse(url, std::iter::empty())
    }

    #[test]
    fn urls_name_a_store_and_a_prefix() {
        let s3 = parse("s3://bucket/some/prefix").expect("valid");
        assert_eq!(s3.prefix.as_ref(), "some/prefix");
        assert_eq!(s3.place("s/00001-1").as_ref(), "some/prefix/s/00001-1");
        let directory = tempfile::tempdir().expect("a directory");
        let local = parse(&format!("file://{}/new", directory.path().display())).expect("valid");
        assert_eq!(local.place("nodes").as_ref(), "nodes");
        assert!(directory.path().join("new").is_dir());
    }

    #[test]
    fn what_is_no_store_is_refused_with_the_reason() {
        for url in [
            "data",
            "ftp://host/x",
            "http://host/x",
            "memory:///",
            "s3://key:secret@bucket/x",
            "s3://b/x?region=y",
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains(url) && error.contains("s3://bucket/prefix"), "{error}");
        }
    }
}
