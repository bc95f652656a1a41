//! The address feed: the addresses to which clients in Direct mode send the frames for each partition.
//!
//! `$resolveFor` names the resources that the client will address: the items of a container, or the databases, which are in the
//! master partition. It is signed, and allowed, as a read of those resources. Each partition has two addresses, which both lead
//! to this listener, by the host and port that the client called. A range that has ended is left out: at the missing range, clients
//! read the ranges again.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::StatusCode;
use http::uri::Authority;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use shardlake_account::{ContainerHandle, METADATA_READ_CHARGE_CENTI};
use shardlake_model::{Error, Result};

use crate::connection_mode::{MASTER_PARTITION, REPLICAS, Replica, ReplicaPath, service_of};
use crate::reply::Reply;
use crate::resource_document::document;
use crate::router::{Path, Route};

const RESOLVE_FOR: &str = "$resolveFor";
const FILTER: &str = "$filter";
const RANGE_IDS: &str = "$partitionKeyRangeIds";

/// Ranges that one request may name. Clients name up to 50.
const RANGES_MAX: usize = 1_000;

/// Query of a request for addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressQuery<'q> {
    resolve_for: Cow<'q, str>,
    range_ids: Option<Cow<'q, str>>,
}

impl<'q> AddressQuery<'q> {
    pub fn parse(query: Option<&'q str>) -> Result<AddressQuery<'q>> {
        let (mut resolve_for, mut filter, mut range_ids) = (None, None, None);
        for parameter in query.unwrap_or_default().split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let name = decoded(name).ok_or_else(|| Error::bad_request("the query is not UTF-8 text"))?;
            let slot = match &*name {
                RESOLVE_FOR => &mut resolve_for,
                FILTER => &mut filter,
                RANGE_IDS => &mut range_ids,
                _ => continue,
            };
            let value = decoded(value).ok_or_else(|| invalid(&name, "it is not UTF-8 text"))?;
            if slot.replace(value).is_some() {
                return Err(invalid(&name, "it stands there twice"));
            }
        }
        let resolve_for = resolve_for.ok_or_else(|| invalid(RESOLVE_FOR, "it is missing"))?;
        let filter = filter.ok_or_else(|| invalid(FILTER, "it is missing"))?;
        if filter.replace('+', " ") != "protocol eq rntbd" {
            return Err(invalid(FILTER, "use 'protocol eq rntbd', or gateway mode instead of addresses"));
        }
        Ok(AddressQuery { resolve_for, range_ids })
    }

    /// The path of the resources that will be addressed, and the route of the request for addresses.
    pub fn target(&self) -> Result<(Path<'_>, Route)> {
        let wrong = || invalid(RESOLVE_FOR, "use 'dbs' or 'dbs/<database>/colls/<container>/docs'");
        let path = Path::parse(&self.resolve_for).map_err(|_| wrong())?;
        match path.route() {
            Ok(Route::Databases) => Ok((path, Route::MasterAddresses)),
            Ok(Route::Items) => Ok((path, Route::Addresses)),
            _ => Err(wrong()),
        }
    }

    /// Ranges whose addresses the request names; `None` for all ranges.
    pub fn range_ids(&self) -> Result<Option<BTreeSet<u32>>> {
        let Some(text) = &self.range_ids else { return Ok(None) };
        if text.split(',').count() > RANGES_MAX {
            return Err(invalid(RANGE_IDS, &format!("it names more than {RANGES_MAX} ranges")));
        }
        let ids: std::result::Result<_, _> = text.split(',').map(|id| id.trim().parse()).collect();
        ids.map(Some).map_err(|_| invalid(RANGE_IDS, "use numbers with commas between them"))
    }

    /// The master partition is one, which has no number.
    pub fn check_master(&self) -> Result<()> {
        match self.range_ids.as_deref() {
            None | Some(MASTER_PARTITION) => Ok(()),
            Some(_) => Err(invalid(RANGE_IDS, "databases have no partition key ranges: leave it out")),
        }
    }
}

fn decoded(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

fn invalid(name: &str, why: &str) -> Error {
    Error::bad_request(format!("the parameter '{name}' of a request for addresses is invalid: {why}"))
}

/// Host and port of the listener, from the address that the client called.
///
/// Clients choose any one of the addresses of a name, and the server may listen on IPv4 alone, so `localhost` becomes its IPv4 address.
pub(crate) fn listener(host: &str, default_port: u16) -> Result<String> {
    let called: Authority = host
        .parse()
        .map_err(|_| Error::bad_request(format!("the host '{host}' of the request is invalid")))?;
    let name = if called.host().eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { called.host() };
    Ok(format!("{name}:{}", called.port_u16().unwrap_or(default_port)))
}

/// The names of these members are misspelt on the wire.
#[derive(Serialize)]
struct AddressFeed<'f> {
    #[serde(rename = "_rid")]
    rid: &'f str,
    #[serde(rename = "Addresss")]
    addresses: Vec<Address>,
    #[serde(rename = "_count")]
    count: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    is_primary: bool,
    protocol: &'static str,
    logical_uri: String,
    #[serde(rename = "physcialUri")]
    physical_uri: String,
    partition_index: String,
    partition_key_range_id: String,
}

