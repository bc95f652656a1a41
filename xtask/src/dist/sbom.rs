//! Bill of materials in the form of CycloneDX 1.5: the crates that are linked into the program.
//!
//! `cargo tree` lists them as they are for this machine and these features, without crates of tests and builds; `cargo metadata`
//! has licences and arrows, `Cargo.lock` the checksums. The members written are few (docs/releases.md lists them).

use crate::dist::digest::hex_digest;
use crate::dist::machine::Machine;
use crate::dist::release::Release;
use crate::project::FEATURES;
use crate::{Outcome, project};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

pub const SPECIFICATION: &str = "1.5";

pub fn file_name(release: &Release) -> String {
    format!("shardlake-{}-{}.cdx.json", release.version, release.machine.rust)
}

pub fn pack(release: &Release) -> Outcome<Vec<u8>> {
    let date = i64::try_from(release.epoch).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    let date = date.ok_or("the date of the commit is out of range")?;
    let linked = Linked { crates: linked_crates(release.machine)?, checksums: checksums()? };
    let metadata = cargo(&["metadata", "--format-version=1", "--filter-platform", release.machine.rust])?;
    let document =
        bill(&serde_json::from_str(&metadata)?, &linked, &date.to_rfc3339_opts(SecondsFormat::Secs, true))?;
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// Name and version.
type Crate = (String, String);

#[derive(Debug)]
struct Linked {
    crates: BTreeSet<Crate>,
    checksums: BTreeMap<Crate, String>,
}

fn cargo(arguments: &[&str]) -> Outcome<String> {
    let mut command = project::cargo();
    command.args(arguments).args(FEATURES).arg("--locked").current_dir(project::root());
    let output = run_quietly(&mut command)?;
    Ok(String::from_utf8(output)?)
}

fn run_quietly(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

fn linked_crates(machine: Machine) -> Outcome<BTreeSet<Crate>> {
    let listing = cargo(&[
        "tree",
        "--package",
        "shardlake",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--target",
        machine.rust,
    ])?;
    Ok(listing.lines().filter_map(listed).collect())
}

/// A line such as `hyper v1.12.0 (*)` or `fjall v3.1.13 (/path)`.
fn listed(line: &str) -> Option<Crate> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

fn checksums() -> Outcome<BTreeMap<Crate, String>> {
    let lock: toml::Value = toml::from_str(&std::fs::read_to_string(project::root().join("Cargo.lock"))?)?;
    let packages = lock.get("package").and_then(toml::Value::as_array).ok_or("Cargo.lock lists nothing")?;
    let text = |package: &toml::Value, member: &str| package.get(member)?.as_str().map(str::to_owned);
    let with_checksum =
        |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(with_checksum).collect())
}

fn bill(metadata: &Value, linked: &Linked, date: &str) -> Outcome<Value> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut components = Vec::new();
    let mut program = None;
    let mut references = BTreeMap::new();
    for package in packages {
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        let key = (name.to_owned(), version.to_owned());
        if !linked.crates.contains(&key) {
            continue;
        }
        references.insert(text(package, "id")?, reference(&key));
        if name == "shardlake" {
            program = Some(component(package, &key, "application", None)?);
        } else {
            components.push(component(package, &key, "library", linked.checksums.get(&key))?);
        }
    }
    if references.len() != linked.crates.len() {
        return Err("cargo metadata lacks crates that cargo tree lists".into());
    }
    let program = program.ok_or("the server is not among the crates that it is made of")?;
    components.sort_by_key(|component| component["bom-ref"].to_string());
    let dependencies = dependencies(metadata, &references)?;
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "timestamp": date,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": program,
        },
        "components": components,
        "dependencies": dependencies,
    });
    document["serialNumber"] = json!(serial_number(&document));
    Ok(document)
}

fn text<'a>(value: &'a Value, member: &str) -> Outcome<&'a str> {
    Ok(value[member].as_str().ok_or_else(|| format!("cargo metadata has no '{member}'"))?)
}

