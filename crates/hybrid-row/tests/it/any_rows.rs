//! Bodies that are cut off or changed, and bodies of any bytes.

use proptest::prelude::*;
use shardlake_hybrid_row::{
    Malformed, Operation, OperationKind, operations_in, results_in, start, write_operation,
};

use crate::any_bytes::{operations, results, sealed};
use crate::recorded::recorded;

#[test]
fn every_truncation_of_a_recorded_body_is_an_error_or_fewer_operations() {
    for (name, body) in recorded("operations") {
        let whole = operations_in(&body).expect("a segment row").count();
        let valid = (0..body.len()).filter(|length| operations(&body[..*length])).count();
        // The body may end behind the segment row and behind each operation, and nowhere else.
        assert_eq!(valid, whole, "{name}");
    }
    for (name, body) in recorded("results") {
        let whole = results_in(&body).expect("a segment row").count();
        assert_eq!((0..body.len()).filter(|length| results(&body[..*length])).count(), whole, "{name}");
    }
}

#[test]
fn every_changed_byte_of_a_recorded_body_is_an_error() {
    for kind in ["operations", "results"] {
        for (name, body) in recorded(kind) {
            for at in 0..body.len() {
                for mask in [0x01, 0x80, 0xff] {
                    let mut changed = body.clone();
                    changed[at] ^= mask;
                    let valid = if kind == "operations" { operations(&changed) } else { results(&changed) };
                    assert!(!valid, "{name}: byte {at} with {mask:#x}");
                }
            }
        }
    }
}

#[test]
fn every_changed_byte_behind_a_valid_checksum_is_an_error_or_a_value() {
    let mut valid = 0;
    for (kind, read) in [("operations", operations as fn(&[u8]) -> bool), ("results", results)] {
        for (_, body) in recorded(kind) {
            let row = &body[23..];
            let row = &row[..u32::from_le_bytes(body[15..19].try_into().expect("four bytes")) as usize];
            for at in 0..row.len() {
                for mask in [0x01, 0x02, 0x10, 0x80, 0xff] {
                    let mut changed = row.to_vec();
                    changed[at] ^= mask;
                    valid += usize::from(read(&sealed(&changed)));
                }
                read(&sealed(&row[..at]));
            }
        }
    }
    assert!(valid > 100, "texts may change: {valid}");
}

/// Rows with one fault each.
#[test]
fn faults_of_a_row_are_named() {
    let head = [&[0x81, 0x70, 0x54, 0xe1, 0x7f][..], &[0x03], &[2, 0, 0, 0], &[2, 0, 0, 0]].concat();
    let refused = |row: &[u8]| {
        let body = sealed(row);
        operations_in(&body).expect("a segment row").find_map(Result::err)
    };
    let with = |at: usize, byte: u8| {
        let mut row = head.clone();
        row[at] = byte;
        refused(&row)
    };
    let behind = |bytes: &[u8]| refused(&[&head, bytes].concat());
    assert_eq!(refused(&head), None);
    assert_eq!(with(0, 0x80), Some(Malformed::WrongVersion));
    assert_eq!(with(1, 0x71), Some(Malformed::WrongSchema(0x7fe1_5471)));
    assert_eq!(with(5, 0x02), Some(Malformed::Missing("operationType")));
    assert_eq!(with(5, 0x01), Some(Malformed::Missing("resourceType")));
    assert_eq!(with(5, 0x83), Some(Malformed::UnknownPresence));
    assert_eq!(with(5, 0x13), Some(Malformed::TooShort));
    assert_eq!(with(6, 3), Some(Malformed::UnknownOperation(3)));
    assert_eq!(with(10, 3), Some(Malformed::UnknownResource(3)));
    assert_eq!(refused(&[]), Some(Malformed::TooShort));
    assert_eq!(behind(&[20, 9, 200]), Some(Malformed::TooShort));
    assert_eq!(behind(&[20, 9, 0xff, 0xff, 0xff, 0xff, 0x7f]), Some(Malformed::WrongLength));
    assert_eq!(behind(&[20, 13, 0]), Some(Malformed::UnknownField(13)));
    assert_eq!(behind(&[34, 9]), Some(Malformed::UnknownType(34)));
    assert_eq!(behind(&[3, 9]), Some(Malformed::WrongType("ifMatch")));
    assert_eq!(behind(&[3, 12, 2, 12]), Some(Malformed::Twice("minimalReturnPreference")));
    assert_eq!(behind(&[1, 12, 1, 8]), None, "null is an absent field");
    assert_eq!(behind(&[20, 9, 1, 0xff]), Some(Malformed::NotUtf8("ifMatch")));
}

/// A body announces four gigabytes in each place that has a length, and the reader looks at the bytes that are there.
#[test]
fn announced_lengths_cost_nothing() {
    let mut body = Vec::new();
    start(&mut body);
    write_operation(&mut body, &Operation { id: Some("a"), ..Operation::new(OperationKind::Read) });
    let mut record = body.clone();
    record[15..19].copy_from_slice(&u32::MAX.to_le_bytes());
    let refused = operations_in(&record).expect("a segment row").collect::<Vec<_>>();
    assert_eq!(refused, [Err(Malformed::TooShort)]);
    let id = [&body[23..37], &[0xff, 0xff, 0xff, 0xff, 0x0f], b"a"].concat();
    let body = sealed(&id);
    assert_eq!(operations_in(&body).expect("a segment row").collect::<Vec<_>>(), [Err(Malformed::TooShort)]);
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        operations(&bytes);
        results(&bytes);
    }

    #[test]
    fn any_row_is_an_error_or_a_value(bits in any::<u8>(), rest in prop::collection::vec(any::<u8>(), 0..60)) {
        for schema in [0x70, 0x71] {
            let row = [&[0x81, schema, 0x54, 0xe1, 0x7f, bits][..], &rest].concat();
            operations(&sealed(&row));
            results(&sealed(&row));
        }
    }
}
