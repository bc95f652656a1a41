//! The headers of the explorer's answers.
//!
//! The policy lets a page load, call and be framed by nothing but this server: no other origin, no inline script or style. Answers can
//! be asked for conditionally; the two forms of a file, plain and compressed, have different etags.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use shardlake_gateway_nosql::AnswerBody;

use super::assets::File;
use crate::answers::Reply;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Everything that a page could ask the browser for, and the explorer does not.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), midi=(), \
    payment=(), usb=()";
const FOREVER: &str = "public, max-age=31536000, immutable";

/// A file, and how long browsers may keep it.
pub enum Sent<'f> {
    /// Its build is in its path.
    Forever(&'f File),
    /// It is asked for each time, and mostly answered 304.
    Page(&'f File),
}

pub fn file<B>(request: &Request<B>, build: &str, sent: Sent<'_>) -> Reply {
    let (file, keep) = match sent {
        Sent::Forever(file) => (file, FOREVER),
        Sent::Page(file) => (file, "no-cache"),
    };
    let gzip = if takes_gzip(request) { file.gzip() } else { None };
    let etag = format!("\"{build}{}\"", if gzip.is_some() { "-gz" } else { "" });
    let is_known = request.headers().get_all(IF_NONE_MATCH).iter().any(|sent| names(sent, &etag));
    let (is_gzip, body) = (gzip.is_some(), gzip.unwrap_or_else(|| file.plain.clone()));
    let mut reply = Response::new(AnswerBody::from(if is_known { Bytes::new() } else { body }));
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(ETAG, etag);
    }
    if !is_known {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    guarded(reply)
}

/// A page that is no file of the explorer, and is not cached.
pub fn notice(text: String) -> Reply {
    let mut reply = Response::new(AnswerBody::from(Bytes::from(text)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guarded(reply)
}

fn guarded(mut reply: Reply) -> Reply {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// `gzip;q=0` refuses it.
fn takes_gzip<B>(request: &Request<B>) -> bool {
    let sent = request.headers().get_all(ACCEPT_ENCODING).iter();
    sent.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip && !parts.any(|weight| weight.trim_start_matches("q=").parse() == Ok(0.0_f32))
    })
}

/// Whether `If-None-Match` names an etag; weak ones count, as for any GET.
fn names(sent: &HeaderValue, etag: &str) -> bool {
    let sent = sent.to_str().unwrap_or_default();
    sent.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_answers_are_for_those_who_take_them() {
        for (sent, expected) in [
            (Some("gzip"), true),
            (Some("br, GZIP;q=0.5, *;q=0"), true),
            (Some("gzip;q=0"), false),
            (Some("br"), false),
            (None, false),
        ] {
            let mut request = Request::builder();
            if let Some(sent) = sent {
                request = request.header(ACCEPT_ENCODING, sent);
            }
            assert_eq!(takes_gzip(&request.body(()).expect("valid")), expected, "{sent:?}");
        }
    }
}
