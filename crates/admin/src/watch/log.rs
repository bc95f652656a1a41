//! `GET log`: the latest lines of the server's log, for holders of a read-write key.

use shardlake_model::{Error, ErrorKind, Result};

use super::log_ring::severity_of;
use crate::pieces::written;
use crate::{OperatorCall, OperatorReply};

const LIMIT_DEFAULT: u32 = 500;
const LIMIT_MAX: u32 = 2_000;

pub(crate) fn log(call: &OperatorCall<'_>) -> Result<OperatorReply> {
    let parameters = call.address.parameters(&["since", "level", "limit"])?;
    let level = parameters.get("level").unwrap_or("trace");
    let severity = severity_of(level).ok_or_else(|| {
        Error::bad_request(format!("the level '{level}' is none of error, warn, info, debug, trace"))
    })?;
    let limit = parameters.number("limit")?.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Error::bad_request(format!("'limit' is 1 to {LIMIT_MAX}")));
    }
    let since = parameters.number::<u64>("since")?;
    let kept = call.installation.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "this server keeps no lines of its log: see its standard error")
    })?;
    Ok(crate::ok(written(&kept.log.lines(since, severity, limit as usize))))
}
