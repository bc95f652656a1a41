//! Requests for items and definitions, signed as SDKs sign theirs, over connections that are kept.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use shardlake_signature::Payload;
use shardlake_stdx::Clock;

use super::failure::Failure;
use crate::operate::{Client, Link};

/// Names in paths, and the token in its header, as `encodeURIComponent` writes them.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const VERSION: &str = "2020-07-15";
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// A throttled request waits for this time in all.
const WAITS_MAX: Duration = Duration::from_secs(300);
const WAIT_MAX: Duration = Duration::from_secs(30);
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Waits before a request is repeated whose connection broke, or that the server could not take.
pub const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// A resource in the forms of the path and of the signed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    path: String,
    resource_type: &'static str,
    link: String,
}

impl Address {
    /// A database, or the feed of databases for an empty name.
    pub fn databases() -> Address {
        Address { path: "/dbs".into(), resource_type: "dbs", link: String::new() }
    }

    pub fn containers(database: &str) -> Address {
        let path = format!("/dbs/{}/colls", encoded(database));
        Address { path, resource_type: "colls", link: format!("dbs/{database}") }
    }

    pub fn container(database: &str, container: &str) -> Address {
        let path = format!("/dbs/{}/colls/{}", encoded(database), encoded(container));
        Address { path, resource_type: "colls", link: format!("dbs/{database}/colls/{container}") }
    }

    /// The items of a container.
    pub fn items(database: &str, container: &str) -> Address {
        let container = Address::container(database, container);
        Address { path: container.path + "/docs", resource_type: "docs", link: container.link }
    }

    pub fn offers() -> Address {
        Address { path: "/offers".into(), resource_type: "offers", link: String::new() }
    }

    /// Offers are signed by their identifier in lower case.
    pub fn offer(rid: &str) -> Address {
        let path = format!("/offers/{}", encoded(rid));
        Address { path, resource_type: "offers", link: rid.to_ascii_lowercase() }
    }

    /// A path of the operator's interface below a container.
    pub fn operator(database: &str, container: &str, rest: &str) -> Address {
        let link = format!("_shardlake/v1/dbs/{}/colls/{}/{rest}", encoded(database), encoded(container));
        Address { path: format!("/{link}"), resource_type: "shardlake", link }
    }
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, COMPONENT).to_string()
}

#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub address: Address,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

impl Request {
    pub fn get(address: Address) -> Request {
        Request { method: Method::GET, address, headers: Vec::new(), body: Bytes::new() }
    }

    pub fn post(address: Address, body: impl Into<Bytes>) -> Request {
        Request { method: Method::POST, address, headers: Vec::new(), body: body.into() }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }
}

/// A client of one server. Requests may run concurrently, each over a connection of its own.
pub struct DataClient {
    client: Client,
    idle: Mutex<Vec<Link>>,
    answer_time_max: Duration,
}

impl DataClient {
    pub fn new(client: Client) -> DataClient {
        DataClient { client, idle: Mutex::default(), answer_time_max: ANSWER_TIME_MAX }
    }

    /// A good answer. Throttled requests wait as the server asks and are sent again, within bounds.
    pub async fn send(&self, request: &Request) -> Result<Response<Bytes>, Failure> {
        let mut waited = Duration::ZERO;
        loop {
            match self.send_once(request).await {
                Err(Failure { retry_after: Some(wait), .. }) if waited < WAITS_MAX => {
                    let wait = wait.clamp(WAIT_MIN, WAIT_MAX);
                    waited += wait;
                    tokio::time::sleep(wait).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// The same without a second attempt.
    pub async fn send_once(&self, request: &Request) -> Result<Response<Bytes>, Failure> {
        let authority = self.client.authority();
        let exchange = tokio::time::timeout(self.answer_time_max, self.exchange(request)).await;
        let late = || format!("{authority} did not answer within {} seconds", self.answer_time_max.as_secs());
        let answer = exchange.map_err(|_| Failure::of_late_answer(late()))?;
        let answer = answer.map_err(|error| Failure::of_connection(format!("{authority}: {error}")))?;
        match answer.status() {
            status if status.is_success() || status == StatusCode::MULTI_STATUS => Ok(answer),
            _ => Err(Failure::of_answer(&answer)),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<Response<Bytes>, String> {
        loop {
            let (mut link, is_new) = match self.kept() {
                Some(link) => (link, false),
                None => (self.client.connect().await?, true),
            };
            match link.send(self.signed(request)?).await {
                Ok(answer) => {
                    self.keep(link);
                    return Ok(answer);
                }
                // The server has closed the kept connection meanwhile.
                Err(error) if error.is_unsent && !is_new => {}
                Err(error) => return Err(error.message),
            }
        }
    }

    fn kept(&self) -> Option<Link> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(Link::is_open)
    }

    fn keep(&self, link: Link) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    fn signed(&self, request: &Request) -> Result<http::Request<Full<Bytes>>, String> {
        let Address { path, resource_type, link } = &request.address;
        let since_epoch = Duration::from_millis(Clock::System.now().milliseconds());
        let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + since_epoch);
        let payload = Payload {
            verb: request.method.as_str(),
            resource_type,
            resource_link: link,
            ms_date: &date,
            date: "",
        };
        let signature = shardlake_signature::sign(self.client.key(), &payload);
        let signature = STANDARD.encode(signature.map_err(|error| error.message().to_owned())?);
        let token = encoded(&format!("type=master&ver=1.0&sig={signature}"));
        let mut builder = http::Request::builder()
            .method(&request.method)
            .uri(path)
            .header(HOST, self.client.authority())
            .header("x-ms-date", date)
            .header("x-ms-version", VERSION)
            .header(AUTHORIZATION, token);
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        if !request.headers.iter().any(|(name, _)| *name == CONTENT_TYPE.as_str()) {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(request.body.clone());
        builder.body(body).map_err(|error| format!("the request cannot be sent: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_without_an_answer_is_named_and_not_asked_again() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("bound").to_string();
        let client = Client::new(&format!("http://{address}"), "a2V5".to_owned(), None).expect("a client");
        let client = DataClient { answer_time_max: Duration::from_millis(1), ..DataClient::new(client) };
        let failure = client.send(&Request::get(Address::databases())).await.expect_err("no answer");
        assert!(failure.to_string().starts_with(&format!("{address} did not answer within ")), "{failure}");
        assert!(!failure.is_passing());
    }
}
