//! Front of the HTTP server: checks the head of a request, then answers the operator's routes, then calls the gateway once it is there.
//!
//! | path | needs a key | answer |
//! |---|---|---|
//! | `/` of a browser | no | 303 to the explorer; where it is switched off, a page with a short introduction and how to connect |
//! | `/_explorer/…` | no | the files of the explorer (`explorer/`) |
//! | `/_explorer/emulator.pem` | no | the certificate that clients are to trust, at the classic emulator's path |
//! | `/livez` | no | 200 while the process runs |
//! | `/readyz`, `/ready` | no | 200 only while requests are served and storage accepts writes, else 503 |
//! | `/metrics` | no | Prometheus text |
//! | `/_shardlake/ca.pem` | no | the certificate of the authority that signed this server's certificate |
//! | anything else | yes | the gateway |
//!
//! No path is answered before the head has passed: one host by which this server may be called (`host_check.rs`), no more headers
//! than [`HEADERS_MAX`], no transfer coding but `chunked`. The listener is open before the account is, so that a probe gets a clear
//! "not yet" instead of a refused connection. Requests for the gateway wait for the account up to [`STARTING_MAX`], also those of
//! a spare that takes over: with one region, SDKs hand a 503 to the application at once.
//! A panic in a handler becomes a 500 and a log line; a request that outlives its time gets a 408.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, poll};
use http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Body;
use shardlake_account::Account;
use shardlake_gateway_nosql::{
    AnswerBody, ConnectionMode, ConnectionSpace, Endpoint, Gateway, MessageSpace, OperationName,
    OperationSeen, Routing, Scheme,
};
use shardlake_stdx::Clock;
use tokio::sync::Notify;

use crate::answers::{Refusal, Reply, failure, gone};
use crate::container_counters::ContainerLabels;
use crate::explorer::{self, Explorer};
use crate::host_check::{Announced, HostCheck};
use crate::metrics::{Followers, Metrics};
use crate::metrics_page::MetricsPage;
use crate::request_metrics::Transport;
use crate::tls::Tls;
use crate::welcome;

/// The gateway ends an operation at its deadline; this much later the server stops waiting for it.
const GRACE: Duration = Duration::from_secs(2);
/// How long a request waits for the account to open. Longer than a start after a crash; shorter than SDKs wait for an answer.
const STARTING_MAX: Duration = Duration::from_secs(10);
/// In Direct mode clients wait 5 s for an answer, and cannot know then whether a write was done.
const STARTING_MAX_DIRECT: Duration = Duration::from_secs(2);
const NOT_LEASED: &str = "this server cannot reach its object store, or another one has the account: retry";
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PEM_TYPE: &str = "application/x-pem-file";
const HTML_TYPE: &str = "text/html; charset=utf-8";
/// Headers of one request. The HTTP library holds HTTP/1.1 to the same number.
const HEADERS_MAX: usize = 100;

/// State that all requests of a connection share.
#[derive(Debug, Clone)]
pub struct Origin {
    pub scheme: Scheme,
    /// The memory that its requests and answers may take.
    pub space: Arc<ConnectionSpace>,
}

/// Certificates as PEM texts, for clients to trust.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    /// `None` with a certificate from outside.
    pub authority: Option<String>,
    pub trusted: String,
}

impl Certificates {
    pub fn of(tls: &Tls) -> Certificates {
        Certificates { authority: tls.ca_pem.clone(), trusted: tls.trusted_pem.clone() }
    }
}

pub struct Front {
    pub metrics: Arc<Metrics>,
    page: MetricsPage,
    hosts: HostCheck,
    explorer: Explorer,
    /// The memory for messages of all connections.
    pub space: Arc<MessageSpace>,
    clock: Clock,
    request_max: Duration,
    certificates: Certificates,
    gateway: OnceLock<Gateway>,
    /// Wakes the requests that came before the gateway was there.
    opened: Notify,
    ready: AtomicBool,
}

