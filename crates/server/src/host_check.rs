//! Check of the host names by which requests may call this server, and of the names that answers may repeat.
//!
//! While the well-known key is accepted, every client that reaches the server can do everything, and a browser on this machine
//! sends any request that a web page asks for. A page cannot read answers of other origins, unless its own name resolves to a
//! loopback address at the second look-up (DNS rebinding): then this server is its own origin. The page cannot change the name
//! in `Host` and `Origin`. So the server answers only to names that no stranger can own.
//!
//! | keys | a request by another name | in the account document |
//! |---|---|---|
//! | the well-known one | 403 on every path, as for a page of another origin | – |
//! | its own | is answered: the key protects it | the listener's address instead of the name |
//! | any, in emulator mode | is answered: the user has taken the risk | the name |
//!
//! The account document names the address of all later requests, so it repeats only known names. `Host`, the `:authority` of HTTP/2
//! and the authority of an absolute target are all checked, whichever of them a request has.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Version};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use crate::answers::Refusal;
use crate::config::Config;

use crate::keys::AccountKeys;
use crate::tls::{Tls, known_names};

/// Names longer than this are shown in part.
const SHOWN_BYTES_MAX: usize = 256;
/// No name of the Internet is longer.
const NAME_BYTES_MAX: usize = 253;

/// The names of this server.
#[derive(Debug)]
pub struct HostCheck {
    /// The machine's, those listened on and those configured. `*.` in front stands for one label.
    names: Vec<String>,
    /// A certificate from outside: the names that it is good for are known as well.
    certificate: Option<CertificateDer<'static>>,
    /// The well-known key opens the account.
    pub has_well_known_key: bool,
    trust: Trust,
    /// The address in the account document in place of an unknown name.
    listener: String,
    /// The first unknown name was logged.
    has_warned: AtomicBool,
}

/// Treatment of requests by names that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Refused, as pages of other origins: the well-known key is accepted.
    Strict,
    /// Answered: the account has its own keys.
    Keys,
    /// Answered, and the name repeated: emulator mode.
    All,
}

/// The host that the account document names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced<'c> {
    /// The host that the request names.
    AsSent,
    Listener(&'c str),
}

impl HostCheck {
    pub fn new(config: &Config, tls: &Tls, keys: &AccountKeys, listener: &str) -> HostCheck {
        let has_well_known_key = keys.accept_the_well_known();
        let trust = match has_well_known_key {
            _ if config.emulator.is_some() => Trust::All,
            true => Trust::Strict,
            false => Trust::Keys,
        };
        HostCheck {
            names: known_names(config),
            certificate: tls.certificate.clone(),
            has_well_known_key,
            trust,
            listener: listener.to_owned(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Accepts a request or returns the refusal.
    pub fn check<B>(&self, request: &Request<B>) -> Result<Announced<'_>, Refusal> {
        let headers = request.headers();
        let host = one_host(headers)?;
        let target = request.uri().authority().map(|authority| authority.as_str());
        match (host.or(target), request.version()) {
            // They know no such header.
            (None, Version::HTTP_09 | Version::HTTP_10) => return Ok(Announced::Listener(&self.listener)),
            (Some(_), version) if version != Version::HTTP_11 || host.is_some() => {}
            _ => return Err(bad_request("the request names no host: send one Host header")),
        }
        // Each has to pass, since others may go by either of them.
        let mut announced = Announced::AsSent;
        for text in [target, host].into_iter().flatten() {
            let known = Authority::parse(text).map(|authority| self.knows(authority.name));
            match (known, self.trust) {
                (Some(true), _) | (Some(false), Trust::All) => {}
                (_, Trust::Strict) => return Err(strange_host(text)),
                (None, Trust::Keys | Trust::All) => {
                    return Err(bad_request(&format!("the host '{}' is malformed", shown(text))));
                }
                (Some(false), Trust::Keys) if is_private(text) => {}
                (Some(false), Trust::Keys) => announced = self.instead_of(text),
            }
        }
        if self.trust == Trust::Strict {
            check_origin(headers, [target, host])?;
        }
        Ok(announced)
    }

    /// The announced address for an accepted request with an unknown name.
    fn instead_of(&self, unknown: &str) -> Announced<'_> {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                host = shown(unknown),
                told = self.listener,
                "a client calls this server by a name that it does not know, and is told the listener's address instead: \
                 --tls-name makes a name known"
            );
        }
        Announced::Listener(&self.listener)
    }

    fn knows(&self, name: Name<'_>) -> bool {
        let Name::Dns(name) = name else { return true };
        let is_local = name.eq_ignore_ascii_case("localhost") || ends_with(name, ".localhost");
        is_local
            || self.names.iter().any(|known| matches(known, name))
            || self.certificate.as_ref().is_some_and(|certificate| is_good_for(certificate, name))
    }
}

