//! Users made by `createUser`: the catalog's record of each, as text that only the MongoDB API reads. It is secret, is never shown, and has
//! no `Debug`.

use shardlake_document::{bytes_of_url_text, url_text_of_bytes};
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use super::mechanism::Mechanism;
use super::roles::{Rights, Role};
use super::scram::Credential;
use crate::errors::Result;

/// Stored credential for a password under one mechanism.
#[derive(Clone)]
pub struct Proof {
    pub mechanism: Mechanism,
    pub salt: Vec<u8>,
    pub iterations: u32,
    pub credential: Credential,
}

impl Proof {
    /// Costs some milliseconds of processor time, on purpose.
    pub fn derive(mechanism: Mechanism, user: &str, password: &str, random: &Random) -> Result<Proof> {
        let mut salt = vec![0; mechanism.salt_size_bytes()];
        random.fill(&mut salt);
        let credential = Credential::derive(mechanism, user, password, &salt)?;
        Ok(Proof { mechanism, salt, iterations: mechanism.iterations(), credential })
    }

    fn document(&self) -> Document {
        let bytes = |bytes: &[u8]| Value::Binary(0, bytes.into());
        let mut proof = Document::one("mechanism", self.mechanism.name());
        proof.push("salt", bytes(&self.salt));
        proof.push("iterations", Value::Long(i64::from(self.iterations)));
        proof.push("storedKey", bytes(&self.credential.stored_key));
        proof.push("serverKey", bytes(&self.credential.server_key));
        proof
    }

    fn of(document: &Document) -> Option<Proof> {
        let bytes = |name: &str| match document.get(name) {
            Some(Value::Binary(_, bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        Some(Proof {
            mechanism: Mechanism::of_name(document.value("mechanism").as_str()?).ok()?,
            salt: bytes("salt")?,
            iterations: u32::try_from(document.value("iterations").to_i64_exact()?).ok()?,
            credential: Credential { stored_key: bytes("storedKey")?, server_key: bytes("serverKey")? },
        })
    }
}

/// The stored record of a user.
#[derive(Clone)]
pub struct Kept {
    /// Returned as `userId`.
    pub id: [u8; 16],
    pub roles: Vec<Role>,
    pub proofs: Vec<Proof>,
    pub custom_data: Option<Document>,
}

impl Kept {
    pub fn rights(&self) -> Rights {
        Rights(self.roles.clone())
    }

    pub fn mechanisms(&self) -> Vec<Mechanism> {
        self.proofs.iter().map(|proof| proof.mechanism).collect()
    }

    pub fn encoded(&self) -> String {
        let list =
            |documents: Vec<Document>| Value::array(documents.into_iter().map(Value::document).collect());
        let mut kept = Document::one("id", Value::Binary(4, self.id.as_slice().into()));
        kept.push("roles", list(self.roles.iter().map(Role::document).collect()));
        kept.push("proofs", list(self.proofs.iter().map(Proof::document).collect()));
        if let Some(data) = &self.custom_data {
            kept.push("customData", Value::document(data.clone()));
        }
        url_text_of_bytes(&kept.to_bytes())
    }

    /// `None` for a record that this version does not understand: it lets no client in.
    pub fn decoded(text: &str) -> Option<Kept> {
        let kept = Document::from_bytes(&bytes_of_url_text(text)?).ok()?;
        let list = |name: &str| kept.get(name).and_then(Value::as_array);
        let id = match kept.get("id") {
            Some(Value::Binary(4, bytes)) => bytes.to_vec().try_into().ok()?,
            _ => return None,
        };
        let roles = list("roles")?.iter().map(|role| Role::parse(role, "").ok()).collect::<Option<_>>()?;
        let proofs = list("proofs")?.iter().map(|proof| Proof::of(proof.as_document()?));
        Some(Kept {
            id,
            roles,
            proofs: proofs.collect::<Option<_>>()?,
            custom_data: kept
                .get("customData")
                .and_then(Value::as_document)
                .map(|data| Document::clone(data)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back() {
        let proof = |mechanism| Proof::derive(mechanism, "u", "secret", &Random::seeded(1)).expect("a proof");
        let kept = Kept {
            id: [7; 16],
            roles: Role::of_database("admin"),
            proofs: Mechanism::ALL.map(proof).to_vec(),
            custom_data: Some(Document::one("a", 1)),
        };
        let again = Kept::decoded(&kept.encoded()).expect("it reads back");
        assert_eq!((again.id, &again.roles), (kept.id, &kept.roles));
        assert_eq!(again.mechanisms(), Mechanism::ALL);
        for (again, proof) in again.proofs.iter().zip(&kept.proofs) {
            assert_eq!((&again.salt, again.iterations), (&proof.salt, proof.iterations));
            assert!(again.credential == proof.credential);
        }
        assert!(again.custom_data.is_some());
        assert!(Kept::decoded("").is_none() && Kept::decoded("AAAA").is_none());
    }
}
