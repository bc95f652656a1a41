//! The files of `deploy` against the program: variables are settings, and templates name values that the chart has.
//!
//! Where `helm` is installed it renders the chart as well.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn templates() -> String {
    ["statefulset.yaml", "service.yaml", "NOTES.txt"]
        .map(|name| read(&format!("deploy/helm/shardlake/templates/{name}")))
        .concat()
}

/// The words behind each `prefix`, as far as they have these characters.
fn behind(text: &str, prefix: &str, is_part: impl Fn(char) -> bool) -> BTreeSet<String> {
    let rests = text.split(prefix).skip(1);
    rests.map(|rest| rest.chars().take_while(|letter| is_part(*letter)).collect()).collect()
}

#[test]
fn every_variable_is_a_setting() {
    let help = String::from_utf8(command(&["serve", "--help"]).output().unwrap().stdout).unwrap();
    let texts = [read("deploy/compose.yaml"), templates(), read("docs/emulator.md")].concat();
    let names = behind(&texts, "SHARDLAKE_", |letter| letter.is_ascii_uppercase() || letter == '_');
    let settings: Vec<&String> = names.iter().filter(|name| !matches!(name.as_str(), "" | "IMAGE")).collect();
    assert!(settings.len() >= 8, "{settings:?}");
    for name in settings {
        let flag = format!("--{}", name.to_ascii_lowercase().replace('_', "-"));
        assert!(help.contains(&format!("{flag} ")), "SHARDLAKE_{name} is no setting");
    }
}

/// Paths of the values, by their indentation.
fn values() -> BTreeSet<String> {
    let mut stack: Vec<(usize, String)> = Vec::new();
    let mut paths = BTreeSet::new();
    for line in read("deploy/helm/shardlake/values.yaml").lines() {
        let Some((name, _)) = line.split_once(':').filter(|_| !line.trim_start().starts_with('#')) else {
            continue;
        };
        let depth = name.len() - name.trim_start().len();
        stack.retain(|(outer, _)| *outer < depth);
        stack.push((depth, name.trim().to_owned()));
        let names: Vec<&str> = stack.iter().map(|(_, name)| name.as_str()).collect();
        paths.insert(names.join("."));
    }
    paths
}

#[test]
fn templates_name_values_that_there_are_and_use_all_of_them() {
    let (templates, values) = (templates(), values());
    let named = behind(&templates, ".Values.", |letter| letter.is_ascii_alphanumeric() || letter == '.');
    assert!(named.len() >= 15, "{named:?}");
    let missing: Vec<&String> = named.difference(&values).collect();
    assert!(missing.is_empty(), "no such values: {missing:?}");
    // Groups that a template takes as a whole have their members used.
    let is_used = |path: &String| {
        named.iter().any(|name| {
            name == path || path.starts_with(&format!("{name}.")) || name.starts_with(&format!("{path}."))
        })
    };
    let unused: Vec<&String> = values.iter().filter(|path| !is_used(path)).collect();
    assert!(unused.is_empty(), "no template uses {unused:?}");
    let count = |word: &str| templates.matches(word).count();
    let opened = count("{{- if ") + count("{{- range ") + count("{{ range ");
    assert_eq!(opened, count("{{- end }}") + count("{{ end }}"), "blocks that are not closed");
}

#[test]
fn helm_renders_the_chart_where_it_is_installed() {
    let chart = root().join("deploy/helm/shardlake");
    let template =
        |more: &[&str]| Command::new("helm").arg("template").arg("cosmos").arg(&chart).args(more).output();
    let Ok(plain) = template(&[]) else { return };
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.contains("kind: StatefulSet") && plain.contains("kind: Service"), "{plain}");
    assert!(!plain.contains("SHARDLAKE_EMULATOR"), "{plain}");
    let emulator = template(&["--set", "emulator.enabled=true,mongo.enabled=true,keySecret=k"]).unwrap();
    let emulator = String::from_utf8(emulator.stdout).unwrap();
    for words in ["SHARDLAKE_EMULATOR", "containerPort: 1234", "containerPort: 27017"] {
        assert!(emulator.contains(words), "{words} in {emulator}");
    }
    assert!(!emulator.contains("secretName"), "emulator mode has the well-known key: {emulator}");
}
