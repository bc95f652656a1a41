//! Resume tokens: where a change stream continues.
//!
//! ```text
//! { _data: "02…" }    version u8 | kind u8 | scope u8 | time in milliseconds | version of the catalog up to which ends are reported
//!                     then per container: database, number, time of its last reported rename, position of its reader
//! ```
//! Version 1 had no times of renames and no version of the catalog: every rename and every end of a collection up to
//! the token's own time counts as reported.
//!
//! A token is text in hexadecimal, numbers with seven bits a byte. A position lists LSNs for parts of the hash space,
//! so a token holds across splits, merges, moves and restarts.

use std::collections::HashSet;

use shardlake_items::{VersionPosition, read_number, write_number};
use shardlake_model::{ContainerRid, DatabaseRid};
use shardlake_mql::{Document, Value};

use crate::failure::{Failure, Result};

const VERSION: u8 = 2;
const FIRST_VERSION: u8 = 1;
/// More containers than an account has.
const CONTAINERS_MAX: u64 = 4096;
/// Size limit of a token's text.
const TEXT_BYTES_MAX: usize = 1 << 20;
pub const INVALID_RESUME_TOKEN: i32 = 260;

/// The continuation of a stream behind a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Further events.
    Events = 0,
    /// The collection or database was dropped, which is still to be reported.
    Invalidate = 1,
    /// The end was reported: nothing follows.
    Nothing = 2,
}

/// Target of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Collection = 0,
    Database = 1,
    Everything = 2,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub scope: Scope,
    /// Time of the last reported event, or of the start of the stream.
    pub time_ms: u64,
    /// The ends of containers up to this version of the catalog were reported.
    pub ends_told: Option<u64>,
    pub containers: Vec<TokenContainer>,
}

/// How far a stream was with a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenContainer {
    pub rid: ContainerRid,
    /// Its renames up to this time were reported, or were before the stream began.
    pub renamed_ms: u64,
    pub position: VersionPosition,
}

impl Token {
    pub fn document(&self) -> Document {
        debug_assert!(self.containers.len() as u64 <= CONTAINERS_MAX, "a token that is written can be read");
        debug_assert!(
            self.containers.iter().map(|container| container.rid).collect::<HashSet<_>>().len()
                == self.containers.len(),
            "a token names each container once"
        );
        self.written()
    }

    fn written(&self) -> Document {
        let mut bytes = vec![VERSION, self.kind as u8, self.scope as u8];
        write_number(&mut bytes, self.time_ms);
        write_number(&mut bytes, self.ends_told.unwrap_or(0));
        write_number(&mut bytes, self.containers.len() as u64);
        for TokenContainer { rid, renamed_ms, position } in &self.containers {
            write_number(&mut bytes, u64::from(rid.database.0));
            write_number(&mut bytes, u64::from(rid.number));
            write_number(&mut bytes, *renamed_ms);
            position.encode(&mut bytes);
        }
        let mut text = String::with_capacity(bytes.len() * 2);
        bytes.iter().for_each(|byte| text.push_str(&format!("{byte:02X}")));
        Document::one("_data", text.as_str())
    }

