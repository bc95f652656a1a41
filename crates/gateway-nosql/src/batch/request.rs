//! Bodies of batch and bulk requests: checked as a whole, then operation by operation.

use shardlake_account::key_of_another_partition;
use shardlake_hybrid_row::{Malformed, is_hybrid_row, operations_in};
use shardlake_model::{Error, ErrorKind, Result};

use crate::known_members;

use super::sent::{JsonOperation, Parsed, Reading, SentOperation};

pub(super) fn parse(body: &[u8], atomic: bool, reading: Reading<'_>) -> Result<Vec<Parsed>> {
    let limits = reading.limits;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(no_operations());
    }
    if atomic && body.len() > limits.batch_size_bytes_max {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the batch request has {} bytes, more than {}", body.len(), limits.batch_size_bytes_max),
        ));
    }
    let operations_max = if atomic { limits.batch_operations_max } else { limits.bulk_operations_max };
    let operations = match is_hybrid_row(body) {
        true => operations_of_rows(body, operations_max)?,
        false => operations_of_json(body, operations_max)?,
    };
    if operations.is_empty() {
        return Err(no_operations());
    }
    if atomic {
        for operation in &operations {
            // A text that is no key cannot be the key of the request.
            operation.key().map_err(|_| key_of_another_partition())?;
        }
    }
    let read = |(index, operation): (usize, &SentOperation<'_>)| {
        operation.read(reading).map_err(|error| of_operation(index, &error))
    };
    operations.iter().enumerate().map(read).collect()
}

fn operations_of_json(body: &[u8], max: usize) -> Result<Vec<SentOperation<'_>>> {
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return Err(Error::bad_request(
            "the batch request body must be a JSON array of operations, or HybridRow",
        ));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let operations = known_members::read::<Vec<JsonOperation<'_>>, _>(&mut reader, &[]);
    let operations =
        operations.and_then(|operations| reader.end().map(|()| operations)).map_err(|error| {
            Error::bad_request(format!("the batch request is not a valid array of operations: {error}"))
        })??;
    check_count(operations.len(), max)?;
    operations
        .into_iter()
        .enumerate()
        .map(|(index, json)| SentOperation::try_from(json).map_err(|error| of_operation(index, &error)))
        .collect()
}

/// Operations beyond `max` are counted and not kept.
fn operations_of_rows(body: &[u8], max: usize) -> Result<Vec<SentOperation<'_>>> {
    let malformed =
        |error: Malformed| Error::bad_request(format!("the batch request is not valid HybridRow: {error}"));
    let mut sent = Vec::new();
    let mut count = 0;
    for operation in operations_in(body).map_err(malformed)? {
        let operation = operation.map_err(malformed)?;
        count += 1;
        if count <= max {
            sent.push(operation.into());
        }
    }
    check_count(count, max)?;
    Ok(sent)
}

fn check_count(count: usize, max: usize) -> Result<()> {
    if count > max {
        return Err(Error::bad_request(format!(
            "Batch request has more operations than what is supported. It has {count}, and the limit is {max}."
        )));
    }
    Ok(())
}

fn no_operations() -> Error {
    Error::bad_request("Batch request has no operations.")
}

