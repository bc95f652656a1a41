//! Every item against its row, and every row against its item.

use shardlake_analytical_table::Table;

use super::table::{Follower, Step, StepError};

pub async fn step(
    _follower: &mut Follower,
    _step: &Step<'_>,
    _table: &mut Table,
    _order: u64,
) -> Result<(), StepError> {
    Ok(())
}
