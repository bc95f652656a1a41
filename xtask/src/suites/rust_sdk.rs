//! Application use of the Rust SDK: `tests-sdk/rust`, which is a workspace of its own with its own build directory.

use super::support::{Run, SuiteResult};
use crate::command::{run_and_listen, run_to_end};
use crate::{Outcome, project, tally};
use std::process::Command;

pub fn build() -> Outcome {
    run_to_end(cargo().args(["test", "--locked", "--no-run"]))
}

pub fn run(run: &Run<'_>) -> Outcome<Vec<SuiteResult>> {
    let server = run.start_server()?;
    let ready = server.ready();
    let mut test = cargo();
    test.args(["test", "--locked", "--", "--test-threads=1"])
        .env("SHARDLAKE_HTTP", &ready.http)
        .env("SHARDLAKE_HTTPS", ready.https.clone().unwrap_or_default().replace("127.0.0.1", "localhost"))
        .env("SHARDLAKE_KEY", &ready.key)
        .env("SSL_CERT_FILE", ready.fields["ca_file"].as_str().unwrap_or_default())
        .env("SHARDLAKE_SKIP_LOG", run.skip_log);
    let (output, ended_well) = run_and_listen(&mut test)?;
    if !ended_well {
        println!("--- log of the server ---\n{}", server.log());
    }
    Ok(vec![
        SuiteResult::new("rust-sdk", tally::of_cargo_test(&output), ended_well)
            .with_noted_skips(run.skip_log)
            .with_log_of(&server),
    ])
}

fn cargo() -> Command {
    let mut command = project::cargo();
    command
        .current_dir(project::root().join("tests-sdk/rust"))
        .env("CARGO_TARGET_DIR", project::work_directory().join("rust-sdk/target"));
    command
}
