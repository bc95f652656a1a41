//! `getLastRequestStatistics`: cost of the previous command (spec mongo.md §10.3).

use shardlake_mql::{Document, Value};

use crate::call::{Call, Command, command};
use crate::errors::Result;
use crate::reply::Reply;

pub static REQUEST_STATISTICS: &[Command] = &[command!("getLastRequestStatistics", last)];

async fn last(call: &Call) -> Result<Reply> {
    let of_session = call.session.as_ref().and_then(|session| session.last_request());
    let mut reply = Document::one("_t", Value::string("GetRequestStatisticsResponse"));
    if let Some(last) = of_session.or_else(|| call.connection.state().last_request) {
        reply.push("CommandName", Value::string(last.command));
        reply.push("RequestCharge", Value::Double(last.charge_centi as f64 / 100.0));
        reply.push("RequestDurationInMilliSeconds", Value::Double(last.time.as_secs_f64() * 1000.0));
    }
    Ok(reply.into())
}