impl Front {
    pub fn new(
        metrics: Metrics,
        (hosts, explorer): (HostCheck, Explorer),
        certificates: Certificates,
        space: Arc<MessageSpace>,
        (clock, request_max): (Clock, Duration),
    ) -> Front {
        Front {
            metrics: Arc::new(metrics),
            page: MetricsPage::new(clock.clone()),
            hosts,
            explorer,
            space,
            clock,
            request_max,
            certificates,
            gateway: OnceLock::new(),
            opened: Notify::new(),
            ready: AtomicBool::new(false),
        }
    }

    /// From here on requests are served.
    pub fn open(&self, gateway: Gateway) {
        let _set_once = self.gateway.set(gateway);
        self.ready.store(true, Ordering::Release);
        self.opened.notify_waiters();
    }

    /// Marks the server as stopping: readiness probes fail, requests still work.
    pub fn drain(&self) {
        self.ready.store(false, Ordering::Release);
    }

    pub async fn answer<B>(&self, request: Request<B>, origin: &Origin) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut reply = match self.check(&request) {
            Ok(announced) => self.route(request, origin, announced).await,
            Err(refusal) => failure(refusal.status, refusal.code, &refusal.message),
        };
        reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        reply
    }

    /// Answers a request that came as a frame. It names no host, and no browser can be made to send it.
    pub async fn answer_frame<B>(&self, request: Request<B>, origin: &Origin, routing: Routing<'_>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        self.serve(request, origin, Announced::AsSent, ConnectionMode::Direct(routing)).await
    }

    fn check<B>(&self, request: &Request<B>) -> Result<Announced<'_>, Refusal> {
        let headers = request.headers();
        if headers.len() > HEADERS_MAX {
            return Err(Refusal {
                status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                code: "RequestHeaderFieldsTooLarge",
                message: format!("a request has at most {HEADERS_MAX} headers"),
            });
        }
        self.hosts.check(request)
    }

    async fn route<B>(&self, request: Request<B>, origin: &Origin, announced: Announced<'_>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        match request.uri().path() {
            "/livez" => probe(&request, true, "alive"),
            "/readyz" | "/ready" => self.readiness(&request),
            "/metrics" => self.metrics(&request).await,
            "/_shardlake/ca.pem" => match &self.certificates.authority {
                Some(pem) => page(&request, StatusCode::OK, PEM_TYPE, || pem.clone()),
                None => {
                    failure(StatusCode::NOT_FOUND, "NotFound", "this server's certificate comes from outside")
                }
            },
            "/_explorer/emulator.pem" => {
                page(&request, StatusCode::OK, PEM_TYPE, || self.certificates.trusted.clone())
            }
            "/" if is_of_a_browser(&request) && self.explorer.is_served() => {
                explorer::redirect(StatusCode::SEE_OTHER)
            }
            "/" if is_of_a_browser(&request) => self.welcome(&request, origin.scheme, announced),
            path if Explorer::owns(path) => self.explorer.answer(&request, origin.scheme),
            _ => self.serve(request, origin, announced, ConnectionMode::Http).await,
        }
    }

    /// For a request on a connection that takes no answers, when there is no memory left for more of them. Without a body the
    /// answer waits for no window.
    pub fn exhausted<B>(&self, request: &Request<B>, transport: Transport) -> Reply {
        let mut reply = unavailable("");
        *reply.body_mut() = AnswerBody::default();
        self.count_refusal(request, transport, &reply);
        reply
    }

    /// Counts a request that the gateway did not see.
    fn count_refusal<B>(&self, request: &Request<B>, transport: Transport, reply: &Reply) {
        let counted = (transport, OperationName::of_request(request));
        self.metrics.record(counted, request.uri().path(), reply, Duration::ZERO, |_, _| None);
    }

    fn readiness<B>(&self, request: &Request<B>) -> Reply {
        let gateway = self.gateway.get().filter(|_| self.ready.load(Ordering::Acquire));
        match gateway {
            None => probe(request, false, "not ready"),
            Some(gateway) if !gateway.account().router().is_writable() => {
                probe(request, false, "storage refuses writes: see the log, then restart")
            }
            Some(gateway) if !gateway.account().is_leased() => {
                probe(request, false, "the object store cannot be reached, or another server has the account")
            }
            Some(gateway) if !gateway.account().accepts_writes() => {
                probe(request, false, "the object store does not take writes: see the log")
            }
            Some(_) => probe(request, true, "ready"),
        }
    }

    async fn metrics<B>(&self, request: &Request<B>) -> Reply {
        if let Some(refusal) = refuse_method(request) {
            return refusal;
        }
        let account = self.gateway.get().map(|gateway| gateway.account().clone());
        let rendered = self.page.get(rendered(self.metrics.clone(), account, self.space.clone()));
        match tokio::time::timeout(self.request_max + GRACE, rendered).await {
            Ok(Ok(text)) => page(request, StatusCode::OK, METRICS_TYPE, || text),
            Ok(Err(error)) => {
                tracing::error!(error, "the page of metrics was not made");
                failure(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    "a defect: see the server's log",
                )
            }
            Err(_) => unavailable("the metrics wait for storage"),
        }
    }

    fn welcome<B>(&self, request: &Request<B>, scheme: Scheme, announced: Announced<'_>) -> Reply {
        let host = request.headers().get(http::header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(|authority| authority.as_str()).or(host);
        let authority = match announced {
            Announced::Listener(authority) => authority,
            Announced::AsSent => host.unwrap_or("localhost"),
        };
        let text = || welcome::page(scheme, authority, self.hosts.has_well_known_key);
        let mut reply = page(request, StatusCode::OK, HTML_TYPE, text);
        let policy = HeaderValue::from_static(welcome::CONTENT_SECURITY_POLICY);
        reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        reply
    }

    async fn serve<B>(
        &self,
        request: Request<B>,
        origin: &Origin,
        announced: Announced<'_>,
        mode: ConnectionMode<'_>,
    ) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let transport = if mode.is_direct() { Transport::Direct } else { Transport::Http };
        let gateway = match self.opened_gateway(mode).await {
            Some(gateway) if gateway.account().is_leased() => gateway,
            found => {
                let why = found.map_or("the server is starting: retry", |_| NOT_LEASED);
                let reply = not_begun(mode, why);
                self.count_refusal(&request, transport, &reply);
                return reply;
            }
        };
        let started = self.clock.elapsed();
        let seen = OperationSeen::default();
        let uri = request.uri().clone();
        let authority = match announced {
            Announced::AsSent => None,
            Announced::Listener(authority) => Some(authority),
        };
        let endpoint = Endpoint { scheme: origin.scheme, authority, space: &origin.space, mode, seen: &seen };
        let mut handled = pin!(AssertUnwindSafe(gateway.handle(request, endpoint)).catch_unwind());
        // A request that is answered in the first poll needs no timer.
        let ended = match poll!(handled.as_mut()) {
            Poll::Ready(ended) => Ok(ended),
            Poll::Pending => tokio::time::timeout(self.time_of(uri.path()) + GRACE, handled).await,
        };
        let reply = match ended {
            // Another server may have acknowledged something since.
            Ok(Ok(_)) if !gateway.account().is_leased() => unavailable(NOT_LEASED),
            Ok(Ok(reply)) => reply,
            Ok(Err(panic)) => {
                self.metrics.note_panic();
                let operation = seen.get().as_str();
                tracing::error!(operation, panic = panic_message(&*panic), "a request handler panicked");
                failure(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    "a defect of the server: see its log",
                )
            }
            Err(_) => {
                failure(StatusCode::REQUEST_TIMEOUT, "RequestTimeout", "the request took too long: retry")
            }
        };
        let duration = self.clock.elapsed().saturating_sub(started);
        let names = |database: &str, container: &str| names_of(gateway.account(), database, container);
        self.metrics.record((transport, seen.get()), uri.path(), &reply, duration, names);
        reply
    }
}

