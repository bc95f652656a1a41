//! The account's keys: the well-known one of the official emulator, or the account's own from a file.
//!
//! The well-known key is no secret, so it is accepted only while every listener is a loopback address. A server that
//! others can reach gets keys of its own at its first start, in `keys.json` of the data directory with mode 0600.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use shardlake_signature::{Access, AccountKey};
use shardlake_stdx::Random;

use crate::config::Config;
use crate::private_file::{self, Secrecy};

/// Published by the reference's vendor; every SDK's samples use it.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const KEY_SIZE_BYTES: usize = 64;

/// The content of a key file. Only the primary key must be there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyFile {
    primary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secondary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    primary_readonly: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secondary_readonly: Option<String>,
}

/// The keys a server accepts, and where a person finds them.
pub struct AccountKeys {
    pub keys: Vec<AccountKey>,
    pub source: KeySource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    WellKnown,
    File(PathBuf),
}

impl AccountKeys {
    /// Whether a key that everybody knows opens the account, from a file or not.
    pub fn accept_the_well_known(&self) -> bool {
        self.keys.iter().any(|key| key.key.trim() == WELL_KNOWN_KEY)
    }

    /// The keys that the configuration asks for; generates them where they are needed and missing.
    pub fn load(config: &Config, random: &Random) -> Result<AccountKeys, String> {
        if let Some(path) = &config.key_file {
            return read(path, config);
        }
        match generated(config, random)? {
            Some(path) => read(&path, config),
            None => {
                let keys = vec![AccountKey { key: WELL_KNOWN_KEY.to_owned(), access: Access::Full }];
                Ok(AccountKeys { keys, source: KeySource::WellKnown })
            }
        }
    }
}

/// The file with keys of the account's own, generated where it is missing; `None` where the account has no such keys.
pub fn generated(config: &Config, random: &Random) -> Result<Option<PathBuf>, String> {
    if config.key_file.is_some() || config.is_loopback_only() {
        return Ok(None);
    }
    let Some(data_dir) = &config.data_dir else {
        return Err("an account that others can reach needs keys of its own: give --data-dir to have them \
                    generated, or --key-file, or listen on 127.0.0.1"
            .into());
    };
    let path = data_dir.join("keys.json");
    if !path.exists() {
        generate(&path, random)?;
        tracing::info!(
            target: "audit",
            caller = "server",
            operation = "GenerateKeys",
            resource = %path.display(),
            outcome = "done",
            "keys generated"
        );
    }
    Ok(Some(path))
}

fn read(path: &Path, config: &Config) -> Result<AccountKeys, String> {
    let wrong = |what: String| format!("the key file '{}' {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let file: KeyFile = serde_json::from_str(&text).map_err(|error| {
        wrong(format!("is not {{\"primary\": …, \"secondary\": …, \"primaryReadonly\": …, \"secondaryReadonly\": …}}: {error}"))
    })?;
    let all = [
        (Some(file.primary), Access::Full),
        (file.secondary, Access::Full),
        (file.primary_readonly, Access::ReadOnly),
        (file.secondary_readonly, Access::ReadOnly),
    ];
    let mut keys = Vec::new();
    for (key, access) in all {
        let Some(key) = key else { continue };
        if STANDARD.decode(key.trim()).map_or(true, |secret| secret.is_empty()) {
            return Err(wrong("holds a key that is not base64 text".into()));
        }
        if key.trim() == WELL_KNOWN_KEY && !config.is_loopback_only() {
            return Err(wrong(
                "holds the emulator's well-known key, which is no secret: put other keys there, or \
                              listen on loopback addresses only"
                    .into(),
            ));
        }
        keys.push(AccountKey { key, access });
    }
    Ok(AccountKeys { keys, source: KeySource::File(path.to_owned()) })
}

fn generate(path: &Path, random: &Random) -> Result<(), String> {
    let key = || {
        let mut secret = [0; KEY_SIZE_BYTES];
        random.fill(&mut secret);
        STANDARD.encode(secret)
    };
    let file = KeyFile {
        primary: key(),
        secondary: Some(key()),
        primary_readonly: Some(key()),
        secondary_readonly: Some(key()),
    };
    let mut text = serde_json::to_string_pretty(&file).expect("four texts are valid JSON");
    text.push('\n');
    private_file::write(path, text.as_bytes(), Secrecy::Secret)
        .map_err(|error| format!("the key file '{}' cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::settings::Settings;

    fn config(listen: &str, directory: &Path, key_file: Option<PathBuf>) -> Config {
        let settings = Settings {
            listen: Some(vec![listen.to_owned()]),
            data_dir: Some(directory.to_owned()),
            key_file,
            ..Settings::default()
        };
        Config::new(settings).expect("valid")
    }

    #[test]
    fn loopback_uses_the_well_known_key_and_others_generate_their_own_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let local = AccountKeys::load(&config("127.0.0.1:0", directory.path(), None), &Random::System);
        assert_eq!(local.expect("well-known").source, KeySource::WellKnown);
        let open = config("0.0.0.0:0", directory.path(), None);
        let first = AccountKeys::load(&open, &Random::System).expect("generated");
        let again = AccountKeys::load(&open, &Random::System).expect("read");
        let path = directory.path().join("keys.json");
        assert_eq!(first.source, KeySource::File(path.clone()));
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(first.keys.len(), 4);
        let distinct: std::collections::BTreeSet<&str> =
            first.keys.iter().chain(&again.keys).map(|key| key.key.as_str()).collect();
        assert_eq!(distinct.len(), 4);
        assert!(!distinct.contains(WELL_KNOWN_KEY));
    }

    #[test]
    fn a_reachable_account_never_has_the_well_known_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mine.json");
        std::fs::write(&path, format!("{{\"primary\":\"{WELL_KNOWN_KEY}\"}}")).expect("written");
        let local = config("127.0.0.1:0", directory.path(), Some(path.clone()));
        assert!(AccountKeys::load(&local, &Random::System).is_ok());
        let open = config("0.0.0.0:0", directory.path(), Some(path));
        let error = AccountKeys::load(&open, &Random::System).err().expect("refused");
        assert!(error.contains("well-known"), "{error}");
    }

    #[test]
    fn wrong_key_files_are_refused_by_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mine.json");
        for text in ["", "{}", r#"{"primary":"$$"}"#, r#"{"primary":"YQ==","tertiary":"YQ=="}"#] {
            std::fs::write(&path, text).expect("written");
            let config = config("127.0.0.1:0", directory.path(), Some(path.clone()));
            let error = AccountKeys::load(&config, &Random::System).err().expect(text);
            assert!(error.contains("mine.json"), "{error}");
        }
    }
}
