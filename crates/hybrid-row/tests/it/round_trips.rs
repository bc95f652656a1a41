//! Values that are written and read again.

use proptest::prelude::*;
use shardlake_hybrid_row::{
    Operation, OperationKind, OperationResult, operations_in, results_in, start, write_operation,
    write_result,
};

fn kind() -> impl Strategy<Value = OperationKind> {
    use OperationKind::{Create, Delete, Patch, Read, Replace, Upsert};
    prop::sample::select(vec![Create, Patch, Read, Delete, Replace, Upsert])
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(".{0,300}")
}

fn bytes() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..300))
}

type Owned = (OperationKind, [Option<String>; 5], [Option<Vec<u8>>; 3], Option<i32>, Option<bool>);

fn operation(
    (kind, texts, bytes, time_to_live_in_seconds, minimal_return_preference): &Owned,
) -> Operation<'_> {
    Operation {
        kind: *kind,
        partition_key: texts[0].as_deref(),
        effective_partition_key: bytes[0].as_deref(),
        id: texts[1].as_deref(),
        binary_id: bytes[1].as_deref(),
        resource_body: bytes[2].as_deref(),
        indexing_directive: texts[2].as_deref(),
        if_match: texts[3].as_deref(),
        if_none_match: texts[4].as_deref(),
        time_to_live_in_seconds: *time_to_live_in_seconds,
        minimal_return_preference: *minimal_return_preference,
    }
}

proptest! {
    #[test]
    fn operations_are_read_as_they_were_written(owned in prop::collection::vec(
        (kind(), [text(), text(), text(), text(), text()], [bytes(), bytes(), bytes()], any::<Option<i32>>(), any::<Option<bool>>()),
        0..8,
    )) {
        let operations: Vec<_> = owned.iter().map(operation).collect();
        let mut body = Vec::new();
        start(&mut body);
        operations.iter().for_each(|operation| write_operation(&mut body, operation));
        let again: Result<Vec<_>, _> = operations_in(&body).expect("a segment row").collect();
        prop_assert_eq!(again, Ok(operations));
    }

    #[test]
    fn results_are_read_as_they_were_written(owned in prop::collection::vec(
        (any::<[i32; 2]>(), text(), bytes(), any::<Option<u32>>(), prop::option::of(0.0..1e9)),
        0..8,
    )) {
        let results: Vec<_> = owned
            .iter()
            .map(|([status_code, substatus_code], etag, body, retry, charge)| OperationResult {
                status_code: *status_code,
                substatus_code: *substatus_code,
                etag: etag.as_deref(),
                resource_body: body.as_deref(),
                retry_after_milliseconds: *retry,
                request_charge: *charge,
            })
            .collect();
        let mut body = Vec::new();
        start(&mut body);
        results.iter().for_each(|result| write_result(&mut body, result));
        let again: Result<Vec<_>, _> = results_in(&body).expect("a segment row").collect();
        prop_assert_eq!(again, Ok(results));
    }
}
