//! The included and excluded paths of an indexing policy, compiled to a tree that is walked along with an item.
//!
//! Positions in arrays are not distinguished: an included `/a/[3]/?` covers every element, and an excluded
//! one none, so that everything the policy includes is covered. Costs one look-up per property for any
//! number of paths.

use crate::index_path::{IndexPath, IndexPathSegment, PathKind};

/// Decides whether a policy indexes the value at a path.
#[derive(Debug, Clone)]
pub struct PathMatcher {
    /// The root comes first.
    nodes: Vec<Node>,
    indexes_anything: bool,
    indexes_everything: bool,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// Sorted by name.
    members: Vec<(String, usize)>,
    elements: Option<usize>,
    /// The rule of a `/?` path for the node.
    scalar: Option<bool>,
    /// The rule of a `/*` path for the node and all below.
    subtree: Option<bool>,
}

/// A place in the tree of paths, as deep as the walk over the item has come.
#[derive(Debug, Clone, Copy)]
pub struct PathState {
    node: Option<usize>,
    /// The rule of the deepest `/*` path above.
    inherited: bool,
}

impl PathMatcher {
    /// `indexes_anything`: false when the policy's mode is `none`.
    pub(crate) fn new(
        included: impl Iterator<Item = IndexPath>,
        excluded: impl Iterator<Item = IndexPath>,
        indexes_anything: bool,
    ) -> PathMatcher {
        let mut matcher =
            PathMatcher { nodes: vec![Node::default()], indexes_anything, indexes_everything: false };
        let mut leaves_something_out = false;
        included.for_each(|path| matcher.add(&path, true));
        for path in excluded {
            // `_etag` is never part of a body.
            leaves_something_out |= path.segments != [IndexPathSegment::Name("_etag".into())];
            if !path.segments.iter().any(|segment| matches!(segment, IndexPathSegment::Element(_))) {
                matcher.add(&path, false);
            }
        }
        matcher.indexes_everything =
            indexes_anything && !leaves_something_out && matcher.nodes[0].subtree == Some(true);
        matcher
    }

    fn add(&mut self, path: &IndexPath, include: bool) {
        let node = path.segments.iter().fold(0, |node, segment| self.child_or_new(node, segment));
        match path.kind {
            PathKind::Scalar => self.nodes[node].scalar = Some(include),
            PathKind::Subtree => self.nodes[node].subtree = Some(include),
        }
    }

    fn child_or_new(&mut self, parent: usize, segment: &IndexPathSegment) -> usize {
        if let Some(child) = self.nodes[parent].child(segment) {
            return child;
        }
        let new = self.nodes.len();
        self.nodes.push(Node::default());
        let parent = &mut self.nodes[parent];
        match segment {
            IndexPathSegment::Name(name) => {
                let place = parent.members.partition_point(|(other, _)| other < name);
                parent.members.insert(place, (name.clone(), new));
            }
            IndexPathSegment::AnyElement | IndexPathSegment::Element(_) => parent.elements = Some(new),
        }
        new
    }

    /// Whether anything at all is indexed (mode is not `none`).
    pub fn indexes_anything(&self) -> bool {
        self.indexes_anything
    }

    /// Whether every path is covered except the excluded `_etag`, which is never part of a body: the fast case.
    pub fn indexes_everything(&self) -> bool {
        self.indexes_everything
    }

    /// The more precise rule wins: deeper beats shallower, `/?` beats `/*`.
    pub fn is_indexed(&self, path: &[IndexPathSegment]) -> bool {
        let state = path.iter().fold(self.root(), |state, segment| match segment {
            IndexPathSegment::Name(name) => self.member(state, name),
            IndexPathSegment::AnyElement | IndexPathSegment::Element(_) => self.elements(state),
        });
        self.covers(state)
    }

    pub fn root(&self) -> PathState {
        PathState { node: Some(0), inherited: false }
    }

    /// One property further.
    pub fn member(&self, state: PathState, name: &str) -> PathState {
        self.step(state, |node| node.member(name))
    }

    /// Into the elements of an array.
    pub fn elements(&self, state: PathState) -> PathState {
        self.step(state, |node| node.elements)
    }

