//! Account keys, and what is signed with them: HMAC-SHA256 over verb, resource type, resource link and date.
//!
//! Servers and clients of a door that opens to account keys share this. Which header carries a signature, and which forms of
//! a request may have been signed, is the door's business.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use shardlake_model::{Error, Result};

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

/// What a client signs, apart from its key.
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

/// The state that every signature with a key begins from; fails for what is no key.
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
    /// Feeds what is signed to a state that [`keyed`] has made.
    pub fn feed(&self, mac: &mut Hmac<Sha256>) {
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
    pub fn text(&self) -> String {
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
