//! The account's keys: the well-known one of the official emulator, or the account's own from a file.
//!
//! The well-known key is no secret, so it is accepted only while every listener is a loopback address. A server that
//! others can reach has it in emulator mode alone; otherwise it gets keys of its own at its first start, in `keys.json` of the data directory with mode 0600.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use shardlake_admin::{KeyName, NamedKey};
use shardlake_signature::AccountKey;
use shardlake_stdx::Random;

use crate::config::Config;
use crate::emulator::Secret;
use crate::private_file::{self, Secrecy};

/// Published by the reference's vendor; every SDK's samples use it.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const KEY_SIZE_BYTES: usize = 64;
/// File of the data directory with keys that the server made.
const GENERATED: &str = "keys.json";

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
    pub named: Vec<NamedKey>,
    pub source: KeySource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    WellKnown,
    File {
        path: PathBuf,
        /// Keys with names, as opposed to a key alone.
        is_json: bool,
    },
    /// The variable of the classic emulator.
    Variable,
}

impl AccountKeys {
    /// Whether a key that everybody knows opens the account, from a file or not.
    pub fn accept_the_well_known(&self) -> bool {
        self.named.iter().any(|key| key.key.trim() == WELL_KNOWN_KEY)
    }

    pub fn accepted(&self) -> Vec<AccountKey> {
        accepted(&self.named)
    }

    /// The only key of an account.
    fn alone(key: &str, source: KeySource) -> AccountKeys {
        AccountKeys { named: vec![NamedKey { name: KeyName::Primary, key: key.to_owned() }], source }
    }

