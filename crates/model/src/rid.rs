//! Resource ids: the base64 names that `_rid` and `_self` carry (wire.md §7.5).
//!
//! Big-endian concatenations, base64 with `-` for `/`. The top bit of a container's own number distinguishes
//! it from a user; the top nibble of a sub-resource's last byte distinguishes items, ranges and scripts.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use serde::{Deserialize, Serialize};

/// Number of a physical partition in its account; never used again. Clients do not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionUid(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DatabaseRid(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerRid {
    pub database: DatabaseRid,
    /// Without its top bit.
    pub number: u32,
}

/// `ordinal` is unique in the container: the range's prefix in the high bits, a counter in the low 40.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemRid {
    pub container: ContainerRid,
    pub ordinal: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UserRid {
    pub database: DatabaseRid,
    /// Below 2^31: the top bit belongs to containers.
    pub number: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PermissionRid {
    pub user: UserRid,
    /// Below 2^60.
    pub number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OfferRid(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScriptKind {
    Procedure,
    Trigger,
    Function,
}

/// `number` is unique among the container's scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScriptRid {
    pub container: ContainerRid,
    pub kind: ScriptKind,
    pub number: u64,
}

/// Any resource id as it arrives in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rid {
    Database(DatabaseRid),
    User(UserRid),
    Permission(PermissionRid),
    Container(ContainerRid),
    Item(ItemRid),
    Range { container: ContainerRid, number: u64 },
    Script(ScriptRid),
    Offer(OfferRid),
}

const CONTAINER_BIT: u32 = 0x8000_0000;
const KIND_MASK: u64 = 0xF000_0000_0000_0000;
const KIND_ITEM: u64 = 0;
/// Kind of a user's permissions.
const KIND_PERMISSION: u64 = 0;
const KIND_RANGE: u64 = 0x5000_0000_0000_0000;
const KIND_FUNCTION: u64 = 0x6000_0000_0000_0000;
const KIND_TRIGGER: u64 = 0x7000_0000_0000_0000;
const KIND_PROCEDURE: u64 = 0x8000_0000_0000_0000;

/// Base64 with `-` for `/`.
const TEXT: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD);
const ALPHABET: Alphabet =
    match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-") {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters are an alphabet"),
    };

fn encode(bytes: &[u8]) -> String {
    TEXT.encode(bytes)
}

impl ItemRid {
    /// The id alone in the form of [`fmt::Display`], without the formatter's overhead: every returned item
    /// has it twice.
    pub fn text(&self) -> String {
        self.container.child(self.ordinal, KIND_ITEM)
    }
}

impl DatabaseRid {
    pub fn parse(text: &str) -> Option<Self> {
        // Most names are ruled out at once: the rid of a database has four bytes.
        if text.len() > 8 || !text.ends_with('=') {
            return None;
        }
        match Rid::parse(text) {
            Some(Rid::Database(rid)) => Some(rid),
            _ => None,
        }
    }
}

impl ContainerRid {
    fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.database.0.to_be_bytes());
        bytes[4..].copy_from_slice(&(self.number | CONTAINER_BIT).to_be_bytes());
        bytes
    }

    pub fn parse(text: &str) -> Option<Self> {
        match Rid::parse(text) {
            Some(Rid::Container(rid)) => Some(rid),
            _ => None,
        }
    }

    /// The rid of one of this container's partition key ranges.
    pub fn range(self, number: u64) -> String {
        self.child(number, KIND_RANGE)
    }

    fn child(self, number: u64, kind: u64) -> String {
        child(self.bytes(), number, kind)
    }
}

impl UserRid {
    fn bytes(self) -> [u8; 8] {
        assert_eq!(self.number & CONTAINER_BIT, 0, "a user's number fits in 31 bits");
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.database.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }
}

impl PermissionRid {
    pub fn parse(text: &str) -> Option<Self> {
        match Rid::parse(text) {
            Some(Rid::Permission(rid)) => Some(rid),
            _ => None,
        }
    }
}

fn child(parent: [u8; 8], number: u64, kind: u64) -> String {
    assert_eq!(number & KIND_MASK, 0, "a sub-resource number fits in 60 bits");
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&parent);
    bytes[8..].copy_from_slice(&(number | kind).to_le_bytes());
    encode(&bytes)
}

impl fmt::Display for DatabaseRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0.to_be_bytes()))
    }
}

impl fmt::Display for ContainerRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.bytes()))
    }
}

impl fmt::Display for UserRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.bytes()))
    }
}

impl fmt::Display for PermissionRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&child(self.user.bytes(), self.number, KIND_PERMISSION))
    }
}

impl fmt::Display for ItemRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for ScriptRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ScriptKind::Procedure => KIND_PROCEDURE,
            ScriptKind::Trigger => KIND_TRIGGER,
            ScriptKind::Function => KIND_FUNCTION,
        };
        f.write_str(&self.container.child(self.number, kind))
    }
}

