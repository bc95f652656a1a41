//! Any bytes as a body: no panic, and a body that was read is read alike when it is written again.
//!
//! The fuzz target `hybrid_row` and the tests of `any_rows.rs` run these functions. Each returns whether the bytes were valid.

use shardlake_hybrid_row::{operations_in, results_in, start, write_operation, write_result};

pub fn operations(body: &[u8]) -> bool {
    let Ok(read) = operations_in(body) else { return false };
    let Ok(operations) = read.collect::<Result<Vec<_>, _>>() else { return false };
    let mut written = Vec::new();
    start(&mut written);
    operations.iter().for_each(|operation| write_operation(&mut written, operation));
    let again: Result<Vec<_>, _> = operations_in(&written).expect("a segment row").collect();
    assert_eq!(again.as_ref(), Ok(&operations));
    true
}

pub fn results(body: &[u8]) -> bool {
    let Ok(read) = results_in(body) else { return false };
    let Ok(results) = read.collect::<Result<Vec<_>, _>>() else { return false };
    let mut written = Vec::new();
    start(&mut written);
    results.iter().for_each(|result| write_result(&mut written, result));
    let again: Vec<_> =
        results_in(&written).expect("a segment row").collect::<Result<_, _>>().expect("its own");
    assert_eq!(again.len(), results.len());
    for (again, result) in again.iter().zip(&results) {
        // A charge may be no number, which equals nothing.
        assert_eq!(again.request_charge.map(f64::to_bits), result.request_charge.map(f64::to_bits));
        let (mut again, mut result) = (again.clone(), result.clone());
        (again.request_charge, result.request_charge) = (None, None);
        assert_eq!(again, result);
    }
    true
}

/// A body whose only row is `row`, with the checksum that the reader looks for: clients can compute it.
pub fn sealed(row: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    start(&mut body);
    body.extend_from_slice(&[0x81, 0xf1, 0xd8, 0xff, 0x7f]);
    body.extend_from_slice(&(row.len() as u32).to_le_bytes());
    body.extend_from_slice(&crc32fast::hash(row).to_le_bytes());
    body.extend_from_slice(row);
    body
}