impl Front {
    /// How long a request may take until its answer begins. A query over analytical tables ends itself by the time that it asks for.
    fn time_of(&self, path: &str) -> Duration {
        match path.strip_prefix(shardlake_admin::PREFIX) {
            Some("analytics/sql") => {
                Duration::from_secs(shardlake_admin::SQL_SECONDS_MAX).max(self.request_max)
            }
            _ => self.request_max,
        }
    }

    /// The gateway, as soon as it is there; `None` where that takes too long.
    async fn opened_gateway(&self, mode: ConnectionMode<'_>) -> Option<&Gateway> {
        if let Some(gateway) = self.gateway.get() {
            return Some(gateway);
        }
        let mut opened = pin!(self.opened.notified());
        // From here on the waiter is woken, so that a gateway set behind the next look is not missed.
        opened.as_mut().enable();
        if self.gateway.get().is_none() {
            let starting_max = if mode.is_direct() { STARTING_MAX_DIRECT } else { STARTING_MAX };
            let _ = tokio::time::timeout(self.request_max.min(starting_max), opened).await;
        }
        self.gateway.get()
    }
}

/// The page of metrics, made where blocking is allowed: the size of the files waits for a journal that is being synced.
async fn rendered(
    metrics: Arc<Metrics>,
    account: Option<Account>,
    space: Arc<MessageSpace>,
) -> Result<String, String> {
    let followers = match &account {
        Some(account) => Followers {
            projections: account.projections().projections().await,
            indexes: account.copies().indexes().await,
            functions: account.functions().functions().await,
            tables: metrics.tables().await,
        },
        None => Followers::default(),
    };
    let render = move || metrics.render(account.as_ref(), &followers, &space);
    tokio::task::spawn_blocking(render).await.map_err(|error| error.to_string())
}

