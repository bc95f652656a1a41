//! What answers a request: the operator's routes, then the gateway once it is there.
//!
//! | path | needs a key | what |
//! |---|---|---|
//! | `/livez` | no | 200 while the process runs |
//! | `/readyz` | no | 200 only while requests are served and storage accepts writes, else 503 |
//! | `/metrics` | no | Prometheus text |
//! | `/_shardlake/ca.pem` | no | the certificate of the authority that signed this server's certificate |
//! | anything else | yes | the gateway |
//!
//! The listener is open before the account is, so that a probe gets a clear "not yet" instead of a refused connection. A
//! panic in a handler becomes a 500 and a log line; a request that outlives its time gets a 408.

use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Body;
use shardlake_gateway_nosql::{Gateway, Scheme};
use shardlake_stdx::Clock;

use crate::metrics::{Metrics, Operation};

pub type Reply = Response<Full<Bytes>>;

/// The gateway ends an operation at its deadline; this much later the server stops waiting for it.
const GRACE: Duration = Duration::from_secs(2);
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub struct Front {
    pub metrics: Metrics,
    clock: Clock,
    request_max: Duration,
    ca_pem: OnceLock<String>,
    gateway: OnceLock<Gateway>,
    ready: AtomicBool,
}

impl Front {
    pub fn new(metrics: Metrics, clock: Clock, request_max: Duration) -> Front {
        Front {
            metrics,
            clock,
            request_max,
            ca_pem: OnceLock::new(),
            gateway: OnceLock::new(),
            ready: AtomicBool::new(false),
        }
    }

    pub fn publish_ca(&self, pem: String) {
        let _set_once = self.ca_pem.set(pem);
    }

    /// From here on requests are served.
    pub fn open(&self, gateway: Gateway) {
        let _set_once = self.gateway.set(gateway);
        self.ready.store(true, Ordering::Release);
    }

    /// The server is stopping: probes are told, requests still work.
    pub fn drain(&self) {
        self.ready.store(false, Ordering::Release);
    }

    pub async fn answer<B>(&self, request: Request<B>, scheme: Scheme) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        match request.uri().path() {
            "/livez" => probe(&request, true, "alive"),
            "/readyz" => self.readiness(&request),
            "/metrics" => {
                let account = self.gateway.get().map(Gateway::account);
                let projections = match account {
                    Some(account) => account.projections().await,
                    None => Vec::new(),
                };
                page(&request, StatusCode::OK, METRICS_TYPE, || self.metrics.render(account, &projections))
            }
            "/_shardlake/ca.pem" => match self.ca_pem.get() {
                Some(pem) => page(&request, StatusCode::OK, "application/x-pem-file", || pem.clone()),
                None => {
                    failure(StatusCode::NOT_FOUND, "NotFound", "this server's certificate comes from outside")
                }
            },
            _ => self.serve(request, scheme).await,
        }
    }

    fn readiness<B>(&self, request: &Request<B>) -> Reply {
        let gateway = self.gateway.get().filter(|_| self.ready.load(Ordering::Acquire));
        match gateway {
            None => probe(request, false, "not ready"),
            Some(gateway) if !gateway.account().is_writable() => {
                probe(request, false, "storage refuses writes: see the log, then restart")
            }
            Some(_) => probe(request, true, "ready"),
        }
    }

    async fn serve<B>(&self, request: Request<B>, scheme: Scheme) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let Some(gateway) = self.gateway.get() else {
            let mut reply = failure(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the server is starting: retry",
            );
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return reply;
        };
        let started = self.clock.elapsed();
        let operation = Operation::of(request.method(), request.uri().path());
        let uri = request.uri().clone();
        let handled = AssertUnwindSafe(gateway.handle(request, scheme)).catch_unwind();
        let reply = match tokio::time::timeout(self.request_max + GRACE, handled).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(panic)) => {
                tracing::error!(?operation, panic = panic_message(&*panic), "a request handler panicked");
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
        self.metrics.record(operation, uri.path(), &reply, self.clock.elapsed().saturating_sub(started));
        reply
    }
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
fn page<B>(
    request: &Request<B>,
    status: StatusCode,
    kind: &'static str,
    text: impl FnOnce() -> String,
) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut reply =
            failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is defined here");
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return reply;
    }
    let mut reply = Response::new(Full::new(Bytes::from(text())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// An error that the server itself answers, in the form of the gateway's.
fn failure(status: StatusCode, code: &str, message: &str) -> Reply {
    let body = serde_json::json!({ "code": code, "message": message }).to_string();
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(front: &Front, method: &str, path: &str) -> StatusCode {
        let request =
            Request::builder().method(method).uri(path).body(Full::new(Bytes::new())).expect("valid");
        front.answer(request, Scheme::Http).await.status()
    }

    #[tokio::test]
    async fn before_the_account_is_open_only_liveness_is_good() {
        let front = Front::new(Metrics::new("sync"), Clock::System, Duration::from_secs(1));
        assert_eq!(ask(&front, "GET", "/livez").await, 200);
        assert_eq!(ask(&front, "GET", "/readyz").await, 503);
        assert_eq!(ask(&front, "GET", "/metrics").await, 200);
        assert_eq!(ask(&front, "GET", "/").await, 503);
        assert_eq!(ask(&front, "GET", "/_shardlake/ca.pem").await, 404);
        front.publish_ca("pem".into());
        assert_eq!(ask(&front, "GET", "/_shardlake/ca.pem").await, 200);
        assert_eq!(ask(&front, "POST", "/readyz").await, 405);
    }
}
