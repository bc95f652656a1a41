//! The ideal handler: hyper, the signature check, and a reply that was made before.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use shardlake_testkit::EMULATOR_KEY;

use crate::Outcome;

struct Ideal {
    key: Hmac<Sha256>,
    headers: HeaderMap,
    body: Bytes,
}

/// Serves the reply stored in a file (head, empty line, body) to every request, and prints its
/// address on standard output.
pub fn serve(reply: &Path) -> Outcome {
    let stored = std::fs::read(reply)?;
    let end =
        stored.windows(4).position(|window| window == b"\r\n\r\n").ok_or("the stored reply has no head")?;
    let head = std::str::from_utf8(&stored[..end])?;
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("a stored header is malformed")?;
        if !matches!(name, "content-length" | "date" | "connection") {
            headers.append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
        }
    }
    let key = STANDARD.decode(EMULATOR_KEY)?;
    let ideal = Arc::new(Ideal {
        key: Hmac::new_from_slice(&key)?,
        headers,
        body: Bytes::copy_from_slice(&stored[end + 4..]),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let ideal = ideal.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let reply = ideal.answer(&request);
                    async move { Ok::<_, Infallible>(reply) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                // A client may disconnect at any time.
                let _ = connection.await;
            });
        }
    })
}

impl Ideal {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !self.is_signed(request) {
            let mut refusal = Response::new(Full::new(Bytes::new()));
            *refusal.status_mut() = hyper::StatusCode::UNAUTHORIZED;
            return refusal;
        }
        let mut reply = Response::new(Full::new(self.body.clone()));
        *reply.headers_mut() = self.headers.clone();
        reply
    }

    fn is_signed(&self, request: &Request<Incoming>) -> bool {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let (Some(authorization), Some(date)) = (header("authorization"), header("x-ms-date")) else {
            return false;
        };
        let authorization = percent_decode_str(authorization).decode_utf8_lossy();
        let Some(signature) = authorization
            .split_once("sig=")
            .map(|(_, text)| text)
            .and_then(|text| STANDARD.decode(text).ok())
        else {
            return false;
        };
        let mut mac = self.key.clone();
        for part in [
            "get\ndocs\n",
            request.uri().path().trim_start_matches('/'),
            "\n",
            &date.to_ascii_lowercase(),
            "\n\n",
        ] {
            mac.update(part.as_bytes());
        }
        mac.verify_slice(&signature).is_ok()
    }
}
