//! Stored rows of a copy, for a follower that makes new ones of them.

use bytes::Bytes;
use shardlake_model::Result;
use shardlake_routing::LogicalKey;

use crate::core::Core;
use crate::key_list::KeyList;
use crate::keys;

/// Records of rows by key and id, as acknowledged commits left them; `None` for a row that is not there.
pub(crate) async fn stored_rows(core: &Core, names: &[(&LogicalKey, &str)]) -> Result<Vec<Option<Bytes>>> {
    let mut wanted = KeyList::default();
    names.iter().for_each(|(key, id)| wanted.push(&[&keys::item_key(core.uid, key, id)]));
    let view = core.shard().snapshot();
    // After the view was taken: a partition that ended meanwhile has a successor with newer rows.
    core.check_open()?;
    view.get_many(wanted.finish()).await.map_err(crate::storage_error)
}
