//! Invalid options of commands and stages: each kind of mistake has the reference's code.

use bson::{Bson, doc};
use shardlake_mql::Document;

use crate::client::{Client, Server, of};

/// The code of a command, or of its first statement that failed.
async fn code(client: &mut Client, database: &str, command: bson::Document) -> Option<i32> {
    let reply: Document = client.run(database, of(&command)).await;
    let errors = reply.value("writeErrors");
    match errors.as_array().and_then(|errors| errors.first()?.as_document().cloned()) {
        Some(error) => error.value("code").to_i32_exact(),
        None => reply.value("code").to_i32_exact(),
    }
}

async fn filled(server: &Server) -> Client {
    let mut client = server.connect();
    let documents = vec![doc! { "_id": 1, "a": [1, 2], "x": 5 }, doc! { "_id": 2, "a": [3], "x": 6 }];
    client.ok("d", of(&doc! { "insert": "c", "documents": documents })).await;
    client
}

async fn check(client: &mut Client, cases: Vec<(&str, bson::Document, Option<i32>)>) {
    for (database, command, expected) in cases {
        let text = command.to_string();
        assert_eq!(code(client, database, command).await, expected, "{text}");
    }
}

/// A value of every type except those that a field may have.
fn others(taken: &[&str]) -> Vec<Bson> {
    let all = [
        ("text", Bson::from("x")),
        ("number", 5.into()),
        ("boolean", true.into()),
        ("object", doc! { "x": 1 }.into()),
        ("array", vec![1, 2].into()),
        ("date", bson::DateTime::from_millis(0).into()),
        ("id", bson::oid::ObjectId::from_bytes([1; 12]).into()),
    ];
    all.into_iter().filter(|(kind, _)| !taken.contains(kind)).map(|(_, value)| value).collect()
}

#[tokio::test]
async fn a_field_of_another_type_has_the_code_of_its_parser() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let modify = |field: &str, value: Bson| {
        let mut command = doc! { "findAndModify": "c", "query": {}, "update": { "$set": { "b": 1 } } };
        command.insert(field, value);
        command
    };
    let with = |command: bson::Document, field: &str, value: Bson| {
        let mut command = command;
        command.insert(field, value);
        command
    };
    let mut cases = Vec::new();
    for field in ["query", "fields", "sort"] {
        cases.extend(others(&["object"]).into_iter().map(|value| ("d", modify(field, value), Some(9))));
    }
    for field in ["update", "arrayFilters", "hint"] {
        let taken: &[&str] = match field {
            "update" => &["object", "array"],
            "arrayFilters" => &["array"],
            _ => &["object", "text"],
        };
        cases.extend(others(taken).into_iter().map(|value| ("d", modify(field, value), Some(9))));
    }
    for value in others(&["object", "array"]) {
        cases.push(("d", doc! { "update": "c", "updates": [{ "q": {}, "u": value }] }, Some(9)));
    }
    for value in others(&["number"]) {
        for field in ["limit", "skip"] {
            cases.push(("d", with(doc! { "count": "c" }, field, value.clone()), Some(2)));
        }
    }
    for value in others(&["object", "text"]) {
        cases.push(("d", with(doc! { "find": "c" }, "hint", value.clone()), Some(9)));
        cases.push(("d", with(doc! { "count": "c" }, "hint", value.clone()), Some(9)));
        let delete = doc! { "q": {}, "limit": 0, "hint": value };
        cases.push(("d", doc! { "delete": "c", "deletes": [delete] }, Some(9)));
    }
    for value in others(&["boolean"]) {
        cases.push((
            "d",
            with(doc! { "insert": "c", "documents": [{}] }, "ordered", value.clone()),
            Some(14),
        ));
        cases.push((
            "admin",
            with(doc! { "listDatabases": 1 }, "authorizedDatabases", value.clone()),
            Some(14),
        ));
        let list = doc! { "listCollections": 1 };
        cases.push(("d", with(list, "authorizedCollections", value.clone()), Some(14)));
        let update = doc! { "q": {}, "u": { "$set": { "b": 1 } }, "multi": value };
        cases.push(("d", doc! { "update": "c", "updates": [update] }, Some(14)));
    }
    for (value, expected) in
        [(Bson::from("x"), Some(2)), (1.5.into(), Some(2)), (Bson::Null, Some(2)), (0.into(), None)]
    {
        cases.push(("d", doc! { "find": "c", "maxTimeMS": value }, expected));
    }
    cases.push(("d", doc! { "count": "c", "maxTimeMS": "x" }, Some(14)));
    check(&mut client, cases).await;
}

