//! Resource tokens: credentials of a permission for clients that hold no key (wire.md §3.2).
//!
//! ```text
//! type=resource&ver=1.0&sig=<base64 of the signature>;<base64url of the claims>;
//! claims    = version u8 | permission: database u32, user u32, number u64 | container: database u32, number u32 | expiry u64
//! signature = HMAC-SHA256(account key, label | claims | mode u8 | length u32, resource | length u32, partition key)
//! ```
//! Numbers are big-endian, the expiry is in Unix seconds. The permission's grant is signed and not carried: a check reads the
//! permission again, so that a token ends when its permission is deleted or grants something else. The container
//! is that of the permission's link when the token was made, so that a token ends with its container, too.
//!
//! The label begins with a byte that no other signed text can begin with, so no signature is good for two purposes. Only
//! read-write keys sign and verify: the holder of a read-only key can make nothing of it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use shardlake_model::{ContainerRid, DatabaseRid, Permission, PermissionMode, PermissionRid, UserRid};
use shardlake_stdx::Timestamp;

const LABEL: &[u8] = b"\0shardlake resource token\0";
const VERSION: u8 = 1;
const CLAIMS_BYTES: usize = 33;

/// Claims of a token, readable by its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claims {
    pub permission: PermissionRid,
    /// `None` where the permission led nowhere.
    pub container: Option<ContainerRid>,
    /// Unix seconds; good before.
    pub expiry: u64,
}

/// A token taken apart, believed in nothing yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SentToken {
    signature: Vec<u8>,
    pub claims: Claims,
}

impl SentToken {
    /// Parses the text behind `sig=`.
    pub fn parse(text: &str) -> Option<SentToken> {
        let (signature, rest) = text.split_once(';')?;
        let claims = rest.strip_suffix(';').unwrap_or(rest);
        Some(SentToken {
            signature: STANDARD.decode(signature).ok()?,
            claims: Claims::decode(&URL_SAFE_NO_PAD.decode(claims).ok()?)?,
        })
    }

    /// Whether the token was signed with this key for the current grant of the permission.
    pub fn is_genuine(&self, key: &Hmac<Sha256>, permission: &Permission) -> bool {
        self.claims.sign(key, permission).verify_slice(&self.signature).is_ok()
    }
}