/// The names of a container that a path names by names or resource ids.
fn names_of(account: &Account, database: &str, container: &str) -> Option<ContainerLabels> {
    let container = account.router().container(database, container).ok()?;
    Some(ContainerLabels {
        database: container.database().id.clone(),
        container: container.container().definition.id.clone(),
    })
}

/// Whether a browser sent the request: browsers accept HTML and have no key; the SDKs accept JSON, or sign.
fn is_of_a_browser<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
        && explorer::takes_html(request)
        && !request.headers().contains_key(AUTHORIZATION)
}

pub fn unknown_transfer_coding() -> Reply {
    failure(
        StatusCode::NOT_IMPLEMENTED,
        "NotImplemented",
        "the only transfer coding that is supported is 'chunked'",
    )
}

/// Nothing was done. In Direct mode clients repeat a request after a 410, and hand a 503 to the application.
fn not_begun(mode: ConnectionMode<'_>, message: &str) -> Reply {
    if mode.is_direct() { gone(message) } else { unavailable(message) }
}

fn unavailable(message: &str) -> Reply {
    let mut reply = failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn probe<B>(request: &Request<B>, good: bool, word: &str) -> Reply {
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    page(request, status, "text/plain; charset=utf-8", || format!("{word}\n"))
}

/// A page for GET and HEAD; the HTTP library leaves the body of a HEAD out.
fn page<B, T: Into<Bytes>>(
    request: &Request<B>,
    status: StatusCode,
    kind: &'static str,
    text: impl FnOnce() -> T,
) -> Reply {
    if let Some(refusal) = refuse_method(request) {
        return refusal;
    }
    let mut reply = Response::new(AnswerBody::from(text().into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn refuse_method<B>(request: &Request<B>) -> Option<Reply> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let mut reply = failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is defined here");
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Some(reply)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use http_body_util::Full;
    use shardlake_account::AccountOptions;
    use shardlake_gateway_nosql::{Access, AccountKey, GatewaySettings};
    use shardlake_storage::{Shard, ShardOptions};
    use shardlake_testkit::EMULATOR_KEY;

    use super::*;

    fn front(clock: &Clock, ca_pem: Option<&str>) -> Front {
        let hosts = HostCheck::for_tests(&[], true);
        Front::new(
            Metrics::default(),
            (hosts, Explorer::off()),
            Certificates { authority: ca_pem.map(str::to_owned), trusted: "trusted".to_owned() },
            MessageSpace::new(1 << 30, 4 << 20),
            (clock.clone(), Duration::from_secs(1)),
        )
    }

    async fn ask(front: &Front, method: &str, path: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.body(Full::new(Bytes::new())).expect("valid");
        let origin = Origin { scheme: Scheme::Http, space: front.space.connection() };
        front.answer(request, &origin).await.status()
    }

    async fn gateway() -> Gateway {
        let shard = Shard::open(ShardOptions::memory()).await.expect("a shard in memory opens");
        let account = Account::open(shard, AccountOptions::default()).await.expect("the account opens");
        let keys = vec![AccountKey { name: "primary", key: EMULATOR_KEY.into(), access: Access::Full }];
        Gateway::new(account, GatewaySettings { keys, ..GatewaySettings::default() }).expect("a valid key")
    }

    /// With one region, SDKs hand a 503 to the application, and repeat a request that is not answered yet.
    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_a_start_and_probes_do_not() {
        // Before the request: the paused clock runs on where the test waits for another thread.
        let (server, gateway) = (front(&Clock::System, None), gateway().await);
        let begun = tokio::time::Instant::now();
        let mut early = pin!(ask(&server, "GET", "/dbs"));
        assert!(poll!(early.as_mut()).is_pending());
        for (path, status) in [("/livez", 200), ("/readyz", 503), ("/metrics", 200)] {
            assert_eq!(ask(&server, "GET", path).await, status, "{path}");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "no probe waits");
        assert!(poll!(early.as_mut()).is_pending());
        server.open(gateway);
        assert_eq!(early.await, 401, "the account answers");
        let never = front(&Clock::System, None);
        let begun = tokio::time::Instant::now();
        assert_eq!(ask(&never, "GET", "/dbs").await, 503);
        assert_eq!(begun.elapsed(), Duration::from_secs(1), "as long as a request may take at most");
    }

    #[tokio::test(start_paused = true)]
    async fn before_the_account_is_open_only_liveness_is_good() {
        let server = front(&Clock::System, None);
        assert_eq!(ask(&server, "GET", "/livez").await, 200);
        assert_eq!(ask(&server, "GET", "/readyz").await, 503);
        assert_eq!(ask(&server, "GET", "/metrics").await, 200);
        assert_eq!(ask(&server, "GET", "/").await, 503);
        assert_eq!(ask(&server, "GET", "/_shardlake/ca.pem").await, 404);
        assert_eq!(ask(&front(&Clock::System, Some("pem")), "GET", "/_shardlake/ca.pem").await, 200);
        assert_eq!(ask(&server, "POST", "/readyz").await, 405);
        assert_eq!(ask(&server, "POST", "/metrics").await, 405);
    }

    #[tokio::test]
    async fn many_scrapers_at_once_cost_one_rendering() {
        let clock = Clock::manual(shardlake_stdx::Timestamp(5));
        let server = front(&clock, None);
        let scrape = || async {
            let answers = join_all((0..32).map(|_| ask(&server, "GET", "/metrics"))).await;
            assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
            server.page.renderings()
        };
        assert_eq!(scrape().await, 1);
        clock.advance(Duration::from_millis(999));
        assert_eq!(scrape().await, 1, "it is kept for a second");
        clock.advance(Duration::from_millis(1));
        assert_eq!(scrape().await, 2);
    }
}
