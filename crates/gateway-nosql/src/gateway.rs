//! One request: headers, route, signature, body, operation, response.
//!
//! The order is chosen so that nothing costs before it must: an unsigned request has neither its body read nor the
//! account touched. Every path through here ends in a well-formed response; there is no error to return to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use shardlake_account::{Account, ContainerHandle};
use shardlake_model::{Error, ErrorKind, RequestContext, Result};
use shardlake_stdx::Guid;

use crate::auth::{Access, AccountKey, Keyring};
use crate::errors::Failure;
use crate::headers::{RequestHeaders, flag};
use crate::operator::{self, Address, OperatorCall};
use crate::reply::{Echo, Renderer, Reply};
use crate::router::{Path, Route};
use crate::{
    account_document, batch, body, conflicts, containers, databases, feed, items, offers,
    partition_key_delete, pkranges, query, query_plan, unsupported,
};

/// How a gateway behaves.
#[derive(Clone)]
pub struct GatewaySettings {
    /// Any of them signs a request; a read-only one signs reads.
    pub keys: Vec<AccountKey>,
    /// How far a request's date may be from the clock, either way.
    pub clock_skew_max: Duration,
    /// `id` of the account document. Clients treat the exact name `localhost` specially: they ignore the endpoints listed.
    pub account_id: String,
    /// The only region; clients remember its name, so it must not change.
    pub region: String,
    /// Bodies above this are refused unread; must leave room for a bulk request.
    pub body_size_bytes_max: usize,
    /// Time for a body to arrive, and for the operation after it.
    pub request_timeout: Duration,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        GatewaySettings {
            keys: Vec::new(),
            clock_skew_max: Duration::from_secs(15 * 60),
            account_id: "localhost".into(),
            region: "Local".into(),
            body_size_bytes_max: 4 * 1024 * 1024,
            request_timeout: Duration::from_secs(60),
        }
    }
}

/// What the connection that a request came in on speaks; endpoints are advertised in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// Serves the protocol over an account. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    account: Account,
    settings: GatewaySettings,
    keyring: Keyring,
    renderer: Renderer,
    activity_ids: ActivityIds,
}

/// A request that has passed the door.
pub(crate) struct Call<'r> {
    pub account: &'r Account,
    pub settings: &'r GatewaySettings,
    pub method: &'r Method,
    pub path: &'r Path<'r>,
    pub headers: &'r RequestHeaders<'r>,
    /// Name or address under which the client knows this server.
    pub host: &'r str,
    pub scheme: Scheme,
    pub context: RequestContext,
    pub body: Bytes,
}

impl Gateway {
    /// Fails when a key is unusable.
    pub fn new(account: Account, settings: GatewaySettings) -> Result<Gateway> {
        let keyring = Keyring::new(&settings.keys, settings.clock_skew_max)?;
        let renderer = Renderer::new(account.clock().now());
        let activity_ids = ActivityIds { base: account.random().guid(), made: AtomicU64::new(0) };
        Ok(Gateway(Arc::new(Inner { account, settings, keyring, renderer, activity_ids })))
    }

    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// Serves one request. Errors are responses too.
    pub async fn handle<B>(&self, request: Request<B>, scheme: Scheme) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let inner = &*self.0;
        let started = inner.account.clock().elapsed();
        let (parts, body) = request.into_parts();
        let activity_id = inner.activity_ids.of(&parts);
        let outcome = inner.serve(&parts, body, scheme, activity_id, started).await;
        let duration = inner.account.clock().elapsed().saturating_sub(started);
        inner.renderer.render(outcome, Echo { activity_id, request_uri: parts.uri.path(), duration })
    }
}

impl Inner {
    async fn serve<B>(
        &self,
        parts: &Parts,
        body: B,
        scheme: Scheme,
        activity_id: Guid,
        started: Duration,
    ) -> Result<Reply, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let headers = RequestHeaders::parse(&parts.headers)?;
        if let Some(address) = Address::parse(parts.uri.path(), parts.uri.query())? {
            let operate = self.operate(parts, body, &headers, &address, (activity_id, started));
            return Ok(operate.await?);
        }
        let path = Path::parse(parts.uri.path())?;
        let route = path.route()?;
        let access = self.authenticate(&parts.method, &path, route, &headers)?;
        allow(access, &parts.method, &headers)?;
        let body = body::read(body, self.settings.body_size_bytes_max, self.settings.request_timeout).await?;
        let call = Call {
            account: &self.account,
            settings: &self.settings,
            method: &parts.method,
            path: &path,
            headers: &headers,
            // HTTP/2 carries the host in the request line.
            host: headers.host.or(parts.uri.authority().map(|host| host.as_str())).unwrap_or("localhost"),
            scheme,
            context: self.context(&headers, activity_id, started)?,
            body,
        };
        dispatch(&call, route).await
    }

    /// The operator's interface passes the same door.
    async fn operate<B>(
        &self,
        parts: &Parts,
        body: B,
        headers: &RequestHeaders<'_>,
        address: &Address<'_>,
        (activity_id, started): (Guid, Duration),
    ) -> Result<Reply>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let form = address.signed_form(&parts.method, dates(headers));
        let access = self.keyring.authenticate(headers.authorization, &[form], self.account.clock().now())?;
        operator::allow(access, &parts.method)?;
        let body = body::read(body, self.settings.body_size_bytes_max, self.settings.request_timeout).await?;
        let context = self.context(headers, activity_id, started)?;
        let call = OperatorCall { account: &self.account, method: &parts.method, address, context, body };
        operator::serve(&call).await
    }

    fn authenticate(
        &self,
        method: &Method,
        path: &Path<'_>,
        route: Route,
        headers: &RequestHeaders<'_>,
    ) -> Result<Access> {
        path.with_signed_forms(route, method, dates(headers), |forms| {
            self.keyring.authenticate(headers.authorization, forms, self.account.clock().now())
        })
    }

    fn context(
        &self,
        headers: &RequestHeaders<'_>,
        activity_id: Guid,
        started: Duration,
    ) -> Result<RequestContext> {
        Ok(RequestContext {
            activity_id,
            now: self.account.clock().now(),
            deadline: started + self.settings.request_timeout,
            consistency: headers.consistency(self.account.consistency())?,
            session: None,
            priority: headers.priority()?,
        })
    }
}

