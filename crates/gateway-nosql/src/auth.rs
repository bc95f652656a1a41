//! Authentication: the key of the account that signed a request, or its resource token.
//!
//! The signature is HMAC-SHA256 over verb, resource type, resource link and date (wire.md §3.1). Keys are prepared once:
//! a check clones the keyed state, feeds it the parts and compares in constant time. Clients disagree on the signed text
//! (ids or names, two names for one operation), so every documented form is tried, the usual one first.
//!
//! A resource token is genuine when a key of the account has signed it and its permission is unchanged since
//! (`resource_token.rs`). `access.rs` decides which routes a caller may use. Entra ID tokens and SAS tokens are
//! recognised and refused by name.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use shardlake_account::Account;
use shardlake_model::{ContainerRid, Error, ErrorKind, Permission, Result};
use shardlake_signature::{Access, AccountKey, Payload, keyed};
use shardlake_stdx::Timestamp;

use crate::resource_token::{Claims, SentToken};

/// An authenticated caller.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// The holder of an account key.
    Key(Access),
    /// The holder of a resource token.
    Token(Grant),
}

/// The rights of a genuine resource token.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub permission: Arc<Permission>,
    /// The one container that it reaches, and nothing where it is `None`.
    pub container: Option<ContainerRid>,
    /// Unix seconds.
    expiry: u64,
}

impl Grant {
    /// Unix seconds.
    pub fn expiry(&self) -> u64 {
        self.expiry
    }

    /// Checks that the token would be accepted now: requests that have waited long check again.
    pub fn check_still_good(&self, account: &Account) -> Result<()> {
        let now = account.definitions().permission_by_rid(self.permission.rid);
        if !now.is_some_and(|now| now.definition.grants_the_same(&self.permission.definition)) {
            return Err(revoked());
        }
        if account.router().clock().now().seconds() >= self.expiry {
            return Err(expired());
        }
        Ok(())
    }
}

/// One of the account's keys, ready for use.
struct Key {
    keyed: Hmac<Sha256>,
    access: Access,
    name: &'static str,
}

/// The account's keys, ready for use.
pub(crate) struct Keyring {
    keys: Vec<Key>,
    clock_skew_max: Duration,
}

