//! The time that every reply carries: drivers hand the latest they have seen from one connection to the next, and begin change streams
//! with it.
//!
//! `$clusterTime` is the clock's, in the form that events of change streams have. There is one copy of
//! the data, so nothing waits for it. `operationTime` lies before every commit that the command did
//! not see, so a stream that begins with it returns all of those commits.

use shardlake_account::collections::{cluster_time_now, operation_time};
use shardlake_stdx::Timestamp;

/// Appends `$clusterTime` and `operationTime` to the members of a reply, as BSON. Every reply has them, and only drivers read them.
/// The client has seen every commit before `seen_before`.
pub fn append(out: &mut Vec<u8>, (now, seen_before): (Timestamp, Timestamp)) {
    let now = now.max(seen_before);
    // The signature is empty because there is no key to sign with: any client may advance the cluster time.
    out.extend_from_slice(b"\x03$clusterTime\0\x58\0\0\0\x11clusterTime\0");
    out.extend_from_slice(&bytes_of(cluster_time_now(now.milliseconds())));
    out.extend_from_slice(b"\x03signature\0\x33\0\0\0\x05hash\0\x14\0\0\0\0");
    out.extend_from_slice(&[0; 20]);
    out.extend_from_slice(b"\x12keyId\0\0\0\0\0\0\0\0\0\0\0\x11operationTime\0");
    out.extend_from_slice(&bytes_of(operation_time(seen_before.milliseconds())));
}

fn bytes_of((seconds, increment): (u32, u32)) -> [u8; 8] {
    let mut time = [0; 8];
    time[..4].copy_from_slice(&increment.to_le_bytes());
    time[4..].copy_from_slice(&seconds.to_le_bytes());
    time
}

#[cfg(test)]
mod tests {
    use shardlake_mql::{Document, Value};

    use super::*;

    #[test]
    fn bytes_of_the_time_are_the_documents_that_drivers_read() {
        let now = Timestamp(1_700_000_000_123);
        let (seconds, increment) = cluster_time_now(now.milliseconds());
        let time = Value::Timestamp(seconds, increment);
        let seen_before = Timestamp(1_699_999_999_077);
        let (seconds, increment) = operation_time(seen_before.milliseconds());
        let seen = Value::Timestamp(seconds, increment);
        let mut signature = Document::one("hash", Value::Binary(0, [0u8; 20].as_slice().into()));
        signature.push("keyId", Value::Long(0));
        let mut gossip = Document::one("clusterTime", time);
        gossip.push("signature", Value::document(signature));
        let mut wanted = Document::one("$clusterTime", gossip);
        wanted.push("operationTime", seen);
        let mut members = Vec::new();
        append(&mut members, (now, seen_before));
        assert_eq!(members, wanted.to_bytes()[4..4 + members.len()]);
        assert_eq!(members.len() + 5, wanted.size());
    }
}
