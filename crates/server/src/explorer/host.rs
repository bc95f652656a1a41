//! Secure contexts, in which a browser lets a page sign: `https:` or a loopback address.
//!
//! Elsewhere the pages could not sign a single request. A browser that opens the explorer over plain HTTP at such an address gets a
//! few words and the link to the same port over TLS. Which names a request may use at all is decided before, by `host_check.rs`.

use std::net::IpAddr;

use http::uri::Authority;
use shardlake_gateway_nosql::Scheme;

/// Where browsers find it.
pub const ROOT: &str = "/_explorer/";

/// Whether browsers give a page of this origin the means to sign.
pub fn is_secure_context(scheme: Scheme, authority: &str) -> bool {
    if scheme == Scheme::Https {
        return true;
    }
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// The page that explains the refusal.
pub fn notice(authority: &str) -> String {
    let authority = escaped(authority);
    format!(
        r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Shardlake</title>
<h1>The explorer needs https here</h1>
<p>Browsers sign requests over https or on this machine only. Open
<a href="https://{authority}{ROOT}">https://{authority}{ROOT}</a>: the same port speaks both.
The certificate's authority is at <a href="/_shardlake/ca.pem">/_shardlake/ca.pem</a>.</p>
</html>
"#
    )
}

/// An authority that passed the check has none of these signs; this page does not rely on it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_https_are_secure_contexts() {
        for authority in
            ["localhost:8081", "LOCALHOST", "a.localhost:1", "127.0.0.1:8081", "127.9.9.9", "[::1]:8081"]
        {
            assert!(is_secure_context(Scheme::Http, authority), "{authority}");
        }
        for authority in ["10.0.0.1:8081", "shop:8081", "localhost.example", "[fe80::1]", "", "128.0.0.1"] {
            assert!(!is_secure_context(Scheme::Http, authority), "{authority}");
            assert!(is_secure_context(Scheme::Https, authority), "{authority}");
        }
    }

    #[test]
    fn the_notice_links_to_the_same_port() {
        assert!(notice("10.0.0.1:8081").contains(r#"href="https://10.0.0.1:8081/_explorer/""#));
        assert!(!notice("\"><script>").contains("<script>"));
    }
}
