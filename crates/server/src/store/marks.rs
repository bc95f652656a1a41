//! Marks of a prefix about the account below it as a whole.
//!
//! | object | meaning |
//! |---|---|
//! | `RESTORING` | a restore or a migration to this prefix is not complete: the first object written, and the last one deleted |
//! | `RESTORED` | no server has served the restored account yet. The first one notes it in the catalog, and deletes the object |
//! | `MOVED` | the account was moved; the object names its new place. Servers refuse this one |

use super::Prefix;
use crate::restore_mark::RESTORED;

const RESTORING: &str = "RESTORING";
const MOVED: &str = "MOVED";
const BYTES_MAX: u64 = 4096;

impl Prefix {
    /// Refuses a prefix of an unfinished restore or migration, or one whose account was moved.
    pub async fn check_is_served_here(&self) -> Result<(), String> {
        if self.restoring().await?.is_some() {
            return Err(format!(
                "'{}' is a restore or a move that was cut off, of which something is missing: remove what lies there and begin again, or go on with the move",
                self.name()
            ));
        }
        match self.moved().await? {
            Some(to) => Err(format!(
                "the account of '{}' was moved to {to}: serve it there; to go back, remove the object '{MOVED}'",
                self.name()
            )),
            None => Ok(()),
        }
    }

    /// The name of the restore or migration in progress.
    pub async fn restoring(&self) -> Result<Option<String>, String> {
        self.mark(RESTORING).await
    }

    pub async fn set_restoring(&self, what: &str) -> Result<(), String> {
        self.create(RESTORING, format!("{what}\n").into_bytes()).await
    }

    pub async fn clear_restoring(&self) -> Result<(), String> {
        self.remove(RESTORING).await
    }

    pub async fn set_restored(&self) -> Result<(), String> {
        self.put(RESTORED, b"\n".to_vec()).await
    }

    pub async fn is_restored(&self) -> Result<bool, String> {
        Ok(self.mark(RESTORED).await?.is_some())
    }

    pub async fn clear_restored(&self) -> Result<(), String> {
        self.remove(RESTORED).await
    }

    /// Where the account was moved to.
    pub async fn moved(&self) -> Result<Option<String>, String> {
        self.mark(MOVED).await
    }

    pub async fn set_moved(&self, to: &str) -> Result<(), String> {
        self.create(MOVED, format!("{to}\n").into_bytes()).await
    }

    async fn mark(&self, name: &str) -> Result<Option<String>, String> {
        let found = self.get(name, BYTES_MAX).await?;
        Ok(found.map(|text| String::from_utf8_lossy(&text).trim().to_owned()))
    }
}
