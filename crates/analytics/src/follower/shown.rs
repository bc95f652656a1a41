//! The newest version of a table in reports.

use shardlake_analytical_table::log::Place;
use shardlake_analytical_table::table::{Table, TableReader};

use super::tracked::Tracked;
use super::{columns, folders, places};
use crate::AnalyticsOptions;
use crate::report::TableFigures;
use crate::status::{self, Status};

/// Shows the newest version of an open table, from the generation of readers and the one under construction.
pub fn show(status: &Status, serving: Option<&Table>, building: Option<&Table>) {
    let Some(table) = serving.or(building) else { return };
    let shown = table.status();
    let mut live = status.live();
    live.figures = TableFigures {
        version: serving.map(|_| shown.version),
        generation: shown.generation,
        rows: shown.rows,
        rows_deleted: shown.deleted_rows,
        files: shown.files as u64,
        size_bytes: shown.bytes,
        json_bytes: 0,
        columns: columns::describe(table.schema()),
        pending_widenings: shown.pending_widenings,
    };
    live.places = reported(building.unwrap_or(table).places());
    live.served = serving.map_or_else(Vec::new, |serving| reported(serving.places()));
}

/// Shows a table that was paused or closed before the server started: readers still see its last version.
pub fn show_left(tracked: &Tracked, options: &AnalyticsOptions) {
    let is_known = folders::is_known(options, &tracked.record).unwrap_or(false);
    if tracked.status.live().location.is_some() || !is_known {
        return;
    }
    // Opening a directory would make it.
    let directory = options.root.directory().map(|root| root.join(&tracked.folder));
    if directory.is_some_and(|directory| !directory.join("_delta_log").is_dir()) {
        return;
    }
    let opened = options.root.folder(&tracked.folder).map_err(Into::into);
    let reader = match opened.and_then(TableReader::open) {
        Ok(Some(reader)) if reader.version().info.container == tracked.rid.to_string() => reader,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(container = %tracked.rid, %error, "a table that is paused or closed is unreadable");
            return;
        }
    };
    let version = reader.version();
    let mut live = tracked.status.live();
    live.location = Some(options.root.address(&tracked.folder));
    live.figures = TableFigures {
        version: Some(version.number),
        generation: version.info.generation,
        rows: version.rows() - version.deleted_rows(),
        rows_deleted: version.deleted_rows(),
        files: version.files.len() as u64,
        size_bytes: version.bytes(),
        json_bytes: 0,
        columns: columns::describe(reader.schema()),
        pending_widenings: Vec::new(),
    };
    live.places = reported(&version.info.places);
    live.served = live.places.clone();
}

fn reported(places: &[Place]) -> Vec<status::Place> {
    let place = |place: &Place| {
        let span = places::range_of(&place.span).ok()?;
        Some(status::Place { span, after: place.lsn, read_at: (place.read_at / 1000) as u64 })
    };
    places.iter().filter_map(place).collect()
}
