//! Queries over the feeds of databases, containers, offers, users, permissions and scripts.
//!
//! The query language is that of items, but `ORDER BY`, which the reference does not know here. A continuation token is the own id
//! of the last resource that was processed and, behind `#`, the state of the query's execution as base64; either may be absent.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shardlake_account::sql::{PageLimits, Resource, ResourcePosition, query_resources};
use shardlake_document::{ParseLimits, Value};
use shardlake_model::{Error, Result, Rid};

use crate::call::Call;
use crate::query_body::QueryBody;
use crate::reply::Reply;
use crate::resource_document::{feed, max_items, rid_of};

/// Page of the rows of the request's query over resources, each given as JSON text.
pub(crate) fn answer(
    call: &Call<'_>,
    parent_rid: &str,
    member: &str,
    resources: Vec<Vec<u8>>,
) -> Result<Reply> {
    let body = QueryBody::read_whole(call)?;
    let position = call.headers.continuation.filter(|token| !token.is_empty());
    let position = position.map(|token| decode(token).ok_or_else(invalid)).transpose()?;
    let mut resources = resources.iter().map(|text| resource(text)).collect::<Result<Vec<_>>>()?;
    let limits =
        PageLimits { rows: max_items(call)?, size_bytes: call.account.router().limits().page_size_bytes_max };
    let query = (&body.text[..], &body.parameters[..]);
    let page_of = |resources: &[Resource]| {
        query_resources(query, resources, call.context.now, position.as_ref(), limits)
    };
    // Pages need an order, which their tokens name a place of. A whole result has the order of the feed.
    let may_be_whole = position.is_none() && limits.rows >= resources.len();
    let whole = may_be_whole.then(|| page_of(&resources)).transpose()?.filter(|page| page.next.is_none());
    let page = match whole {
        Some(page) => page,
        None => {
            resources.sort_by(|left, right| left.rid.cmp(&right.rid));
            page_of(&resources)?
        }
    };
    let rows: Vec<Vec<u8>> = page.rows.iter().map(<[u8]>::to_vec).collect();
    Ok(Reply { continuation: page.next.as_ref().map(encode), ..feed(parent_rid, member, &rows) })
}

fn resource(text: &[u8]) -> Result<Resource> {
    let limits = ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() };
    let value = Value::from_json(text, &limits)
        .map_err(|error| Error::internal("a resource is not valid JSON").with_source(error))?;
    Ok(Resource { rid: rid_of(text), value })
}

fn invalid() -> Error {
    Error::bad_request("Invalid Continuation Token")
}

fn encode(position: &ResourcePosition) -> String {
    match &position.state {
        None => position.after.clone(),
        Some(state) => format!("{}#{}", position.after, URL_SAFE_NO_PAD.encode(state)),
    }
}

fn decode(token: &str) -> Option<ResourcePosition> {
    let (after, state) = match token.split_once('#') {
        None => (token, None),
        Some((after, state)) => (after, Some(URL_SAFE_NO_PAD.decode(state).ok()?)),
    };
    let is_known = (after.is_empty() && state.is_some()) || Rid::parse(after).is_some();
    is_known.then(|| ResourcePosition { after: after.to_owned(), state })
}
