//! Projections that keep the store's denormalised data true, as an application would set them up.

use serde_json::{Value, json};
use shardlake_account::ProjectionRule;

use super::DATABASE;
use super::webstore::{PRODUCT, PRODUCT_META};

/// Creates an order and counts it, both or neither.
pub const PLACE_ORDER: &str = "placeOrder";
pub const PLACE_ORDER_BODY: &str = include_str!("place_order.js");

/// The names of categories and tags that products carry.
pub fn projections() -> Vec<ProjectionRule> {
    [
        rule("category-names", "category", "/categoryId", "/categoryName"),
        rule("tag-names", "tag", "/tags/[]/id", "/tags/[]/name"),
    ]
    .map(|rule| serde_json::from_value(rule).expect("our own rules are valid"))
    .into()
}

fn rule(id: &str, kind: &str, matched: &str, copy: &str) -> Value {
    json!({
        "id": id,
        "source": { "database": DATABASE, "container": PRODUCT_META.id, "filter": { "/type": kind } },
        "target": { "database": DATABASE, "container": PRODUCT.id },
        "match": [{ "source": "/id", "target": matched }],
        "set": [{ "from": "/name", "to": copy }],
    })
}
