//! Checks of the bill of materials: its own rules, and the schema of its specification.

use super::artefacts::{Artefacts, Verdict, expect};
use crate::command::run_to_end;
use crate::dist::sbom;
use crate::{Outcome, prerequisites, project};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Crates that the program is made of, and some that only tests and builds need.
const LINKED: [&str; 6] = ["fjall", "hyper", "mimalloc", "rquickjs", "slatedb", "opentelemetry-otlp"];
const NOT_LINKED: [&str; 3] = ["proptest", "allocation-counter", "shardlake-testkit"];

pub fn is_consistent(artefacts: &Artefacts) -> Outcome<Verdict> {
    let text = std::fs::read(artefacts.path(&sbom::file_name(&artefacts.release)))?;
    let bill: Value = serde_json::from_slice(&text)?;
    expect(bill["bomFormat"] == "CycloneDX" && bill["specVersion"] == sbom::SPECIFICATION, || {
        format!("it is {} {}", bill["bomFormat"], bill["specVersion"])
    })?;
    let program = &bill["metadata"]["component"];
    expect(program["version"] == artefacts.release.version, || format!("it describes {program}"))?;
    let components = bill["components"].as_array().ok_or("no components")?;
    let mut references = BTreeSet::new();
    for component in components.iter().chain([program]) {
        for member in ["type", "name", "version", "purl", "bom-ref"] {
            expect(component[member].is_string(), || format!("no {member} in {component}"))?;
        }
        let is_ours = component["name"].as_str().is_some_and(|name| name.starts_with("shardlake"));
        let is_changed = component["pedigree"].is_object();
        expect(component["licenses"].is_array(), || format!("no licence in {component}"))?;
        expect(is_ours || is_changed || component["hashes"].is_array(), || format!("no sum in {component}"))?;
        let is_new = references.insert(component["bom-ref"].as_str().unwrap_or_default());
        expect(is_new, || format!("twice: {component}"))?;
    }
    let arrows = bill["dependencies"].as_array().ok_or("no dependencies")?;
    expect(arrows.len() == references.len(), || "a component without its dependencies".to_owned())?;
    for arrow in arrows {
        let ends = arrow["dependsOn"].as_array().into_iter().flatten().chain([&arrow["ref"]]);
        let unknown = ends.filter_map(Value::as_str).find(|end| !references.contains(end));
        expect(unknown.is_none(), || format!("{unknown:?} is no component"))?;
    }
    let has = |name: &str| components.iter().any(|component| component["name"] == name);
    for name in LINKED {
        expect(has(name), || format!("it lacks {name}"))?;
    }
    for name in NOT_LINKED {
        expect(!has(name), || format!("it lists {name}, which is not in the program"))?;
    }
    println!("{} components", components.len());
    Ok(Verdict::Good)
}

/// With the schema that a library of the specification's project brings along.
pub fn follows_the_schema(artefacts: &Artefacts) -> Outcome<Verdict> {
    prerequisites::for_python()?;
    let environment = project::work_directory().join("dist-checks");
    let requirements = project::root().join("tests-sdk/dist/requirements.txt");
    let (wanted, mark) = (std::fs::read(&requirements)?, environment.join("requirements"));
    if !std::fs::read(&mark).is_ok_and(|found| found == wanted) {
        run_to_end(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/pip"));
        run_to_end(pip.args(["install", "--quiet", "--requirement"]).arg(&requirements))?;
        std::fs::write(mark, wanted)?;
    }
    let mut python = Command::new(environment.join("bin/python"));
    python.arg(project::root().join("tests-sdk/dist/follows_schema.py"));
    python.arg(sbom::SPECIFICATION).arg(artefacts.path(&sbom::file_name(&artefacts.release)));
    run_to_end(&mut python)?;
    Ok(Verdict::Good)
}
