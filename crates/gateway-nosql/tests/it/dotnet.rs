//! The requests that the .NET SDK was recorded to send, replayed against a fresh server: status, substatus and shape of the answers.
//!
//! | file | contents |
//! |---|---|
//! | `dotnet/recording.rs` | the exchanges of a file |
//! | `dotnet/replay.rs` | a request as this server has to see it: names that servers make up are learned from answers |
//! | `dotnet/compare.rs` | the differences between the recorded answer and the server's |
//! | `dotnet/exceptions.txt` | exchanges whose recorded answer is wrong, with the right status; its faults may only become fewer |
//!
//! The recordings are shared data outside the repository. The clock moves by the recorded times, and no test waits.

mod compare;
mod exceptions;
mod recording;
mod replay;

use shardlake_testkit::shared_directory;

use crate::harness::Server;
use compare::differences;
use exceptions::Exceptions;
use recording::Recording;
use replay::Replay;

/// Replays the exchanges of one file.
async fn replayed(name: &str) {
    let Some(directory) = shared_directory("conformance", &format!("dotnet::{name}")) else { return };
    let recording = Recording::read(&directory.join("dotnet").join(format!("{name}.jsonl")));
    let exceptions = Exceptions::of(name);
    let server = Server::start().await;
    let mut replay = Replay::new(&server);
    let (mut wrong, mut held) = (Vec::new(), 0);
    for exchange in &recording.exchanges {
        // A request that was too long to keep cannot be sent.
        if exchange.request.is_truncated {
            continue;
        }
        let answer = replay.send(exchange).await;
        let differences = differences(exchange, &answer);
        replay.learn(exchange, &answer);
        held += usize::from(differences.is_empty());
        let found = exceptions.judge(exchange, &answer, differences);
        wrong.extend(found.into_iter().map(|words| {
            let request = &exchange.request;
            format!(
                "{name} {} [{}] {} {}: {words}",
                exchange.seq, exchange.check, request.method, request.path
            )
        }));
    }
    assert!(wrong.is_empty(), "{} exchanges:\n{}", wrong.len(), wrong.join("\n"));
    assert!(held * 2 > recording.exchanges.len(), "{name}: {held} of {} hold", recording.exchanges.len());
}

macro_rules! replayed {
    ($($name:ident = $file:literal;)*) => { $(#[tokio::test] async fn $name() { replayed($file).await; })* };
}

replayed! {
    batch = "batch";
    batch_answered = "batch-answered";
    bulk = "bulk";
    bulk_answered = "bulk-answered";
    changefeed = "changefeed";
    containers = "containers";
    hierarchical = "hierarchical";
    items = "items";
    linq = "linq";
    options = "options";
    paging = "paging";
    processor = "processor";
    queries = "queries";
    scripts = "scripts";
    search = "search";
    security = "security";
    throughput = "throughput";
}
