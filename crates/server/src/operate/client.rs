//! A client of one server's operator's interface: one connection per request, plain or TLS, signed.
//!
//! It speaks HTTP/1.1. Requests are rare, so nothing is pooled (`data/client.rs` keeps connections); answers and their time are bounded. TLS trusts only the
//! authorities of `--ca-file`, since servers make their own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use shardlake_admin::OperatorRequest;
use shardlake_stdx::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::descriptions;

const ANSWER_SIZE_BYTES_MAX: usize = 256 << 20;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(120);

pub struct Client {
    endpoint: Endpoint,
    key: String,
    tls: Option<TlsConnector>,
}

/// A server's address in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Endpoint {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Client {
    pub fn new(endpoint: &str, key: String, ca_file: Option<&Path>) -> Result<Client, String> {
        let endpoint = Endpoint::parse(endpoint)?;
        let tls = match (endpoint.is_tls, ca_file) {
            (false, _) => None,
            (true, Some(file)) => Some(trusting(file)?),
            (true, None) => {
                return Err(
                    "https needs --ca-file: the server's own authority is tls/ca.pem in its data directory"
                        .into(),
                );
            }
        };
        Ok(Client { endpoint, key, tls })
    }

    /// The JSON of a good answer, or the server's error message.
    pub async fn send(&self, request: &OperatorRequest) -> Result<Value, String> {
        let (status, body) = self.answer(request).await?;
        let authority = self.endpoint.authority();
        if status == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        let answer: Value = serde_json::from_slice(&body).map_err(|error| {
            format!("{authority} answered {status} with something that is no JSON: {error}")
        })?;
        if status.is_success() { Ok(answer) } else { Err(words_of_failure(status, &answer, &request.path)) }
    }

    /// The bytes of a good answer, or the server's error message.
    pub async fn fetch(&self, request: &OperatorRequest) -> Result<Bytes, String> {
        let (status, body) = self.answer(request).await?;
        if status.is_success() {
            return Ok(body);
        }
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(words_of_failure(status, &answer, &request.path))
    }

    /// Whether a probe such as `/readyz` answers 200, and its text.
    pub async fn probe(&self, path: &str) -> Result<(bool, String), String> {
        let request = OperatorRequest { method: Method::GET, path: path.to_owned(), query: None, body: None };
        let (status, body) = self.answer(&request).await?;
        Ok((status.is_success(), String::from_utf8_lossy(&body).trim().to_owned()))
    }

    /// The server's URL.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.endpoint.authority())
    }

    async fn answer(&self, request: &OperatorRequest) -> Result<(StatusCode, Bytes), String> {
        let authority = self.endpoint.authority();
        let signed = request.signed(&authority, &self.key, Clock::System.now());
        let signed = signed.map_err(|error| error.message().to_owned())?;
        let exchange = tokio::time::timeout(ANSWER_TIME_MAX, self.exchange(signed)).await;
        exchange
            .map_err(|_| format!("{authority} did not answer within {} seconds", ANSWER_TIME_MAX.as_secs()))?
            .map_err(|error| format!("{authority}: {error}"))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let answer = self.connect().await?.send(request).await.map_err(|error| error.message)?;
        let (head, body) = answer.into_parts();
        Ok((head.status, body))
    }

    /// The head of a good answer whose body is read piece by piece, or the server's error message.
    pub async fn ask(
        &self,
        request: &OperatorRequest,
        accept: &str,
        wait: Duration,
    ) -> Result<Asked, String> {
        let authority = self.endpoint.authority();
        let signed = request.signed(&authority, &self.key, Clock::System.now());
        let mut signed = signed.map_err(|error| error.message().to_owned())?;
        let accept = HeaderValue::from_str(accept).map_err(|error| error.to_string())?;
        signed.headers_mut().insert(header::ACCEPT, accept);
        // Without this a server leaves out the trailers, in which errors behind the first rows are.
        signed.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
        let exchange = async {
            let mut link = self.connect().await?;
            let response = link.begin(signed).await.map_err(|error| error.message)?;
            if response.status().is_success() {
                return Ok(Ok(Asked { response, _link: link }));
            }
            let (head, body) = response.into_parts();
            let body = Limited::new(body, ANSWER_SIZE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
            Ok(Err((head.status, body)))
        };
        let answer = tokio::time::timeout(wait, exchange).await;
        let answer = answer
            .map_err(|_| format!("{authority} did not answer within {} seconds", wait.as_secs()))?
            .map_err(|error: String| format!("{authority}: {error}"))?;
        answer.map_err(|(status, body)| {
            let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            words_of_failure(status, &answer, &request.path)
        })
    }

    /// A connection for several requests, one after the other.
    pub async fn connect(&self) -> Result<Link, String> {
        let stream = TcpStream::connect((self.endpoint.host.as_str(), self.endpoint.port)).await;
        let stream = stream.map_err(|error| no_connection(&error))?;
        let _slower = stream.set_nodelay(true);
        match &self.tls {
            None => Link::over(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(self.endpoint.host.clone())
                    .map_err(|error| format!("the host name is invalid: {error}"))?;
                let stream = tls.connect(name, stream).await;
                Link::over(stream.map_err(|error| format!("no TLS: {error}"))?).await
            }
        }
    }

    /// Name and port, as the header `host` has them.
    pub fn authority(&self) -> String {
        self.endpoint.authority()
    }

    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A request without an answer.
pub struct Unanswered {
    /// No byte of the request was sent, so it may be sent again.
    pub is_unsent: bool,
    pub message: String,
}

/// An answer whose body is not read yet, with the connection that it comes over.
pub struct Asked {
    pub response: Response<Incoming>,
    pub _link: Link,
}

/// An open connection. It ends when it is dropped, and the server then cancels an unanswered request.
pub struct Link {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Link {
    async fn over<S>(stream: S) -> Result<Link, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| format!("no HTTP: {error}"))?;
        // The connection ends with its sender. Its errors are reported to the waiting request.
        let _running = tokio::spawn(connection);
        Ok(Link { sender })
    }

    /// The whole answer, of bounded size.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Unanswered> {
        let answer = self.begin(request).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_SIZE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Unanswered {
            is_unsent: false,
            message: format!("the answer broke off: {error}"),
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// The head of an answer.
    async fn begin(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        // The connection's task may not have seen the end of the last answer yet.
        self.sender
            .ready()
            .await
            .map_err(|error| Unanswered { is_unsent: true, message: format!("no answer: {error}") })?;
        let answer = self.sender.try_send_request(request).await;
        answer.map_err(|mut error| Unanswered {
            is_unsent: error.take_message().is_some(),
            message: format!("no answer: {}", error.error()),
        })
    }

    /// Whether a further request may be sent.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// The error and its remedy, out of the wrapping that SDKs expect around them.
fn words_of_failure(status: StatusCode, answer: &Value, path: &str) -> String {
    let message = answer["message"].as_str().unwrap_or_default();
    let nested = message.strip_prefix("Message: ").and_then(|text| text.split("\r\n").next());
    let nested: Option<Value> = nested.and_then(|text| serde_json::from_str(text).ok());
    let sentence = nested.as_ref().and_then(|nested| nested["Errors"][0].as_str()).unwrap_or(message);
    descriptions::of_refusal(status, sentence, path)
}

fn no_connection(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            "no connection: no server listens there; start one with `shardlake serve`, or name one with --endpoint".into()
        }
        _ => format!("no connection: {error}"),
    }
}