#[tokio::test]
async fn concerns_are_refused_where_a_command_has_no_use_for_them() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let concern = doc! { "w": 1 };
    let pipeline = |stages: Vec<bson::Document>| {
        doc! { "aggregate": "c", "pipeline": stages, "cursor": {}, "writeConcern": concern.clone() }
    };
    let snapshot = doc! { "level": "snapshot" };
    check(
        &mut client,
        vec![
            ("d", doc! { "count": "c", "writeConcern": concern.clone() }, Some(72)),
            ("d", doc! { "distinct": "c", "key": "x", "writeConcern": concern.clone() }, Some(72)),
            ("d", doc! { "find": "c", "writeConcern": {} }, Some(72)),
            ("admin", doc! { "listDatabases": 1, "writeConcern": concern.clone() }, Some(72)),
            ("d", doc! { "listCollections": 1, "writeConcern": concern.clone() }, Some(72)),
            ("d", doc! { "killCursors": "c", "cursors": [1i64], "writeConcern": concern.clone() }, Some(72)),
            ("d", pipeline(vec![]), None),
            ("d", pipeline(vec![doc! { "$out": "o" }]), None),
            ("d", doc! { "insert": "c", "documents": [{}], "writeConcern": concern.clone() }, None),
            ("d", doc! { "count": "c", "readConcern": snapshot.clone() }, Some(72)),
            ("d", doc! { "find": "c", "readConcern": snapshot.clone() }, None),
            ("d", doc! { "distinct": "c", "key": "x", "readConcern": snapshot }, None),
        ],
    )
    .await;
}

#[tokio::test]
async fn stages_name_their_mistakes_by_the_codes_of_the_reference() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let lookup = |field: &str, value: Bson| {
        let mut lookup = doc! { "from": "e", "localField": "a", "foreignField": "b", "as": "r" };
        lookup.insert(field, value);
        doc! { "$lookup": lookup }
    };
    let grouped = |field: bson::Document| doc! { "$group": { "_id": null, "r": field } };
    let first = |n: Bson| grouped(doc! { "$firstN": { "input": "$x", "n": n } });
    let bottom = |n: Bson| grouped(doc! { "$bottomN": { "output": "$x", "sortBy": { "x": 1 }, "n": n } });
    let convert = |options: bson::Document| {
        let mut convert = doc! { "input": 5, "to": "double" };
        convert.extend(options);
        doc! { "$project": { "r": { "$convert": convert } } }
    };
    let computed = |expression: bson::Document| doc! { "$project": { "r": expression } };
    let mut cases = vec![
        (lookup("let", Bson::Null), None),
        (lookup("localField", "".into()), Some(40352)),
        (lookup("foreignField", "".into()), Some(40352)),
        (lookup("as", "".into()), Some(40352)),
        (
            doc! { "$lookup": { "from": "e", "localField": null, "foreignField": null, "pipeline": [], "as": "r" } },
            None,
        ),
        (first("x".into()), Some(7_548_606)),
        (first((-1).into()), Some(7_548_606)),
        (first(1.5.into()), Some(7_548_606)),
        (bottom(0.into()), Some(7_548_606)),
        (first(2.into()), None),
        (doc! { "$group": { "_id": { "a": 1 } } }, Some(17390)),
        (doc! { "$group": { "_id": { "a": true } } }, Some(17390)),
        (doc! { "$group": { "_id": { "a": "$a" } } }, None),
        (doc! { "$group": { "_id": null, "r": { "$add": [1, 2] } } }, Some(40237)),
        (doc! { "$unwind": "" }, Some(28812)),
        (doc! { "$unwind": "$" }, Some(40352)),
        (convert(doc! { "format": "nonsense", "byteOrder": "nonsense" }), None),
        (convert(doc! { "input": null, "to": "binData", "format": "nonsense" }), None),
        (convert(doc! { "to": "binData", "byteOrder": "nonsense" }), Some(9_130_002)),
        (computed(doc! { "$toDouble": "0x1p0" }), None),
        (computed(doc! { "$toDecimal": "0x1.8p1" }), None),
        (computed(doc! { "$toDouble": "1e-400" }), Some(241)),
        (computed(doc! { "$toDate": " 2020-01-01 " }), None),
        (computed(doc! { "$nothing": 1 }), Some(31325)),
        (computed(doc! { "$add": [{ "$nothing": 1 }, 1] }), Some(168)),
        (doc! { "$search": { "text": {} } }, Some(31082)),
        (doc! { "$vectorSearch": {} }, Some(31082)),
        (doc! { "$listSearchIndexes": {} }, Some(31082)),
    ];
    for field in ["localField", "foreignField", "as"] {
        cases.extend(others(&["text"]).into_iter().map(|value| (lookup(field, value), Some(14))));
    }
    let cases = cases.into_iter().map(|(stage, expected)| {
        ("d", doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} }, expected)
    });
    check(&mut client, cases.collect()).await;
    let update =
        |stage: bson::Document| doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": [stage] }] };
    assert_eq!(client.fails("d", of(&update(doc! { "$nothing": 1 }))).await, 40324, "the command fails");
    let reply = client.ok("d", of(&update(doc! { "$match": {} }))).await;
    assert!(reply.has("writeErrors"), "{reply}");
}

