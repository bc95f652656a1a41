//! Runs instructions over a text, with an explicit stack of places to go back to.

use super::class::{is_word, lower};
use super::parse::Assertion;
use super::program::{Program, Step};

/// Where a pattern matched, in bytes: the whole, and each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub span: (usize, usize),
    pub groups: Vec<Option<(usize, usize)>>,
}

/// Steps that one search may take.
const STEPS_MAX: u64 = 10_000_000;

struct Run<'a> {
    program: &'a Program,
    text: &'a str,
    slots: Vec<Option<usize>>,
    taken: u64,
}

/// Step of backtracking after a failed match.
enum Back {
    Try { step: usize, at: usize },
    Restore { slot: usize, value: Option<usize> },
}

pub(super) fn find(program: &Program, text: &str, start: usize) -> Result<Option<Found>, String> {
    assert!(text.is_char_boundary(start), "a search begins between characters");
    let mut run = Run { program, text, slots: vec![None; program.slots], taken: 0 };
    let starts = text[start..].char_indices().map(|(at, _)| start + at).chain([text.len()]);
    for at in starts {
        run.slots.fill(None);
        if run.run(0, at)?.is_some() {
            let slot = |index: usize| Some((run.slots[index]?, run.slots[index + 1]?));
            let groups = (1..=program.groups).map(|index| slot(2 * index)).collect();
            return Ok(slot(0).map(|span| Found { span, groups }));
        }
        if matches!(program.steps.get(1), Some(Step::Assert(Assertion::Start))) {
            break;
        }
    }
    Ok(None)
}

impl Run<'_> {
    /// Runs from a step to the next `Match`; answers the place where that was.
    fn run(&mut self, step: usize, at: usize) -> Result<Option<usize>, String> {
        let mut stack = vec![Back::Try { step, at }];
        while let Some(back) = stack.pop() {
            match back {
                Back::Restore { slot, value } => self.slots[slot] = value,
                Back::Try { step, at } => {
                    if let Some(end) = self.forward(step, at, &mut stack)? {
                        return Ok(Some(end));
                    }
                }
            }
        }
        Ok(None)
    }

    fn forward(
        &mut self,
        mut step: usize,
        mut at: usize,
        stack: &mut Vec<Back>,
    ) -> Result<Option<usize>, String> {
        let program = self.program;
        loop {
            debug_assert!(self.text.is_char_boundary(at), "a match moves by whole characters");
            self.taken += 1;
            if self.taken > STEPS_MAX {
                return Err("match limit exceeded".into());
            }
            match &program.steps[step] {
                Step::Match => return Ok(Some(at)),
                Step::Char(wanted, fold) => match self.char_at(at) {
                    Some(c) if c == *wanted || (*fold && lower(c) == *wanted) => at += c.len_utf8(),
                    _ => return Ok(None),
                },
                Step::Class(class) => match self.char_at(at) {
                    Some(c) if class.contains(c) => at += c.len_utf8(),
                    _ => return Ok(None),
                },
                Step::Assert(assertion) => {
                    if !self.holds(*assertion, at) {
                        return Ok(None);
                    }
                }
                Step::Save(slot) => {
                    stack.push(Back::Restore { slot: *slot, value: self.slots[*slot] });
                    self.slots[*slot] = Some(at);
                }
                Step::Progress(slot) => {
                    if self.slots[*slot] == Some(at) {
                        return Ok(None);
                    }
                }
                Step::Split(first, second) => {
                    stack.push(Back::Try { step: *second, at });
                    step = *first;
                    continue;
                }
                Step::Jump(to) => {
                    step = *to;
                    continue;
                }
                Step::BackReference(group, fold) => match self.repeated(*group, *fold, at) {
                    Some(end) => at = end,
                    None => return Ok(None),
                },
                Step::Look { behind, negated, end } => {
                    let found =
                        if *behind { self.behind(step + 1, at)? } else { self.run(step + 1, at)?.is_some() };
                    if found == *negated {
                        return Ok(None);
                    }
                    step = *end;
                    continue;
                }
                Step::Atomic { end } => {
                    let Some(place) = self.run(step + 1, at)? else { return Ok(None) };
                    (at, step) = (place, *end);
                    continue;
                }
            }
            step += 1;
        }
    }

    /// Whether the steps match up to a place, from anywhere before it.
    fn behind(&mut self, step: usize, at: usize) -> Result<bool, String> {
        for length in 0..=at.min(255) {
            let start = at - length;
            if self.text.is_char_boundary(start) && self.run(step, start)? == Some(at) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn char_at(&self, at: usize) -> Option<char> {
        match self.text.as_bytes().get(at)? {
            byte if byte.is_ascii() => Some(char::from(*byte)),
            _ => self.text[at..].chars().next(),
        }
    }

    fn repeated(&self, group: usize, fold: bool, at: usize) -> Option<usize> {
        let (start, end) = (self.slots[2 * group]?, self.slots[2 * group + 1]?);
        let wanted = &self.text[start..end];
        let found = self.text.get(at..at + wanted.len())?;
        let same = if fold { wanted.to_lowercase() == found.to_lowercase() } else { wanted == found };
        same.then_some(at + wanted.len())
    }

    /// Whether a word of any script begins or ends here.
    fn at_unicode_word(&self, at: usize) -> bool {
        let (before, behind) = self.text.split_at(at);
        before.chars().next_back().is_some_and(is_word) != behind.chars().next().is_some_and(is_word)
    }

    fn holds(&self, assertion: Assertion, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        let is_ascii_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let at_word = || is_ascii_word(before) != is_ascii_word(bytes.get(at));
        match assertion {
            Assertion::Start => at == 0,
            Assertion::LineStart => at == 0 || bytes[at - 1] == b'\n',
            Assertion::End => at == bytes.len() || (at + 1 == bytes.len() && bytes[at] == b'\n'),
            Assertion::LineEnd => at == bytes.len() || bytes[at] == b'\n',
            Assertion::TextEnd => at == bytes.len(),
            Assertion::Word => at_word(),
            Assertion::NotWord => !at_word(),
            Assertion::UnicodeWord => self.at_unicode_word(at),
            Assertion::NotUnicodeWord => !self.at_unicode_word(at),
        }
    }
}
