//! Retention: rows whose item was last written before a time leave the table.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use roaring::RoaringBitmap;

use super::core::{Core, Edit};
use super::files::Files;
use super::options::Commit;
use super::round::delete_rows;
use crate::error::TableError;
use crate::log::{DataFile, Reason};
use crate::vectors;

/// Removes the rows with a `_ts` before `seconds`. Returns their number; without any there is no
/// commit.
pub fn remove_older(core: &mut Core, seconds: i64, time: i64) -> Result<u64, TableError> {
    core.check()?;
    let mut edit = Edit::default();
    let mut deleted = BTreeMap::new();
    let mut count = 0;
    for file in core.version.files.values() {
        let (oldest, newest) = file.times().unwrap_or((i64::MIN, i64::MAX));
        if newest < seconds {
            count += file.live_rows();
            edit.removed.push(file.clone());
        } else if oldest < seconds {
            let rows = older_rows(&core.files, file, seconds)?;
            if !rows.is_empty() {
                count += rows.len();
                deleted.insert(file.path.clone(), rows);
            }
        }
    }
    delete_rows(&core.files, &core.version, &deleted, BTreeMap::new(), &mut edit)?;
    if !edit.is_empty() {
        let commit = Commit::same(&core.version, time);
        core.commit(edit, None, Reason::Retention, &commit)?;
    }
    Ok(count)
}

/// Live rows before the time.
fn older_rows(files: &Files, file: &DataFile, seconds: i64) -> Result<RoaringBitmap, TableError> {
    let deleted = match &file.vector {
        Some(vector) => vectors::read(&*files.store, &files.base, vector)?,
        None => RoaringBitmap::new(),
    };
    let (mut rows, mut at) = (RoaringBitmap::new(), 0);
    for batch in files.read_columns(file, &["_ts"])? {
        let batch = batch?;
        let times = batch.column_by_name("_ts").and_then(|column| column.as_primitive_opt::<Int64Type>());
        let times = times.ok_or_else(|| TableError::damaged(&file.path, "no column _ts"))?;
        for time in times.values() {
            if *time < seconds && !deleted.contains(at) {
                rows.insert(at);
            }
            at += 1;
        }
    }
    Ok(rows)
}