impl Keyring {
    pub fn new(keys: &[AccountKey], clock_skew_max: Duration) -> Result<Keyring> {
        let prepare =
            |key: &AccountKey| Ok(Key { keyed: keyed(&key.key)?, access: key.access, name: key.name });
        let keys = keys.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            return Err(Error::bad_request("the account needs at least one key"));
        }
        Ok(Keyring { keys, clock_skew_max })
    }

    /// Finds the sender of an `Authorization` header. A signature is compared with the forms that the request may have been
    /// signed in; a resource token speaks for itself.
    pub fn authenticate(
        &self,
        authorization: Option<&str>,
        forms: &[Payload<'_>],
        account: &Account,
    ) -> Result<Caller> {
        match Sent::parse(authorization)? {
            Sent::Signature(signature) => {
                self.check_signature(&signature, forms, account.router().clock().now()).map(Caller::Key)
            }
            Sent::Token(token) => self.check_token(&token, account).map(Caller::Token),
        }
    }

    /// The same for operations that only keys may use.
    pub fn authenticate_key(
        &self,
        authorization: Option<&str>,
        forms: &[Payload<'_>],
        now: Timestamp,
    ) -> Result<Access> {
        match Sent::parse(authorization)? {
            Sent::Signature(signature) => self.check_signature(&signature, forms, now),
            Sent::Token(_) => Err(Error::new(
                ErrorKind::Forbidden,
                "a resource token is not good here: sign with an account key",
            )),
        }
    }

    fn check_signature(&self, signature: &[u8], forms: &[Payload<'_>], now: Timestamp) -> Result<Access> {
        let usual = forms.first().expect("every route has a signed form");
        let date = if usual.ms_date.is_empty() { usual.date } else { usual.ms_date };
        if date.is_empty() {
            return Err(unauthorized(
                "the request has neither an x-ms-date nor a date header: the signature needs one",
            ));
        }
        let access = forms.iter().find_map(|form| self.verify(form, signature)).ok_or_else(|| {
            unauthorized(format!(
                "The input authorization token can't serve the request. Please check that the expected payload is built as per the protocol, and check the key being used. Server used the following payload to sign: '{}'",
                usual.text()
            ))
        })?;
        self.check_date(date, now)?;
        Ok(access)
    }

    /// A token that was never valid and a revoked one get the same error; an expired one gets another.
    fn check_token(&self, token: &SentToken, account: &Account) -> Result<Grant> {
        let permission = account.definitions().permission_by_rid(token.claims.permission);
        let is_genuine = |permission: &Arc<Permission>| {
            self.read_write_keys().any(|key| token.is_genuine(key, permission))
        };
        let permission = permission.filter(is_genuine).ok_or_else(revoked)?;
        let Claims { container, expiry, .. } = token.claims;
        if token.claims.has_expired(account.router().clock().now()) {
            return Err(expired());
        }
        Ok(Grant { permission, container, expiry })
    }

    /// A token for a permission, good for so long from now.
    pub fn resource_token(&self, account: &Account, permission: &Permission, seconds: u64) -> Result<String> {
        let key = self.read_write_keys().next();
        let key = key.ok_or_else(|| Error::internal("no read-write key can have asked for this token"))?;
        let claims = Claims {
            permission: permission.rid,
            container: account.definitions().granted_container(permission),
            expiry: account.router().clock().now().seconds().saturating_add(seconds),
        };
        Ok(claims.token(key, permission))
    }

    fn read_write_keys(&self) -> impl Iterator<Item = &Hmac<Sha256>> {
        self.keys.iter().filter(|key| key.access == Access::Full).map(|key| &key.keyed)
    }

    fn verify(&self, payload: &Payload<'_>, signature: &[u8]) -> Option<Access> {
        self.keys.iter().find_map(|key| {
            let mut mac = key.keyed.clone();
            payload.feed(&mut mac);
            mac.verify_slice(signature).is_ok().then_some(key.access)
        })
    }

    /// The name of the key that signed a request, for the audit log.
    pub fn key_name(&self, authorization: Option<&str>, forms: &[Payload<'_>]) -> String {
        let Ok(Sent::Signature(signature)) = Sent::parse(authorization) else { return "no key".to_owned() };
        let is_of = |keyed: &Hmac<Sha256>| {
            forms.iter().any(|form| {
                let mut mac = keyed.clone();
                form.feed(&mut mac);
                mac.verify_slice(&signature).is_ok()
            })
        };
        self.keys
            .iter()
            .find(|key| is_of(&key.keyed))
            .map_or("no key".to_owned(), |key| format!("{} key", key.name))
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

/// An `Authorization` header, believed in nothing yet.
#[derive(Debug)]
enum Sent {
    Signature(Vec<u8>),
    Token(SentToken),
}

impl Sent {
    /// Percent-encoded or not.
    fn parse(authorization: Option<&str>) -> Result<Sent> {
        let authorization = authorization.ok_or_else(|| {
            unauthorized(
                "Required Header authorization is missing. Ensure a valid Authorization token is passed.",
            )
        })?;
        // `+` is a base64 digit here, never a space.
        let token = unescaped(authorization)
            .ok_or_else(|| unauthorized("the authorization token is not UTF-8 text"))?;
        let (mut kind, mut version, mut signature) = (None, None, None);
        for part in token.split('&') {
            let repeated = match part.split_once('=') {
                Some(("type", value)) => kind.replace(value),
                Some(("ver", value)) => version.replace(value),
                Some(("sig", value)) => signature.replace(value),
                _ => None,
            };
            if repeated.is_some() {
                return Err(unauthorized("the authorization token says one thing twice"));
            }
        }
        let (kind, version) = (kind.unwrap_or_default(), version.unwrap_or_default());
        let signature = signature.unwrap_or_default();
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        if (is("master") || is("resource")) && version != "1.0" {
            return Err(unauthorized(format!("the authorization token has version '{version}', not '1.0'")));
        }
        if is("master") {
            let signature = STANDARD.decode(signature);
            return signature
                .map(Sent::Signature)
                .map_err(|_| unauthorized("the signature is not base64 text"));
        }
        if is("resource") {
            let token = SentToken::parse(signature).map(Sent::Token);
            return token
                .ok_or_else(|| unauthorized("the resource token is malformed: send it as it was given out"));
        }
        for (name, what) in [
            ("aad", "Entra ID (AAD) tokens are not supported yet: sign with an account key"),
            ("sas", "SAS tokens are not supported: sign with an account key"),
        ] {
            if is(name) {
                return Err(Error::unsupported(what));
            }
        }
        Err(unauthorized(
            "Authorization header doesn't confirm to the required format. Please verify and try again: it must be 'type=master&ver=1.0&sig=<signature>' or a resource token as it was given out; clients that have resource tokens send neither for what they have no token for",
        ))
    }
}

/// Percent-decoded, where the result is text; a `%` that begins no escape stands for itself. Each request has a token with half a dozen escapes, and
/// the library goes through all of it byte by byte.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    let escape = |rest: &[u8]| rest.iter().position(|byte| *byte == b'%');
    let mut rest = text.as_bytes();
    let Some(mut at) = escape(rest) else { return Some(Cow::Borrowed(text)) };
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    loop {
        bytes.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match rest {
            [high, low, behind @ ..] if let (Some(high), Some(low)) = (digit(*high), digit(*low)) => {
                bytes.push(high << 4 | low);
                rest = behind;
            }
            _ => bytes.push(b'%'),
        }
        match escape(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    bytes.extend_from_slice(rest);
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn revoked() -> Error {
    unauthorized(
        "The input authorization token can't serve the request. The resource token is not of this account, or its permission was changed or deleted: get a new one",
    )
}

fn expired() -> Error {
    unauthorized(
        "The authorization token is not valid at the current time: the resource token has expired. Please create another token and retry",
    )
}

fn unauthorized(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}

#[cfg(test)]
mod tests;
