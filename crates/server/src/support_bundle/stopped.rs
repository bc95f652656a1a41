//! Collection from the data directory of a stopped server, which stays as it is.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};
use shardlake_account::{Shards, describe_moment, stored_definitions};

use super::parts::Parts;
use crate::config_command;
use crate::keys;
use crate::layers::{self, Layers};
use crate::settings::Settings;
use crate::{diagnostics, shards};

/// Settings of the server, and their description.
pub struct Stopped {
    settings: Settings,
    described: Value,
}

/// The settings that a start with this file, these variables and this data directory would have.
pub fn settings(
    data_dir: &Path,
    config: Option<&Path>,
    environment: &[(OsString, OsString)],
) -> Result<Stopped, String> {
    let given = Settings { data_dir: Some(data_dir.to_owned()), ..Settings::default() };
    let layers = Layers::read(&given, config, environment.iter().cloned())?;
    let mut settings = layers.merged()?.settings;
    layers::emulate(&mut settings, &given, &[], environment)?;
    let described = config_command::described(&layers, &settings)?;
    Ok(Stopped { settings, described })
}

/// Fails only where there is no data directory.
pub async fn collect(parts: &mut Parts, data_dir: &Path, stopped: &Stopped) -> Result<(), String> {
    if !data_dir.is_dir() {
        return Err(format!("the data directory '{}' does not exist", data_dir.display()));
    }
    let mut found = diagnostics::describe(&stopped.described, Some(data_dir));
    let mut member = |name: &str| Ok(found[name].take());
    parts.add_document("settings.json", "every setting with its value and its place", member("settings"));
    parts.add_document("formats.json", "versions of formats", member("formats"));
    parts.add_document("process.json", "processors, memory, limits of this command", member("process"));
    parts.add_document("disk.json", "free space of the data directory", disk(data_dir));
    let scratch = std::env::temp_dir();
    let opened = shards::inspect(data_dir, &scratch).await.map(|(shards, _)| shards);
    let definitions = match &opened {
        Ok(shards) => definitions(shards).await,
        Err(error) => Err(error.clone()),
    };
    parts.add_document("definitions.json", "databases and containers with their policies", definitions);
    let partitions = match &opened {
        Ok(shards) => partitions(shards).await,
        Err(error) => Err(error.clone()),
    };
    parts.add_document("partitions.json", "partitions: shards, items, sizes, positions", partitions);
    Ok(())
}

fn disk(data_dir: &Path) -> Result<Value, String> {
    let space = shardlake_stdx::disk_space(data_dir).map_err(|error| error.to_string())?;
    Ok(json!({ "dataDir": data_dir, "sizeBytes": space.size_bytes, "freeBytes": space.free_bytes }))
}

async fn definitions(shards: &Shards) -> Result<Value, String> {
    let stored = stored_definitions(shards).await.map_err(|error| error.message().to_owned())?;
    let databases = stored.into_iter().map(|(id, containers)| {
        let containers = containers.iter().map(|container| {
            json!({ "definition": container.definition, "isCollection": container.is_collection })
        });
        json!({ "id": id, "containers": containers.collect::<Vec<_>>() })
    });
    Ok(json!({ "databases": databases.collect::<Vec<_>>() }))
}

async fn partitions(shards: &Shards) -> Result<Value, String> {
    let views: Vec<_> = shards.iter().map(shardlake_storage::Shard::view).collect();
    let moment = describe_moment(&views).await.map_err(|error| error.message().to_owned())?;
    let partitions = moment.partitions.iter().map(|partition| {
        json!({
            "database": partition.database,
            "container": partition.container,
            "partition": partition.range_id,
            "shard": partition.shard,
            "items": partition.items,
            "sizeBytes": partition.size_bytes,
            "lsn": partition.lsn,
            "written": partition.written.map(|time| time.milliseconds()),
        })
    });
    Ok(json!({ "partitions": partitions.collect::<Vec<_>>(), "relocations": moment.relocations }))
}

/// Account keys that the server would accept, to be removed from the bundle. A file that cannot be read has no keys to remove.
pub fn keys(data_dir: &Path, stopped: &Stopped) -> Vec<String> {
    let files = [Some(data_dir.join("keys.json")), stopped.settings.key_file.clone()];
    let named = files.iter().flatten().filter_map(|file| keys::read_named(file).ok());
    let emulated = stopped.settings.emulated.as_ref().and_then(|emulated| emulated.key.clone());
    named.flatten().map(|named| named.key).chain(emulated.map(|secret| secret.0)).collect()
}