impl fmt::Display for OfferRid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Three bytes make four characters without padding, the length the reference uses.
        f.write_str(&encode(&self.0.to_be_bytes()[1..]))
    }
}

impl OfferRid {
    /// Offer signatures use the lower-cased id, so lookups ignore case; numbers are handed out so that no two collide.
    pub fn same_text(self, text: &str) -> bool {
        self.to_string().eq_ignore_ascii_case(text)
    }
}

impl Rid {
    pub fn parse(text: &str) -> Option<Rid> {
        // Longest is 16 bytes, 24 characters.
        if text.len() > 24 {
            return None;
        }
        let bytes = STANDARD.decode(text.replace('-', "/")).ok()?;
        let u32_at = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        match bytes.len() {
            3 => Some(Rid::Offer(OfferRid(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])))),
            4 => Some(Rid::Database(DatabaseRid(u32_at(0)))),
            8 | 16 => {
                let (database, own) = (DatabaseRid(u32_at(0)), u32_at(4));
                let number = bytes.get(8..).and_then(|rest| rest.try_into().ok()).map(u64::from_le_bytes);
                if own & CONTAINER_BIT == 0 {
                    let user = UserRid { database, number: own };
                    return match number {
                        None => Some(Rid::User(user)),
                        Some(number) if number & KIND_MASK == KIND_PERMISSION => {
                            Some(Rid::Permission(PermissionRid { user, number }))
                        }
                        Some(_) => None,
                    };
                }
                let container = ContainerRid { database, number: own & !CONTAINER_BIT };
                let Some(number) = number else { return Some(Rid::Container(container)) };
                let script =
                    |kind| Some(Rid::Script(ScriptRid { container, kind, number: number & !KIND_MASK }));
                match number & KIND_MASK {
                    KIND_FUNCTION => script(ScriptKind::Function),
                    KIND_TRIGGER => script(ScriptKind::Trigger),
                    KIND_PROCEDURE => script(ScriptKind::Procedure),
                    KIND_ITEM => Some(Rid::Item(ItemRid { container, ordinal: number })),
                    KIND_RANGE => Some(Rid::Range { container, number: number & !KIND_MASK }),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTAINER: ContainerRid = ContainerRid { database: DatabaseRid(1), number: 1 };

    #[test]
    fn the_documented_examples_come_out() {
        assert_eq!(DatabaseRid(1).to_string(), "AAAAAQ==");
        assert_eq!(CONTAINER.to_string(), "AAAAAYAAAAE=");
        assert_eq!(ItemRid { container: CONTAINER, ordinal: 1 }.to_string(), "AAAAAYAAAAEBAAAAAAAAAA==");
        assert_eq!(CONTAINER.range(0), "AAAAAYAAAAEAAAAAAAAAUA==");
        let procedure = ScriptRid { container: CONTAINER, kind: ScriptKind::Procedure, number: 1 };
        assert_eq!(procedure.to_string(), "AAAAAYAAAAEBAAAAAAAAgA==");
        assert_eq!(OfferRid(7).to_string().len(), 4);
        let user = UserRid { database: DatabaseRid(1), number: 1 };
        assert_eq!(user.to_string(), "AAAAAQAAAAE=");
        assert_eq!(PermissionRid { user, number: 1 }.to_string(), "AAAAAQAAAAEBAAAAAAAAAA==");
    }

    #[test]
    fn every_kind_survives_its_text_form() {
        assert_eq!(Rid::parse("AAAAAQ=="), Some(Rid::Database(DatabaseRid(1))));
        assert_eq!(Rid::parse(&CONTAINER.to_string()), Some(Rid::Container(CONTAINER)));
        let item = ItemRid { container: CONTAINER, ordinal: 0x00ff_ffff_ffff_ffff };
        assert_eq!(Rid::parse(&item.to_string()), Some(Rid::Item(item)));
        assert_eq!(Rid::parse(&CONTAINER.range(9)), Some(Rid::Range { container: CONTAINER, number: 9 }));
        let user = UserRid { database: DatabaseRid(7), number: 0x7fff_ffff };
        assert_eq!(Rid::parse(&user.to_string()), Some(Rid::User(user)));
        let permission = PermissionRid { user, number: (1 << 60) - 1 };
        assert_eq!(Rid::parse(&permission.to_string()), Some(Rid::Permission(permission)));
        for kind in [ScriptKind::Procedure, ScriptKind::Trigger, ScriptKind::Function] {
            let script = ScriptRid { container: CONTAINER, kind, number: 0x0fff_ffff_ffff_ffff };
            assert_eq!(Rid::parse(&script.to_string()), Some(Rid::Script(script)), "{kind:?}");
        }
        assert_eq!(Rid::parse(&OfferRid(70_000).to_string()), Some(Rid::Offer(OfferRid(70_000))));
        for other in ["", "database", "AAAAAQ=", "not base64", "AAAAAQAAAAE="] {
            assert!(!matches!(Rid::parse(other), Some(Rid::Database(_) | Rid::Container(_))), "{other}");
        }
    }
}
