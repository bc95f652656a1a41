//! Queries of clients that know an earlier container of the same name.
//!
//! .NET finds the ranges of a query by the container that it remembers. After the container was made again under its name, such a
//! query names ranges of the earlier one: it asks some of the new ranges, and its user misses rows in silence. The session
//! position that comes with the request shows it, since positions carry the container's version. The answer is 410/1000, at
//! which .NET and Java read the container again and repeat the query.
//!
//! Change feeds are left out, because .NET shows their 410 to its user. So is the JavaScript SDK: it keeps the earlier position
//! for good, and shows the 410 of a query, while its queries are right without, because it finds its ranges by name.

use shardlake_account::ContainerHandle;
use shardlake_model::{Error, ErrorKind, Result, SessionToken};

use crate::headers::RequestHeaders;

const NAME_CACHE_IS_STALE: u32 = 1000;
const KEEPS_EARLIER_POSITIONS: &str = "azure-cosmos-js";

/// Refuses a query that names a range together with a session position of an earlier container.
pub(crate) fn check_query(
    headers: &RequestHeaders<'_>,
    container: &ContainerHandle,
    session: Option<&SessionToken>,
) -> Result<()> {
    let Some(range_id) = headers.range_id()? else { return Ok(()) };
    let Some(seen) = session.and_then(|session| session.entry_of(range_id)) else { return Ok(()) };
    // The oldest clients send no version.
    let is_earlier = (0..container.session_version()).contains(&seen.version);
    let mut agents = [headers.user_agent, headers.ms_user_agent].into_iter().flatten();
    if !is_earlier || agents.any(|agent| agent.contains(KEEPS_EARLIER_POSITIONS)) {
        return Ok(());
    }
    let message = format!(
        "the session token is of an earlier container '{}': read the container again and retry",
        container.alt_link()
    );
    Err(Error::new(ErrorKind::PartitionGone, message).with_substatus(NAME_CACHE_IS_STALE))
}