    pub fn read(document: &Document) -> Result<Token> {
        let text = match document.get("_data") {
            Some(Value::String(text)) => text,
            Some(Value::Binary(..)) => {
                let words =
                    "Bad resume token: tokens of Cosmos DB's form (_data as binary) are not supported";
                return Err(Failure::new(INVALID_RESUME_TOKEN, words));
            }
            _ => return Err(Failure::new(40647, "Bad resume token: _data of missing or of wrong type")),
        };
        let token = bytes_of(text).and_then(|bytes| parse(&bytes));
        token.ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let words = format!("Bad resume token '{shown}': send back what an event or a batch gave");
            Failure::new(INVALID_RESUME_TOKEN, words)
        })
    }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > TEXT_BYTES_MAX {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

fn parse(bytes: &[u8]) -> Option<Token> {
    let (&[version, kind, scope], mut rest) = bytes.split_first_chunk::<3>()?;
    let is_current = match version {
        VERSION => true,
        FIRST_VERSION => false,
        _ => return None,
    };
    let kind = match kind {
        0 => TokenKind::Events,
        1 => TokenKind::Invalidate,
        2 => TokenKind::Nothing,
        _ => return None,
    };
    let scope = match scope {
        0 => Scope::Collection,
        1 => Scope::Database,
        2 => Scope::Everything,
        _ => return None,
    };
    let time_ms = read_number(&mut rest)?;
    let ends_told = if is_current { Some(read_number(&mut rest)?) } else { None };
    let count = read_number(&mut rest).filter(|count| *count <= CONTAINERS_MAX)?;
    let mut containers: Vec<TokenContainer> = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..count {
        let database = DatabaseRid(u32::try_from(read_number(&mut rest)?).ok()?);
        let number = u32::try_from(read_number(&mut rest)?).ok()?;
        let renamed_ms = if is_current { read_number(&mut rest)? } else { time_ms };
        let (rid, position) = (ContainerRid { database, number }, VersionPosition::decode(&mut rest)?);
        // A container that came twice would give its events twice.
        if !seen.insert(rid) {
            return None;
        }
        containers.push(TokenContainer { rid, renamed_ms, position });
    }
    rest.is_empty().then_some(Token { kind, scope, time_ms, ends_told, containers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        let container = |number, renamed_ms| TokenContainer {
            rid: ContainerRid { database: DatabaseRid(7), number },
            renamed_ms,
            position: VersionPosition::default(),
        };
        let containers = vec![container(1, 0), container(300, 1_800_000_000_100)];
        let (kind, scope) = (TokenKind::Events, Scope::Database);
        Token { kind, scope, time_ms: 1_800_000_000_123, ends_told: Some(77), containers }
    }

    #[test]
    fn tokens_come_back() {
        for kind in [TokenKind::Events, TokenKind::Invalidate, TokenKind::Nothing] {
            let token = Token { kind, ..token() };
            assert_eq!(Token::read(&token.document()).expect("its own"), token);
        }
    }

    #[test]
    fn a_container_comes_once() {
        let twice = vec![token().containers[0].clone(), token().containers[0].clone()];
        let refused = Token::read(&Token { containers: twice, ..token() }.written());
        assert_eq!(refused.expect_err("its events would come twice").code, INVALID_RESUME_TOKEN);
    }

    /// `fuzz/fuzz_targets/resume_token.rs` asserts the same for any bytes.
    #[test]
    fn damaged_tokens_are_refused_or_survive_being_sent_again() {
        let random = shardlake_stdx::Random::seeded(5);
        let whole = token().document();
        let whole = bytes_of(whole.value("_data").as_str().expect("is text")).expect("hexadecimal");
        let mut understood = 0;
        for _ in 0..4_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            let text: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            let Ok(read) = Token::read(&Document::one("_data", text.as_str())) else { continue };
            understood += 1;
            assert_eq!(Token::read(&read.document()).expect("its own").containers, read.containers);
        }
        assert!(understood > 100, "{understood}");
    }

    #[test]
    fn tokens_of_the_first_version_have_told_every_rename_up_to_their_time() {
        let text = "0100008F0A0107030000";
        let bytes = bytes_of(text).expect("hexadecimal");
        let read = Token::read(&Document::one("_data", text));
        let read = read.unwrap_or_else(|failure| panic!("{bytes:?}: {failure:?}"));
        assert_eq!((read.scope, read.time_ms, read.containers.len()), (Scope::Collection, 1295, 1));
        assert_eq!((read.containers[0].renamed_ms, read.ends_told), (1295, None));
    }

    #[test]
    fn whatever_else_is_refused() {
        let whole = token().document();
        let text = whole.value("_data").as_str().expect("is text").to_owned();
        for cut in 0..text.len() {
            assert!(Token::read(&Document::one("_data", &text[..cut])).is_err(), "cut at {cut}");
        }
        for (data, code) in [
            (Value::string("82"), INVALID_RESUME_TOKEN),
            (Value::string("zz"), INVALID_RESUME_TOKEN),
            (Value::string(format!("{text}00")), INVALID_RESUME_TOKEN),
            (Value::Int(1), 40647),
            (Value::Missing, 40647),
        ] {
            let document = if data.is_missing() { Document::new() } else { Document::one("_data", data) };
            assert_eq!(Token::read(&document).expect_err("is none").code, code);
        }
    }
}
