//! Reads of global secondary indexes: waiting for writes of the source, and the lag in answers.
//!
//! `x-shardlake-copies-at-least` is `now`, or the session tokens that answers of the source had. Other containers have all their writes,
//! so clients may send the header with every request.

use http::HeaderValue;
use shardlake_account::{AtLeast, ContainerHandle};
use shardlake_model::{Error, Result, SessionToken};

use crate::call::Call;
use crate::header_names::COPY_LAG;
use crate::reply::Reply;
use crate::router::Operation;

/// Whether the operation reads items of a global secondary index.
pub(crate) fn is_read_of_index(call: &Call<'_>, operation: Operation, container: &ContainerHandle) -> bool {
    let reads = matches!(
        operation,
        Operation::ReadFeed
            | Operation::ReadChangeFeed
            | Operation::QueryItems
            | Operation::ReadItem
            | Operation::Batch
            | Operation::Bulk
            | Operation::ExecuteProcedure
    );
    reads && {
        let live = call.account.router().catalog().load();
        live.definitions.secondary_indexes.contains(&container.entry.record.container.rid)
    }
}

/// Waits until the index has the writes that the request, or the index's definition, asks for.
pub(crate) async fn wait(call: &Call<'_>, container: &ContainerHandle) -> Result<()> {
    let asked = call.headers.copies_at_least.map(at_least).transpose()?;
    match call.account.wait_for_index(&call.context, container, asked).await? {
        // A token may have ended while its holder waited.
        true => call.check_caller_again(),
        false => Ok(()),
    }
}

fn at_least(text: &str) -> Result<AtLeast> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(AtLeast::Now);
    }
    let token = SessionToken::parse(text).filter(|token| !token.entries.is_empty());
    token.map(AtLeast::Session).ok_or_else(|| {
        Error::bad_request(format!(
            "the value '{text}' of header 'x-shardlake-copies-at-least' is neither 'now' nor a session token: send the x-ms-session-token of an answer of the source"
        ))
    })
}

/// Notes in the answer how old the oldest change is that the index lacks.
pub(crate) async fn with_lag(call: &Call<'_>, reply: Reply, container: &ContainerHandle) -> Reply {
    // The answer is made: a lag that cannot be found out is left out.
    match call.account.copies().lag_ms(container.entry.record.container.rid).await {
        Ok(Some(lag_ms)) => reply.with_header(COPY_LAG.clone(), HeaderValue::from(lag_ms)),
        Ok(None) | Err(_) => reply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_now_or_a_token() {
        assert_eq!(at_least("now").expect("valid"), AtLeast::Now);
        let AtLeast::Session(token) = at_least("0:1#7,3:1#9").expect("valid") else { panic!("a session") };
        assert_eq!(token.entries.len(), 2);
        for text in [",", "soon", "0", "0:1#x"] {
            assert!(at_least(text).expect_err(text).message().contains("x-ms-session-token"), "{text}");
        }
    }
}