pub(crate) fn of_master(listener: &str) -> Reply {
    let address = |replica: &Replica| Address {
        logical_uri: format!("urn:uuid:master{}", suffix(*replica)),
        partition_index: MASTER_PARTITION.to_owned(),
        ..at(listener, ReplicaPath::Master, *replica, MASTER_PARTITION.to_owned())
    };
    feed("", REPLICAS.iter().map(address).collect())
}

/// Addresses of the ranges among `wanted` that the container has.
pub(crate) fn of_container(
    container: &ContainerHandle,
    wanted: Option<&BTreeSet<u32>>,
    listener: &str,
) -> Reply {
    let (rid, service) = (container.rid_text(), service_of(container.rid_text()));
    let ranges = container.range_ids().filter(|id| wanted.is_none_or(|wanted| wanted.contains(id)));
    let address = |range_id: u32, replica: Replica| Address {
        logical_uri: format!("urn:uuid:{rid}-{range_id}{}", suffix(replica)),
        partition_index: format!("{range_id}@{rid}"),
        ..at(listener, ReplicaPath::Range { service: &service, range_id }, replica, range_id.to_string())
    };
    let addresses = ranges.flat_map(|id| REPLICAS.map(|replica| address(id, replica)));
    feed(rid, addresses.collect())
}

fn at(listener: &str, path: ReplicaPath<'_>, replica: Replica, partition_key_range_id: String) -> Address {
    Address {
        is_primary: replica == Replica::Primary,
        protocol: "rntbd",
        logical_uri: String::new(),
        physical_uri: format!("rntbd://{listener}{}", path.of(replica)),
        partition_index: String::new(),
        partition_key_range_id,
    }
}

fn suffix(replica: Replica) -> &'static str {
    match replica {
        Replica::Primary => "",
        Replica::Secondary => "-2",
    }
}

fn feed(rid: &str, addresses: Vec<Address>) -> Reply {
    let count = addresses.len();
    let reply = Reply::json(
        StatusCode::OK,
        METADATA_READ_CHARGE_CENTI,
        document(&AddressFeed { rid, addresses, count }),
    );
    Reply { item_count: Some(count), ..reply }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(query: &str) -> String {
        let parsed = AddressQuery::parse(Some(query)).and_then(|query| query.range_ids());
        parsed.expect_err(query).message().to_owned()
    }

    #[test]
    fn queries_are_read_as_both_clients_write_them() {
        let dotnet = "$resolveFor=dbs%2fjHMc3Q%3d%3d%2fcolls%2fjHMc%2bZGD1BM%3d%2fdocs&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0%2c12";
        let query = AddressQuery::parse(Some(dotnet)).expect("valid");
        assert_eq!(query.resolve_for, "dbs/jHMc3Q==/colls/jHMc+ZGD1BM=/docs");
        assert_eq!(query.range_ids().expect("numbers"), Some(BTreeSet::from([0, 12])));
        let java = "$resolveFor=dbs&$filter=protocol+eq+rntbd&$later=1";
        let query = AddressQuery::parse(Some(java)).expect("valid");
        assert_eq!((&*query.resolve_for, query.range_ids().expect("none")), ("dbs", None));
        query.check_master().expect("no ranges");
    }

    #[test]
    fn malformed_members_are_named() {
        let usual = "$resolveFor=dbs&$filter=protocol%20eq%20rntbd";
        for (query, name) in [
            ("", "'$resolveFor'"),
            ("$filter=protocol%20eq%20rntbd", "'$resolveFor'"),
            ("$resolveFor=dbs", "'$filter'"),
            ("$resolveFor=dbs&$filter=protocol%20eq%20https", "gateway mode"),
            ("$resolveFor=%ff&$filter=protocol%20eq%20rntbd", "'$resolveFor'"),
            (&format!("{usual}&$resolveFor=dbs"), "twice"),
            (&format!("{usual}&$partitionKeyRangeIds=0,x"), "'$partitionKeyRangeIds'"),
            (&format!("{usual}&$partitionKeyRangeIds="), "'$partitionKeyRangeIds'"),
            (&format!("{usual}&$partitionKeyRangeIds=-1"), "'$partitionKeyRangeIds'"),
            (&format!("{usual}&$partitionKeyRangeIds=1{}", ",1".repeat(1_000)), "1000"),
        ] {
            assert!(refusal(query).contains(name), "{query}: {}", refusal(query));
        }
        for path in
            ["", "dbs/d", "dbs//colls", "dbs/d/colls/c", "dbs/d/colls/c/docs/i", "offers", "addresses"]
        {
            let query = AddressQuery { resolve_for: path.into(), range_ids: None };
            let error = query.target().err().expect(path);
            assert!(error.message().contains("'$resolveFor'"), "{error}");
        }
    }

    #[test]
    fn the_listener_is_where_the_client_called() {
        for (host, expected) in [
            ("localhost:8081", "127.0.0.1:8081"),
            ("LocalHost", "127.0.0.1:443"),
            ("db.example:1", "db.example:1"),
            ("db.example", "db.example:443"),
            ("10.0.0.1:8081", "10.0.0.1:8081"),
            ("[::1]:8081", "[::1]:8081"),
            ("[::1]", "[::1]:443"),
        ] {
            assert_eq!(listener(host, 443).expect(host), expected);
        }
        assert!(listener("a b", 443).is_err());
    }
}
