//! Bounds that users share: how many sessions, cursors, transactions and connections one user may hold.
//!
//! A user holds at most half of the capacity that other users leave, so that some is left for the next user. Of 100 the first user holds 50
//! at most, a second one 25, a third one 13. Where clients need not authenticate there is one user, who may hold everything.
//!
//! A [`Share`] is given back when it is dropped: it lies in the entry that it stands for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The users of a bound. Cloning is cheap and shares everything.
#[derive(Debug, Clone)]
pub struct Shares(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    /// Users that hold nothing are not in it.
    by_user: HashMap<Arc<str>, usize>,
}

/// One unit of the bound.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    user: Option<Arc<str>>,
}

/// No share is left for the user, who holds this many already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoShare {
    pub held: usize,
}

impl Shares {
    pub fn new(max: usize) -> Shares {
        Shares(Arc::new(Shared { max, held: Mutex::default() }))
    }

    /// `user` is `None` where no client needs to authenticate.
    pub fn take(&self, user: Option<&Arc<str>>) -> Result<Share, NoShare> {
        let mut held = self.held();
        let own = match user {
            Some(user) => held.by_user.get(user).copied().unwrap_or(0),
            None => held.all,
        };
        assert!(held.all >= own, "the share of a user is part of all");
        assert!(held.all <= self.0.max, "shares are handed out within their number");
        let left_by_others = self.0.max - (held.all - own);
        let own_max = if user.is_some() { left_by_others.div_ceil(2) } else { left_by_others };
        if own >= own_max {
            return Err(NoShare { held: own });
        }
        held.all += 1;
        if let Some(user) = user {
            held.by_user.insert(user.clone(), own + 1);
        }
        Ok(Share { shares: self.clone(), user: user.cloned() })
    }

    /// Of all users.
    pub fn count(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Changes are made whole under the lock, so a panic leaves nothing half done.
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        assert!(held.all > 0, "a share that is given back was taken");
        held.all -= 1;
        let Some(user) = &self.user else { return };
        if let Some(own) = held.by_user.get_mut(user) {
            assert!(*own > 0, "a share of a user that is given back was taken");
            *own -= 1;
            if *own == 0 {
                held.by_user.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_leaves_something_for_the_next_one() {
        let shares = Shares::new(100);
        let mut taken = Vec::new();
        for (user, expected) in [("a", 50), ("b", 25), ("c", 13), ("d", 6), ("e", 3), ("f", 2), ("g", 1)] {
            let user = Arc::from(user);
            let before = taken.len();
            while let Ok(share) = shares.take(Some(&user)) {
                taken.push(share);
            }
            assert_eq!(taken.len() - before, expected, "{user}");
        }
        assert_eq!((taken.len(), shares.count()), (100, 100));
        assert_eq!(shares.take(Some(&"a".into())).map(drop), Err(NoShare { held: 50 }));
        drop(taken);
        assert_eq!((shares.count(), shares.held().by_user.len()), (0, 0));
    }

    #[test]
    fn one_user_has_everything_where_no_client_authenticates() {
        let shares = Shares::new(3);
        let taken: Vec<Share> = std::iter::from_fn(|| shares.take(None).ok()).collect();
        assert_eq!(taken.len(), 3);
    }
}
