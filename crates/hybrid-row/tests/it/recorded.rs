//! Bodies that the .NET SDK 3.64.0 sent, and answers that it read.

use std::path::Path;

use shardlake_hybrid_row::{Operation, OperationKind, OperationResult, operations_in, results_in, start};
use shardlake_hybrid_row::{is_hybrid_row, write_operation, write_result};

/// The recorded bodies of one kind, `operations` or `results`, by name.
pub fn recorded(kind: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let files = std::fs::read_dir(&directory).expect("the directory is there");
    let paths = files.map(|file| file.expect("an entry").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == kind));
    let mut bodies: Vec<_> = paths
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(&path).expect("a file"))
        })
        .collect();
    bodies.sort();
    assert_eq!(bodies.len(), 9, "{}", directory.display());
    bodies
}

fn body(name: &str) -> Vec<u8> {
    let kind = name.rsplit('.').next().expect("an ending");
    recorded(kind).into_iter().find(|(file, _)| file == name).expect("a recorded body").1
}

#[test]
fn recorded_bodies_are_written_again_byte_by_byte() {
    for (name, body) in recorded("operations") {
        assert!(is_hybrid_row(&body));
        let mut written = Vec::new();
        start(&mut written);
        for operation in operations_in(&body).expect("a segment row") {
            write_operation(&mut written, &operation.expect("an operation"));
        }
        assert_eq!(written, body, "{name}");
    }
    for (name, body) in recorded("results") {
        let mut written = Vec::new();
        start(&mut written);
        for result in results_in(&body).expect("a segment row") {
            write_result(&mut written, &result.expect("a result"));
        }
        assert_eq!(written, body, "{name}");
    }
}

#[test]
fn fields_of_recorded_operations_are_read() {
    let every = body("every_kind.operations");
    let every: Vec<_> =
        operations_in(&every).expect("a segment row").map(|one| one.expect("valid")).collect();
    use OperationKind::{Create, Delete, Patch, Read, Replace, Upsert};
    let kinds: Vec<_> = every.iter().map(|operation| operation.kind).collect();
    assert_eq!(kinds, [Create, Read, Replace, Upsert, Patch, Read, Delete]);
    let create =
        Operation { resource_body: Some(br#"{"id":"b3","pk":"p1","v":1}"#), ..Operation::new(Create) };
    assert_eq!(every[0], create);
    assert_eq!(every[1], Operation { id: Some("i1"), ..Operation::new(Read) });

    let minimal = body("minimal_return.operations");
    let first = operations_in(&minimal).expect("a segment row").next().expect("one").expect("valid");
    assert_eq!((first.kind, first.minimal_return_preference), (Upsert, Some(true)));
    let condition = body("if_none_match.operations");
    let first = operations_in(&condition).expect("a segment row").next().expect("one").expect("valid");
    assert_eq!(first.if_none_match, Some("\"85b29aa8-81b9-419a-b6a8-945dbd9775c5\""));
    let bulk = body("bulk_read.operations");
    let first = operations_in(&bulk).expect("a segment row").next().expect("one").expect("valid");
    assert_eq!(
        first,
        Operation { partition_key: Some(r#"["p1"]"#), id: Some("none"), ..Operation::new(Read) }
    );
}

#[test]
fn fields_of_recorded_results_are_read() {
    let results = body("if_match.results");
    let results: Vec<_> =
        results_in(&results).expect("a segment row").map(|one| one.expect("valid")).collect();
    let status = |result: &OperationResult<'_>| (result.status_code, result.request_charge);
    let statuses: Vec<_> = results.iter().map(status).collect();
    assert_eq!(statuses, [(424, Some(0.0)), (412, Some(1.0)), (424, Some(0.0))]);
    let results = body("if_none_match.results");
    let result = results_in(&results).expect("a segment row").next().expect("one").expect("valid");
    let etag = Some("\"85b29aa8-81b9-419a-b6a8-945dbd9775c5\"");
    let expected =
        OperationResult { status_code: 304, etag, request_charge: Some(1.0), ..Default::default() };
    assert_eq!(result, expected);
}