/// As they are signed: the reference's own header and the standard one.
fn dates<'r>(headers: &RequestHeaders<'r>) -> (&'r str, &'r str) {
    (headers.ms_date.unwrap_or_default(), headers.date.unwrap_or_default())
}

/// Ids for requests that bring none: a random base with a counter in it, since asking the operating system for
/// randomness would cost as much as reading an item, and these ids only have to be unique.
struct ActivityIds {
    base: Guid,
    made: AtomicU64,
}

impl ActivityIds {
    /// The client's own id of the request where it is one, else a new one.
    fn of(&self, parts: &Parts) -> Guid {
        let sent = parts.headers.get("x-ms-activity-id").and_then(|value| value.to_str().ok());
        sent.and_then(Guid::parse).unwrap_or_else(|| self.next())
    }

    fn next(&self) -> Guid {
        let number = self.made.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut id = self.base;
        // The last six bytes carry no version or variant bits; 48 bits of requests outlive any process.
        for (byte, count) in id.0[10..].iter_mut().zip(&number[2..]) {
            *byte ^= count;
        }
        id
    }
}

/// A read-only key may read: GET, queries and query plans.
fn allow(access: Access, method: &Method, headers: &RequestHeaders<'_>) -> Result<()> {
    if access == Access::Full || method == Method::GET || headers.asks_query()? {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Forbidden,
        format!(
            "the request is signed with a read-only key, which does not allow {method}: sign with a read-write key"
        ),
    ))
}

async fn dispatch(call: &Call<'_>, route: Route) -> Result<Reply, Failure> {
    if !matches!(*call.method, Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        return Err(wrong_method(call).into());
    }
    match (route, call.method.as_str()) {
        (Route::Account, "GET") => Ok(account_document::read(call)),
        (Route::Databases, "GET") => databases::list(call),
        (Route::Databases, "POST") if call.headers.asks_query()? => databases::query(call),
        (Route::Databases, "POST") => databases::create(call).await,
        (Route::Database, "GET") => databases::read(call),
        (Route::Database, "DELETE") => databases::delete(call).await,
        (Route::Containers, "GET") => containers::list(call),
        (Route::Containers, "POST") if call.headers.asks_query()? => containers::query(call),
        (Route::Containers, "POST") => containers::create(call).await,
        (Route::Container, "GET") => containers::read(call),
        (Route::Container, "PUT") => containers::replace(call).await,
        (Route::Container, "DELETE") => containers::delete(call).await,
        (Route::PartitionKeyRanges, "GET") => pkranges::list(call).await,
        (Route::Items | Route::Item | Route::PartitionKeyDelete, _) => in_container(call, route).await,
        (Route::Conflicts, "GET") => conflicts::list(call),
        (Route::Conflicts, "POST") if call.headers.asks_query()? => conflicts::list(call),
        (Route::Conflict, "GET" | "DELETE") => Err(conflicts::missing(call)),
        (Route::Offers, "GET") => offers::list(call).await,
        (Route::Offers, "POST") if call.headers.asks_query()? => offers::query(call).await,
        (Route::Offer, "GET") => offers::read(call).await,
        (Route::Offer, "PUT") => offers::replace(call).await,
        (Route::Unsupported(feature), _) => Err(unsupported::resource(feature).into()),
        _ => Err(wrong_method(call).into()),
    }
}

/// Operations on items: the container is resolved once, and errors carry its name.
async fn in_container(call: &Call<'_>, route: Route) -> Result<Reply, Failure> {
    call.headers.refuse_unsupported()?;
    let container = call.account.container_for_items(call.path.database(), call.path.container())?;
    let outcome = match container.check_intended_rid(call.headers.intended_rid) {
        Ok(()) => item_operation(call, route, &container).await,
        Err(error) => Err(error),
    };
    outcome.map_err(|error| Failure::within(error, &container))
}

async fn item_operation(call: &Call<'_>, route: Route, container: &ContainerHandle) -> Result<Reply> {
    match (route, call.method.as_str()) {
        (Route::Item, "GET") => items::read(call, container).await,
        (Route::Item, "PUT") => items::replace(call, container).await,
        (Route::Item, "PATCH") => items::patch(call, container).await,
        (Route::Item, "DELETE") => items::delete(call, container).await,
        (Route::Items, "GET") => feed::read(call, container).await,
        (Route::Items, "POST") => {
            let headers = call.headers;
            if flag("x-ms-cosmos-is-query-plan-request", headers.is_query_plan)? {
                query_plan::read(call, container)
            } else if headers.asks_query()? {
                query::execute(call, container).await
            } else if flag("x-ms-cosmos-is-batch-request", headers.is_batch)? {
                batch::execute(call, container).await
            } else if flag("x-ms-documentdb-is-upsert", headers.is_upsert)? {
                items::upsert(call, container).await
            } else {
                items::create(call, container).await
            }
        }
        (Route::PartitionKeyDelete, "POST") => partition_key_delete::execute(call, container).await,
        _ => Err(wrong_method(call)),
    }
}

fn wrong_method(call: &Call<'_>) -> Error {
    Error::new(
        ErrorKind::MethodNotAllowed,
        format!("the method {} is not defined on this resource", call.method),
    )
}
