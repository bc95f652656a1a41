//! Authentication conversation from its first message to its last.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shardlake_account::Account;

use super::Principal;
use super::mechanism::Mechanism;
use super::scram::{ClientFirst, Exchange};
use super::users::{Claimed, Users};
use crate::errors::{CommandError, Result, code, error};

const NONCE_SIZE_BYTES: usize = 24;

/// A connection has one at most.
#[derive(Debug)]
pub struct Conversation {
    database: String,
    user: String,
    /// The client accepts the proof without the empty round that older drivers expect.
    skips_empty_exchange: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Challenged {
        exchange: Exchange,
        claimed: Claimed,
    },
    /// The client's proof is valid. The client has yet to confirm the server's proof.
    Proved(Principal),
}

/// The server's next message, and the user whose proof it confirms.
#[derive(Debug)]
pub struct Step {
    pub payload: Vec<u8>,
    pub proved: Option<Principal>,
    /// `None` if the conversation ends with this step.
    pub next: Option<Conversation>,
}

impl Conversation {
    /// Answers a client's first message. The error for an invalid one gives no reason.
    pub async fn begin(
        users: &Users,
        account: &Account,
        mechanism: Mechanism,
        (database, payload): (&str, &[u8]),
        skips_empty_exchange: bool,
    ) -> Result<Step> {
        let first = ClientFirst::parse(payload).ok_or_else(failed)?;
        let claimed = users.claimed(account, mechanism, (database, &first.user)).await?;
        let mut nonce = [0; NONCE_SIZE_BYTES];
        account.router().random().fill(&mut nonce);
        let nonce = STANDARD.encode(nonce);
        let (exchange, answer) =
            Exchange::begin(mechanism, &first, &nonce, &claimed.salt, claimed.iterations);
        let state = State::Challenged { exchange, claimed };
        let (database, user) = (database.to_owned(), first.user);
        let next = Conversation { database, user, skips_empty_exchange, state };
        Ok(Step { payload: answer.into_bytes(), proved: None, next: Some(next) })
    }

    pub fn go_on(self, users: &Users, payload: &[u8]) -> Result<Step> {
        match self.state {
            State::Challenged { exchange, claimed } => {
                let (place, answer) = exchange.finish(payload, &claimed.credentials).ok_or_else(failed)?;
                let name = (&*self.database, &*self.user);
                let principal = users.principal(name, &claimed, place).ok_or_else(failed)?;
                let payload = answer.into_bytes();
                if self.skips_empty_exchange {
                    return Ok(Step { payload, proved: Some(principal), next: None });
                }
                let next = Conversation { state: State::Proved(principal), ..self };
                Ok(Step { payload, proved: None, next: Some(next) })
            }
            State::Proved(principal) if payload.is_empty() => {
                Ok(Step { payload: Vec::new(), proved: Some(principal), next: None })
            }
            State::Proved(_) => Err(failed()),
        }
    }
}

/// The same message for every reason.
fn failed() -> CommandError {
    error!(code::AUTHENTICATION_FAILED, "Authentication failed.")
}
