//! From the stored row of a group to the next one, as data.

use shardlake_sql::{Argument, GroupState, Lost};

/// A contribution: the id of its group's row, and its arguments.
pub(crate) type Counted = (String, Vec<Argument>);

/// Contributions of an item in the changes of a round.
#[derive(Debug, Default)]
pub(crate) struct ItemHistory {
    /// LSNs of changes, each with the contributions before it. A change that leaves the contributions as they
    /// are is not here.
    pub before: Vec<(u64, Vec<Counted>)>,
    /// Of the item's version in the view, where it has one.
    pub now: Option<Vec<Counted>>,
}

/// Takes a group's state from an LSN to the round's view. Returns whether any change lies between.
pub(crate) fn advance<'i>(
    state: &mut GroupState,
    (id, after): (&str, u64),
    items: impl Iterator<Item = &'i ItemHistory>,
) -> Result<bool, Lost> {
    let (mut is_changed, mut gone) = (false, Vec::new());
    for item in items {
        // The contributions at the LSN are those before the first change above it.
        let Some((_, before)) = item.before.iter().find(|(lsn, _)| *lsn > after) else { continue };
        is_changed = true;
        let of_group = |counted: &&Counted| counted.0 == id;
        item.now.iter().flatten().filter(of_group).for_each(|(_, arguments)| state.add(arguments));
        gone.extend(before.iter().filter(of_group).map(|(_, arguments)| arguments));
    }
    // Values that come are counted first, so that fewer extremes are lost.
    gone.into_iter().try_for_each(|arguments| state.take_out(arguments))?;
    if state.is_known() { Ok(is_changed) } else { Err(Lost) }
}
