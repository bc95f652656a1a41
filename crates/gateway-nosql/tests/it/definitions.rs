//! Rules of containers' definitions: between two policies, of policies for searches, and how many share a throughput.

use serde_json::{Value, json};

use crate::harness::{Answer, Server};

async fn with_database() -> Server {
    let server = Server::start().await;
    server.post("/dbs").json(json!({ "id": "db" })).send().await.expect(201);
    server
}

fn definition(id: &str, members: Value) -> Value {
    let mut definition =
        json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    for (name, value) in members.as_object().expect("an object") {
        definition[name] = value.clone();
    }
    definition
}

async fn create(server: &Server, id: &str, members: Value) -> Answer {
    server.post("/dbs/db/colls").json(definition(id, members)).send().await
}

async fn replace(server: &Server, id: &str, members: Value) -> Answer {
    server.put(format!("/dbs/db/colls/{id}")).json(definition(id, members)).send().await
}

#[tokio::test]
async fn a_time_to_live_and_the_indexing_mode_none_exclude_each_other() {
    let server = with_database().await;
    let none = json!({ "indexingMode": "none", "automatic": false });
    for ttl in [-1, 60] {
        let both = json!({ "defaultTtl": ttl, "indexingPolicy": none });
        create(&server, "both", both.clone()).await.refused(400, 0, "a time to live needs an index");
        for (id, before) in
            [("ttl", json!({ "defaultTtl": ttl })), ("none", json!({ "indexingPolicy": none }))]
        {
            let id = format!("{id}{ttl}");
            create(&server, &id, before).await.expect(201);
            replace(&server, &id, both.clone()).await.refused(400, 0, "a time to live needs an index");
        }
    }
    let empty = json!({ "includedPaths": [], "excludedPaths": [{ "path": "/*" }] });
    create(&server, "empty", json!({ "defaultTtl": 60, "indexingPolicy": empty })).await.expect(201);
    let consistent = json!({ "defaultTtl": 60, "indexingPolicy": { "indexingMode": "consistent" } });
    replace(&server, "none60", consistent).await.expect(200);
}

#[tokio::test]
async fn a_spatial_index_has_types() {
    let server = with_database().await;
    let indexed = |spatial: Value| json!({ "indexingPolicy": { "spatialIndexes": [spatial] } });
    for spatial in [json!({ "path": "/at/*" }), json!({ "path": "/at/*", "types": [] })] {
        create(&server, "c", indexed(spatial)).await.refused(400, 0, "has no types");
    }
    create(&server, "c", indexed(json!({ "path": "/at/*", "types": ["Point"] }))).await.expect(201);
}

