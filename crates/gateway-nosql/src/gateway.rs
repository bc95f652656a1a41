//! One request: headers, route, signature, body, operation, response.
//!
//! The order is chosen so that nothing costs before it must: an unsigned request has neither its body read nor the
//! account touched. Every path through here ends in a well-formed response; there is no error to return to the server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::ACCEPT;
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Body;
use shardlake_account::{Account, ContainerHandle};
use shardlake_admin::{Address, CallerAccess, OperatorCall, TokenAccess};
use shardlake_hybrid_row::is_hybrid_row;
use shardlake_model::{Error, RequestContext, Result, ScriptKind};
use shardlake_signature::{Access, AccountKey, Payload};
use shardlake_stdx::Guid;
use tracing::{Instrument, Span};

use crate::access::{self, Asked};
use crate::activity_ids::ActivityIds;
use crate::addresses::{self, AddressQuery};
use crate::answer_body::AnswerBody;
use crate::audit::{self, Audited};
use crate::auth::{Caller, Keyring};
use crate::body::WholeBody;
use crate::call::Call;
use crate::connection_mode::ConnectionMode;
use crate::errors::Failure;
use crate::formats::{AnswerFormat, in_format, without_links};
use crate::header_text::Echo;
use crate::headers::{RequestHeaders, flag};
use crate::message_space::{AnswerHold, ConnectionSpace};
use crate::operation_name::{OperationName, OperationSeen};
use crate::operator_reply::failed;
use crate::reply::{Renderer, Reply};
use crate::router::{DISTRIBUTED_TRANSACTIONS, FeedOperation, Operation, Path, ResourceOperation, Route};
use crate::settings::{GatewaySettings, Scheme};
use crate::slow_log::{Ended, SlowLog};
use crate::{
    account_document, batch, body, change_feed, conflicts, containers, databases, feed, index_reads, items,
    offers, operator_reply, partition_key_delete, permissions, pkranges, query, query_plan, script_execute,
    scripts, secondary_index, session, triggers, unsupported, users,
};

/// Where a request came in.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'e> {
    pub scheme: Scheme,
    /// The authority for clients in place of the host that the request names; `None` where that host may be repeated.
    pub authority: Option<&'e str>,
    /// The memory that the requests and answers of the connection may take.
    pub space: &'e Arc<ConnectionSpace>,
    pub mode: ConnectionMode<'e>,
    /// Set to the operation that the request asks for.
    pub seen: &'e OperationSeen,
}

impl Endpoint<'_> {
    fn saw(&self, operation: &Result<Operation>) {
        self.seen.set(operation.as_ref().map_or(OperationName::Other, |asked| OperationName::of(*asked)));
    }
}

/// Serves the protocol over an account. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    account: Account,
    settings: GatewaySettings,
    /// Replaced as a whole when a key is rotated.
    keyring: ArcSwap<Keyring>,
    renderer: Renderer,
    activity_ids: ActivityIds,
    slow_log: SlowLog,
}

impl Gateway {
    /// Fails when a key is unusable.
    pub fn new(account: Account, settings: GatewaySettings) -> Result<Gateway> {
        let keyring = Keyring::new(&settings.keys, settings.clock_skew_max)?;
        let keyring = ArcSwap::from_pointee(keyring);
        let renderer = Renderer::new(account.router().clock().now());
        let activity_ids = ActivityIds::new(account.router().random().guid());
        let slow_log = SlowLog::new(settings.slow_request);
        Ok(Gateway(Arc::new(Inner { account, settings, keyring, renderer, activity_ids, slow_log })))
    }

    /// Accepts these keys in place of all earlier ones, from the next request on. Fails when one is unusable.
    pub fn set_keys(&self, keys: &[AccountKey]) -> Result<()> {
        let keyring = Keyring::new(keys, self.0.settings.clock_skew_max)?;
        self.0.keyring.store(Arc::new(keyring));
        Ok(())
    }

    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// Serves one request. Errors are responses too.
    pub async fn handle<B>(&self, request: Request<B>, endpoint: Endpoint<'_>) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let inner = &*self.0;
        let started = inner.account.router().clock().elapsed();
        let (parts, body) = request.into_parts();
        let activity_id = inner.activity_ids.of(&parts);
        let mut hold = None;
        let host = endpoint.authority.or_else(|| sent_host(&parts)).unwrap_or(UNNAMED_HOST);
        let arrival = Arrival { endpoint, host, activity_id, started, hold: &mut hold };
        let (method, path) = (&parts.method, parts.uri.path());
        let span = request_span(activity_id, method, path);
        let outcome = inner.serve(&parts, body, arrival).instrument(span.clone()).await;
        let at = inner.account.router().clock().elapsed();
        let duration = at.saturating_sub(started);
        let echo = Echo { activity_id, scheme: endpoint.scheme.name(), host, request_uri: path, duration };
        let response = inner.renderer.render(outcome, echo);
        span.record("http.response.status_code", response.status().as_u16());
        inner
            .slow_log
            .note(Ended { activity_id, method, path, asked: &parts.headers, duration, at }, &response);
        if let Some(hold) = &hold {
            hold.settle(response.body().left_bytes());
        }
        response.map(|body| body.holding(hold))
    }
}

