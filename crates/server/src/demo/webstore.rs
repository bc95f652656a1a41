//! The generator. Every item has its own random source, made of the seed number and the item's place; so customer 7 is
//! the same customer in a store of ten and in a store of a million, and items can be made in any order.

use serde_json::{Value, json};
use shardlake_stdx::Random;

use super::descriptions::{
    CATEGORIES, CITIES, FIRST_NAMES, LAST_NAMES, PRODUCT_LINES, STREETS, TAGS, TITLES, VARIANTS,
};

const PRODUCTS: u64 = 300;
/// Days from the Unix epoch to 2021-01-01: customers sign up in the four years after.
const FIRST_DAY: u64 = 18_628;
const DAYS: u64 = 4 * 365;

/// A store of a certain size.
#[derive(Debug, Clone, Copy)]
pub struct WebStore {
    pub customers: u64,
    pub seed_number: u64,
}

/// A container of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreContainer {
    pub id: &'static str,
    pub partition_key: &'static str,
}

pub const CUSTOMER: StoreContainer = StoreContainer { id: "customer", partition_key: "/customerId" };
pub const PRODUCT: StoreContainer = StoreContainer { id: "product", partition_key: "/categoryId" };
pub const PRODUCT_META: StoreContainer = StoreContainer { id: "productMeta", partition_key: "/type" };

impl StoreContainer {
    /// The definition for the REST API.
    pub fn definition(self) -> Value {
        json!({ "id": self.id, "partitionKey": { "paths": [self.partition_key], "kind": "Hash", "version": 2 } })
    }
}

/// A customer before its first order, and its orders, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Customer {
    pub document: Value,
    pub orders: Vec<Value>,
}

impl Customer {
    pub fn id(&self) -> &str {
        self.document["id"].as_str().expect("customers are generated with an id")
    }

    /// The customer after its first `count` orders.
    pub fn after_orders(&self, count: usize) -> Value {
        let mut document = self.document.clone();
        document["salesOrderCount"] = json!(count);
        document
    }
}

/// Kinds of items, so that each has numbers of its own.
#[derive(Clone, Copy)]
enum Kind {
    Category = 1,
    Tag,
    Product,
    Customer,
}

impl WebStore {
    fn random(&self, kind: Kind, index: u64) -> Random {
        // One step of the generator mixes the number thoroughly.
        let mixed = Random::seeded(self.seed_number.wrapping_mul(0x1_0001).wrapping_add(kind as u64)).u64();
        Random::seeded(Random::seeded(mixed ^ index).u64())
    }

    /// Categories and tags.
    pub fn product_meta(&self) -> Vec<Value> {
        let categories = (0..CATEGORIES.len())
            .map(|index| meta(&self.category_id(index), CATEGORIES[index].0, "category"));
        let tags = (0..TAGS.len()).map(|index| meta(&self.tag_id(index), TAGS[index], "tag"));
        categories.chain(tags).collect()
    }

    fn category_id(&self, index: usize) -> String {
        identifier(&self.random(Kind::Category, index as u64))
    }

    fn tag_id(&self, index: usize) -> String {
        identifier(&self.random(Kind::Tag, index as u64))
    }

    pub fn products(&self) -> Vec<Value> {
        (0..PRODUCTS).map(|index| self.product(index)).collect()
    }

    fn product(&self, index: u64) -> Value {
        let random = self.random(Kind::Product, index);
        let category = index as usize % CATEGORIES.len();
        let (category_name, code, goods, lowest, highest) = CATEGORIES[category];
        // Every category goes through its goods, then its product lines, so that no two products share a name.
        let place = index as usize / CATEGORIES.len();
        let line = PRODUCT_LINES[place / goods.len() % PRODUCT_LINES.len()];
        let variant = pick(&random, &VARIANTS);
        let name = format!("{line} {}, {variant}", goods[place % goods.len()]);
        let price = cents(lowest * 100 + random.below((highest - lowest) * 100));
        json!({
            "id": identifier(&random),
            "categoryId": self.category_id(category),
            "categoryName": category_name,
            "sku": format!("{code}-{}{:03}-{}", &line[..1], index + 1, &variant[..1]),
            "name": name,
            "description": format!("The product called \"{name}\""),
            "price": price,
            "tags": self.tags_of(&random),
        })
    }

    fn tags_of(&self, random: &Random) -> Vec<Value> {
        let mut chosen: Vec<usize> =
            (0..1 + random.below(5)).map(|_| random.below(TAGS.len() as u64) as usize).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|tag| json!({ "id": self.tag_id(tag), "name": TAGS[tag] })).collect()
    }

    /// `products` come from [`WebStore::products`].
    pub fn customer(&self, index: u64, products: &[Value]) -> Customer {
        let random = self.random(Kind::Customer, index);
        let id = identifier(&random);
        let (first, last) = (pick(&random, &FIRST_NAMES), pick(&random, &LAST_NAMES));
        let signed_up = FIRST_DAY + random.below(DAYS);
        let addresses: Vec<Value> = (0..1 + random.below(2)).map(|_| address(&random)).collect();
        let document = json!({
            "id": id,
            "type": "customer",
            "customerId": id,
            "title": pick(&random, &TITLES),
            "firstName": first,
            "lastName": last,
            "emailAddress": format!("{}.{}.{index}@example.com", ascii(first), ascii(last)),
            "phoneNumber": format!("+1-555-{:03}-{:04}", random.below(1000), random.below(10_000)),
            "creationDate": date(signed_up),
            "addresses": addresses,
            "password": { "hash": text_of_bytes(&random, 32), "salt": text_of_bytes(&random, 8) },
            "salesOrderCount": 0,
        });
        let orders =
            (0..random.below(7)).map(|number| order(&random, &id, signed_up + number * 40, products));
        Customer { document, orders: orders.collect() }
    }
}