/// The package URL, which is the mark of a component in this document as well.
fn reference((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn component(package: &Value, key: &Crate, kind: &str, checksum: Option<&String>) -> Outcome<Value> {
    let mut component = Map::new();
    let reference = reference(key);
    component.insert("type".into(), json!(kind));
    component.insert("bom-ref".into(), json!(reference));
    component.insert("name".into(), json!(key.0));
    component.insert("version".into(), json!(key.1));
    if let Some(checksum) = checksum {
        component.insert("hashes".into(), json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    // Older crates separate licences by a slash.
    let license = package["license"].as_str().map(|license| license.replace('/', " OR "));
    if let Some(license) = license {
        component.insert("licenses".into(), json!([{ "expression": license }]));
    }
    component.insert("purl".into(), json!(reference));
    if text(package, "manifest_path")?.contains("/vendor/") {
        component.insert("pedigree".into(), json!({ "notes": "changed; vendor/README.md lists how" }));
    }
    if let Some(repository) = package["repository"].as_str() {
        component.insert("externalReferences".into(), json!([{ "type": "vcs", "url": repository }]));
    }
    Ok(Value::Object(component))
}

/// Arrows between linked crates, without those of tests and builds.
fn dependencies(metadata: &Value, references: &BTreeMap<&str, String>) -> Outcome<Vec<Value>> {
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata resolves nothing")?;
    let mut arrows = BTreeMap::new();
    for node in nodes {
        let Some(from) = references.get(text(node, "id")?) else { continue };
        let linked = node["deps"].as_array().into_iter().flatten().filter(|dependency| is_linked(dependency));
        let to = linked.filter_map(|dependency| references.get(dependency["pkg"].as_str()?));
        arrows.insert(from, to.collect::<BTreeSet<_>>());
    }
    Ok(arrows.into_iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to })).collect())
}

fn is_linked(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
}

/// A UUID of version 8 made of the content: the same content has the same number.
fn serial_number(document: &Value) -> String {
    let mut digits = hex_digest(document.to_string().as_bytes());
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "8");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..32]];
    format!("urn:uuid:{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(names: &[&str]) -> Linked {
        let crates = names.iter().map(|name| ((*name).to_owned(), "1.0.0".to_owned())).collect();
        let checksums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "ab".repeat(32))]);
        Linked { crates, checksums }
    }

    fn metadata() -> Value {
        let package = |name: &str, license: &str| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": license, "repository": null,
                    "manifest_path": format!("/w/{name}/Cargo.toml") })
        };
        let arrow = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [package("shardlake", "Apache-2.0"), package("a", "MIT/Apache-2.0"), package("b", "MIT")],
            "resolve": { "nodes": [
                { "id": "shardlake", "deps": [arrow("a", Value::Null), arrow("b", json!("dev"))] },
                { "id": "a", "deps": [] },
                { "id": "b", "deps": [] },
            ] },
        })
    }

    #[test]
    fn the_bill_lists_linked_crates_with_their_arrows() {
        let document =
            bill(&metadata(), &linked(&["shardlake", "a"]), "2026-01-02T03:04:05Z").expect("a bill");
        assert_eq!(document["metadata"]["component"]["name"], "shardlake");
        let components = document["components"].as_array().expect("components");
        assert_eq!(components.len(), 1, "a crate of tests is not linked");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[0]["hashes"][0]["content"], "ab".repeat(32));
        let arrows = json!([
            { "ref": "pkg:cargo/a@1.0.0", "dependsOn": [] },
            { "ref": "pkg:cargo/shardlake@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0"] },
        ]);
        assert_eq!(document["dependencies"], arrows);
        let again = bill(&metadata(), &linked(&["shardlake", "a"]), "2026-01-02T03:04:05Z").expect("a bill");
        assert_eq!(document["serialNumber"], again["serialNumber"]);
    }

    #[test]
    fn a_crate_without_metadata_is_an_error() {
        assert!(bill(&metadata(), &linked(&["shardlake", "c"]), "").is_err());
        assert!(bill(&metadata(), &linked(&["a"]), "").is_err(), "the program itself");
    }

    #[test]
    fn lines_of_cargo_tree() {
        let listed = |line| listed(line).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(listed("hyper v1.12.0 (*)").as_deref(), Some("hyper 1.12.0"));
        assert_eq!(listed("fjall v3.1.13 (/w/vendor/fjall)").as_deref(), Some("fjall 3.1.13"));
        assert_eq!(listed(""), None);
        assert_eq!(reference(&("a".into(), "1.0.0+b".into())), "pkg:cargo/a@1.0.0%2Bb");
    }
}