/// The span of a request, the parent of all its work in logs and traces. Names are those of OpenTelemetry.
fn request_span(activity_id: Guid, method: &Method, path: &str) -> Span {
    tracing::debug_span!(
        "request",
        otel.kind = "server",
        %activity_id,
        http.request.method = %method,
        url.path = path,
        http.response.status_code = tracing::field::Empty,
    )
}

/// Adds the parent resource of a container, a user or a permission. The Java SDK builds a container's link from it.
fn with_owner(reply: Reply, account: &Account, path: &Path<'_>, route: Route) -> Reply {
    match route {
        Route::Containers | Route::Container | Route::Users | Route::User => {
            let Ok(database) = account.router().database(path.database()) else { return reply };
            reply.with_owner(&format!("dbs/{}", database.id), &database.rid.to_string())
        }
        Route::Permissions | Route::Permission => {
            let database = account.router().database(path.database());
            let user = account.definitions().user(path.database(), path.user());
            let (Ok(database), Ok(user)) = (database, user) else { return reply };
            reply.with_owner(&format!("dbs/{}/users/{}", database.id, user.id), &user.rid.to_string())
        }
        Route::Items | Route::Item => secondary_index::with_copy_state(reply, account, path),
        _ => reply,
    }
}

/// Facts about a request before it is read.
struct Arrival<'r> {
    endpoint: Endpoint<'r>,
    /// Name or address under which the client knows this server.
    host: &'r str,
    activity_id: Guid,
    started: Duration,
    /// The memory of its answer, from when the request is let in.
    hold: &'r mut Option<Arc<AnswerHold>>,
}

impl Inner {
    async fn serve<B>(&self, parts: &Parts, body: B, arrival: Arrival<'_>) -> Result<Reply, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let headers = RequestHeaders::parse(&parts.headers)?;
        let endpoint = arrival.endpoint;
        if parts.uri.path().starts_with(shardlake_admin::PREFIX)
            && let Some(address) = Address::parse(parts.uri.path(), parts.uri.query())?
        {
            endpoint.seen.set(OperationName::of_admin(address.operation(&parts.method)));
            return Ok(Box::pin(self.operate(parts, body, &headers, &address, arrival)).await?);
        }
        headers.check_version()?;
        let mut path = Path::parse(parts.uri.path())?;
        let mut route = path.route()?;
        let addresses;
        if route == Route::Addresses {
            addresses = AddressQuery::parse(parts.uri.query())?;
            (path, route) = addresses.target()?;
        }
        let operation_on = |route| match endpoint.mode {
            ConnectionMode::Http => Operation::of(route, &parts.method, &headers),
            ConnectionMode::Direct(_) => Operation::of_frame(route, &parts.method, &headers),
        };
        let mut operation = operation_on(route);
        endpoint.saw(&operation);
        let whole;
        let (path, route, caller) = match self.authenticate(&parts.method, &path, route, &headers) {
            Ok(caller) => (path, route, caller),
            Err(error) if route == Route::Addresses => {
                let caller = self.signed_with_names(&path, &headers).ok_or(error)?;
                (path, route, caller)
            }
            Err(error) => {
                let Some(query) = parts.uri.query() else { return Err(error.into()) };
                whole = format!("{}?{query}", parts.uri.path());
                let signed = self.signed_with_query(&whole, &parts.method, &headers).ok_or(error)?;
                operation = operation_on(signed.1);
                endpoint.saw(&operation);
                signed
            }
        };
        let operation = operation?;
        access::allow(&caller, &Asked { operation, path: &path, headers: &headers }, &self.account)?;
        if let ConnectionMode::Direct(routing) = &endpoint.mode
            && operation.is_of_master()
        {
            routing.check_master()?;
        }
        let host = arrival.host;
        let (body, context) = self.admit(body, &headers, arrival).await?;
        let call = Call {
            account: &self.account,
            settings: &self.settings,
            keyring: &self.keyring,
            caller: &caller,
            path: &path,
            uri: &parts.uri,
            headers: &headers,
            host,
            scheme: endpoint.scheme,
            mode: &endpoint.mode,
            context,
            body: body.bytes.clone(),
        };
        let audited = self.audited(
            (&parts.method, parts.uri.path()),
            (&path, route),
            &call,
            OperationName::of(operation),
        );
        let reply = dispatch(&call, operation).await;
        if let Some(audited) = audited {
            audited.log(&reply);
        }
        let reply = reply?;
        Ok(with_owner(reply, &self.account, &path, route))
    }