/// `name:port`, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Authority<'t> {
    name: Name<'t>,
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name<'t> {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    /// Without the dot at the end that stands for the root.
    Dns(&'t str),
}

impl<'t> Authority<'t> {
    fn parse(text: &'t str) -> Option<Authority<'t>> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                (Name::V6(address.parse().ok()?), rest)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                (Name::parse(&text[..end])?, &text[end..])
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            _ => return None,
        };
        Some(Authority { name, port })
    }

    fn is_same(self, other: Authority<'_>, default_port: u16) -> bool {
        let is_same_name = match (self.name, other.name) {
            (Name::Dns(one), Name::Dns(other)) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other,
        };
        is_same_name && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
    }
}

impl<'t> Name<'t> {
    fn parse(text: &'t str) -> Option<Name<'t>> {
        if let Ok(address) = text.parse() {
            return Some(Name::V4(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        (name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)).then_some(Name::Dns(name))
    }
}

/// Names that the Internet's name service does not have: without a dot, or below a domain of private networks. Containers and pods
/// call one another by them.
fn is_private(text: &str) -> bool {
    let Some(Authority { name: Name::Dns(name), .. }) = Authority::parse(text) else { return false };
    !name.contains('.') || [".local", ".internal", ".svc"].iter().any(|domain| ends_with(name, domain))
}

/// The one `Host` header; HTTP/2 may do without.
fn one_host(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(None),
        // A value that is not text matches no name.
        (Some(host), None) => Ok(Some(host.to_str().unwrap_or("\u{fffd}"))),
        (Some(_), Some(_)) => Err(bad_request("the request names two hosts: send one Host header")),
    }
}

/// A page may ask if it came from here, by whichever scheme: both share the port.
fn check_origin(headers: &HeaderMap, hosts: [Option<&str>; 2]) -> Result<(), Refusal> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let is_own = |origin: &HeaderValue| {
        let (scheme, authority) = origin.to_str().ok()?.split_once("://")?;
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let origin = Authority::parse(authority)?;
        let mut hosts = hosts.iter().flatten().filter_map(|host| Authority::parse(host));
        hosts.all(|host| host.is_same(origin, default_port)).then_some(())
    };
    if is_own(origin).is_some() && origins.next().is_none() {
        return Ok(());
    }
    let message = format!(
        "the page of the origin '{}' may not use this server: while the emulator's well-known key is accepted, only pages of \
         its own may; --key-file or --listen with an address that others reach gives it keys of its own",
        shown(&String::from_utf8_lossy(origin.as_bytes()))
    );
    Err(Refusal { status: StatusCode::FORBIDDEN, code: "Forbidden", message })
}

fn strange_host(text: &str) -> Refusal {
    let (name, remedy) = match Authority::parse(text) {
        Some(Authority { name: Name::Dns(name), .. }) => (name, format!("--tls-name {}", shown(name))),
        _ => (text, "--tls-name and the name that you use".to_owned()),
    };
    let message = format!(
        "this server does not answer to the host '{}': while it accepts the emulator's well-known key, a web page could use it \
         under a name of its own. Call it by an IP address, by localhost or by this machine's name, or start it with {remedy}. \
         Other machines and containers reach it after --listen 0.0.0.0:8081, which also gives it keys of its own; with \
         --emulator it answers to any name, for tests",
        shown(name)
    );
    Refusal { status: StatusCode::FORBIDDEN, code: "Forbidden", message }
}

fn bad_request(message: &str) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, code: "BadRequest", message: message.to_owned() }
}

