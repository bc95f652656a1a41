//! Requests of a load generator.

/// Gives a connection its requests: `next(connection, n)` is the bytes of its `n`th.
pub trait Requests: Send + Sync + 'static {
    fn next(&self, connection: usize, number: u64, out: &mut Vec<u8>);
    fn expected_status(&self) -> u16;

    /// Messages of the MongoDB API instead of HTTP.
    fn are_messages(&self) -> bool {
        false
    }
}
