//! Rules of the language that are easy to get almost right: the element of the positional `$`, points at the edge of shapes,
//! variables of `$merge`, positions of parts of strings.

use bson::{Bson, doc};
use shardlake_mql::{Document, Value};

use crate::client::{Client, Server, of};

async fn run(client: &mut Client, command: bson::Document) -> Document {
    client.ok("d", of(&command)).await
}

async fn fails(client: &mut Client, command: bson::Document) -> i32 {
    client.fails("d", of(&command)).await
}

async fn filled(documents: &[bson::Document]) -> (Server, Client) {
    let server = Server::start().await;
    let mut client = server.connect();
    run(&mut client, doc! { "insert": "c", "documents": documents }).await;
    (server, client)
}

async fn found(client: &mut Client, collection: &str, filter: bson::Document) -> Vec<Document> {
    let reply = run(client, doc! { "find": collection, "filter": filter, "sort": { "_id": 1 } }).await;
    batch_of(&reply)
}

fn batch_of(reply: &Document) -> Vec<Document> {
    let cursor = reply.value("cursor").as_document().cloned().expect("a cursor");
    let batch = cursor.value("firstBatch");
    let documents = batch.as_array().expect("a batch").iter();
    documents.map(|document| Document::clone(document.as_document().expect("a document"))).collect()
}

/// Compares answers with expected documents, byte for byte.
fn assert_are(found: &[Document], wanted: &[bson::Document], of_what: &dyn std::fmt::Display) {
    let shown = |document: &Document| Value::from(document.clone()).to_string();
    let wanted: Vec<Document> = wanted.iter().map(of).collect();
    let bytes = |documents: &[Document]| documents.iter().map(Document::to_bytes).collect::<Vec<_>>();
    assert_eq!(
        bytes(found),
        bytes(&wanted),
        "{of_what}: {:?} instead of {:?}",
        found.iter().map(shown).collect::<Vec<_>>(),
        wanted.iter().map(shown).collect::<Vec<_>>()
    );
}

fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.value("_id").to_i32_exact().expect("a number")).collect()
}

async fn result(client: &mut Client, expression: impl Into<Bson>) -> Document {
    let stages = [doc! { "$documents": [{}] }, doc! { "$project": { "r": expression.into() } }];
    batch_of(&run(client, doc! { "aggregate": 1, "pipeline": stages.as_slice(), "cursor": {} }).await)
        .swap_remove(0)
}

#[tokio::test]
async fn of_several_conditions_on_an_array_the_last_kind_tells_the_positional_element() {
    // `$lt` is evaluated before `$gt`, in whichever order they are written, and the last match counts.
    for filter in [
        doc! { "a": { "$gt": 80, "$lt": 90 } },
        doc! { "a": { "$lt": 90, "$gt": 80 } },
        doc! { "$and": [{ "a": { "$gt": 80 } }, { "a": { "$lt": 90 } }] },
    ] {
        let (_server, mut client) = filled(&[doc! { "_id": 1, "a": [70, 95] }]).await;
        let find = doc! { "find": "c", "filter": &filter, "projection": { "a.$": 1 } };
        let projected = batch_of(&run(&mut client, find).await);
        assert_are(&projected, &[doc! { "_id": 1, "a": [95] }], &filter);
        let update = doc! { "q": &filter, "u": { "$set": { "a.$": 0 } } };
        run(&mut client, doc! { "update": "c", "updates": [update] }).await;
        let updated = found(&mut client, "c", doc! {}).await;
        assert_are(&updated, &[doc! { "_id": 1, "a": [70, 0] }], &filter);
    }
}