    /// Whether the keys that the configuration names can be used. Makes none.
    pub fn check(config: &Config) -> Result<(), String> {
        match &config.key_file {
            Some(path) => read(path, config).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The keys that the configuration asks for; generates them where they are needed and missing.
    pub fn load(config: &Config, random: &Random) -> Result<AccountKeys, String> {
        // The clients of an emulator have the key of this variable, so it wins over key files.
        if let Some(Secret(key)) =
            config.emulator.as_ref().and_then(|emulator| emulator.settings.key.as_ref())
        {
            check(key).map_err(|wrong| format!("AZURE_COSMOS_EMULATOR_KEY {wrong}"))?;
            for path in [config.key_file.clone(), stored(config)].iter().flatten() {
                tracing::warn!(file = %path.display(), "AZURE_COSMOS_EMULATOR_KEY is the account key: the key file is not read");
            }
            let is_well_known = key.trim() == WELL_KNOWN_KEY;
            let source = if is_well_known { KeySource::WellKnown } else { KeySource::Variable };
            return Ok(AccountKeys::alone(key, source));
        }
        if let Some(path) = &config.key_file {
            return read(path, config);
        }
        if let Some(path) = stored(config).filter(|_| config.emulator.is_some()) {
            tracing::warn!(
                file = %path.display(),
                "emulator mode serves the well-known key, and not the keys that this data directory has: name them with --key-file to serve them"
            );
        }
        match generated(config, random)? {
            Some(path) => read(&path, config),
            None => Ok(AccountKeys::alone(WELL_KNOWN_KEY, KeySource::WellKnown)),
        }
    }
}

/// Keys that an earlier start made for this data directory.
fn stored(config: &Config) -> Option<PathBuf> {
    config.data_dir.as_ref().map(|directory| directory.join(GENERATED)).filter(|path| path.exists())
}

/// The file with keys of the account's own, generated where it is missing; `None` where the account has no such keys.
pub fn generated(config: &Config, random: &Random) -> Result<Option<PathBuf>, String> {
    if config.key_file.is_some() || config.may_have_well_known_key() {
        return Ok(None);
    }
    let Some(data_dir) = &config.data_dir else {
        return Err("an account that others can reach needs keys of its own: give --data-dir to have them \
                    generated, or --key-file, or listen on 127.0.0.1"
            .into());
    };
    let path = data_dir.join(GENERATED);
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
    let file = key_file(&text).map_err(|error| {
        wrong(format!("is neither a key nor {{\"primary\": …, \"secondary\": …, \"primaryReadonly\": …, \"secondaryReadonly\": …}}: {error}"))
    })?;
    let is_json = check(&text).is_err();
    let named = file.named();
    for NamedKey { key, .. } in &named {
        check(key).map_err(|_| wrong("holds a key that is not base64 text".into()))?;
        if key.trim() == WELL_KNOWN_KEY && !config.may_have_well_known_key() {
            return Err(wrong(
                "holds the emulator's well-known key, which is no secret: put other keys there, or \
                              listen on loopback addresses only"
                    .into(),
            ));
        }
    }
    Ok(AccountKeys { named, source: KeySource::File { path: path.to_owned(), is_json } })
}

/// The keys that a file has at this time, by name.
pub fn read_named(path: &Path) -> Result<Vec<NamedKey>, String> {
    let wrong = |what: String| format!("the key file '{}' {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    Ok(key_file(&text).map_err(|error| wrong(format!("cannot be read: {error}")))?.named())
}

/// JSON, or the primary key alone, as the emulators have it and as secrets are mounted.
fn key_file(text: &str) -> Result<KeyFile, serde_json::Error> {
    if check(text).is_ok() {
        let primary = text.trim().to_owned();
        return Ok(KeyFile { primary, secondary: None, primary_readonly: None, secondary_readonly: None });
    }
    serde_json::from_str(text)
}

fn check(key: &str) -> Result<(), &'static str> {
    match STANDARD.decode(key.trim()) {
        Ok(secret) if !secret.is_empty() => Ok(()),
        _ => Err("is not base64 text"),
    }
}

impl KeyFile {
    fn named(self) -> Vec<NamedKey> {
        let keys = [Some(self.primary), self.secondary, self.primary_readonly, self.secondary_readonly];
        let keys = KeyName::ALL.into_iter().zip(keys);
        keys.filter_map(|(name, key)| Some(NamedKey { name, key: key? })).collect()
    }

    fn of(keys: &[NamedKey]) -> KeyFile {
        let find = |name| keys.iter().find(|key| key.name == name).map(|key| key.key.clone());
        KeyFile {
            primary: find(KeyName::Primary).unwrap_or_default(),
            secondary: find(KeyName::Secondary),
            primary_readonly: find(KeyName::PrimaryReadonly),
            secondary_readonly: find(KeyName::SecondaryReadonly),
        }
    }
}

/// The keys as gateways check them.
pub fn accepted(keys: &[NamedKey]) -> Vec<AccountKey> {
    keys.iter()
        .map(|key| AccountKey { name: key.name.text(), key: key.key.clone(), access: key.name.access() })
        .collect()
}

pub fn new_key(random: &Random) -> String {
    let mut secret = [0; KEY_SIZE_BYTES];
    random.fill(&mut secret);
    STANDARD.encode(secret)
}

fn generate(path: &Path, random: &Random) -> Result<(), String> {
    let keys = KeyName::ALL.map(|name| NamedKey { name, key: new_key(random) });
    // Clients get keys that the next start still has.
    write(path, &keys)?.map_or(Ok(()), Err)
}

/// Writes a key file so that a crash leaves the old one or the new one. After an error, the old one is in its place. `Some`:
/// the new one is, but for this reason a power cut may bring back the old one.
pub fn write(path: &Path, keys: &[NamedKey]) -> Result<Option<String>, String> {
    assert!(keys.iter().any(|key| key.name == KeyName::Primary), "a key file has a primary key");
    let file = KeyFile::of(keys);
    let mut text = serde_json::to_string_pretty(&file).expect("four texts are valid JSON");
    text.push('\n');
    let written = private_file::replace(path, text.as_bytes(), Secrecy::Secret, private_file::sync_directory);
    let written =
        written.map_err(|error| format!("the key file '{}' cannot be written: {error}", path.display()))?;
    Ok(written.map(|error| format!("the directory of '{}' cannot be synced: {error}", path.display())))
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
        assert_eq!(first.source, KeySource::File { path: path.clone(), is_json: true });
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(first.named.len(), 4);
        let distinct: std::collections::BTreeSet<&str> =
            first.named.iter().chain(&again.named).map(|key| key.key.as_str()).collect();
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
