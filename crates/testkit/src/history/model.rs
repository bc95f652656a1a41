//! Effect of an operation on a logical partition, and whether an answer fits.
//!
//! An item is its number and its etag. Every write gives it a new etag, so an answer with an etag shows which
//! write it saw. The etag of an unanswered write is unknown until a client reads it; then it is fixed.

use shardlake_stdx::Guid;

/// Request of a client for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Create { value: i64 },
    Upsert { value: i64 },
    Replace { value: i64, guard: Guard },
    Increment { by: i64, guard: Guard },
    Delete { guard: Guard },
    Read { guard: Guard },
}

/// A condition on the item's current etag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    None,
    /// `If-Match`, of writes.
    Match(Guid),
    /// `If-None-Match`, of reads.
    NoneMatch(Guid),
}

/// How one action succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Created {
        etag: Guid,
    },
    Replaced {
        etag: Guid,
    },
    /// The number is the item's after the increment.
    Incremented {
        value: i64,
        etag: Guid,
    },
    Deleted,
    Found {
        value: i64,
        etag: Guid,
    },
    NotModified,
}

/// Why an action could not succeed, as a fact about the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    NotFound,
    Conflict,
    PreconditionFailed,
}

/// One item of a look at a whole logical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenItem {
    pub id: String,
    pub value: i64,
    pub etag: Guid,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// One answer for each action.
    Done(Vec<Answer>),
    /// Nothing was changed, because this action could not be done after those before it.
    Failed { index: usize, failure: Failure },
    /// All items of the logical partition at one point in time.
    Snapshot(Vec<SeenItem>),
    /// Refused before it did anything: throttled, or sent to an old place.
    Refused,
    /// No answer came; it may have happened or not.
    Unknown,
}

/// An item in a possible order. Without an etag: an unanswered write's, which no client has read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub value: i64,
    pub etag: Option<Guid>,
}

impl Item {
    fn may_have(&self, etag: Guid) -> bool {
        self.etag.is_none_or(|own| own == etag)
    }

    fn may_lack(&self, etag: Guid) -> bool {
        self.etag.is_none_or(|own| own != etag)
    }
}

impl Guard {
    fn may_pass(self, item: &Item) -> bool {
        match self {
            Guard::None => true,
            Guard::Match(etag) => item.may_have(etag),
            Guard::NoneMatch(etag) => item.may_lack(etag),
        }
    }

    fn may_stop(self, item: &Item) -> bool {
        match self {
            Guard::None => false,
            Guard::Match(etag) => item.may_lack(etag),
            Guard::NoneMatch(etag) => item.may_have(etag),
        }
    }
}

impl Action {
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Action::Read { .. })
    }

    /// The item after the action, if it succeeds with this answer, or with any answer. `None`: it cannot.
    pub(super) fn succeed(&self, item: Option<Item>, answer: Option<&Answer>) -> Option<Option<Item>> {
        match (self, item) {
            (Action::Create { value }, None) | (Action::Upsert { value }, None) => {
                let etag = match answer {
                    Some(Answer::Created { etag }) => Some(*etag),
                    Some(_) => return None,
                    None => None,
                };
                Some(Some(Item { value: *value, etag }))
            }
            (Action::Upsert { value }, Some(_)) => replaced(*value, answer),
            (Action::Replace { value, guard }, Some(item)) if guard.may_pass(&item) => {
                replaced(*value, answer)
            }
            (Action::Increment { by, guard }, Some(item)) if guard.may_pass(&item) => {
                let after = item.value + by;
                match answer {
                    Some(Answer::Incremented { value, etag }) if *value == after => {
                        Some(Some(Item { value: after, etag: Some(*etag) }))
                    }
                    Some(_) => None,
                    None => Some(Some(Item { value: after, etag: None })),
                }
            }
            (Action::Delete { guard }, Some(item)) if guard.may_pass(&item) => {
                matches!(answer, None | Some(Answer::Deleted)).then_some(None)
            }
            (Action::Read { guard }, Some(item)) => read(*guard, item, answer).map(Some),
            _ => None,
        }
    }

    /// Whether the action can fail like this.
    pub(super) fn may_fail(&self, item: Option<Item>, failure: Failure) -> bool {
        match (self, item, failure) {
            (Action::Create { .. }, Some(_), Failure::Conflict) => true,
            (Action::Create { .. } | Action::Upsert { .. }, _, _) => false,
            (_, None, Failure::NotFound) => true,
            (
                Action::Replace { guard, .. } | Action::Increment { guard, .. } | Action::Delete { guard },
                Some(item),
                Failure::PreconditionFailed,
            ) => guard.may_stop(&item),
            _ => false,
        }
    }
}

fn replaced(value: i64, answer: Option<&Answer>) -> Option<Option<Item>> {
    match answer {
        Some(Answer::Replaced { etag }) => Some(Some(Item { value, etag: Some(*etag) })),
        Some(_) => None,
        None => Some(Some(Item { value, etag: None })),
    }
}

fn read(guard: Guard, item: Item, answer: Option<&Answer>) -> Option<Item> {
    match (answer, guard) {
        (None, _) => Some(item),
        (Some(Answer::Found { value, etag }), guard) => {
            let fits = item.value == *value && item.may_have(*etag) && guard != Guard::NoneMatch(*etag);
            fits.then_some(Item { value: *value, etag: Some(*etag) })
        }
        (Some(Answer::NotModified), Guard::NoneMatch(etag)) => {
            item.may_have(etag).then_some(Item { value: item.value, etag: Some(etag) })
        }
        _ => None,
    }
}
