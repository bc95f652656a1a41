//! Rows of definitions by example; refusals; rows of random items compared with the query over them.

use shardlake_document::{Body, Envelope, ItemView, ParseLimits, Value, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid, KeyComponent, PartitionKey};
use shardlake_stdx::{Guid, HybridTime};

use super::*;

const ENVELOPE: Envelope = Envelope {
    lsn: 7,
    time: HybridTime::from_seconds(1_700_000_000),
    region: 0,
    etag: Guid([7; 16]),
    ordinal: 3,
    ttl_seconds: None,
    json_size_bytes: 0,
    is_altered: false,
};

fn view(body: &Body) -> ItemView<'_> {
    ItemView {
        body: body.raw(),
        envelope: &ENVELOPE,
        container: ContainerRid { database: DatabaseRid(1), number: 2 },
        items_link: "dbs/a/colls/b/docs/",
    }
}

fn key() -> PartitionKey {
    PartitionKey::single(KeyComponent::String("k".into()))
}

fn rows(definition: &str, item: &str) -> Result<Vec<String>, RowError> {
    let derivation = derive(definition, &DeriveSource::default(), Dialect::Shardlake).expect(definition);
    let item = parse_document(item.as_bytes(), &ParseLimits::default()).expect("an item");
    let rows = derivation.rows(&view(&item), &key())?;
    let text = |row: &DerivedRow| Value::from_document(row.body.raw()).to_json().expect("finite");
    Ok(rows.iter().map(text).collect())
}

#[test]
fn rows_have_their_own_id_and_that_of_their_item() {
    let all = rows("SELECT c.email FROM c", r#"{"id":"1"}"#).expect("a row");
    assert_eq!(all, [r#"{"id":"f3L3LE-HOZONUs3uLpJtsg","_id":"1"}"#]);
    let all =
        rows("SELECT c.id, i.sku FROM c JOIN i IN c.items", r#"{"id":"1","items":[{"sku":1},{"sku":2}]}"#);
    assert_eq!(
        all.expect("rows"),
        [
            r#"{"id":"f3L3LE-HOZONUs3uLpJtsg.0","_id":"1","sku":1}"#,
            r#"{"id":"f3L3LE-HOZONUs3uLpJtsg.1","_id":"1","sku":2}"#
        ]
    );
    let all = rows("SELECT * FROM c", r#"{"id":"1","_id":5,"$_id":6,"a":[1]}"#).expect("a row");
    assert_eq!(all, [r#"{"id":"f3L3LE-HOZONUs3uLpJtsg","_id":"1","$_id":5,"a":[1]}"#]);
}