#[tokio::test]
async fn twenty_five_containers_share_the_throughput_of_a_database() {
    let server = Server::start().await;
    for (database, name, value) in [
        ("manual", "x-ms-offer-throughput", "400"),
        ("scaled", "x-ms-cosmos-offer-autopilot-settings", r#"{"maxThroughput":4000}"#),
    ] {
        server.post("/dbs").json(json!({ "id": database })).header(name, value).send().await.expect(201);
        let create = |id: &str| server.post(format!("/dbs/{database}/colls")).json(definition(id, json!({})));
        let own = |id: &str| create(id).header("x-ms-offer-throughput", "400");
        own("own").send().await.expect(201);
        for number in 0..25 {
            create(&format!("c{number}")).send().await.expect(201);
        }
        create("c25").send().await.refused(
            403,
            1019,
            "Collection create forbidden as collection count in database offer has exceeded 25.",
        );
        own("other").send().await.expect(201);
        server.delete(format!("/dbs/{database}/colls/c0")).send().await.expect(204);
        create("c25").send().await.expect(201);
    }
}

fn embedded(embeddings: Value, indexes: Value) -> Value {
    json!({
        "vectorEmbeddingPolicy": { "vectorEmbeddings": embeddings },
        "indexingPolicy": { "vectorIndexes": indexes },
    })
}

fn embedding(changes: Value) -> Value {
    let mut embedding =
        json!({ "path": "/v", "dataType": "float32", "dimensions": 600, "distanceFunction": "cosine" });
    for (name, value) in changes.as_object().expect("an object") {
        embedding[name] = value.clone();
    }
    embedding
}

#[tokio::test]
async fn vector_policies_are_kept_or_refused_in_the_services_words() {
    let server = with_database().await;
    let index = json!({ "path": "/v", "type": "diskANN", "quantizerType": "spherical", "quantizationByteSize": 512,
        "indexingSearchListSize": 50, "vectorIndexShardKey": ["/city"] });
    let whole = embedded(json!([embedding(json!({}))]), json!([index]));
    let made = create(&server, "whole", whole.clone()).await.expect(201).json();
    assert_eq!(made["vectorEmbeddingPolicy"], whole["vectorEmbeddingPolicy"]);
    assert_eq!(made["indexingPolicy"]["vectorIndexes"], json!([index]));
    for (change, words) in [
        (json!({ "path": "v" }), "has an invalid Path:v."),
        (json!({ "path": "/v/" }), "has an invalid Path:/v/."),
        (json!({ "path": "/a/[]/v" }), "has an invalid Path:/a/[]/v."),
        (json!({ "path": "/*" }), "has an invalid Path:/*."),
        (json!({ "dataType": "float33" }), "has an invalid DataType:float33. Learn more"),
        (
            json!({ "distanceFunction": "X" }),
            "has an invalid DistanceFunction:X. Supported values for DistanceFunction are: 'Euclidean', 'Cosine', and 'DotProduct'.",
        ),
        (json!({ "dimensions": 8000 }), "has Dimensions:8000 which is more than the maximum supported value"),
        (json!({ "dimensions": -1 }), "The Vector Embedding Policy has Dimensions:-1"),
        (json!({ "dimensions": "many" }), "The Vector Embedding Policy has an invalid payload."),
    ] {
        let refused = create(&server, "c", embedded(json!([embedding(change)]), json!([]))).await;
        refused.refused(400, 0, words);
    }
    for missing in ["path", "dataType", "dimensions", "distanceFunction"] {
        let mut incomplete = embedding(json!({}));
        incomplete.as_object_mut().expect("an object").remove(missing);
        let refused = create(&server, "c", embedded(json!([incomplete]), json!([]))).await;
        refused.refused(400, 0, "At least one mandatory field in the Vector Embedding Policy is invalid.");
    }
    for policy in [json!({}), json!({ "vectorEmbeddings": 1 })] {
        let refused = create(&server, "c", json!({ "vectorEmbeddingPolicy": policy })).await;
        refused.refused(400, 0, "The Vector Embedding Policy has an invalid payload.");
    }
}

#[tokio::test]
async fn vector_indexes_fit_their_embeddings() {
    let server = with_database().await;
    let with = |dimensions: u64, index: Value| {
        embedded(json!([embedding(json!({ "dimensions": dimensions }))]), json!([index]))
    };
    create(&server, "flat", with(505, json!({ "path": "/v", "type": "flat" }))).await.expect(201);
    create(&server, "quantized", with(600, json!({ "path": "/v", "type": "quantizedFlat" })))
        .await
        .expect(201);
    for (dimensions, index, words) in [
        (600, json!({ "path": "/v", "type": "flat" }), "at most 505 dimensions"),
        (3, json!({ "path": "/w", "type": "flat" }), "path::/w not matching in Embedding's path."),
        (3, json!({ "path": "/v", "type": "notFlat" }), "Index Type::notFlat is invalid"),
        (3, json!({ "path": "/v", "type": "flat", "quantizerType": "bogus" }), "QuantizerType::bogus"),
        (
            256,
            json!({ "path": "/v", "type": "quantizedFlat", "quantizationByteSize": 0 }),
            "QuantizationByteSize value :: 0 is out of range. The allowed range is between 1 and 256.",
        ),
        (
            550,
            json!({ "path": "/v", "type": "quantizedFlat", "quantizationByteSize": 513 }),
            "The allowed range is between 1 and 512.",
        ),
        (
            3,
            json!({ "path": "/v", "type": "diskANN", "indexingSearchListSize": 5 }),
            "IndexingSearchListSize value :: 5 is out of range.",
        ),
        (
            3,
            json!({ "path": "/v", "type": "diskANN", "vectorIndexShardKey": ["country"] }),
            "has an invalid Shard Path: country.",
        ),
        (
            3,
            json!({ "path": "/v", "type": "diskANN", "vectorIndexShardKey": ["/a", "/b", "/c"] }),
            "3 exceeds the maximum: 1.",
        ),
        (
            3,
            json!({ "path": "/v", "type": "diskANN", "vectorIndexShardKey": "/a" }),
            "One of the specified inputs is invalid",
        ),
    ] {
        create(&server, "c", with(dimensions, index)).await.refused(400, 0, words);
    }
    let without = json!({ "indexingPolicy": { "vectorIndexes": [{ "path": "/v", "type": "flat" }] } });
    replace(&server, "flat", without).await.refused(400, 0, "path::/v not matching in Embedding's path.");
}

#[tokio::test]
async fn full_text_policies_are_kept_whole() {
    let server = with_database().await;
    let policy = json!({
        "defaultLanguage": "en-US",
        "package": "standard",
        "defaultSpec": {
            "language": "en-US", "tokenizer": "word", "filters": ["lowercase", "stop"],
            "stopWordListKind": "basic", "addStopWords": ["cosmos"], "removeStopWords": ["the"],
        },
        "fullTextPaths": [
            { "path": "/text" },
            { "path": "/other", "language": "fr-FR", "filters": ["stop"], "stopWordListKind": "none" },
        ],
    });
    let kept = |answer: Answer| answer.json()["fullTextPolicy"].clone();
    let made = create(&server, "c", json!({ "fullTextPolicy": policy })).await.expect(201);
    assert_eq!(kept(made), policy);
    assert_eq!(kept(replace(&server, "c", json!({ "fullTextPolicy": policy })).await.expect(200)), policy);
    let standard = |spec: Value| json!({ "package": "standard", "defaultSpec": spec, "fullTextPaths": [] });
    for (policy, words) in [
        (json!({ "package": "own" }), "invalid package own"),
        (json!({ "package": "standard", "stemmer": 1 }), "fullTextPolicy.stemmer"),
        (standard(json!({ "analyzer": "x" })), "fullTextPolicy.defaultSpec.analyzer"),
        (standard(json!({ "tokenizer": "letters" })), "invalid tokenizer letters"),
        (standard(json!({ "filters": ["stop", "upper"] })), "invalid filters upper"),
        (standard(json!({ "stopWordListKind": "long" })), "invalid stopWordListKind long"),
        (standard(json!({ "language": "spa-SPA" })), "unsupported language spa-SPA"),
        (standard(json!({ "addStopWords": ["a"] })), "stop words without a language"),
        (
            standard(json!({ "language": "en-US", "stopWordListKind": "none", "addStopWords": ["a b"] })),
            "invalid stop word 'a b'",
        ),
        (json!({ "defaultSpec": { "tokenizer": "word" } }), "the package 'standard' alone has"),
        (json!({ "fullTextPaths": [{ "path": "/t", "tokenizer": "word" }] }), "the package 'standard' alone"),
    ] {
        create(&server, "d", json!({ "fullTextPolicy": policy })).await.refused(400, 0, words);
    }
    let indexed = |index: Value| json!({ "indexingPolicy": { "fullTextIndexes": [index] } });
    create(&server, "d", indexed(json!({ "path": "/t" }))).await.refused(
        400,
        0,
        "Full Text Index /t does not",
    );
    create(&server, "d", indexed(json!({}))).await.refused(400, 0, "Missing path in full-text index");
}

#[tokio::test]
async fn answers_note_policies_without_effect() {
    let server = with_database().await;
    let note = |answer: &Answer| answer.header("x-shardlake-note").map(str::to_owned);
    let vectors = embedded(json!([embedding(json!({}))]), json!([]));
    let texts = json!({ "fullTextPolicy": { "defaultLanguage": "en-US" } });
    for (id, members, words) in
        [("v", vectors, "there is no vector search yet"), ("t", texts, "there is no full-text search yet")]
    {
        let made = create(&server, id, members.clone()).await.expect(201);
        assert!(note(&made).is_some_and(|note| note.contains(words)), "{made:?}");
        let replaced = replace(&server, id, members).await.expect(200);
        assert_eq!(note(&replaced), note(&made));
    }
    assert_eq!(note(&create(&server, "plain", json!({})).await.expect(201)), None);
    assert_eq!(note(&create(&server, "empty", embedded(json!([]), json!([]))).await.expect(201)), None);
}
