//! The time that every reply carries: drivers hand the latest they have seen from one connection to the next, and begin change streams
//! with it.
//!
//! It is the clock's, in the form that events of change streams have. There is one copy of the data, so nothing waits for it.

use shardlake_account::collections::cluster_time_now;
use shardlake_mql::{Document, Value};
use shardlake_stdx::Timestamp;

pub fn add(reply: &mut Document, now: Timestamp) {
    let (seconds, increment) = cluster_time_now(now.milliseconds());
    let time = Value::Timestamp(seconds, increment);
    // Nobody is kept from moving it: a signature would have no key.
    let mut signature = Document::one("hash", Value::Binary(0, [0u8; 20].as_slice().into()));
    signature.push("keyId", Value::Long(0));
    let mut gossip = Document::one("clusterTime", time.clone());
    gossip.push("signature", Value::document(signature));
    reply.push("$clusterTime", Value::document(gossip));
    reply.push("operationTime", time);
}