#[tokio::test]
async fn polygons_in_a_plane_cross_an_odd_number_of_sides_and_hold_points_alone() {
    let line = doc! { "type": "LineString", "coordinates": [[1, 1], [5, 5]] };
    let (_server, mut client) = filled(&[
        doc! { "_id": 1, "loc": [2, 2] },
        doc! { "_id": 2, "loc": [8, 8] },
        doc! { "_id": 3, "loc": [5, 1] },
        doc! { "_id": 4, "loc": line },
        doc! { "_id": 5, "loc": { "type": "Point", "coordinates": [5, 2] } },
    ])
    .await;
    let within = |shape: bson::Document| doc! { "loc": { "$geoWithin": shape } };
    let triangle = within(doc! { "$polygon": [[0, 0], [10, 10], [10, 0]] });
    assert_eq!(ids(&found(&mut client, "c", triangle).await), [3, 5], "the long side is outside");
    let tent = within(doc! { "$polygon": [[2, 0], [2, 2], [8, 2], [8, 0]] });
    assert_eq!(ids(&found(&mut client, "c", tent).await), [1, 3, 5], "a corner, and a level side");
    let bow = within(doc! { "$polygon": [[0, 0], [10, 10], [10, 0], [0, 10]] });
    assert_eq!(ids(&found(&mut client, "c", bow).await), [1], "where the sides cross twice is outside");
    let square = within(doc! { "$box": [[0, 0], [8, 8]] });
    assert_eq!(ids(&found(&mut client, "c", square).await), [1, 2, 3, 5], "no line, and the corner");
    for shape in
        [doc! { "$box": [[0, 0], [f64::INFINITY, 1]] }, doc! { "$polygon": [[f64::NAN, 0], [1, 1], [2, 0]] }]
    {
        assert_eq!(
            fails(&mut client, doc! { "find": "c", "filter": within(shape.clone()) }).await,
            2,
            "{shape}"
        );
    }
}

