//! How tests in a process reach the partitions of an account.

const VARIABLE: &str = "SHARDLAKE_TEST_REACH";

/// Whether every command to a partition, and every reply, is encoded and decoded on its way: with
/// `SHARDLAKE_TEST_REACH=loopback`.
pub fn reaches_by_loopback() -> bool {
    match std::env::var(VARIABLE).as_deref() {
        Ok("loopback") => true,
        Ok(other) => panic!("{VARIABLE} is '{other}', and may be 'loopback'"),
        Err(_) => false,
    }
}