#[tokio::test]
async fn positional_projections_are_checked() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let find = |filter: bson::Document, projection: bson::Document| doc! { "find": "c", "filter": filter, "projection": projection };
    let one = || doc! { "a": 1 };
    let either = || doc! { "$or": [{ "a": 1 }, { "x": 5 }] };
    check(
        &mut client,
        vec![
            ("d", find(one(), doc! { "a.$": "x" }), Some(31308)),
            ("d", find(one(), doc! { "a.$": { "$slice": 1 } }), Some(31271)),
            ("d", find(one(), doc! { "a.$": 0 }), Some(31395)),
            ("d", find(one(), doc! { "$": 1 }), Some(16410)),
            ("d", find(one(), doc! { "$.a": 1 }), Some(16410)),
            ("d", find(either(), doc! { "a.$": 1 }), Some(51246)),
            ("d", find(doc! { "$or": [{ "a": 1 }] }, doc! { "a.$": 1 }), None),
            ("d", find(doc! { "$or": [{ "a": 1 }, { "a": 3 }] }, doc! { "a.$": 1 }), None),
            ("d", find(one(), doc! { "a.$": 5 }), None),
        ],
    )
    .await;
}

#[tokio::test]
async fn hints_and_projections_that_cannot_be_followed_are_refused() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let index = |key: bson::Document, name: &str, projection: Option<bson::Document>| {
        let mut index = doc! { "key": key, "name": name };
        if let Some(projection) = projection {
            index.insert("wildcardProjection", projection);
        }
        index
    };
    let indexes = vec![
        index(doc! { "$**": 1 }, "all", None),
        index(doc! { "$**": 1 }, "some", Some(doc! { "x": 1 })),
        index(doc! { "$**": 1 }, "others", Some(doc! { "x": 0 })),
        index(doc! { "below.$**": 1 }, "below", None),
        index(doc! { "p": "2dsphere" }, "places", None),
    ];
    client.ok("d", of(&doc! { "createIndexes": "c", "indexes": indexes })).await;
    client.ok("d", of(&doc! { "create": "w", "viewOn": "c" })).await;
    let hinted = |filter: bson::Document, hint: &str| doc! { "find": "c", "filter": filter, "hint": hint };
    let point = doc! { "$geometry": { "type": "Point", "coordinates": [0, 0] } };
    let near = doc! { "p": { "$near": point } };
    let of_view = |projection: bson::Document| doc! { "find": "w", "projection": projection };
    let project = |projection: bson::Document| {
        doc! { "aggregate": "c", "pipeline": [{ "$project": projection }], "cursor": {} }
    };
    check(
        &mut client,
        vec![
            ("d", hinted(doc! { "x": 5 }, "all"), None),
            ("d", hinted(doc! { "$and": [{ "x": 5 }] }, "all"), None),
            ("d", hinted(doc! {}, "all"), Some(291)),
            ("d", hinted(doc! { "_id": 1 }, "all"), Some(291)),
            ("d", hinted(doc! { "x": 5 }, "some"), None),
            ("d", hinted(doc! { "a": 1 }, "some"), Some(291)),
            ("d", hinted(doc! { "x": 5 }, "others"), Some(291)),
            ("d", hinted(doc! { "a": 1 }, "others"), None),
            ("d", hinted(doc! { "below.b": 1 }, "below"), None),
            ("d", hinted(doc! { "x": 5 }, "below"), Some(291)),
            ("d", doc! { "count": "c", "hint": "all" }, Some(291)),
            ("d", hinted(near.clone(), "places"), None),
            ("d", hinted(near, "all"), Some(291)),
            ("d", of_view(doc! { "a": { "$slice": 1 } }), Some(28667)),
            ("d", of_view(doc! { "a": { "$elemMatch": { "$gt": 1 } } }), Some(168)),
            ("d", of_view(doc! { "a": 1 }), None),
            ("d", project(doc! { "a.$": 1 }), Some(31324)),
            ("d", project(doc! { "a.$.b": 1 }), Some(31394)),
            ("d", doc! { "find": "c", "filter": { "$text": { "$search": "x" } } }, Some(27)),
        ],
    )
    .await;
}

