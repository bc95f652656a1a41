//! Trees to instructions.

use super::class::Class;
use super::parse::{Assertion, Mode, Node, Tree};

/// Instructions that a pattern may have.
const SIZE_MAX: usize = 200_000;

#[derive(Debug)]
pub(super) enum Step {
    Char(char, bool),
    Class(Class),
    Assert(Assertion),
    /// Remembers the place in a slot.
    Save(usize),
    /// Continues at the first step; if that fails, at the second.
    Split(usize, usize),
    Jump(usize),
    BackReference(usize, bool),
    /// Runs the steps up to `end` on their own, then continues behind them.
    Look {
        behind: bool,
        negated: bool,
        end: usize,
    },
    Atomic {
        end: usize,
    },
    /// Fails if the place is the same as when the iteration began: empty iterations would repeat for ever.
    Progress(usize),
    Match,
}

#[derive(Debug)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub groups: usize,
    pub slots: usize,
}

impl Program {
    /// Whether the places that a step names are within the program.
    fn has(&self, step: &Step) -> bool {
        let is_step = |place: usize| place < self.steps.len();
        match step {
            Step::Save(slot) | Step::Progress(slot) => *slot < self.slots,
            Step::Split(first, second) => is_step(*first) && is_step(*second),
            Step::Jump(end) | Step::Look { end, .. } | Step::Atomic { end } => is_step(*end),
            Step::BackReference(group, _) => *group <= self.groups,
            Step::Char(..) | Step::Class(_) | Step::Assert(_) | Step::Match => true,
        }
    }
}

pub(super) fn compile(tree: &Tree) -> Result<Program, String> {
    let mut compiler = Compiler { steps: Vec::new(), slots: 2 * (tree.groups + 1) };
    compiler.add(Step::Save(0))?;
    compiler.node(&tree.root)?;
    compiler.add(Step::Save(1))?;
    compiler.add(Step::Match)?;
    let program = Program { steps: compiler.steps, groups: tree.groups, slots: compiler.slots };
    debug_assert!(
        program.steps.iter().all(|step| program.has(step)),
        "each step leads to steps and slots that exist"
    );
    assert!(matches!(program.steps.last(), Some(Step::Match)), "a program ends with a match");
    Ok(program)
}

struct Compiler {
    steps: Vec<Step>,
    slots: usize,
}

impl Compiler {
    fn add(&mut self, step: Step) -> Result<usize, String> {
        if self.steps.len() >= SIZE_MAX {
            return Err("regular expression is too large".into());
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Empty => {}
            Node::Char(c, fold) => {
                self.add(Step::Char(if *fold { super::class::lower(*c) } else { *c }, *fold))?;
            }
            Node::Class(class) => {
                self.add(Step::Class(class.clone()))?;
            }
            Node::Assert(assertion) => {
                self.add(Step::Assert(*assertion))?;
            }
            Node::Restart => {
                self.add(Step::Save(0))?;
            }
            Node::BackReference(index, fold) => {
                self.add(Step::BackReference(*index, *fold))?;
            }
            Node::Group(inside, None) => self.node(inside)?,
            Node::Group(inside, Some(index)) => {
                self.add(Step::Save(2 * index))?;
                self.node(inside)?;
                self.add(Step::Save(2 * index + 1))?;
            }
            Node::Look { inside, behind, negated } => {
                let at = self.add(Step::Match)?;
                self.node(inside)?;
                let end = self.add(Step::Match)? + 1;
                self.steps[at] = Step::Look { behind: *behind, negated: *negated, end };
            }
            Node::Atomic(inside) => self.atomic(|compiler| compiler.node(inside))?,
            Node::Sequence(nodes) => {
                for node in nodes {
                    self.node(node)?;
                }
            }
            Node::Choice(branches) => self.choice(branches)?,
            Node::Repeat { inside, least, most, mode: Mode::Possessive } => {
                self.atomic(|compiler| compiler.repeat(inside, *least, *most, false))?;
            }
            Node::Repeat { inside, least, most, mode } => {
                self.repeat(inside, *least, *most, *mode == Mode::Lazy)?
            }
        }
        Ok(())
    }

    fn atomic(&mut self, inside: impl FnOnce(&mut Compiler) -> Result<(), String>) -> Result<(), String> {
        let at = self.add(Step::Match)?;
        inside(self)?;
        let end = self.add(Step::Match)? + 1;
        self.steps[at] = Step::Atomic { end };
        Ok(())
    }

    fn choice(&mut self, branches: &[Node]) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (at, branch) in branches.iter().enumerate() {
            let is_last = at + 1 == branches.len();
            let split = if is_last { None } else { Some(self.add(Step::Match)?) };
            self.node(branch)?;
            if let Some(split) = split {
                jumps.push(self.add(Step::Match)?);
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
        }
        for jump in jumps {
            self.steps[jump] = Step::Jump(self.steps.len());
        }
        Ok(())
    }

    fn repeat(&mut self, inside: &Node, least: u32, most: Option<u32>, lazy: bool) -> Result<(), String> {
        for _ in 0..least {
            self.node(inside)?;
        }
        let split =
            |next: usize, out: usize| if lazy { Step::Split(out, next) } else { Step::Split(next, out) };
        match most {
            None => {
                let slot = self.slots;
                self.slots += 1;
                let start = self.add(Step::Match)?;
                self.add(Step::Save(slot))?;
                self.node(inside)?;
                self.add(Step::Progress(slot))?;
                self.add(Step::Jump(start))?;
                self.steps[start] = split(start + 1, self.steps.len());
            }
            Some(most) => {
                let mut splits = Vec::new();
                for _ in least..most {
                    splits.push(self.add(Step::Match)?);
                    self.node(inside)?;
                }
                let out = self.steps.len();
                for at in splits {
                    self.steps[at] = split(at + 1, out);
                }
            }
        }
        Ok(())
    }
}
