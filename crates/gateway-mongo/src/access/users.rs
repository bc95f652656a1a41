//! Users: the account, by its name, with any of its keys; and the users made by `createUser`, which the catalog stores.
//!
//! Replies do not reveal whether a name exists. Every name has a salt and the same number of rounds, and a proof for an unknown name fails
//! like one with a wrong password. The salt of the account and of an unknown name is a keyed hash of the name. Credentials of keys are
//! derived at the first login.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardlake_account::Account;
use shardlake_model::Login;
use tokio::sync::OnceCell;

use super::logins::Kept;
use super::mechanism::Mechanism;
use super::roles::Rights;
use super::scram::Credential;
use super::{Access, Identity, Principal};
use crate::errors::{Result, code, error};

/// Size of the rights cache. A full cache is cleared.
const RIGHTS_AT_HAND_MAX: usize = 1024;

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
    /// Replaced as a whole when a key is rotated.
    keys: Mutex<Arc<Keys>>,
    /// Source of the salts.
    secret: Vec<u8>,
    /// Rights of users, each with the record that they were decoded from.
    rights: Mutex<HashMap<u32, Known>>,
}

/// The account's keys, and the credentials that were derived from them.
#[derive(Debug, Default)]
struct Keys {
    keys: Vec<Key>,
    credentials: [OnceCell<Arc<Vec<Credential>>>; 2],
}

/// A user's record in the catalog, and the rights decoded from it.
type Known = (Arc<Login>, Arc<Rights>);

/// Credentials to verify a login against.
#[derive(Debug)]
pub struct Claimed {
    pub salt: Vec<u8>,
    pub iterations: u32,
    pub credentials: Arc<Vec<Credential>>,
    /// Keys that the credentials were derived from.
    keys: Arc<Keys>,
    /// `None`: the account, or an unknown name.
    user: Option<u32>,
}

impl Users {
    pub fn new(account: &str, keys: &[Key]) -> Users {
        // Salts depend on the first key alone, so drivers can cache derived keys until it changes.
        let first = keys.first().map_or("", |key| &key.text);
        let secret = Mechanism::Sha256.mac(first.as_bytes(), b"salts of the MongoDB protocol");
        Users {
            account: account.to_owned(),
            keys: Mutex::new(Arc::new(Keys { keys: keys.to_vec(), ..Keys::default() })),
            secret,
            rights: Mutex::default(),
        }
    }

    /// Accepts these keys in place of all earlier ones. Connections that are logged in stay so, and salts stay the same.
    pub fn set_keys(&self, keys: Vec<Key>) {
        let keys = Arc::new(Keys { keys, ..Keys::default() });
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether this is the name of the account, which no user may have.
    pub fn is_account(&self, user: &str) -> bool {
        user == self.account
    }

    fn salt(&self, mechanism: Mechanism, user: &str) -> Vec<u8> {
        let mut salt = Mechanism::Sha256.mac(&self.secret, format!("{}:{user}", mechanism.name()).as_bytes());
        salt.truncate(mechanism.salt_size_bytes());
        salt
    }

    /// Credentials to verify a login against. An unknown user has none, so no proof matches.
    pub async fn claimed(
        &self,
        account: &Account,
        mechanism: Mechanism,
        (database, user): (&str, &str),
    ) -> Result<Claimed> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = &keys.credentials[mechanism as usize];
        // Derived for unknown names, too, so that their first login costs the same time.
        let derived = kept.get_or_try_init(|| self.derive(mechanism, &keys)).await?.clone();
        let login = account.definitions().login(database, user).filter(|_| !self.is_account(user));
        let proof = login.and_then(|login| {
            let kept = Kept::decoded(&login.kept)?;
            Some((login.number, kept.proofs.into_iter().find(|proof| proof.mechanism == mechanism)?))
        });
        if let Some((number, proof)) = proof {
            let (salt, iterations) = (proof.salt, proof.iterations);
            let credentials = Arc::new(vec![proof.credential]);
            return Ok(Claimed { salt, iterations, credentials, keys, user: Some(number) });
        }
        let credentials = if self.is_account(user) { derived } else { Arc::default() };
        let (salt, iterations) = (self.salt(mechanism, user), mechanism.iterations());
        Ok(Claimed { salt, iterations, credentials, keys, user: None })
    }

    async fn derive(&self, mechanism: Mechanism, keys: &Keys) -> Result<Arc<Vec<Credential>>> {
        let (keys, user) = (keys.keys.clone(), self.account.clone());
        let salt = self.salt(mechanism, &user);
        let derive = move || {
            let of_key = |key: &Key| Credential::derive(mechanism, &user, &key.text, &salt);
            keys.iter().map(of_key).collect::<Result<Vec<Credential>>>()
        };
        let derived = tokio::task::spawn_blocking(derive).await;
        derived.map_err(|_| error!(code::INTERNAL_ERROR, "a key cannot be read"))?.map(Arc::new)
    }

    /// The user whose credential at this place was proved.
    pub fn principal(
        &self,
        (database, user): (&str, &str),
        claimed: &Claimed,
        place: usize,
    ) -> Option<Principal> {
        let identity = match claimed.user {
            Some(number) => Identity::User(number),
            None => Identity::Account(claimed.keys.keys.get(place)?.access),
        };
        Some(Principal { name: user.to_owned(), database: database.to_owned(), identity })
    }

    /// Current rights of a user; `None` if the user was removed.
    pub fn rights(&self, account: &Account, number: u32) -> Option<Arc<Rights>> {
        let login = account.definitions().login_of_number(number)?;
        let mut at_hand = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, rights)) = at_hand.get(&number)
            && Arc::ptr_eq(of, &login)
        {
            return Some(rights.clone());
        }
        let rights = Arc::new(Kept::decoded(&login.kept).map(|kept| kept.rights()).unwrap_or_default());
        if at_hand.len() >= RIGHTS_AT_HAND_MAX {
            at_hand.clear();
        }
        at_hand.insert(number, (login, rights.clone()));
        Some(rights)
    }
}