    /// Serves the operator's interface, with the same authentication.
    async fn operate<B>(
        &self,
        parts: &Parts,
        body: B,
        headers: &RequestHeaders<'_>,
        address: &Address<'_>,
        arrival: Arrival<'_>,
    ) -> Result<Reply>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let form = address.signed_form(&parts.method, dates(headers));
        let operation = OperationName::of_admin(address.operation(&parts.method));
        let now = self.account.router().clock().now();
        let keyring = self.keyring.load_full();
        let caller = match address.takes_tokens() {
            true => caller_of(keyring.authenticate(headers.authorization, &[form], &self.account)?),
            false => CallerAccess::Key(keyring.authenticate_key(headers.authorization, &[form], now)?),
        };
        let audited = Audited::is_wanted(operation).then(|| {
            let caller = keyring.key_name(headers.authorization, &[form]);
            Audited::new(operation, caller, audit::decoded(parts.uri.path()), arrival.activity_id)
        });
        if let Err(error) = shardlake_admin::allow(&caller, &parts.method, address) {
            if let Some(audited) = audited {
                audited.log_admin(Err(&error));
            }
            return Err(error);
        }
        let activity_id = arrival.activity_id;
        let (body, context) = self.admit(body, headers, arrival).await?;
        let call = OperatorCall {
            account: &self.account,
            installation: self.settings.installation.as_deref(),
            analytics: self.settings.analytics.as_ref(),
            sql: self.settings.sql.as_deref(),
            accept: parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()),
            caller: &caller,
            method: &parts.method,
            address,
            context,
            body: body.bytes.clone(),
        };
        let reply = shardlake_admin::serve(&call).await;
        if let Some(audited) = audited {
            audited.log_admin(reply.as_ref());
        }
        let reply = reply?;
        Ok(operator_reply::of(reply, (activity_id, parts.uri.path()), &parts.headers))
    }

    /// The record of a request that may change a definition, before it is carried out.
    fn audited(
        &self,
        (method, sent_path): (&Method, &str),
        (path, route): (&Path<'_>, Route),
        call: &Call<'_>,
        operation: OperationName,
    ) -> Option<Audited> {
        if !Audited::is_wanted(operation) {
            return None;
        }
        let caller = path.with_signed_forms(route, method, dates(call.headers), |forms| {
            audit::caller_of(call.caller, || self.keyring.load().key_name(call.headers.authorization, forms))
        });
        let resource = audit::resource_of(&self.account, operation, sent_path, &call.body);
        Some(Audited::new(operation, caller, resource, call.context.activity_id))
    }

    fn authenticate(
        &self,
        method: &Method,
        path: &Path<'_>,
        route: Route,
        headers: &RequestHeaders<'_>,
    ) -> Result<Caller> {
        let is_public = self.settings.is_account_public && route == Route::Account && method == Method::GET;
        if is_public && headers.authorization.is_none() {
            return Ok(Caller::Key(Access::ReadOnly));
        }
        path.with_signed_forms(route, method, dates(headers), |forms| {
            self.keyring.load().authenticate(headers.authorization, forms, &self.account)
        })
    }

    /// A path whose last id has a question mark, which clients may leave unencoded: the signature shows that the part behind it
    /// belongs to the id.
    fn signed_with_query<'p>(
        &self,
        whole: &'p str,
        method: &Method,
        headers: &RequestHeaders<'_>,
    ) -> Option<(Path<'p>, Route, Caller)> {
        let path = Path::parse(whole).ok()?;
        let route = path.route().ok()?;
        let caller = self.authenticate(method, &path, route, headers).ok()?;
        Some((path, route, caller))
    }

    /// A request for addresses that is signed by the names of the container whose resource id it has, as clients do that have no
    /// token by its id.
    fn signed_with_names(&self, path: &Path<'_>, headers: &RequestHeaders<'_>) -> Option<Caller> {
        let container = self.account.router().container(path.database(), path.container()).ok()?;
        let (ms_date, date) = dates(headers);
        let link = container.alt_link();
        let form = Payload { verb: "get", resource_type: "docs", resource_link: link, ms_date, date };
        self.keyring.load().authenticate(headers.authorization, &[form], &self.account).ok()
    }

    /// Admits an authorized request once there is memory for a small answer and for the body; reads the body.
    async fn admit<B>(
        &self,
        body: B,
        headers: &RequestHeaders<'_>,
        arrival: Arrival<'_>,
    ) -> Result<(WholeBody, RequestContext)>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let (space, time_max) = (arrival.endpoint.space, self.settings.request_timeout);
        let hold = arrival.hold.insert(AnswerHold::enter(space, time_max).await?);
        let context = self.context(headers, arrival.activity_id, arrival.started, hold)?;
        if body.is_end_stream() {
            return Ok((WholeBody::default(), context));
        }
        let body = body::receive(body, (self.settings.body_size_bytes_max, time_max), space).await?;
        Ok((body, context))
    }

    fn context(
        &self,
        headers: &RequestHeaders<'_>,
        activity_id: Guid,
        started: Duration,
        hold: &Arc<AnswerHold>,
    ) -> Result<RequestContext> {
        Ok(RequestContext {
            activity_id,
            now: self.account.router().clock().now(),
            deadline: started + self.settings.request_timeout,
            answer_space: Some(hold.clone()),
            consistency: headers.consistency(self.account.router().consistency())?,
            session: None,
            priority: headers.priority()?,
        })
    }
}

