//! Moves, splits and merges at random.

use std::sync::Arc;

use crate::world::World;

pub async fn run_motions(world: Arc<World>) {
    while world.weather.motions && !world.is_over() {
        tokio::task::yield_now().await;
    }
}
