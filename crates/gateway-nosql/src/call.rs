//! An authorized request, as every operation gets it.

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Uri;
use shardlake_account::{Account, ContainerHandle};
use shardlake_model::{ReplyMeta, RequestContext, Result};

use crate::auth::{Caller, Keyring};
use crate::connection_mode::{ConnectionMode, Routing, position_of_range};
use crate::headers::RequestHeaders;
use crate::reply::Reply;
use crate::request_key::key_of_text;
use crate::router::Path;
use crate::settings::{GatewaySettings, Scheme};

/// An authorized request.
pub(crate) struct Call<'r> {
    pub account: &'r Account,
    pub settings: &'r GatewaySettings,
    /// For tokens to be made with.
    pub keyring: &'r ArcSwap<Keyring>,
    pub caller: &'r Caller,
    pub path: &'r Path<'r>,
    /// The URI as it was sent, with the query.
    pub uri: &'r Uri,
    pub headers: &'r RequestHeaders<'r>,
    /// Name or address under which the client knows this server.
    pub host: &'r str,
    pub scheme: Scheme,
    pub mode: &'r ConnectionMode<'r>,
    pub context: RequestContext,
    pub body: Bytes,
}

impl Call<'_> {
    /// Gives the answer to a frame the position of a partition, where it has none. Clients in Direct mode take a 404 without a
    /// position for the answer of a replica that is behind, and repeat the read for seconds.
    pub fn place(&self, outcome: &mut Result<Reply>, container: &ContainerHandle) {
        let ConnectionMode::Direct(routing) = self.mode else { return };
        let meta = match outcome {
            Ok(reply) => &mut reply.meta,
            Err(error) => error.meta_mut(),
        };
        if meta.range_id.is_some() {
            return;
        }
        let position = self.position(routing, container).or_else(|_| routing.position(container));
        let Ok(position) = position else { return };
        *meta = ReplyMeta { charge_centi: meta.charge_centi, ..position };
        if let Ok(reply) = outcome {
            reply.container.get_or_insert_with(|| container.clone());
        }
    }

    /// Position of the partition that a frame is about: of its key, of the range that it names, or of its address.
    pub fn position(&self, routing: &Routing<'_>, container: &ContainerHandle) -> Result<ReplyMeta> {
        if let Some(key) = self.headers.partition_key
            && let Some(position) = container.position_of_key(&key_of_text(key)?)?
        {
            return Ok(position);
        }
        match self.headers.range_id()? {
            Some(range_id) => position_of_range(container, range_id),
            None => routing.position(container),
        }
    }
}

#[cfg(test)]
mod tests;