impl Claims {
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now.seconds() >= self.expiry
    }

    /// The token for these claims.
    pub fn token(&self, key: &Hmac<Sha256>, permission: &Permission) -> String {
        let signature = STANDARD.encode(self.sign(key, permission).finalize().into_bytes());
        format!("type=resource&ver=1.0&sig={signature};{};", URL_SAFE_NO_PAD.encode(self.encode()))
    }

    fn sign(&self, key: &Hmac<Sha256>, permission: &Permission) -> Hmac<Sha256> {
        let definition = &permission.definition;
        let mut mac = key.clone();
        mac.update(LABEL);
        mac.update(&self.encode());
        mac.update(&[match definition.mode {
            PermissionMode::Read => 0,
            PermissionMode::All => 1,
        }]);
        for text in [Some(&definition.resource), definition.partition_key.as_ref()] {
            // No text and an empty text have different lengths here.
            assert!(
                text.is_none_or(|text| u32::try_from(text.len()).is_ok_and(|length| length < u32::MAX)),
                "the length of a signed text differs from that of no text"
            );
            let length = text.map_or(u32::MAX, |text| text.len() as u32);
            mac.update(&length.to_be_bytes());
            mac.update(text.map_or(&[], |text| text.as_bytes()));
        }
        mac
    }

    fn encode(&self) -> [u8; CLAIMS_BYTES] {
        let PermissionRid { user, number } = self.permission;
        // No database has the rid 0.
        let container = self.container.unwrap_or(ContainerRid { database: DatabaseRid(0), number: 0 });
        let mut bytes = [VERSION; CLAIMS_BYTES];
        bytes[1..5].copy_from_slice(&user.database.0.to_be_bytes());
        bytes[5..9].copy_from_slice(&user.number.to_be_bytes());
        bytes[9..17].copy_from_slice(&number.to_be_bytes());
        bytes[17..21].copy_from_slice(&container.database.0.to_be_bytes());
        bytes[21..25].copy_from_slice(&container.number.to_be_bytes());
        bytes[25..].copy_from_slice(&self.expiry.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Claims> {
        let bytes: &[u8; CLAIMS_BYTES] = bytes.try_into().ok()?;
        let short = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[0] != VERSION {
            return None;
        }
        let user = UserRid { database: DatabaseRid(short(1)), number: short(5) };
        let container = ContainerRid { database: DatabaseRid(short(17)), number: short(21) };
        Some(Claims {
            permission: PermissionRid { user, number: long(9) },
            container: (container.database.0 != 0).then_some(container),
            expiry: long(25),
        })
    }
}

#[cfg(test)]
mod tests {
    use hmac::KeyInit;
    use shardlake_model::PermissionDefinition;

    use super::*;

    fn key(byte: u8) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&[byte; 64]).expect("any length")
    }

    fn permission() -> Permission {
        let user = UserRid { database: DatabaseRid(7), number: 8 };
        let definition = PermissionDefinition {
            id: "p".into(),
            mode: PermissionMode::Read,
            mode_text: "Read".into(),
            resource: "dbs/d/colls/c".into(),
            partition_key: None,
        };
        Permission { rid: PermissionRid { user, number: 9 }, etag: [0; 16], timestamp: 0, definition }
    }

    fn claims() -> Claims {
        let container = Some(ContainerRid { database: DatabaseRid(7), number: 3 });
        Claims { permission: permission().rid, container, expiry: 1000 }
    }

    fn sent(token: &str) -> Option<SentToken> {
        SentToken::parse(token.strip_prefix("type=resource&ver=1.0&sig=")?)
    }

    #[test]
    fn a_token_survives_its_text_form_and_is_good_for_its_key_and_permission_alone() {
        let token = claims().token(&key(1), &permission());
        let token = sent(&token).expect("well-formed");
        assert_eq!(token.claims, claims());
        assert!(token.is_genuine(&key(1), &permission()));
        assert!(!token.is_genuine(&key(2), &permission()));
        let change = |change: fn(&mut PermissionDefinition)| {
            let mut changed = permission();
            change(&mut changed.definition);
            changed
        };
        for changed in [
            change(|definition| definition.mode = PermissionMode::All),
            change(|definition| definition.resource.push('d')),
            change(|definition| definition.partition_key = Some(String::new())),
            change(|definition| definition.partition_key = Some("[1]".into())),
        ] {
            assert!(!token.is_genuine(&key(1), &changed), "{changed:?}");
        }
        let renamed = change(|definition| definition.id = "another".into());
        assert!(token.is_genuine(&key(1), &renamed), "what it is called grants nothing");
    }

    #[test]
    fn every_changed_bit_and_every_missing_byte_is_noticed() {
        let bytes = claims().encode();
        for at in 0..CLAIMS_BYTES * 8 {
            let mut changed = bytes;
            changed[at / 8] ^= 1 << (at % 8);
            let Some(changed) = Claims::decode(&changed) else { continue };
            let signature = claims().sign(&key(1), &permission()).finalize().into_bytes().to_vec();
            let token = SentToken { signature, claims: changed };
            assert!(!token.is_genuine(&key(1), &permission()), "bit {at}");
        }
        for length in 0..CLAIMS_BYTES {
            assert_eq!(Claims::decode(&bytes[..length]), None);
        }
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let token = claims().token(&key(1), &permission());
        let body = token.strip_prefix("type=resource&ver=1.0&sig=").expect("a prefix").to_owned();
        assert!(SentToken::parse(body.trim_end_matches(';')).is_some(), "the last ';' may be lost");
        for text in ["", ";", ";;", "a;b;", &body[1..], &body.replace(';', ""), &format!("{body};")] {
            assert_eq!(SentToken::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_token_is_good_until_its_last_second() {
        let at = |seconds: u64| claims().has_expired(Timestamp(seconds * 1000));
        assert!(!at(999) && at(1000) && at(1001));
    }
}