fn meta(id: &str, name: &str, kind: &str) -> Value {
    json!({ "id": id, "name": name, "type": kind })
}

fn address(random: &Random) -> Value {
    let (city, state, country, zip, longitude, latitude) = *pick(random, &CITIES);
    let near = |degrees: f64| {
        let near = degrees + random.below(2000) as f64 / 10_000.0 - 0.1;
        number((near * 10_000.0).round() / 10_000.0)
    };
    json!({
        "addressLine1": format!("{} {}", 1 + random.below(900), pick(random, &STREETS)),
        "addressLine2": if random.below(4) == 0 { format!("Apartment {}", 1 + random.below(60)) } else { String::new() },
        "city": city,
        "state": state,
        "country": country,
        "zipCode": format!("{zip}{:02}", random.below(100)),
        "location": { "type": "Point", "coordinates": [near(longitude), near(latitude)] },
    })
}

fn order(random: &Random, customer: &str, earliest: u64, products: &[Value]) -> Value {
    let placed = earliest + random.below(40);
    let details: Vec<Value> = (0..1 + random.below(4))
        .map(|_| {
            let product = pick(random, products);
            json!({
                "sku": product["sku"],
                "name": product["name"],
                "price": product["price"],
                "quantity": 1 + random.below(3),
            })
        })
        .collect();
    json!({
        "id": identifier(random),
        "type": "salesOrder",
        "customerId": customer,
        "orderDate": date(placed),
        "shipDate": date(placed + 1 + random.below(7)),
        "details": details,
    })
}

fn identifier(random: &Random) -> String {
    random.guid().to_string().to_uppercase()
}

fn pick<'a, T>(random: &Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

fn cents(amount: u64) -> Value {
    number(amount as f64 / 100.0)
}

/// As JavaScript writes it: orders go through a script, which knows no difference between 5.0 and 5.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

/// Letters of a name as an e-mail address may hold them.
fn ascii(name: &str) -> String {
    name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect()
}

fn text_of_bytes(random: &Random, count: usize) -> String {
    use base64::Engine as _;
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A day since the Unix epoch as midnight in ISO 8601, by the usual arithmetic of the Gregorian calendar.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T00:00:00")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const STORE: WebStore = WebStore { customers: 20, seed_number: 1 };

    fn ids(items: &[Value]) -> BTreeSet<&str> {
        items.iter().map(|item| item["id"].as_str().expect("an id")).collect()
    }

    #[test]
    fn a_store_is_the_same_at_any_size_and_differs_by_its_number() {
        let products = STORE.products();
        let larger = WebStore { customers: 1_000_000, ..STORE };
        assert_eq!(larger.products(), products);
        assert_eq!(larger.customer(7, &products), STORE.customer(7, &products));
        let other = WebStore { seed_number: 2, ..STORE };
        assert_ne!(other.customer(7, &products), STORE.customer(7, &products));
        assert_ne!(STORE.customer(8, &products), STORE.customer(7, &products));
    }

    #[test]
    fn copies_of_names_agree_with_their_originals() {
        let meta = STORE.product_meta();
        let name_of = |id: &Value| meta.iter().find(|item| item["id"] == *id).expect("known")["name"].clone();
        let products = STORE.products();
        assert_eq!(ids(&meta).len(), meta.len());
        assert_eq!(ids(&products).len(), 300);
        for product in &products {
            assert_eq!(product["categoryName"], name_of(&product["categoryId"]));
            for tag in product["tags"].as_array().expect("an array") {
                assert_eq!(tag["name"], name_of(&tag["id"]));
            }
        }
        let names: BTreeSet<_> = products.iter().map(|product| product["name"].to_string()).collect();
        let skus: BTreeSet<_> = products.iter().map(|product| product["sku"].to_string()).collect();
        assert_eq!((names.len(), skus.len()), (300, 300));
    }

    #[test]
    fn orders_belong_to_their_customer() {
        let products = STORE.products();
        let customers: Vec<Customer> = (0..50).map(|index| STORE.customer(index, &products)).collect();
        assert!(customers.iter().any(|customer| customer.orders.is_empty()));
        assert!(customers.iter().any(|customer| customer.orders.len() > 3));
        for customer in &customers {
            assert_eq!(customer.document["customerId"], customer.id());
            assert!(customer.orders.iter().all(|order| order["customerId"] == customer.id()));
            assert_eq!(ids(&customer.orders).len(), customer.orders.len());
            assert_eq!(customer.after_orders(3)["salesOrderCount"], 3);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (days, text) in
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (18_628, "2021-01-01"), (19_782, "2024-02-29")]
        {
            assert_eq!(date(days), format!("{text}T00:00:00"));
        }
    }
}