#[tokio::test]
async fn variables_of_commands_read_no_field_and_may_use_earlier_ones() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let pipeline =
        |lets: bson::Document| doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "let": lets };
    let late = doc! { "$expr": { "$lt": ["$d", "$$NOW"] } };
    check(
        &mut client,
        vec![
            ("d", pipeline(doc! { "v": "$x" }), Some(4_890_500)),
            ("d", pipeline(doc! { "v": "$$NOW" }), Some(51144)),
            ("d", pipeline(doc! { "v": "$$CLUSTER_TIME" }), Some(51144)),
            ("d", pipeline(doc! { "v": 1, "w": { "$add": ["$$v", 1] } }), None),
            ("d", doc! { "find": "c", "filter": {}, "let": { "v": "$x" } }, Some(4_890_500)),
            ("d", doc! { "count": "c", "query": late.clone() }, Some(51144)),
            ("d", doc! { "distinct": "c", "key": "x", "query": late.clone() }, Some(51144)),
            ("d", doc! { "find": "c", "filter": late }, None),
            ("d", doc! { "distinct": "c", "key": "" }, Some(40352)),
        ],
    )
    .await;
}

#[tokio::test]
async fn results_of_pipelines_may_pass_the_validator_by() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let validator = doc! { "q": { "$exists": true } };
    client.ok("d", of(&doc! { "create": "v", "validator": validator })).await;
    let write = |stage: &str, passes: bool| {
        doc! { "aggregate": "c", "pipeline": [{ stage: "v" }], "cursor": {}, "bypassDocumentValidation": passes }
    };
    for stage in ["$out", "$merge"] {
        check(
            &mut client,
            vec![
                ("d", doc! { "delete": "v", "deletes": [{ "q": {}, "limit": 0 }] }, None),
                ("d", write(stage, false), Some(121)),
                ("d", write(stage, true), None),
            ],
        )
        .await;
        let counted = client.ok("d", of(&doc! { "count": "v" })).await;
        assert_eq!(counted.value("n").to_i32_exact(), Some(2), "{stage}");
    }
}

#[tokio::test]
async fn definitions_and_explained_commands_are_checked() {
    let server = Server::start().await;
    let mut client = filled(&server).await;
    let engine = |options: bson::Document| doc! { "create": "n", "storageEngine": { "wiredTiger": options } };
    let view = |stages: Vec<bson::Document>| doc! { "create": "w", "viewOn": "c", "pipeline": stages };
    let explain = |command: bson::Document| doc! { "explain": command, "verbosity": "queryPlanner" };
    let user = |password: &str| doc! { "createUser": "u", "pwd": password, "roles": [] };
    check(
        &mut client,
        vec![
            ("d", engine(doc! { "odd": 1 }), Some(72)),
            ("d", engine(doc! { "configString": "odd=1" }), Some(2)),
            ("d", engine(doc! { "configString": "a\0b" }), Some(9)),
            ("d", engine(doc! { "configString": "block_compressor=zlib,log=(enabled=true)" }), None),
            ("d", doc! { "create": "i", "indexOptionDefaults": { "odd": 1 } }, Some(40415)),
            ("d", view(vec![doc! { "$documents": [] }]), Some(73)),
            ("d", view(vec![doc! { "$changeStream": {} }]), Some(167)),
            ("d", view(vec![doc! { "$unionWith": "w" }]), Some(5)),
            (
                "d",
                view(vec![
                    doc! { "$facet": { "f": [{ "$lookup": { "from": "w", "pipeline": [], "as": "r" } }] } },
                ]),
                Some(5),
            ),
            (
                "d",
                doc! { "create": "x", "viewOn": "c", "changeStreamPreAndPostImages": { "enabled": false } },
                None,
            ),
            ("d", explain(doc! { "find": "c", "limit": -1 }), Some(2)),
            ("d", explain(doc! { "find": "c", "odd": 1 }), Some(40415)),
            ("d", explain(doc! { "update": "c", "updates": [{ "q": {}, "u": 5 }] }), Some(9)),
            ("d", explain(doc! { "find": "c", "filter": { "x": 5 } }), None),
            ("d", doc! { "createIndexes": "c", "indexes": [{ "key": {} }] }, Some(67)),
            ("d", user(""), Some(50687)),
            ("d", user("a\u{0007}b"), Some(50692)),
            ("admin", doc! { "renameCollection": "d.c", "to": format!("d.{}", "n".repeat(254)) }, Some(20)),
            ("d", doc! { "validate": "c", "full": "yes", "odd": 1 }, None),
            ("admin", doc! { "renameCollection": "d.c", "to": "d.e", "dropTarget": null }, Some(14)),
        ],
    )
    .await;
}
