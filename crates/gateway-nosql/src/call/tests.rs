//! Positions in outcomes of every kind, by the protocol of the request.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use shardlake_account::AccountOptions;
use shardlake_model::{ContainerDefinition, Error, PartitionKeyDefinition};
use shardlake_signature::{Access, AccountKey};
use shardlake_stdx::{Clock, Guid, Timestamp};
use shardlake_storage::{Shard, ShardOptions};

use super::*;
use crate::errors::{Failure, NUMBERS};
use crate::header_names::{LSN, RANGE_ID, SESSION_TOKEN};
use crate::header_text::Echo;
use crate::reply::Renderer;

const REPLICA: &str = "/partitions/0/replicas/1p";

/// An account with a container `c` of one range.
async fn account() -> (Account, ContainerHandle) {
    let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
    let options =
        AccountOptions { clock: Clock::manual(Timestamp(1_700_000_000_000)), ..AccountOptions::default() };
    let account = Account::open(shard, options).await.expect("the account opens");
    let context = RequestContext::internal(account.router().clock(), Guid([1; 16]));
    account.definitions().create_database(&context, "d", None).await.expect("a database");
    let definition = ContainerDefinition::new("c", PartitionKeyDefinition::hash("/pk"));
    let container =
        account.definitions().create_container(&context, "d", definition, None).await.expect("a container");
    (account, container)
}

fn rendered(outcome: Result<Reply, Failure>) -> HeaderMap {
    let echo = Echo {
        activity_id: Guid([1; 16]),
        scheme: "https",
        host: "localhost",
        request_uri: "/",
        duration: Duration::ZERO,
    };
    Renderer::new(Timestamp(0)).render(outcome, echo).headers().clone()
}

/// Outcomes of every kind, as answers to a request with this key over one of the protocols.
fn answers(
    account: &Account,
    container: &ContainerHandle,
    mode: ConnectionMode<'_>,
    key: Option<&str>,
) -> Vec<HeaderMap> {
    let settings = GatewaySettings {
        keys: vec![AccountKey { name: "primary", key: "a2V5".into(), access: Access::Full }],
        ..GatewaySettings::default()
    };
    let keyring =
        ArcSwap::from_pointee(Keyring::new(&settings.keys, settings.clock_skew_max).expect("a key"));
    let headers = RequestHeaders { partition_key: key, ..RequestHeaders::default() };
    let call = Call {
        account,
        settings: &settings,
        keyring: &keyring,
        caller: &Caller::Key(Access::Full),
        path: &Path::parse("/dbs/d/colls/c/docs").expect("a path"),
        uri: &Uri::from_static("/dbs/d/colls/c/docs"),
        headers: &headers,
        host: "localhost",
        scheme: Scheme::Https,
        mode: &mode,
        context: RequestContext::internal(account.router().clock(), Guid([1; 16])),
        body: Bytes::new(),
    };
    let errors = NUMBERS.map(|(kind, ..)| Err(Error::new(kind, "a reason")));
    let outcomes = errors.into_iter().chain([Ok(Reply::empty(StatusCode::OK, 100))]);
    let placed = outcomes.map(|mut outcome| {
        call.place(&mut outcome, container);
        rendered(outcome.map_err(|error| Failure::within(error, container)))
    });
    placed.collect()
}

#[tokio::test]
async fn answers_of_every_kind_have_a_position_for_frames_alone() {
    let (account, container) = account().await;
    let path = format!("/apps/shardlake/services/{}{REPLICA}", container.rid_text().trim_end_matches('='));
    let routing = Routing { replica_path: &path, container_rid: None };
    // A key that is none falls back on the address.
    for key in [None, Some(r#"["k"]"#), Some("malformed")] {
        let answers = answers(&account, &container, ConnectionMode::Direct(routing), key);
        assert_eq!(answers.len(), NUMBERS.len() + 1);
        for headers in answers {
            assert_eq!(headers[&RANGE_ID], "0");
            assert_eq!(headers[&LSN], "0");
            assert_eq!(headers[&SESSION_TOKEN], format!("0:{}#0", container.session_version()));
        }
    }
    for headers in answers(&account, &container, ConnectionMode::Http, Some(r#"["k"]"#)) {
        assert!([&RANGE_ID, &LSN, &SESSION_TOKEN].iter().all(|name| !headers.contains_key(*name)));
    }
}
