//! State of a connection beyond its bytes: the authenticated user, and the terms agreed in the handshake.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardlake_mql::{Document, Value};
use shardlake_stdx::Guid;
use tokio::sync::Notify;

use crate::access::{Conversation, Principal};
use crate::deployment::Deployment;
use crate::errors::{Result, code, fail};
use crate::last_request::LastRequest;
use crate::shares::Share;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

#[derive(Debug)]
pub struct Connection {
    pub id: i32,
    /// Unique identifier that clients see. Numbers start again with the server.
    pub guid: Guid,
    pub ends: Ends,
    /// Notified when other clients need its place.
    pub ended: Arc<Notify>,
    /// The client has closed its side.
    is_gone: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub struct State {
    /// The authenticated user.
    pub principal: Option<Arc<Principal>>,
    /// Of the user's connections.
    pub share: Option<Share>,
    /// A proof in progress.
    pub conversation: Option<Conversation>,
    /// The client's metadata, set once.
    pub client: Option<Arc<Document>>,
    pub last_request: Option<LastRequest>,
}

impl Connection {
    pub fn new((id, guid): (i32, Guid), ends: Ends, ended: Arc<Notify>) -> Connection {
        Connection { id, guid, ends, ended, is_gone: AtomicBool::new(false), state: Mutex::default() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note_gone(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }

    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Whether the client may hold something of the server: sessions, cursors, transactions, memory.
    pub fn is_authenticated(&self, deployment: &Deployment) -> bool {
        !deployment.settings.requires_authentication || self.principal().is_some()
    }

    pub fn principal(&self) -> Option<Arc<Principal>> {
        self.state().principal.clone()
    }

    /// Records the client's metadata. Different metadata later is an error.
    pub fn introduce(&self, client: &Arc<Document>) -> Result<()> {
        let mut state = self.state();
        if state.client.as_ref().is_some_and(|known| known.to_bytes() != client.to_bytes()) {
            fail!(
                code::CLIENT_METADATA_CANNOT_BE_MUTATED,
                "The client metadata document may only be sent in the first hello"
            );
        }
        state.client = Some(client.clone());
        Ok(())
    }

    /// The name that the application gave itself.
    pub fn application(&self) -> Option<String> {
        application_of(&Value::Document(self.state().client.clone()?))
    }
}

/// The application's name in the client's metadata.
pub fn application_of(client: &Value) -> Option<String> {
    let application = client.as_document()?.value("application");
    application.as_document()?.value("name").as_str().map(str::to_owned)
}
