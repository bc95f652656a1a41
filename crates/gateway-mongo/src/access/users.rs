//! Who there is: the account, by its name, with any of its keys.
//!
//! Nothing tells a name that exists from one that does not: both have a salt, which is a keyed hash of the name, and the same number of
//! rounds; a proof for a name that does not exist fails as one with a wrong password does. What is kept of keys is derived when
//! somebody first proves one.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::mechanism::Mechanism;
use super::scram::Credential;
use super::{Access, Principal};
use crate::errors::{Result, code, error};

/// A key of the account, as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub text: String,
    pub access: Access,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a key, {:?}", self.access)
    }
}

pub struct Users {
    account: String,
    keys: Arc<Vec<Key>>,
    /// What salts are made of.
    secret: Vec<u8>,
    of_account: [OnceCell<Arc<Vec<Credential>>>; 2],
}

impl Users {
    pub fn new(account: &str, keys: &[Key]) -> Users {
        // Salts stay the same as long as the first key does, so drivers need not derive theirs anew.
        let first = keys.first().map_or("", |key| &key.text);
        let secret = Mechanism::Sha256.mac(first.as_bytes(), b"salts of the MongoDB protocol");
        Users {
            account: account.to_owned(),
            keys: Arc::new(keys.to_vec()),
            secret,
            of_account: Default::default(),
        }
    }

    pub fn salt(&self, mechanism: Mechanism, user: &str) -> Vec<u8> {
        let mut salt = Mechanism::Sha256.mac(&self.secret, format!("{}:{user}", mechanism.name()).as_bytes());
        salt.truncate(mechanism.salt_size_bytes());
        salt
    }

    /// What is kept of this user's passwords; none where there is no such user.
    pub async fn credentials(&self, mechanism: Mechanism, user: &str) -> Result<Arc<Vec<Credential>>> {
        let kept = &self.of_account[mechanism as usize];
        // Also for a name that does not exist, whose first proof takes as long.
        let derived = kept.get_or_try_init(|| self.derive(mechanism)).await?.clone();
        Ok(if user == self.account { derived } else { Arc::default() })
    }

    async fn derive(&self, mechanism: Mechanism) -> Result<Arc<Vec<Credential>>> {
        let (keys, user) = (self.keys.clone(), self.account.clone());
        let salt = self.salt(mechanism, &user);
        let derive = move || {
            let of_key = |key: &Key| Credential::derive(mechanism, &user, &key.text, &salt);
            keys.iter().map(of_key).collect::<Result<Vec<Credential>>>()
        };
        let derived = tokio::task::spawn_blocking(derive).await;
        derived.map_err(|_| error!(code::INTERNAL_ERROR, "a key cannot be read"))?.map(Arc::new)
    }

    /// Who has proved to know the password at this place of [`Users::credentials`].
    pub fn principal(&self, database: &str, place: usize) -> Option<Principal> {
        let key = self.keys.get(place)?;
        Some(Principal { name: self.account.clone(), database: database.to_owned(), access: key.access })
    }
}
