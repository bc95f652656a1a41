//! Users as documents of `admin.system.users`, in which backups carry them from one server to another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Random;

use super::logins::{Kept, Proof};
use super::mechanism::Mechanism;
use super::roles::Role;
use super::scram::Credential;

/// A user of a database, with its stored record.
pub struct SystemUser {
    pub database: String,
    pub name: String,
    pub kept: Kept,
    /// Roles of the document that this server does not have.
    pub lost_roles: Vec<String>,
}

impl SystemUser {
    pub fn document(&self) -> Document {
        let kept = &self.kept;
        let mut user = Document::one("_id", format!("{}.{}", self.database, self.name).as_str());
        user.push("userId", Value::Binary(4, kept.id.as_slice().into()));
        user.push("user", Value::string(&self.name));
        user.push("db", Value::string(&self.database));
        let credentials = kept.proofs.iter().map(|proof| {
            let mut fields =
                Document::one("iterationCount", i32::try_from(proof.iterations).unwrap_or(i32::MAX));
            let secret = &proof.credential;
            for (name, bytes) in
                [("salt", &proof.salt), ("storedKey", &secret.stored_key), ("serverKey", &secret.server_key)]
            {
                fields.push(name, Value::string(STANDARD.encode(bytes)));
            }
            (proof.mechanism.name().into(), Value::document(fields))
        });
        user.push("credentials", Value::document(credentials.collect()));
        if let Some(data) = &kept.custom_data {
            user.push("customData", Value::document(data.clone()));
        }
        let roles = kept.roles.iter().map(|role| Value::document(role.document()));
        user.push("roles", Value::array(roles.collect()));
        user
    }

    /// `None` for a document without a name or without a proof that this server can verify, such as a user of certificates or
    /// of removed mechanisms.
    pub fn of(user: &Document, random: &Random) -> Option<SystemUser> {
        let text = |name: &str| user.value(name).as_str().map(str::to_owned);
        let credentials = user.get("credentials")?.as_document()?;
        let proofs = Mechanism::ALL.into_iter().filter_map(|mechanism| {
            let fields = credentials.get(mechanism.name())?.as_document()?;
            let bytes = |name: &str| STANDARD.decode(fields.value(name).as_str()?).ok();
            Some(Proof {
                mechanism,
                salt: bytes("salt")?,
                iterations: u32::try_from(fields.value("iterationCount").to_i64_exact()?).ok()?,
                credential: Credential { stored_key: bytes("storedKey")?, server_key: bytes("serverKey")? },
            })
        });
        let proofs: Vec<Proof> = proofs.collect();
        if proofs.is_empty() {
            return None;
        }
        let id = match user.get("userId") {
            Some(Value::Binary(4, bytes)) => bytes.to_vec().try_into().ok(),
            _ => None,
        };
        let (mut roles, mut lost_roles) = (Vec::new(), Vec::new());
        for role in user.get("roles").and_then(Value::as_array).into_iter().flat_map(|roles| roles.iter()) {
            match Role::parse(role, "") {
                Ok(role) if roles.contains(&role) => {}
                Ok(role) => roles.push(role),
                Err(_) => lost_roles.push(role.to_string()),
            }
        }
        let custom_data =
            user.get("customData").and_then(Value::as_document).map(|data| Document::clone(data));
        let kept = Kept { id: id.unwrap_or_else(|| random.guid().0), roles, proofs, custom_data };
        Some(SystemUser { database: text("db")?, name: text("user")?, kept, lost_roles })
    }
}
