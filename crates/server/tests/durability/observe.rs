//! Reads back everything that one client owns, by feeds, queries and point reads that have to
//! agree.

use crate::model::{Container, Database, Key, Place, State, Stored};
use crate::requests::{definition_of, number_in, path_of, stored_of, tag_of};
use serde_json::{Value, json};
use shardlake_testkit::{Client, database_path, items_path};
use std::collections::{BTreeMap, BTreeSet};

/// These databases and all that is in them.
pub fn databases(client: &Client, names: &[String]) -> State {
    let offers = offers(client);
    let mut state = State::default();
    for found in all_pages(client, "/dbs", &[], "Databases") {
        let name = text(&found, "id");
        if names.contains(&name) {
            let throughput = offers.get(&text(&found, "_rid")).copied();
            let database = Database {
                throughput,
                containers: containers(client, &name, &offers),
                users: users(client, &name),
            };
            let twice = state.databases.insert(name.clone(), database);
            assert!(twice.is_none(), "there are two databases '{name}'");
        }
    }
    state
}

/// One logical partition of a container that has been there all the time.
pub fn logical_partition(client: &Client, at: &Place, partition: &str) -> State {
    let container = client.read_container(&at.database, &at.container).expect_status(200).json();
    let key = json!([partition]).to_string();
    let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
    let container = Container {
        tag: tag_of(&container),
        definition: definition_of(&container),
        items: items(client, at, &headers),
        ..Container::default()
    };
    let containers = BTreeMap::from([(at.container.clone(), container)]);
    let database = Database { containers, ..Database::default() };
    State { databases: BTreeMap::from([(at.database.clone(), database)]) }
}

fn containers(
    client: &Client,
    database: &str,
    offers: &BTreeMap<String, u64>,
) -> BTreeMap<String, Container> {
    let path = format!("{}/colls", database_path(database));
    let mut containers = BTreeMap::new();
    for found in all_pages(client, &path, &[], "DocumentCollections") {
        let at = Place { database: database.to_owned(), container: text(&found, "id") };
        let throughput = offers.get(&text(&found, "_rid")).copied().unwrap_or(0);
        let (tag, definition) = (tag_of(&found), definition_of(&found));
        let path = items_path(&at.database, &at.container);
        let is_out_of_service = client.get(&path, &[]).status == 404;
        if is_out_of_service {
            let container =
                Container { tag, definition, throughput, is_out_of_service, ..Container::default() };
            containers.insert(at.container, container);
            continue;
        }
        let scripts = all_pages(client, &format!("{}/sprocs", path_of(&at)), &[], "StoredProcedures");
        let container = Container {
            tag,
            definition,
            throughput,
            is_out_of_service,
            scripts: scripts.iter().map(|script| (text(script, "id"), number_in(&script["body"]))).collect(),
            items: items(client, &at, &[]),
        };
        let twice = containers.insert(at.container.clone(), container);
        assert!(twice.is_none(), "there are two containers {at:?}");
    }
    containers
}

fn users(client: &Client, database: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    let path = format!("{}/users", database_path(database));
    let users = all_pages(client, &path, &[], "Users");
    let of_user = |user: &Value| {
        let name = text(user, "id");
        let permissions = all_pages(client, &format!("{path}/{name}/permissions"), &[], "Permissions");
        let tags = permissions.iter().map(|permission| {
            let resource = text(permission, "resource");
            let tag = resource.rsplit('/').next().and_then(|tag| tag.parse().ok());
            (text(permission, "id"), tag.unwrap_or_else(|| panic!("no tag in {resource}")))
        });
        (name, tags.collect())
    };
    users.iter().map(of_user).collect()
}

/// Throughput by the rid of the resource.
fn offers(client: &Client) -> BTreeMap<String, u64> {
    let mut offers = BTreeMap::new();
    for offer in all_pages(client, "/offers", &[], "Offers") {
        let units = offer["content"]["offerThroughput"].as_u64().expect("a number");
        let twice = offers.insert(text(&offer, "offerResourceId"), units);
        assert!(twice.is_none(), "two offers for one resource: {offer}");
    }
    offers
}

/// A database that no client made, or an offer whose resource is deleted.
pub fn strays(client: &Client, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let mut rids = BTreeSet::new();
    for database in all_pages(client, "/dbs", &[], "Databases") {
        let name = text(&database, "id");
        if !is_known(&name) {
            return Some(format!("nobody made the database '{name}'"));
        }
        rids.insert(text(&database, "_rid"));
        let path = format!("{}/colls", database_path(&name));
        let containers = all_pages(client, &path, &[], "DocumentCollections");
        rids.extend(containers.iter().map(|container| text(container, "_rid")));
    }
    let stray = offers(client).into_keys().find(|rid| !rids.contains(rid));
    stray.map(|rid| format!("an offer is for resource '{rid}', which is not there"))
}

/// The feed, which reads items, and a query, which reads the index, have to show the same.
fn items(client: &Client, at: &Place, headers: &[(&str, &str)]) -> BTreeMap<Key, Stored> {
    let path = items_path(&at.database, &at.container);
    let feed = all_pages(client, &path, headers, "Documents");
    let items: BTreeMap<Key, Stored> = feed.iter().map(stored_of).collect();
    assert_eq!(items.len(), feed.len(), "the feed of {at:?} has an item twice");
    let found: BTreeMap<Key, Stored> = query(client, &path, headers).iter().map(stored_of).collect();
    assert_eq!(found, items, "the query of {at:?} and its feed differ");
    for (key, stored) in items.iter().take(3) {
        let partition = json!([key.partition]);
        let read = client.read_item(&at.database, &at.container, &partition, &key.id).expect_status(200);
        assert_eq!(stored_of(&read.json()), (key.clone(), *stored), "a read of {at:?} and its feed differ");
    }
    items
}

fn query(client: &Client, path: &str, headers: &[(&str, &str)]) -> Vec<Value> {
    let body = json!({ "query": "SELECT * FROM c WHERE c.version >= 0", "parameters": [] });
    let mut all = headers.to_vec();
    all.extend([
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-isquery", "True"),
        ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ]);
    pages("Documents", |continuation| client.post_json(path, &with(&all, continuation), &body))
}

fn all_pages(client: &Client, path: &str, headers: &[(&str, &str)], member: &str) -> Vec<Value> {
    pages(member, |continuation| client.get(path, &with(headers, continuation)))
}

fn pages(member: &str, mut read: impl FnMut(&Option<String>) -> shardlake_testkit::Response) -> Vec<Value> {
    let (mut rows, mut continuation) = (Vec::new(), None);
    loop {
        let page = read(&continuation);
        continuation = page.header("x-ms-continuation").filter(|token| !token.is_empty()).map(str::to_owned);
        let mut body = page.expect_status(200).json();
        rows.append(body[member].as_array_mut().unwrap_or_else(|| panic!("no '{member}'")));
        if continuation.is_none() {
            return rows;
        }
    }
}

fn with<'h>(headers: &[(&'h str, &'h str)], continuation: &'h Option<String>) -> Vec<(&'h str, &'h str)> {
    let mut all = headers.to_vec();
    all.push(("x-ms-max-item-count", "1000"));
    if let Some(token) = continuation {
        all.push(("x-ms-continuation", token));
    }
    all
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no '{name}' in {value}")).to_owned()
}
