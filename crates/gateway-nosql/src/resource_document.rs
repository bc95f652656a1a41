//! JSON of metadata resources: feeds, and the parsing of bodies of definitions.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardlake_account::METADATA_READ_CHARGE_CENTI;
use shardlake_model::{Error, Preconditions, Result, Rid};
use shardlake_stdx::Guid;

use crate::call::Call;
use crate::reply::Reply;

/// Properties that the server owns; clients send them back when they replace a resource.
const SYSTEM_MEMBERS: [&str; 16] = [
    "_rid",
    "_self",
    "_etag",
    "_ts",
    "_colls",
    "_users",
    "_docs",
    "_sprocs",
    "_triggers",
    "_udfs",
    "_conflicts",
    "_lsn",
    "statistics",
    "_attachments",
    "_permissions",
    "_token",
];

/// The `_etag` member: the quotes belong to the value.
pub(crate) fn etag_text(etag: [u8; 16]) -> String {
    format!("\"{}\"", Guid(etag))
}

/// A resource that is a row of a feed, rendered.
pub(crate) fn document(resource: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(resource).expect("resources have a JSON form")
}

/// A feed page that holds everything there is.
pub(crate) fn feed(parent_rid: &str, member: &str, documents: &[Vec<u8>]) -> Reply {
    let size: usize = documents.iter().map(|document| document.len() + 1).sum();
    let mut body = Vec::with_capacity(size + 64);
    body.extend_from_slice(format!("{{\"_rid\":\"{parent_rid}\",\"{member}\":[").as_bytes());
    body.extend_from_slice(&documents.join(&b','));
    body.extend_from_slice(format!("],\"_count\":{}}}", documents.len()).as_bytes());
    let reply = Reply::json(StatusCode::OK, METADATA_READ_CHARGE_CENTI, body);
    Reply { item_count: Some(documents.len()), ..reply }
}

/// A page of a feed of resources: all of them, or as many as the client accepts at once and fit into a page.
///
/// A feed of several pages is in the order of the resources' own ids, and the continuation token is the last one
/// returned, so that nothing is missed or repeated when resources are created or deleted in between.
pub(crate) fn page(call: &Call<'_>, parent_rid: &str, member: &str, rows: Vec<Vec<u8>>) -> Result<Reply> {
    let max = max_items(call)?;
    let size_max = call.account.router().limits().page_size_bytes_max;
    let size: usize = rows.iter().map(Vec::len).sum();
    if call.headers.continuation.is_none() && rows.len() <= max && size <= size_max {
        return Ok(feed(parent_rid, member, &rows));
    }
    let after = call.headers.continuation.unwrap_or_default();
    if !after.is_empty() && Rid::parse(after).is_none() {
        return Err(Error::bad_request("Invalid Continuation Token"));
    }
    let mut rows: Vec<(String, Vec<u8>)> = rows.into_iter().map(|row| (rid_of(&row), row)).collect();
    rows.retain(|(rid, _)| rid.as_str() > after);
    rows.sort();
    let count = rows.len();
    rows.truncate(max.min(count_within(size_max, rows.iter().map(|(_, row)| row.len()))));
    let continuation = rows.last().filter(|_| rows.len() < count).map(|(rid, _)| rid.clone());
    assert!(rows.len() <= max, "a page has no more resources than the client accepts");
    assert!(count == 0 || !rows.is_empty(), "a page has a resource as long as there is one");
    let documents: Vec<Vec<u8>> = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Reply { continuation, ..feed(parent_rid, member, &documents) })
}

/// How many rows a page may have.
pub(crate) fn max_items(call: &Call<'_>) -> Result<usize> {
    match call.headers.max_items()? {
        None | Some(-1) => Ok(usize::MAX),
        Some(wanted) if wanted > 0 => Ok(wanted as usize),
        Some(other) => {
            Err(Error::bad_request(format!("x-ms-max-item-count {other} is invalid: use -1 or 1 and above")))
        }
    }
}

/// How many of the first rows fit in a page. One always does, or there would be no end.
fn count_within(size_max: usize, sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let fitting = sizes.take_while(|size| {
        total += size;
        total <= size_max
    });
    fitting.count().max(1)
}

pub(crate) fn rid_of(row: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "_rid")]
        rid: String,
    }
    serde_json::from_slice::<Named>(row).expect("every rendered resource has an id").rid
}

/// A read that may name the version the client already has.
pub(crate) fn read(document: Vec<u8>, etag: [u8; 16], preconditions: &Preconditions) -> Reply {
    let unchanged = preconditions.if_none_match.as_ref().is_some_and(|known| known.matches(&Guid(etag)));
    if unchanged {
        return Reply::empty(StatusCode::NOT_MODIFIED, METADATA_READ_CHARGE_CENTI).with_etag(etag);
    }
    Reply::json(StatusCode::OK, METADATA_READ_CHARGE_CENTI, document).with_etag(etag)
}

/// The members of a definition, without those that the server owns and those that are null.
pub(crate) fn members(body: &[u8]) -> Result<Map<String, Value>> {
    let mut members: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Error::bad_request(format!("the request body must be a JSON object: {error}")))?;
    members.retain(|name, value| !value.is_null() && !SYSTEM_MEMBERS.contains(&name.as_str()));
    Ok(members)
}

pub(crate) fn required_id(members: &Map<String, Value>) -> Result<&str> {
    let id = members.get("id").ok_or_else(|| {
        Error::bad_request(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )
    })?;
    id.as_str().ok_or_else(|| Error::bad_request("the property 'id' must be a string"))
}

#[cfg(test)]
mod tests {
    use shardlake_model::ETagCondition;

    use super::*;

    #[test]
    fn feeds_have_their_envelope_even_when_empty() {
        let text = |documents: &[Vec<u8>]| {
            let reply = feed("AAAAAQ==", "DocumentCollections", documents);
            (String::from_utf8(reply.body.expect("a body").into_vec()).expect("UTF-8"), reply.item_count)
        };
        assert_eq!(text(&[]), (r#"{"_rid":"AAAAAQ==","DocumentCollections":[],"_count":0}"#.into(), Some(0)));
        let two = [b"{\"id\":1}".to_vec(), b"{}".to_vec()];
        assert_eq!(
            text(&two),
            (r#"{"_rid":"AAAAAQ==","DocumentCollections":[{"id":1},{}],"_count":2}"#.into(), Some(2))
        );
    }

    #[test]
    fn members_of_the_server_and_nulls_are_dropped() {
        let members =
            members(br#"{"id":"a","_rid":"x","_ts":1,"_self":"s","defaultTtl":null,"x":0}"#).expect("valid");
        assert_eq!(members.keys().collect::<Vec<_>>(), ["id", "x"]);
        assert_eq!(required_id(&members).expect("present"), "a");
        assert!(required_id(&Map::new()).expect_err("absent").message().contains("'id; '"));
        assert!(super::members(b"[]").is_err() && super::members(b"").is_err());
    }

    #[test]
    fn a_known_version_is_not_sent_again() {
        let etag = [9; 16];
        let asks = |condition| Preconditions { if_none_match: condition, ..Preconditions::default() };
        let known = asks(Some(ETagCondition::parse(&etag_text(etag))));
        let reply = read(b"{}".to_vec(), etag, &known);
        assert_eq!((reply.status, reply.body), (StatusCode::NOT_MODIFIED, None));
        assert_eq!(read(b"{}".to_vec(), etag, &asks(None)).status, StatusCode::OK);
    }
}
