//! A request that has passed the door, as every operation gets it.

use bytes::Bytes;
use shardlake_account::{Account, ContainerHandle};
use shardlake_model::{RequestContext, Result};

use crate::access::Scope;
use crate::auth::{Caller, Keyring};
use crate::headers::RequestHeaders;
use crate::router::Path;
use crate::settings::{GatewaySettings, Scheme};

/// A request that has passed the door.
pub(crate) struct Call<'r> {
    pub account: &'r Account,
    pub settings: &'r GatewaySettings,
    /// For tokens to be made with.
    pub keyring: &'r Keyring,
    pub caller: &'r Caller,
    pub path: &'r Path<'r>,
    pub headers: &'r RequestHeaders<'r>,
    /// Name or address under which the client knows this server.
    pub host: &'r str,
    pub scheme: Scheme,
    pub context: RequestContext,
    pub body: Bytes,
}

impl Call<'_> {
    /// The container in the path, which is the one that the caller was let in for.
    pub fn container(&self) -> Result<ContainerHandle> {
        self.confirm(self.account.container(self.path.database(), self.path.container())?)
    }

    /// Likewise for operations on what is in it, whose missing container is a missing owner.
    pub fn container_for_items(&self) -> Result<ContainerHandle> {
        self.confirm(self.account.container_for_items(self.path.database(), self.path.container())?)
    }

    fn confirm(&self, container: ContainerHandle) -> Result<ContainerHandle> {
        self.scope()?.map_or(Ok(()), |scope| scope.check_container(&container))?;
        Ok(container)
    }

    /// Whether the caller would be let in now, after a wait.
    pub fn check_caller_again(&self) -> Result<()> {
        match self.caller {
            Caller::Key(_) => Ok(()),
            Caller::Token(grant) => grant.check_still_good(self.account),
        }
    }

    /// What the caller's token reaches; `None` for the holders of keys.
    pub fn scope(&self) -> Result<Option<Scope<'_>>> {
        match self.caller {
            Caller::Key(_) => Ok(None),
            Caller::Token(grant) => Scope::of(grant).map(Some),
        }
    }
}
