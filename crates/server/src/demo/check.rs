//! `shardlake demo webstore --check`: every access pattern of the web store, through a real SDK, against its own server.
//!
//! The server is this program again, with everything in memory on a free port. The SDK is the `azure-cosmos` package of the
//! user's Python: the script that drives it is part of this program.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use serde_json::Value;

use super::{WebStore, print};

const SCRIPT: &str = include_str!("check.py");

pub fn check(store: &WebStore, python: &str) -> Result<ExitCode, String> {
    has_sdk(python)?;
    let directory = std::env::temp_dir().join(format!("shardlake-check-{}", std::process::id()));
    std::fs::create_dir(&directory).map_err(|error| format!("'{}': {error}", directory.display()))?;
    let outcome = check_in(&directory, python, store);
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn has_sdk(python: &str) -> Result<(), String> {
    let found = Command::new(python).args(["-c", "import azure.cosmos"]).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!(
            "the Python SDK is missing: {python} -m pip install azure-cosmos, or name a Python that has it with --python"
        )),
        Err(error) => {
            Err(format!("'{python}' does not start ({error}): install Python 3, or name it with --python"))
        }
    }
}

fn check_in(directory: &Path, python: &str, store: &WebStore) -> Result<ExitCode, String> {
    let (script, data_set) = (directory.join("check.py"), directory.join("webstore.json"));
    let write = |path: &Path| {
        let file = std::fs::File::create(path).map_err(|error| format!("'{}': {error}", path.display()));
        file.map(BufWriter::new)
    };
    let failed = |error: std::io::Error| format!("the check cannot be prepared: {error}");
    write(&script)?.write_all(SCRIPT.as_bytes()).map_err(failed)?;
    print(store, &mut write(&data_set)?).map_err(failed)?;
    let server = Server::start(store, &directory.join("analytics"))?;
    let status = Command::new(python)
        .arg(&script)
        .args([&server.endpoint, &server.key])
        .arg(&data_set)
        .status()
        .map_err(|error| format!("'{python}' does not start: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A server with the demo in memory; it ends with this value.
struct Server {
    process: Child,
    endpoint: String,
    key: String,
}

impl Server {
    /// Tables lie in a folder: a store in memory has no place for them.
    fn start(store: &WebStore, tables: &Path) -> Result<Server, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))?;
        let mut process = Command::new(program)
            .args(["demo", "webstore", "--durability", "memory", "--listen", "127.0.0.1:0"])
            .args(["--customers", &store.customers.to_string()])
            .args(["--seed-number", &store.seed_number.to_string()])
            .arg("--analytics-root")
            .arg(tables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the server does not start: {error}"))?;
        let output = process.stdout.take().expect("it was piped");
        let ready = BufReader::new(output).lines().map_while(Result::ok).find_map(|line| {
            serde_json::from_str::<Value>(&line).ok().filter(|record| record["ready"] == true)
        });
        let mut server = Server { process, endpoint: String::new(), key: String::new() };
        let ready =
            ready.ok_or("the server ended before it was ready: run the demo without --check to see why")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (server.endpoint, server.key) = (text(&ready["endpoints"][0]), text(&ready["key"]));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