    fn step(&self, state: PathState, child: impl FnOnce(&Node) -> Option<usize>) -> PathState {
        let Some(node) = state.node.map(|node| &self.nodes[node]) else { return state };
        PathState { node: child(node), inherited: node.subtree.unwrap_or(state.inherited) }
    }

    /// Whether the value here is indexed.
    pub fn covers(&self, state: PathState) -> bool {
        let node = state.node.map(|node| &self.nodes[node]);
        let own = node.and_then(|node| node.scalar.or(node.subtree));
        self.indexes_anything && own.unwrap_or(state.inherited)
    }

    /// Whether nothing here and below is indexed, so that a walk may turn back.
    pub fn covers_nothing_below(&self, state: PathState) -> bool {
        !self.indexes_anything || (state.node.is_none() && !state.inherited)
    }
}

impl Node {
    fn child(&self, segment: &IndexPathSegment) -> Option<usize> {
        match segment {
            IndexPathSegment::Name(name) => self.member(name),
            IndexPathSegment::AnyElement | IndexPathSegment::Element(_) => self.elements,
        }
    }

    fn member(&self, name: &str) -> Option<usize> {
        let place = self.members.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(self.members[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexingPolicy;
    use crate::indexing::{ExcludedPath, IncludedPath};

    const SEGMENTS: [&str; 3] = ["a", "b", "[]"];

    /// Every path of at most two segments, as text, with its number of segments and whether it ends in `/?`.
    fn paths() -> Vec<(String, usize, bool)> {
        let mut heads = vec![(String::new(), 0)];
        for first in SEGMENTS {
            heads.push((format!("/{first}"), 1));
            heads.extend(SEGMENTS.iter().map(|second| (format!("/{first}/{second}"), 2)));
        }
        let both = heads.into_iter().flat_map(|(head, depth)| {
            [(format!("{head}/*"), depth, false), (format!("{head}/?"), depth, true)]
        });
        both.filter(|(path, _, _)| path != "/?").collect()
    }

    /// The rule in words: of the paths that cover a place, the deepest counts, and `/?` before `/*`.
    fn expected(rules: &[&(String, usize, bool)], included: &[bool], place: &[&str]) -> bool {
        let covering = rules.iter().zip(included).filter(|((path, depth, is_scalar), _)| {
            let segments: Vec<&str> = path[1..].split('/').take(*depth).collect();
            if *is_scalar { segments == place } else { place.starts_with(&segments) }
        });
        covering
            .max_by_key(|((_, depth, is_scalar), _)| (*depth, *is_scalar))
            .is_some_and(|(_, include)| *include)
    }

    #[test]
    fn every_small_policy_covers_what_its_most_precise_path_says() {
        let all = paths();
        let mut places: Vec<Vec<&str>> = vec![vec![]];
        for depth in 0..3 {
            let longer: Vec<_> = places.iter().filter(|place| place.len() == depth).cloned().collect();
            for place in longer {
                places.extend(SEGMENTS.iter().map(|next| [&place[..], &[*next]].concat()));
            }
        }
        // Three rules at a time, stepping through the combinations.
        for number in (0..all.len().pow(3)).step_by(7) {
            let picks = [number % all.len(), number / all.len() % all.len(), number / all.len().pow(2)];
            if picks[0] == picks[1] || picks[1] == picks[2] || picks[0] == picks[2] {
                continue;
            }
            let included = [number & 1 == 0, number & 2 == 0, number & 4 == 0];
            let rules = picks.map(|pick| &all[pick]);
            let list = |include: bool| {
                rules
                    .iter()
                    .zip(included)
                    .filter(move |(_, own)| *own == include)
                    .map(|(rule, _)| rule.0.clone())
            };
            let policy = IndexingPolicy {
                included_paths: list(true).map(|path| IncludedPath { path }).collect(),
                excluded_paths: list(false).map(|path| ExcludedPath { path }).collect(),
                ..IndexingPolicy::default()
            };
            let matcher = policy.matcher();
            for place in &places {
                let path: Vec<_> = place
                    .iter()
                    .map(|segment| match *segment {
                        "[]" => IndexPathSegment::AnyElement,
                        name => IndexPathSegment::Name(name.into()),
                    })
                    .collect();
                let covered = expected(&rules, &included, place);
                assert_eq!(matcher.is_indexed(&path), covered, "{rules:?} {included:?} {place:?}");
            }
        }
    }
}
