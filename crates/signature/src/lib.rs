//! Signatures with account keys: HMAC-SHA256 over verb, resource type, resource link and date.
//!
//! Shared by servers and clients of each protocol with account keys. The protocol decides which
//! header carries a signature, and which forms of a request may have been signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use shardlake_model::{Error, Result};

/// Well-behaved clients sign less: such a text is fed from the stack, in one piece.
const SHORT_BYTES: usize = 512;

/// Rights of the holder of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Full,
    /// Reads and queries.
    ReadOnly,
}

/// One of the account's keys.
#[derive(Clone)]
pub struct AccountKey {
    /// As the operator's interface names it, such as `primary`; logs show it.
    pub name: &'static str,
    /// Base64 text, as clients hold it.
    pub key: String,
    pub access: Access,
}

/// The text that a client signs, apart from its key.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'r> {
    pub verb: &'r str,
    pub resource_type: &'r str,
    pub resource_link: &'r str,
    /// `x-ms-date`, or empty.
    pub ms_date: &'r str,
    /// `date`, or empty.
    pub date: &'r str,
}

/// The signature of a client that holds `key`.
pub fn sign(key: &str, payload: &Payload<'_>) -> Result<impl AsRef<[u8]> + use<>> {
    let mut mac = keyed(key)?;
    payload.feed(&mut mac);
    Ok(mac.finalize().into_bytes())
}

/// The beginning of a key's hash, which logs may show.
pub fn fingerprint(key: &str) -> String {
    use sha2::Digest;
    Sha256::digest(key.trim()).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The state that every signature with a key begins from; fails for a text that is no key.
pub fn keyed(key: &str) -> Result<Hmac<Sha256>> {
    let secret = STANDARD
        .decode(key.trim())
        .map_err(|error| Error::bad_request("an account key is not base64 text").with_source(error))?;
    if secret.is_empty() {
        return Err(Error::bad_request("an account key is empty"));
    }
    Ok(Hmac::<Sha256>::new_from_slice(&secret).expect("HMAC takes keys of any length"))
}

impl Payload<'_> {
    /// Feeds the signed text to a state that [`keyed`] has made.
    pub fn feed(&self, mac: &mut Hmac<Sha256>) {
        let parts = self.parts();
        let mut buffer = [0; SHORT_BYTES];
        let mut length = 0;
        for (text, is_lower) in parts {
            let Some(place) = buffer.get_mut(length..length + text.len() + 1) else {
                return mac.update(self.text().as_bytes());
            };
            let (place, end) = place.split_at_mut(text.len());
            place.copy_from_slice(text.as_bytes());
            if is_lower {
                place.make_ascii_lowercase();
            }
            end[0] = b'\n';
            length += text.len() + 1;
        }
        mac.update(&buffer[..length]);
    }

    /// The lines of the signed text, each with whether it is signed in lower case.
    fn parts(&self) -> [(&str, bool); 5] {
        [
            (self.verb, true),
            (self.resource_type, true),
            (self.resource_link, false),
            (self.ms_date, true),
            (self.date, true),
        ]
    }

    /// The signed text, for the message that helps an implementer find the difference.
    pub fn text(&self) -> String {
        let line = |(text, is_lower): (&str, bool)| {
            let text = if is_lower { text.to_ascii_lowercase() } else { text.to_owned() };
            text + "\n"
        };
        self.parts().map(line).concat()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail by panicking
mod tests {
    use super::*;

    #[test]
    fn short_and_long_requests_are_signed_by_their_text() {
        let key = STANDARD.encode("a key");
        for length in [0, 1, 400, 460, 470, 480, 490, 500, 512, 5000] {
            let link = "dbs/D/colls/c/docs/".to_owned() + &"Ä".repeat(length / 2) + &"x".repeat(length % 2);
            let payload = Payload {
                verb: "GET",
                resource_type: "docs",
                resource_link: &link,
                ms_date: "Tue, 24 Nov 2026 20:00:00 GMT",
                date: "",
            };
            let mut mac = keyed(&key).unwrap();
            mac.update(payload.text().as_bytes());
            let expected = mac.finalize().into_bytes();
            assert_eq!(sign(&key, &payload).unwrap().as_ref(), &expected[..], "{length}");
        }
        let payload =
            Payload { verb: "GET", resource_type: "Docs", resource_link: "dbs/D", ms_date: "TUE", date: "" };
        assert_eq!(payload.text(), "get\ndocs\ndbs/D\ntue\n\n");
    }
}