fn of_operation(index: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("batch operation {index}: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use shardlake_account::{ItemOperation, ItemRead, ItemWrite};
    use shardlake_hybrid_row::{Operation, OperationKind, start, write_operation};
    use shardlake_model::{ETagCondition, Limits};

    use super::*;
    use crate::request_key;

    fn parsed(body: &[u8], atomic: bool) -> Result<Vec<Parsed>> {
        let limits = Limits::default();
        let reading = Reading {
            limits: &limits,
            size_bytes_max: 1 << 20,
            is_collection: false,
            name_of: &|id| id.into(),
        };
        parse(body, atomic, reading)
    }

    fn read(text: &str) -> Result<Vec<Parsed>> {
        parsed(text.as_bytes(), true)
    }

    fn refusal(text: &str) -> Error {
        read(text).err().unwrap_or_else(|| panic!("{text} is accepted"))
    }

    #[test]
    fn operations_are_read_with_their_bodies() {
        let parsed = read(
            r#" [{"operationType":"Create","resourceBody":{"id":"a", "n":1.10}},
                {"operationType":"upsert","resourceBody":{"id":"b"},"partitionKey":"[\"k\"]"},
                {"operationType":"Replace","id":"c","resourceBody":{"id":"c"},"ifMatch":"\"e\""},
                {"operationType":"Read","id":"d","partitionKey":["k"],"minimalReturnPreference":true},
                {"operationType":"Delete","id":"e","ifNoneMatch":"*"},
                {"operationType":"Patch","id":"f","resourceBody":{"operations":[{"op":"remove","path":"/x"}],"condition":"from c where c.x = 1"}}]"#,
        )
        .expect("valid");
        let asked: Vec<_> = parsed.iter().map(|entry| entry.operation.as_ref().expect("valid")).collect();
        use ItemOperation::{Read, Write};
        let Write(ItemWrite::Create { body }) = &asked[0].operation else { panic!("{:?}", asked[0]) };
        assert_eq!(body.raw().get("n"), Some(shardlake_document::RawValue::Double(1.1)));
        assert!(matches!(asked[1].operation, Write(ItemWrite::Upsert { .. })));
        assert_eq!(asked[1].key, Some(request_key::key_of_text(r#"["k"]"#).expect("a key")));
        let Write(ItemWrite::Replace { item, preconditions, .. }) = &asked[2].operation else {
            panic!("{:?}", asked[2])
        };
        assert_eq!(*item, "c".into());
        assert_eq!(preconditions.if_match, Some(ETagCondition::OneOf(vec!["e".into()])));
        assert!(matches!(&asked[3].operation, Read(ItemRead { item, .. }) if *item == "d".into()));
        assert_eq!(asked[3].key, Some(request_key::key_of_text(r#"["k"]"#).expect("a key")));
        assert!(!parsed[3].content);
        let Write(ItemWrite::Delete { preconditions, .. }) = &asked[4].operation else {
            panic!("{:?}", asked[4])
        };
        assert_eq!(preconditions.if_none_match, Some(ETagCondition::Any));
        let Write(ItemWrite::Patch { patch, .. }) = &asked[5].operation else { panic!("{:?}", asked[5]) };
        assert_eq!((patch.operations.len(), patch.condition.is_some()), (1, true));
    }

    #[test]
    fn whole_requests_are_refused_in_the_words_that_clients_know() {
        for text in ["", " ", "[]"] {
            assert!(refusal(text).message().contains("Batch request has no operations."), "{text:?}");
        }
        let many = vec![r#"{"operationType":"Read","id":"a"}"#; 101].join(",");
        let many = format!("[{many}]");
        assert!(
            refusal(&many).message().contains("Batch request has more operations than what is supported.")
        );
        assert_eq!(parsed(many.as_bytes(), false).expect("bulk takes more").len(), 101);
        let large =
            format!(r#"[{{"operationType":"Create","resourceBody":{{"id":"{}"}}}}]"#, "x".repeat(2_400_000));
        assert_eq!(refusal(&large).kind(), ErrorKind::TooLarge);
    }

    fn rows(operations: &[Operation<'_>]) -> Vec<u8> {
        let mut body = Vec::new();
        start(&mut body);
        operations.iter().for_each(|operation| write_operation(&mut body, operation));
        body
    }

    #[test]
    fn rows_are_read_as_json_is() {
        let create = Operation {
            resource_body: Some(br#"{"id":"a","n":1}"#),
            partition_key: Some(r#"["k"]"#),
            ..Operation::new(OperationKind::Create)
        };
        let patch = Operation {
            id: Some("b"),
            resource_body: Some(br#"[{"op":"remove","path":"/x"}]"#),
            if_match: Some("\"e\""),
            minimal_return_preference: Some(true),
            ..Operation::new(OperationKind::Patch)
        };
        let parsed = parsed(&rows(&[create, patch]), false).expect("valid");
        let asked: Vec<_> = parsed.iter().map(|entry| entry.operation.as_ref().expect("valid")).collect();
        use ItemOperation::Write;
        let Write(ItemWrite::Create { body }) = &asked[0].operation else { panic!("{:?}", asked[0]) };
        assert_eq!(body.raw().get("n"), Some(shardlake_document::RawValue::Int(1)));
        assert_eq!(asked[0].key, Some(request_key::key_of_text(r#"["k"]"#).expect("a key")));
        let Write(ItemWrite::Patch { item, patch, preconditions }) = &asked[1].operation else {
            panic!("{:?}", asked[1])
        };
        assert_eq!((item, patch.operations.len()), (&"b".into(), 1));
        assert_eq!(preconditions.if_match, Some(ETagCondition::OneOf(vec!["e".into()])));
        assert_eq!([parsed[0].content, parsed[1].content], [true, false]);
    }

    /// A read has one condition, whichever name the client gives it.
    #[test]
    fn the_etag_in_if_match_of_a_read_is_one_that_the_client_has() {
        for member in ["ifMatch", "ifNoneMatch"] {
            let text = format!(r#"[{{"operationType":"Read","id":"a","{member}":"\"e\""}}]"#);
            let parsed = read(&text).expect("valid");
            let asked = parsed[0].operation.as_ref().expect("valid");
            let ItemOperation::Read(ItemRead { preconditions, .. }) = &asked.operation else {
                panic!("{asked:?}")
            };
            assert_eq!(preconditions.if_match, None, "{member}");
            assert_eq!(preconditions.if_none_match, Some(ETagCondition::OneOf(vec!["e".into()])), "{member}");
        }
    }

    #[test]
    fn wrong_rows_are_refused_in_words() {
        let refusal = |body: &[u8]| parsed(body, true).err().expect("refused");
        assert!(refusal(&rows(&[])).message().contains("Batch request has no operations."));
        let read = Operation { id: Some("a"), ..Operation::new(OperationKind::Read) };
        let many = refusal(&rows(&vec![read.clone(); 101]));
        assert!(many.message().contains("It has 101, and the limit is 100."), "{many}");
        let large = vec![b' '; 2_400_000];
        let large = Operation { resource_body: Some(&large), ..Operation::new(OperationKind::Create) };
        assert_eq!(refusal(&rows(&[large])).kind(), ErrorKind::TooLarge);
        let mut changed = rows(std::slice::from_ref(&read));
        *changed.last_mut().expect("bytes") ^= 1;
        for (body, words) in [
            (changed, "not valid HybridRow: the checksum"),
            (vec![0x81, 0, 1], "not valid HybridRow: the bytes end"),
            (
                rows(&[read.clone(), Operation::new(OperationKind::Read)]),
                "batch operation 1: Read needs the member 'id'",
            ),
            (rows(&[Operation::new(OperationKind::Create)]), "Create needs the member 'resourceBody'"),
        ] {
            let error = refusal(&body);
            assert_eq!(error.kind(), ErrorKind::BadRequest, "{error}");
            assert!(error.message().contains(words), "{error}");
        }
        let directive = Operation { indexing_directive: Some("Exclude"), ..read.clone() };
        let hash = Operation { effective_partition_key: Some(&[1]), ..read.clone() };
        let binary_id = Operation { binary_id: Some(&[1]), ..read.clone() };
        let lasting = Operation { time_to_live_in_seconds: Some(5), ..read };
        for (row, words) in [
            (directive, "directive"),
            (hash, "effectivePartitionKey"),
            (binary_id, "binaryId"),
            (lasting, "ttl"),
        ] {
            let error = refusal(&rows(&[row]));
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().contains(words), "{error}");
        }
    }

    #[test]
    fn other_text_is_malformed() {
        for text in [
            "{}",
            "x",
            "[1]",
            "[{}]",
            r#"[{"operationType":"Create"}]"#,
            r#"[{"operationType":"Read"}]"#,
            r#"[{"operationType":"Merge","id":"a"}]"#,
        ] {
            assert_eq!(refusal(text).kind(), ErrorKind::BadRequest, "{text}");
        }
        for member in [r#""indexingDirective":"Exclude""#, r#""timeToLiveInSeconds":5"#] {
            let text = format!(r#"[{{"operationType":"Read","id":"a",{member}}}]"#);
            assert_eq!(refusal(&text).kind(), ErrorKind::Unsupported, "{member}");
        }
    }
}
