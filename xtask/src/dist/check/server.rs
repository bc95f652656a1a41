//! A server from an artefact: it starts, keeps an item, and stops when asked.

use super::artefacts::expect;
use crate::Outcome;
use serde_json::json;
use shardlake_testkit::{HANG, ServerOptions};
use std::path::Path;

/// The program at this path serves an account, over HTTP, with these further options.
pub fn answers(program: &Path, adjust: impl FnOnce(ServerOptions) -> ServerOptions) -> Outcome {
    let mut server = adjust(ServerOptions::new(program)).try_start()?;
    let version = server.ready().fields["version"].clone();
    expect(version == env!("CARGO_PKG_VERSION"), || format!("the server names version {version}"))?;
    let client = server.client();
    for path in ["/livez", "/readyz"] {
        drop(client.get(path, &[]).expect_status(200));
    }
    drop(client.create_database("shop").expect_status(201));
    drop(client.create_container("shop", "orders", "/customer").expect_status(201));
    let item = json!({ "id": "1", "customer": "ada", "total": 42.5 });
    drop(client.create_item("shop", "orders", &json!(["ada"]), &item).expect_status(201));
    let metrics = client.get("/metrics", &[]).expect_status(200).text();
    expect(metrics.contains("shardlake_build_info{"), || format!("no build in {metrics}"))?;
    let status = server.terminate(HANG);
    expect(status.success(), || format!("the server ended with {status}"))
}
