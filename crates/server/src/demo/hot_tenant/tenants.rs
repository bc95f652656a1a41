//! The tenants, their items, and the two keys that the items can be kept under.

use serde_json::{Value, json};
use shardlake_model::KeyComponent;

/// A customer of the application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tenant {
    pub name: &'static str,
    pub users: u64,
    /// Items stored before the traffic begins.
    pub items: u64,
    pub reads_per_second: u64,
    pub writes_per_second: u64,
}

/// A is large: it stores more than one logical partition may hold. D is busy: it requests more than one physical partition
/// may serve. The others are ordinary.
pub const TENANTS: [Tenant; 6] = [
    Tenant { name: "A", users: 100, items: 3_000, reads_per_second: 12, writes_per_second: 2 },
    Tenant { name: "B", users: 20, items: 300, reads_per_second: 12, writes_per_second: 2 },
    Tenant { name: "C", users: 20, items: 200, reads_per_second: 12, writes_per_second: 2 },
    Tenant { name: "D", users: 300, items: 600, reads_per_second: 1_000, writes_per_second: 6 },
    Tenant { name: "E", users: 20, items: 400, reads_per_second: 12, writes_per_second: 2 },
    Tenant { name: "F", users: 20, items: 100, reads_per_second: 12, writes_per_second: 2 },
];

pub const LARGE: &str = "A";
pub const BUSY: &str = "D";

/// Makes an item about as large as an order of a small shop.
const NOTE: &str = "Leave with the neighbour if nobody is at home; the bell does not work, so please knock twice and wait a moment. ";

/// A container of the same items under one of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    ByTenant,
    ByTenantAndUser,
}

impl Design {
    pub fn container(self) -> &'static str {
        match self {
            Design::ByTenant => "by-tenant",
            Design::ByTenantAndUser => "by-tenant-and-user",
        }
    }

    pub fn key_path(self) -> &'static str {
        match self {
            Design::ByTenant => "/tenant",
            Design::ByTenantAndUser => "/tenantUser",
        }
    }

    pub fn definition(self) -> Value {
        let key = json!({ "paths": [self.key_path()], "kind": "Hash", "version": 2 });
        json!({ "id": self.container(), "partitionKey": key })
    }

    pub fn key_of(self, tenant: &Tenant, item: u64) -> KeyComponent {
        KeyComponent::String(match self {
            Design::ByTenant => tenant.name.to_owned(),
            Design::ByTenantAndUser => tenant.user_of(item),
        })
    }
}

impl Tenant {
    /// Items belong to the users in turn.
    fn user_of(&self, item: u64) -> String {
        format!("{}-{}", self.name, item % self.users)
    }

    pub fn item_id(&self, item: u64) -> String {
        format!("{}-{item}", self.name)
    }

    /// With both keys, so that it can be stored under either.
    pub fn item(&self, item: u64, version: u64) -> Vec<u8> {
        json!({
            "id": self.item_id(item),
            "tenant": self.name,
            "tenantUser": self.user_of(item),
            "version": format!("{version:06}"),
            "note": NOTE.repeat(7),
        })
        .to_string()
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_carry_the_values_that_both_keys_name() {
        for tenant in TENANTS {
            let item: Value = serde_json::from_slice(&tenant.item(7, 0)).expect("valid JSON");
            let key = |name: &str| KeyComponent::String(item[name].as_str().expect("text").to_owned());
            assert_eq!(key("tenant"), Design::ByTenant.key_of(&tenant, 7));
            assert_eq!(key("tenantUser"), Design::ByTenantAndUser.key_of(&tenant, 7));
            assert_eq!(item["id"], tenant.item_id(7));
        }
    }
}