/// The caller, as a type of the operator's interface.
fn caller_of(caller: Caller) -> CallerAccess {
    match caller {
        Caller::Key(access) => CallerAccess::Key(access),
        Caller::Token(grant) => {
            let definition = &grant.permission.definition;
            CallerAccess::Token(TokenAccess {
                mode: definition.mode_text.clone(),
                resource: definition.resource.clone(),
                partition_key: definition.partition_key.clone(),
                expiry: grant.expiry(),
            })
        }
    }
}

/// Stands for the host that a request does not name.
const UNNAMED_HOST: &str = "localhost";

/// The host that a request names. The host in the request line, where HTTP/2 has it, takes precedence over the header.
fn sent_host(parts: &Parts) -> Option<&str> {
    let in_line = parts.uri.authority().map(|authority| authority.as_str());
    in_line.or_else(|| parts.headers.get(http::header::HOST)?.to_str().ok().filter(|host| !host.is_empty()))
}

/// The signed dates: the reference's own header and the standard one.
fn dates<'r>(headers: &RequestHeaders<'r>) -> (&'r str, &'r str) {
    (headers.ms_date.unwrap_or_default(), headers.date.unwrap_or_default())
}

async fn dispatch(call: &Call<'_>, operation: Operation) -> Result<Reply, Failure> {
    match operation {
        Operation::ReadAccount => Ok(account_document::read(call)),
        Operation::Databases(FeedOperation::List) => databases::list(call),
        Operation::Databases(FeedOperation::Query) => databases::query(call),
        Operation::Databases(FeedOperation::Create | FeedOperation::Upsert) => {
            apart(databases::create(call)).await
        }
        Operation::ReadDatabase => databases::read(call),
        Operation::DeleteDatabase => apart(databases::delete(call)).await,
        Operation::Containers(FeedOperation::List) => containers::list(call),
        Operation::Containers(FeedOperation::Query) => containers::query(call),
        Operation::Containers(FeedOperation::Create | FeedOperation::Upsert) => {
            apart(containers::create(call)).await
        }
        Operation::ReadContainer => containers::read(call),
        Operation::ReplaceContainer => apart(containers::replace(call)).await,
        Operation::DeleteContainer => apart(containers::delete(call)).await,
        Operation::ListRanges => apart(pkranges::list(call)).await,
        Operation::ReadFeed
        | Operation::ReadChangeFeed
        | Operation::QueryItems
        | Operation::PlanQuery
        | Operation::CreateItem
        | Operation::UpsertItem
        | Operation::Batch
        | Operation::Bulk
        | Operation::ReadItem
        | Operation::ReplaceItem
        | Operation::PatchItem
        | Operation::DeleteItem
        | Operation::DeletePartitionKey
        | Operation::Scripts(..)
        | Operation::Script(..)
        | Operation::ExecuteProcedure => in_container(call, operation).await,
        Operation::ListConflicts => conflicts::list(call),
        Operation::ReadConflict | Operation::DeleteConflict => conflicts::missing(call),
        Operation::Users(feed) => apart(on_users(call, feed)).await,
        Operation::User(ResourceOperation::Read) => users::read(call),
        Operation::User(ResourceOperation::Replace) => apart(users::replace(call)).await,
        Operation::User(ResourceOperation::Delete) => apart(users::delete(call)).await,
        Operation::Permissions(feed) => apart(on_permissions(call, feed)).await,
        Operation::Permission(ResourceOperation::Read) => permissions::read(call),
        Operation::Permission(ResourceOperation::Replace) => apart(permissions::replace(call)).await,
        Operation::Permission(ResourceOperation::Delete) => apart(permissions::delete(call)).await,
        Operation::ListOffers => apart(offers::list(call)).await,
        Operation::QueryOffers => apart(offers::query(call)).await,
        Operation::ReadOffer => apart(offers::read(call)).await,
        Operation::ReplaceOffer => apart(offers::replace(call)).await,
        Operation::ListAddresses | Operation::ListMasterAddresses => list_addresses(call, operation),
        Operation::HeadContainer => containers::head(call),
        Operation::HeadDatabases => Ok(databases::head()),
        Operation::Unsupported(DISTRIBUTED_TRANSACTIONS) => Ok(distributed_transaction(call)),
        Operation::Unsupported(feature) => Err(unsupported::resource(feature).into()),
    }
}