/// The beginning of a text from outside.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

fn matches(known: &str, name: &str) -> bool {
    match known.strip_prefix("*.") {
        Some(domain) => name.split_once('.').is_some_and(|(_label, rest)| rest.eq_ignore_ascii_case(domain)),
        None => known.eq_ignore_ascii_case(name),
    }
}

fn ends_with(name: &str, domain: &str) -> bool {
    let start = name.len().saturating_sub(domain.len());
    name.len() > domain.len() && name.as_bytes()[start..].eq_ignore_ascii_case(domain.as_bytes())
}

fn is_good_for(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let Ok(name) = ServerName::try_from(name) else { return false };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}

#[cfg(test)]
impl HostCheck {
    pub fn for_tests(names: &[&str], is_strict: bool) -> HostCheck {
        HostCheck {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            certificate: None,
            has_well_known_key: is_strict,
            trust: if is_strict { Trust::Strict } else { Trust::Keys },
            listener: "127.0.0.1:8081".to_owned(),
            has_warned: AtomicBool::new(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_taken_apart_as_a_whole_or_not_at_all() {
        let dns = |name, port| Some(Authority { name: Name::Dns(name), port });
        assert_eq!(Authority::parse("a.b:1"), dns("a.b", Some(1)));
        assert_eq!(Authority::parse("my_service"), dns("my_service", None));
        assert_eq!(Authority::parse("a.b.:"), None, "a colon announces a port");
        assert_eq!(Authority::parse("a.b."), dns("a.b", None));
        let v6 = Authority { name: Name::V6(Ipv6Addr::LOCALHOST), port: Some(8081) };
        assert_eq!(Authority::parse("[::1]:8081"), Some(v6));
        for wrong in
            ["", ":1", "a:+1", "a:1:2", "::1", "[::1]x", "[::1", "a b", "a@b", "a/b", "é", "a..b", "."]
        {
            assert_eq!(Authority::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Authority::parse(&"a.".repeat(200)), None);
    }

    #[test]
    fn certificates_from_outside_make_their_names_known() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["*.shop.example".to_owned()]).expect("valid");
        let certificate = params.self_signed(&key).expect("signed").der().clone();
        let check = HostCheck { certificate: Some(certificate), ..HostCheck::for_tests(&[], true) };
        let knows = |name| check.knows(Name::parse(name).expect("a name"));
        assert!(knows("db.shop.example") && knows("DB.shop.example"));
        assert!(!knows("shop.example") && !knows("db.shop.example.evil") && !knows("my_service"));
    }

    #[test]
    fn without_strictness_unknown_names_are_let_in_and_not_repeated() {
        let check = HostCheck::for_tests(&["db.example"], false);
        let announced = |host: &str| {
            let request = Request::builder().header("host", host).body(()).expect("valid");
            check.check(&request).map_err(|refusal| refusal.status)
        };
        assert_eq!(announced("db.example:1"), Ok(Announced::AsSent));
        assert_eq!(announced("shardlake"), Ok(Announced::AsSent), "a container's name");
        assert_eq!(announced("evil.example"), Ok(Announced::Listener("127.0.0.1:8081")));
        assert_eq!(announced("evil.example/x"), Err(StatusCode::BAD_REQUEST));
        let both = Request::builder().uri("http://evil.example/").header("host", "shardlake");
        let both = check.check(&both.body(()).expect("valid")).map_err(|refusal| refusal.status);
        assert_eq!(both, Ok(Announced::Listener("127.0.0.1:8081")), "a good name hides no other");
    }
}