#[tokio::test]
async fn a_polygon_with_strict_winding_order_may_be_larger_than_half_of_the_sphere() {
    let point =
        |id: i32, x: f64, y: f64| doc! { "_id": id, "loc": { "type": "Point", "coordinates": [x, y] } };
    let (_server, mut client) = filled(&[point(1, 0.0, 0.0), point(2, 50.0, 50.0)]).await;
    let polygon = |ring: Bson, crs: Option<&str>| {
        let mut polygon = doc! { "type": "Polygon", "coordinates": [ring] };
        if let Some(name) = crs {
            polygon.insert("crs", doc! { "type": "name", "properties": { "name": name } });
        }
        polygon
    };
    const STRICT: Option<&str> = Some("urn:x-mongodb:crs:strictwinding:EPSG:4326");
    let clockwise = bson::bson!([[-10, -10], [-10, 10], [10, 10], [10, -10], [-10, -10]]);
    let against = bson::bson!([[-10, -10], [10, -10], [10, 10], [-10, 10], [-10, -10]]);
    for (operator, ring, crs, expected) in [
        ("$geoWithin", &clockwise, None, vec![1]),
        ("$geoWithin", &against, None, vec![1]),
        ("$geoWithin", &against, STRICT, vec![1]),
        ("$geoWithin", &clockwise, STRICT, vec![2]),
        ("$geoIntersects", &clockwise, STRICT, vec![2]),
        ("$geoIntersects", &against, STRICT, vec![1]),
    ] {
        let filter = doc! { "loc": { operator: { "$geometry": polygon(ring.clone(), crs) } } };
        for is_indexed in [false, true] {
            if is_indexed {
                let index = doc! { "key": { "loc": "2dsphere" }, "name": "i" };
                run(&mut client, doc! { "createIndexes": "c", "indexes": [index] }).await;
            }
            assert_eq!(ids(&found(&mut client, "c", filter.clone()).await), expected, "{filter}");
        }
    }
    let crossing = bson::bson!([[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]);
    for filter in [
        doc! { "loc": { "$geoIntersects": { "$geometry": polygon(crossing, None) } } },
        doc! { "loc": { "$geoIntersects": { "$geometry": { "x": 0, "y": 0, "z": 9 } } } },
        doc! { "loc": { "$geoWithin": { "$geometry": polygon(against, None) }, "$exists": true } },
    ] {
        assert_eq!(fails(&mut client, doc! { "find": "c", "filter": filter.clone() }).await, 2, "{filter}");
    }
}

#[tokio::test]
async fn merge_knows_the_variables_of_its_command_and_documents_without_the_field() {
    let (_server, mut client) = filled(&[doc! { "_id": 1, "a": 10 }, doc! { "_id": 2, "key": "k" }]).await;
    run(&mut client, doc! { "insert": "t", "documents": [{ "_id": 1, "x": 99 }] }).await;
    let merge = |stage: bson::Document, id: i32| {
        let stages = [doc! { "$match": { "_id": id } }, doc! { "$merge": stage }];
        doc! { "aggregate": "c", "pipeline": stages.as_slice(), "cursor": {}, "let": { "outer": "told" } }
    };
    let pipeline = [doc! { "$set": { "got": "$$own" } }];
    let own = |value: &str| {
        doc! { "into": "t", "whenMatched": pipeline.as_slice(), "let": { "own": value } }
    };
    run(&mut client, merge(own("$$outer"), 1)).await;
    let told = [doc! { "_id": 1, "x": 99, "got": "told" }];
    assert_are(&found(&mut client, "t", doc! {}).await, &told, &"a variable of the command");
    assert_eq!(fails(&mut client, merge(own("$nowhere"), 1)).await, 17276, "a variable without a value");
    run(&mut client, merge(doc! { "into": "t", "let": Bson::Null }, 1)).await;
    let merged = doc! { "_id": 1, "x": 99, "got": "told", "a": 10 };
    assert_are(&found(&mut client, "t", doc! {}).await, &[merged], &"no variables");

    // Replaces by a field of a unique index that some documents lack.
    for (collection, is_sparse) in [("u", false), ("s", true)] {
        let index = doc! { "key": { "key": 1 }, "name": "i", "unique": true, "sparse": is_sparse };
        run(&mut client, doc! { "createIndexes": collection, "indexes": [index] }).await;
        run(&mut client, doc! { "insert": collection, "documents": [{ "_id": 1, "key": Bson::Null }] }).await;
        let by_key = doc! { "into": collection, "on": "key" };
        match is_sparse {
            true => assert_eq!(fails(&mut client, merge(by_key, 1)).await, 51132),
            false => {
                run(&mut client, merge(by_key.clone(), 1)).await;
                let merged = doc! { "_id": 1, "key": Bson::Null, "a": 10 };
                assert_are(&found(&mut client, collection, doc! {}).await, &[merged], &"without the field");
                run(&mut client, merge(by_key, 2)).await;
                assert_eq!(ids(&found(&mut client, collection, doc! { "key": "k" }).await), [2]);
            }
        }
    }
}

#[tokio::test]
async fn expressions_follow_the_reference_where_it_is_odd() {
    let server = Server::start().await;
    let mut client = server.connect();
    let cases: Vec<(Bson, Bson)> = vec![
        (doc! { "$indexOfCP": ["hello", "llo", 0, 4] }.into(), 2.into()),
        (doc! { "$indexOfCP": ["hello", "llo", 0, 2] }.into(), (-1).into()),
        (doc! { "$indexOfCP": ["", ""] }.into(), 0.into()),
        (doc! { "$indexOfCP": ["abc", "", 3] }.into(), (-1).into()),
        (
            doc! { "$toUpper": Bson::Timestamp(bson::Timestamp { time: 1_707_000_000, increment: 7 }) }
                .into(),
            "FEB  3 22:40:00:7".into(),
        ),
        (
            doc! { "$dateToString": { "date": { "$toDate": 0_i64 }, "format": "%Z", "timezone": "+04:30" } }
                .into(),
            "270".into(),
        ),
        (
            doc! { "$toLong": { "$dateFromString": { "dateString": "2024 167", "format": "%Y %j" } } }.into(),
            1_718_496_000_000_i64.into(),
        ),
    ];
    for (expression, expected) in cases {
        let shown = expression.to_string();
        assert_are(&[result(&mut client, expression).await], &[doc! { "r": expected }], &shown);
    }
    for size in [1_i64 << 40, i64::MAX] {
        let filter = doc! { "a": { "$size": size } };
        assert_eq!(fails(&mut client, doc! { "find": "c", "filter": filter }).await, 2);
    }
}