fn list_addresses(call: &Call<'_>, operation: Operation) -> Result<Reply, Failure> {
    let query = AddressQuery::parse(call.uri.query())?;
    let listener = addresses::listener(call.host, call.scheme.default_port())?;
    if operation == Operation::ListMasterAddresses {
        query.check_master()?;
        return Ok(addresses::of_master(&listener));
    }
    let wanted = query.range_ids()?;
    Ok(addresses::of_container(&call.container()?, wanted.as_ref(), &listener))
}

/// The refusal of a distributed transaction. Without these members, .NET shows its user the number 501 without our message.
fn distributed_transaction(call: &Call<'_>) -> Reply {
    let error = unsupported::resource(DISTRIBUTED_TRANSACTIONS);
    let members = serde_json::json!({
        "isRetriable": false,
        "diagnosticString": error.message(),
        "operationResponses": [],
    });
    failed(&error, &members, (call.context.activity_id, "/operations/dtc"), 0)
}

async fn on_users(call: &Call<'_>, operation: FeedOperation) -> Result<Reply, Failure> {
    match operation {
        FeedOperation::List => users::list(call),
        FeedOperation::Query => users::query(call),
        FeedOperation::Create => users::create(call).await,
        FeedOperation::Upsert => users::upsert(call).await,
    }
}

async fn on_permissions(call: &Call<'_>, operation: FeedOperation) -> Result<Reply, Failure> {
    match operation {
        FeedOperation::List => permissions::list(call),
        FeedOperation::Query => permissions::query(call),
        FeedOperation::Create => permissions::create(call).await,
        FeedOperation::Upsert => permissions::upsert(call).await,
    }
}

/// Operations on items and scripts: the container is resolved once, and errors carry its name.
async fn in_container(call: &Call<'_>, operation: Operation) -> Result<Reply, Failure> {
    call.headers.refuse_unsupported()?;
    if !operation.runs_triggers() {
        triggers::refuse(call.headers)?;
    }
    let container = call.container_for_items()?;
    let mut outcome = match container.check_intended_rid(call.headers.intended_rid) {
        Ok(()) if index_reads::is_read_of_index(call, operation, &container) => {
            apart(read_of_index(call, operation, &container)).await
        }
        Ok(()) => item_operation(call, operation, &container).await,
        Err(error) => Err(error),
    }
    .map_err(|error| call.mode.error_within(error));
    call.place(&mut outcome, &container);
    outcome.map_err(|error| Failure::within(error, &container))
}

async fn read_of_index(call: &Call<'_>, operation: Operation, container: &ContainerHandle) -> Result<Reply> {
    index_reads::wait(call, container).await?;
    let reply = item_operation(call, operation, container).await?;
    Ok(index_reads::with_lag(call, reply, container).await)
}

