//! Runs the recorded cases and counts the passed ones, by area.

use crate::commands::Server;
use crate::compare::{error_code, fault, is_ok, walk};
use crate::tagged::{self, Special, special};
use shardlake_mql::{Document, Value};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Results of the cases of one area.
#[derive(Default, Clone)]
pub struct Area {
    pub tier: String,
    pub passed: u32,
    pub total: u32,
    /// Kind of failure, id and words, of each case that failed.
    pub failures: Vec<(String, String, String)>,
}

/// Runs the cases of all files that a predicate accepts, on two threads.
pub fn run(folder: &Path, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, Area> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.retain(|path| wanted(path.file_stem().unwrap().to_str().unwrap()));
    let queue = Mutex::new(files.into_iter());
    let areas = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let builder = std::thread::Builder::new().stack_size(64 << 20);
            let work = || {
                loop {
                    let Some(path) = queue.lock().unwrap().next() else { break };
                    let (name, area) = run_file(&path);
                    areas.lock().unwrap().insert(name, area);
                }
            };
            builder.spawn_scoped(scope, work).unwrap();
        }
    });
    areas.into_inner().unwrap()
}

/// A line of a file; `None` where it is nested deeper than the reader of JSON goes, or has a form that it should not have.
fn json(line: &str) -> Option<Value> {
    let json = serde_json::from_str(line).ok()?;
    catch_unwind(|| tagged::value(&json)).ok()
}

fn run_file(path: &Path) -> (String, Area) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let head = json(lines.next().unwrap()).unwrap();
    let head = head.as_document().unwrap();
    let setups = head.get("setups").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut area = Area { tier: head.value("tier").as_str().unwrap().to_owned(), ..Area::default() };
    for line in lines {
        area.total += 1;
        let Some(case) = json(line) else {
            area.failures.push(("deep".to_owned(), line.chars().take(200).collect(), String::new()));
            continue;
        };
        let case = case.as_document().unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| run_case(case, &setups)));
        let outcome = outcome.unwrap_or_else(|_| Some(("panic", "panicked".to_owned())));
        match outcome {
            None => area.passed += 1,
            Some((kind, words)) => {
                let id = case.value("id").as_str().unwrap().to_owned();
                area.failures.push((kind.to_owned(), id, format!("{}\n  {words}", shown(case, &setups))));
            }
        }
    }
    (head.value("area").as_str().unwrap().to_owned(), area)
}

fn step_of(step: &Value, setups: &Arc<Vec<Value>>) -> Arc<Document> {
    let step = step.to_i64_exact().map_or(step, |at| &setups[at as usize]);
    step.as_document().unwrap().clone()
}

fn shown(case: &Document, setups: &Arc<Vec<Value>>) -> String {
    let steps = case.value("steps");
    let last = step_of(steps.as_array().unwrap().last().unwrap(), setups);
    let text: String = last.value("cmd").to_string().chars().take(700).collect();
    format!("  {text}")
}

fn run_case(case: &Document, setups: &Arc<Vec<Value>>) -> Option<(&'static str, String)> {
    let mut server = Server::default();
    let mut replies: Vec<Document> = Vec::new();
    let mut sessions = HashMap::new();
    for step in case.value("steps").as_array()?.iter() {
        let step = step_of(step, setups);
        let command = match substitute(&step.value("cmd"), &replies, &mut sessions) {
            Some(command) => command,
            None => return Some(("shape", "a reference leads nowhere".into())),
        };
        let database = step.value("db");
        let command = command.as_document()?.clone();
        let Some(reply) = server.run(database.as_str()?, &command) else {
            return Some((
                "unsupported",
                command.first().map_or_else(String::new, |(name, _)| name.to_string()),
            ));
        };
        let code = error_code(&reply);
        if step.get("setup").is_some_and(Value::is_true) && (!is_ok(&reply) || code.is_some()) {
            return Some(("setup", format!("{command:.300}: {code:?}")));
        }
        replies.push(reply);
    }
    for check in case.value("checks").as_array()?.iter() {
        let check = substitute(check, &replies, &mut sessions)?;
        let check = check.as_document()?;
        let reply = &replies[check.value("step").to_i64_exact()? as usize];
        if let Some(found) = fault(check, reply) {
            return Some(found);
        }
    }
    None
}

/// Fills in the replies of earlier steps.
fn substitute(value: &Value, replies: &[Document], sessions: &mut HashMap<u64, Value>) -> Option<Value> {
    match special(value) {
        Some(Special::Reference(step, path)) => {
            return walk(&Value::document(replies.get(step)?.clone()), &path);
        }
        Some(Special::Session(number)) => {
            let id = || Value::Binary(4, Arc::from([number as u8; 16]));
            return Some(sessions.entry(number).or_insert_with(id).clone());
        }
        _ => {}
    }
    Some(match value {
        Value::Document(document) => {
            let mut filled = Document::new();
            for (name, member) in document.iter() {
                filled.push(name.clone(), substitute(member, replies, sessions)?);
            }
            Value::document(filled)
        }
        Value::Array(items) => {
            let items: Option<Vec<Value>> =
                items.iter().map(|item| substitute(item, replies, sessions)).collect();
            Value::array(items?)
        }
        other => other.clone(),
    })
}
