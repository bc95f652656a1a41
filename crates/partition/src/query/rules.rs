//! The rules by which a query's first page takes its access, as a function of facts.
//!
//! A fact that is missing is asked for when the choice depends on it, so that nothing is probed in vain. The engine answers from
//! probes of its index (`choose.rs`), a prediction from the terms that sampled items would have (`query_sketch.rs`): both take
//! the same way where their facts are the same.
//!
//! | with | is taken |
//! |---|---|
//! | neither an option nor an order | the scan |
//! | a scope that fits one chunk: one logical partition, or a part of a partition in order | the scan |
//! | an order, and an option of few postings | the option; its items are sorted |
//! | an order, a part of a partition, and rows that need all of it | the scan |
//! | an order | the entries in order |
//! | an option that names a large part of the items, and not only a few | the scan |
//! | an option | its postings, narrowed by a second option where they are more than a few |

/// Postings that each option is probed for, round by round, until one is exhausted.
pub(crate) const PROBES: [usize; 3] = [32, 256, 2048];
/// With at most this many postings a filter beats an ordered access: its items are sorted.
const SORTED_MAX: usize = 512;
/// Ordinals of a second condition kept in memory.
pub(crate) const OTHERS_MAX: usize = 65_536;

/// Facts about a query in its partition. The first ones are always known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    pub has_options: bool,
    pub has_order: bool,
    /// The scope is one logical partition.
    pub is_logical: bool,
    /// The scope is a part of the partition.
    pub is_part: bool,
    /// Some rows in order are enough for a page.
    pub may_stop_early: bool,
    /// Items of the partition.
    pub items: u64,
    /// One chunk could hold the scope.
    pub fits_chunk: Option<bool>,
    pub smallest: Option<Smallest>,
    /// The scope has at most as many items as the smallest option has postings.
    pub is_scope_named: Option<bool>,
    /// The postings of the smallest option lie so close that they name a third of the items or more.
    pub is_dense: Option<bool>,
}

/// The option with the fewest postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Smallest {
    pub option: usize,
    /// `None` where there are more than the last probe looks for.
    pub postings: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    FitsChunk,
    Smallest,
    /// Whether the scope has at most so many items.
    ScopeHasAtMost(u64),
    IsDense(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Ask(Fact),
    Take(Way),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Scan,
    Option {
        option: usize,
        /// A second option narrows it, where one is small enough to keep.
        is_narrowed: bool,
    },
    Order,
}

impl Facts {
    pub fn step(&self) -> Step {
        if !self.has_options && !self.has_order {
            return Step::Take(Way::Scan);
        }
        if self.is_logical || (self.is_part && self.has_order) {
            match self.fits_chunk {
                None => return Step::Ask(Fact::FitsChunk),
                Some(true) => return Step::Take(Way::Scan),
                Some(false) => {}
            }
        }
        let smallest = match (self.has_options, self.smallest) {
            (true, None) => return Step::Ask(Fact::Smallest),
            (true, smallest) => smallest,
            (false, _) => None,
        };
        if self.has_order { Step::Take(self.way_in_order(smallest)) } else { self.way_by(smallest) }
    }

    fn way_in_order(&self, smallest: Option<Smallest>) -> Way {
        match smallest {
            Some(Smallest { option, postings: Some(postings) }) if postings <= SORTED_MAX => {
                Way::Option { option, is_narrowed: false }
            }
            // Every item is needed: those of the scope lie together.
            _ if self.is_part && !self.may_stop_early => Way::Scan,
            _ => Way::Order,
        }
    }

    fn way_by(&self, smallest: Option<Smallest>) -> Step {
        let Some(Smallest { option, postings }) = smallest else { return Step::Take(Way::Scan) };
        let is_few = postings.is_some_and(|postings| postings <= PROBES[0]);
        let is_narrowed = !is_few;
        let names_many = match postings {
            _ if is_few => false,
            Some(postings) if self.is_part => match self.is_scope_named {
                None => return Step::Ask(Fact::ScopeHasAtMost(postings as u64)),
                Some(is_scope_named) => is_scope_named || postings as u64 > self.items / 3,
            },
            Some(postings) => postings as u64 > self.items / 3,
            None if self.is_logical || self.items <= 4 * PROBES[PROBES.len() - 1] as u64 => true,
            None => match self.is_dense {
                None => return Step::Ask(Fact::IsDense(option)),
                Some(is_dense) => is_dense,
            },
        };
        Step::Take(if names_many { Way::Scan } else { Way::Option { option, is_narrowed } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(postings: Option<usize>, items: u64) -> Facts {
        let smallest = Some(Smallest { option: 0, postings });
        Facts { has_options: true, items, smallest, ..Facts::default() }
    }

    #[test]
    fn only_facts_that_the_choice_depends_on_are_asked_for() {
        assert_eq!(Facts::default().step(), Step::Take(Way::Scan));
        assert_eq!(Facts { has_options: true, ..Facts::default() }.step(), Step::Ask(Fact::Smallest));
        assert_eq!(Facts { has_order: true, ..Facts::default() }.step(), Step::Take(Way::Order));
        let part = Facts { is_part: true, has_order: true, ..Facts::default() };
        assert_eq!(part.step(), Step::Ask(Fact::FitsChunk));
        assert_eq!(Facts { is_part: true, ..known(Some(32), 10) }.step(), by(false));
        assert_eq!(
            Facts { is_part: true, ..known(Some(33), 1_000) }.step(),
            Step::Ask(Fact::ScopeHasAtMost(33))
        );
        assert_eq!(known(None, 8_193).step(), Step::Ask(Fact::IsDense(0)));
    }

    fn by(is_narrowed: bool) -> Step {
        Step::Take(Way::Option { option: 0, is_narrowed })
    }

    #[test]
    fn an_option_is_taken_while_it_names_few_of_the_items() {
        assert_eq!(known(Some(32), 33).step(), by(false));
        assert_eq!(known(Some(300), 900).step(), by(true));
        assert_eq!(known(Some(301), 900).step(), Step::Take(Way::Scan));
        assert_eq!(known(None, 8_192).step(), Step::Take(Way::Scan));
        assert_eq!(Facts { is_dense: Some(false), ..known(None, 8_193) }.step(), by(true));
        let ordered = |postings| Facts { has_order: true, ..known(postings, 1_000) }.step();
        assert_eq!(ordered(Some(512)), by(false), "its items are sorted");
        assert_eq!(ordered(Some(513)), Step::Take(Way::Order));
        assert_eq!(ordered(None), Step::Take(Way::Order));
    }
}