async fn item_operation(call: &Call<'_>, operation: Operation, container: &ContainerHandle) -> Result<Reply> {
    match operation {
        Operation::ReadFeed
        | Operation::ReadChangeFeed
        | Operation::QueryItems
        | Operation::CreateItem
        | Operation::UpsertItem
        | Operation::Batch
        | Operation::Bulk
        | Operation::ReadItem
        | Operation::ReplaceItem
        | Operation::PatchItem
        | Operation::DeleteItem => on_items(call, container, operation).await,
        Operation::PlanQuery => query_plan::read(call, container),
        Operation::DeletePartitionKey => apart(partition_key_delete::execute(call, container)).await,
        Operation::Scripts(kind, operation) => apart(on_scripts(call, container, kind, operation)).await,
        Operation::Script(kind, ResourceOperation::Read) => scripts::read(call, container, kind),
        Operation::Script(kind, ResourceOperation::Replace) => {
            apart(scripts::replace(call, container, kind)).await
        }
        Operation::Script(kind, ResourceOperation::Delete) => {
            apart(scripts::delete(call, container, kind)).await
        }
        Operation::ExecuteProcedure => apart(script_execute::execute(call, container)).await,
        other => Err(Error::internal(format!("{other:?} is no operation in a container"))),
    }
}

/// Work of an own memory block, so that the future of every request is as small as that of a point read: it is moved several
/// times on its way to where it is polled, and it is as large as the largest work in it.
fn apart<'w, T>(work: impl Future<Output = T> + Send + 'w) -> Pin<Box<dyn Future<Output = T> + Send + 'w>> {
    Box::pin(work)
}

/// Operations whose answers hold items, in the client's format. A point read alone is not [`apart`].
async fn on_items(call: &Call<'_>, container: &ContainerHandle, operation: Operation) -> Result<Reply> {
    let is_in_rows = matches!(operation, Operation::Batch | Operation::Bulk) && is_hybrid_row(&call.body);
    let format = match is_in_rows {
        true => AnswerFormat::of_rows(call.headers),
        false => AnswerFormat::of(call.headers)?,
    };
    if operation.writes_one_item() {
        // A write waits for no position, and its token has to be one all the same.
        session::wanted(call.headers.session_token, call.context.consistency)?;
    }
    let reply = match operation {
        Operation::ReadFeed => apart(feed::read(call, container)).await,
        Operation::ReadChangeFeed => apart(change_feed::read(call, container)).await,
        Operation::QueryItems => apart(query::execute(call, container)).await,
        Operation::CreateItem => apart(items::create(call, container)).await,
        Operation::UpsertItem => apart(items::upsert(call, container)).await,
        Operation::Batch => apart(batch::execute_atomic(call, container)).await,
        Operation::Bulk => apart(batch::execute_bulk(call, container)).await,
        Operation::ReadItem => items::read(call, container).await,
        Operation::ReplaceItem => apart(items::replace(call, container)).await,
        Operation::PatchItem => apart(items::patch(call, container)).await,
        Operation::DeleteItem => apart(items::delete(call, container)).await,
        other => Err(Error::internal(format!("{other:?} is no operation on items"))),
    };
    let mut reply = reply?;
    let is_of_one_item = operation.writes_one_item() || operation == Operation::ReadItem;
    if is_of_one_item
        && !call.headers.names_triggers()
        && flag("x-ms-exclude-system-properties", call.headers.exclude_links)?
    {
        reply = without_links(reply)?;
    }
    // Tools that plan their reading request it with feeds and queries. A token for a part of the container does not show the whole.
    if flag("x-ms-documentdb-populatequotainfo", call.headers.populate_quota)?
        && call.scope()?.is_none_or(|scope| scope.is_for_all())
    {
        reply = containers::with_quota(reply, container);
    }
    in_format(reply, format)
}

async fn on_scripts(
    call: &Call<'_>,
    container: &ContainerHandle,
    kind: ScriptKind,
    operation: FeedOperation,
) -> Result<Reply> {
    match operation {
        FeedOperation::List => scripts::list(call, container, kind),
        FeedOperation::Query => scripts::query(call, container, kind),
        FeedOperation::Create => scripts::create(call, container, kind).await,
        FeedOperation::Upsert => scripts::upsert(call, container, kind).await,
    }
}