impl Endpoint {
    fn parse(text: &str) -> Result<Endpoint, String> {
        let malformed = || format!("--endpoint '{text}' is no URL: write http://127.0.0.1:8081");
        let uri: Uri = text.parse().map_err(|_| malformed())?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(malformed()),
        };
        let host = uri.host().ok_or_else(malformed)?;
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Endpoint { is_tls, host: host.trim_matches(['[', ']']).to_owned(), port })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn trusting(file: &Path) -> Result<TlsConnector, String> {
    let unusable = |reason: String| format!("the CA file '{}' cannot be used: {reason}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_or_without_a_port() {
        let of = |text: &str| Endpoint::parse(text).map(|endpoint| (endpoint.authority(), endpoint.is_tls));
        assert_eq!(of("http://127.0.0.1:8081"), Ok(("127.0.0.1:8081".to_owned(), false)));
        assert_eq!(of("https://localhost:8081/"), Ok(("localhost:8081".to_owned(), true)));
        assert_eq!(of("https://example.org"), Ok(("example.org:443".to_owned(), true)));
        assert_eq!(of("http://[::1]:8081"), Ok(("[::1]:8081".to_owned(), false)));
        for wrong in ["127.0.0.1:8081", "ftp://x", "http://", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let no_ca = Client::new("https://localhost:8081", String::new(), None);
        assert!(no_ca.err().expect("refused").contains("--ca-file"));
    }

    #[test]
    fn failures_are_told_in_the_servers_own_words() {
        let body = serde_json::json!({
            "code": "BadRequest",
            "message": "Message: {\"Errors\":[\"there is no shard 9\"]}\r\nActivityId: 1, Request URI: /x",
        });
        assert_eq!(words_of_failure(StatusCode::BAD_REQUEST, &body, "/x"), "there is no shard 9");
        let plain = serde_json::json!({ "code": "x", "message": "the server is starting: retry" });
        assert!(
            words_of_failure(StatusCode::SERVICE_UNAVAILABLE, &plain, "/x")
                .starts_with("the server is starting")
        );
    }
}
