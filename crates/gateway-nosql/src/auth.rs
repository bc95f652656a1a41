//! Master-key signatures: is a request signed with one of the account's keys, and what may that key do?
//!
//! The signature is HMAC-SHA256 over verb, resource type, resource link and date (wire.md §3.1). Keys are prepared once:
//! a check clones the keyed state, feeds it the parts and compares in constant time. Where clients disagree on what they
//! sign (ids or names, two names for one operation), every documented form is tried, the usual one first.
//!
//! Resource tokens, Entra ID tokens and SAS tokens are recognised and refused by name.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use shardlake_model::{Error, ErrorKind, Result};
use shardlake_stdx::Timestamp;

/// What the holder of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Full,
    /// Reads and queries.
    ReadOnly,
}

/// One of the account's keys.
#[derive(Clone)]
pub struct AccountKey {
    /// Base64 text, as clients hold it.
    pub key: String,
    pub access: Access,
}

/// The account's keys, ready for use.
pub(crate) struct Keyring {
    keys: Vec<(Hmac<Sha256>, Access)>,
    clock_skew_max: Duration,
}

/// What a client signs, apart from its key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'r> {
    pub verb: &'r str,
    pub resource_type: &'r str,
    pub resource_link: &'r str,
    /// `x-ms-date`, or empty.
    pub ms_date: &'r str,
    /// `date`, or empty.
    pub date: &'r str,
}

impl Keyring {
    pub fn new(keys: &[AccountKey], clock_skew_max: Duration) -> Result<Keyring> {
        let prepare = |key: &AccountKey| Ok((keyed(&key.key)?, key.access));
        let keys = keys.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            return Err(Error::bad_request("the account needs at least one key"));
        }
        Ok(Keyring { keys, clock_skew_max })
    }

    /// Checks the `Authorization` header against the forms that the request may have been signed in.
    pub fn authenticate(
        &self,
        authorization: Option<&str>,
        forms: &[Payload<'_>],
        now: Timestamp,
    ) -> Result<Access> {
        let usual = forms.first().expect("every route has a signed form");
        let authorization = authorization.ok_or_else(|| {
            unauthorized(
                "Required Header authorization is missing. Ensure a valid Authorization token is passed.",
            )
        })?;
        let signature = master_signature(authorization)?;
        let date = if usual.ms_date.is_empty() { usual.date } else { usual.ms_date };
        if date.is_empty() {
            return Err(unauthorized(
                "the request has neither an x-ms-date nor a date header: the signature needs one",
            ));
        }
        let access = forms.iter().find_map(|form| self.verify(form, &signature)).ok_or_else(|| {
            unauthorized(format!(
                "The input authorization token can't serve the request. Please check that the expected payload is built as per the protocol, and check the key being used. Server used the following payload to sign: '{}'",
                usual.text()
            ))
        })?;
        self.check_date(date, now)?;
        Ok(access)
    }

    fn verify(&self, payload: &Payload<'_>, signature: &[u8]) -> Option<Access> {
        self.keys.iter().find_map(|(keyed, access)| {
            let mut mac = keyed.clone();
            payload.feed(&mut mac);
            mac.verify_slice(signature).is_ok().then_some(*access)
        })
    }

    fn check_date(&self, date: &str, now: Timestamp) -> Result<()> {
        let sent = httpdate::parse_http_date(date)
            .ok()
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .ok_or_else(|| unauthorized(format!("the date '{date}' is not in RFC 1123 form")))?;
        let now = Duration::from_millis(now.milliseconds());
        if sent.abs_diff(now) > self.clock_skew_max {
            let server_time = httpdate::fmt_http_date(std::time::UNIX_EPOCH + now);
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "The authorization token is not valid at the current time. Please create another token and retry (token start time: {date}, server time: {server_time})"
                ),
            ));
        }
        Ok(())
    }
}

/// The signature of a client that holds `key`.
pub(crate) fn sign(key: &str, payload: &Payload<'_>) -> Result<impl AsRef<[u8]> + use<>> {
    let mut mac = keyed(key)?;
    payload.feed(&mut mac);
    Ok(mac.finalize().into_bytes())
}

/// The state that every signature with a key begins from.
fn keyed(key: &str) -> Result<Hmac<Sha256>> {
    let secret = STANDARD
        .decode(key.trim())
        .map_err(|error| Error::bad_request("an account key is not base64 text").with_source(error))?;
    if secret.is_empty() {
        return Err(Error::bad_request("an account key is empty"));
    }
    Ok(Hmac::<Sha256>::new_from_slice(&secret).expect("HMAC takes keys of any length"))
}

impl Payload<'_> {
    fn feed(&self, mac: &mut Hmac<Sha256>) {
        for part in [self.verb, self.resource_type] {
            update_lower(mac, part);
            mac.update(b"\n");
        }
        mac.update(self.resource_link.as_bytes());
        mac.update(b"\n");
        for part in [self.ms_date, self.date] {
            update_lower(mac, part);
            mac.update(b"\n");
        }
    }

    /// The signed text, for the message that helps an implementer find the difference.
    fn text(&self) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}\n",
            self.verb.to_ascii_lowercase(),
            self.resource_type.to_ascii_lowercase(),
            self.resource_link,
            self.ms_date.to_ascii_lowercase(),
            self.date.to_ascii_lowercase()
        )
    }
}

/// Feeds the lower-case form, through the stack for the short texts that all honest clients send.
fn update_lower(mac: &mut Hmac<Sha256>, text: &str) {
    let mut buffer = [0; 48];
    for chunk in text.as_bytes().chunks(buffer.len()) {
        let lower = &mut buffer[..chunk.len()];
        lower.copy_from_slice(chunk);
        lower.make_ascii_lowercase();
        mac.update(lower);
    }
}

/// The signature bytes of a master-key token, percent-encoded or not.
fn master_signature(authorization: &str) -> Result<Vec<u8>> {
    // `+` is a base64 digit here, never a space.
    let token: Cow<'_, str> = percent_decode_str(authorization)
        .decode_utf8()
        .map_err(|_| unauthorized("the authorization token is not UTF-8 text"))?;
    let (mut kind, mut version, mut signature) = ("", "", None);
    for part in token.split('&') {
        match part.split_once('=') {
            Some(("type", value)) => kind = value,
            Some(("ver", value)) => version = value,
            Some(("sig", value)) => signature = Some(value),
            _ => {}
        }
    }
    if kind.eq_ignore_ascii_case("master") {
        if version != "1.0" {
            return Err(unauthorized(format!("the authorization token has version '{version}', not '1.0'")));
        }
        let signature = signature.unwrap_or_default();
        return STANDARD.decode(signature).map_err(|_| unauthorized("the signature is not base64 text"));
    }
    for (name, what) in [
        ("resource", "resource tokens are not supported yet: sign with an account key"),
        ("aad", "Entra ID (AAD) tokens are not supported yet: sign with an account key"),
        ("sas", "SAS tokens are not supported: sign with an account key"),
    ] {
        if kind.eq_ignore_ascii_case(name) {
            return Err(Error::unsupported(what));
        }
    }
    Err(unauthorized(
        "Authorization header doesn't confirm to the required format. Please verify and try again: it must be 'type=master&ver=1.0&sig=<signature>'",
    ))
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}

#[cfg(test)]
mod tests;
