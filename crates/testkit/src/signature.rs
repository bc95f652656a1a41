//! The master-key signature, computed from the wire contract and not with the server's own code.
//!
//! A second implementation is the point: a mistake in the server's verifier cannot cancel itself out here.
//! The vectors in `tests/it/signature_vectors.rs` pin it to the signatures of the SDKs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use shardlake_stdx::Clock;
use std::time::{Duration, UNIX_EPOCH};

/// The published key of the emulators, which the server accepts only while it is bound to loopback.
pub const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// Characters that `encodeURIComponent` leaves alone, so that the header looks like the JavaScript SDK's.
const TOKEN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Characters that a path segment has to escape; everything else is sent as it is.
pub(crate) const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The `Authorization` header for one request, percent-encoded once.
///
/// # Panics
/// When `key` is not base64: a test with a wrong key should use another valid one.
pub fn authorization(verb: &str, resource_type: &str, link: &str, date: &str, key: &str) -> String {
    let token = format!("type=master&ver=1.0&sig={}", signature(verb, resource_type, link, date, key));
    utf8_percent_encode(&token, TOKEN).to_string()
}

fn signature(verb: &str, resource_type: &str, link: &str, date: &str, key: &str) -> String {
    let key = STANDARD.decode(key).expect("account keys are base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes a key of any length");
    let text = format!(
        "{}\n{}\n{link}\n{}\n\n",
        verb.to_lowercase(),
        resource_type.to_lowercase(),
        date.to_lowercase()
    );
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// The value of `x-ms-date` for a request sent now.
pub fn http_date_now() -> String {
    http_date_after_epoch(Duration::from_millis(Clock::System.now().milliseconds()))
}

/// The value of `x-ms-date` for any other time, for tests of clock skew.
pub fn http_date_after_epoch(since_epoch: Duration) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + since_epoch)
}
