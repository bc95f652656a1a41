//! Documents to projections.

use super::tree::{Branch, Child, Mode, Projection};
use crate::error::{Result, fail};
use crate::expression::{self, Scope};
use crate::path::check_field_name;
use crate::value::{Document, Str, Value};

/// Levels that a projection may have.
const DEPTH_MAX: usize = 150;

impl Projection {
    /// Parses the argument of `$project`.
    pub fn project(value: &Value, scope: &Scope) -> Result<Projection> {
        for (path, _) in value.as_document().into_iter().flat_map(|fields| fields.iter()) {
            if path.contains(".$.") {
                fail!(31394, "positional projection may only be used at the end of a path: {path}");
            }
            if path.ends_with(".$") {
                fail!(31324, "Cannot use positional projection in aggregation projection: {path}");
            }
        }
        let Value::Document(document) = value else {
            fail!(15969, "$project specification must be an object");
        };
        if document.is_empty() {
            fail!(51272, "projection specification must have at least one field");
        }
        parse(document, scope)
    }

    /// Parses the argument of `$addFields` or `$set`.
    pub fn add_fields(name: &str, value: &Value, scope: &Scope) -> Result<Projection> {
        let Value::Document(document) = value else {
            fail!(40272, "{name} specification stage must be an object, got {}", value.type_name());
        };
        let mut root = Branch::default();
        for (path, value) in document.iter() {
            add_computed(&mut root, path, value, scope, 0)?;
        }
        Ok(Projection { mode: Mode::Add, root })
    }

    /// A projection without the members at these paths.
    pub fn without(paths: &[Str]) -> Result<Projection> {
        let mut root = Branch::default();
        for path in paths {
            insert(&mut root, &split(path)?, Child::Drop)?;
        }
        Ok(Projection { mode: Mode::Exclude, root })
    }
}

/// The parts of a path, checked.
pub(super) fn split(path: &str) -> Result<Vec<Str>> {
    if path.is_empty() {
        fail!(40352, "FieldPath cannot be constructed with empty string");
    }
    if path.ends_with('.') {
        fail!(40353, "FieldPath must not end with a '.'.");
    }
    let parts: Vec<Str> = path.split('.').map(Str::from).collect();
    if parts.len() > 200 {
        fail!(15, "FieldPath is too long");
    }
    for part in &parts {
        check_field_name(part)?;
    }
    Ok(parts)
}

/// Whether a value of a projection includes or excludes a member; `None` for a computed member.
pub(super) fn as_flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        value if value.is_number() => Some(value.is_true()),
        _ => None,
    }
}

/// Parses members that are flags, expressions or nested members.
pub(super) fn parse(document: &Document, scope: &Scope) -> Result<Projection> {
    let mut builder = Builder { scope, root: Branch::default(), mode: None, id: None };
    for (path, value) in document.iter() {
        builder.member(&[], path, value, 0)?;
    }
    builder.finish()
}

/// A projection while it is parsed.
pub(super) struct Builder<'a> {
    pub scope: &'a Scope,
    pub root: Branch,
    pub mode: Option<Mode>,
    /// Whether `_id` is included, in either mode; `None` if the projection does not mention it.
    pub id: Option<bool>,
}

impl Builder<'_> {
    pub fn member(&mut self, above: &[Str], path: &str, value: &Value, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            fail!(15, "a projection may be nested {DEPTH_MAX} levels deep");
        }
        let mut parts = above.to_vec();
        parts.extend(split(path)?);
        if let Some(flag) = as_flag(value) {
            return self.flag(&parts, flag);
        }
        if let Value::Document(inner) = value {
            match inner.first() {
                None => {
                    fail!(51270, "an empty sub-projection is not a valid value. Found empty object at path")
                }
                Some((name, _)) if !name.starts_with('$') => {
                    for (name, value) in inner.iter() {
                        if name.starts_with('$') {
                            fail!(16410, "FieldPath field names may not start with '$'");
                        }
                        self.member(&parts, name, value, depth + 1)?;
                    }
                    return Ok(());
                }
                Some((name, _)) if inner.len() > 1 => {
                    fail!(31270, "a projection with an expression must have exactly one field: {name}")
                }
                Some(_) => {}
            }
        }
        self.compute(&parts, value)
    }

    fn flag(&mut self, parts: &[Str], flag: bool) -> Result<()> {
        if let [only] = parts
            && **only == *"_id"
        {
            self.id = Some(flag);
            let child = if flag { Child::Keep } else { Child::Drop };
            return insert(&mut self.root, parts, child);
        }
        let is_id_part = parts.first().is_some_and(|first| **first == *"_id");
        let mode = if flag { Mode::Include } else { Mode::Exclude };
        match self.mode {
            None if is_id_part && self.id.is_some() => {}
            None => self.mode = Some(mode),
            Some(known) if known == mode => {}
            Some(Mode::Exclude) => {
                fail!(31253, "Cannot do inclusion on field {} in exclusion projection", parts.join("."))
            }
            Some(_) => {
                fail!(31254, "Cannot do exclusion on field {} in inclusion projection", parts.join("."))
            }
        }
        insert(&mut self.root, parts, if flag { Child::Keep } else { Child::Drop })
    }

    fn compute(&mut self, parts: &[Str], value: &Value) -> Result<()> {
        let is_meta = value.as_document().and_then(|operator| operator.first());
        let is_meta = is_meta.is_some_and(|(name, _)| &**name == "$meta");
        match self.mode {
            Some(Mode::Exclude) if is_meta => {}
            Some(Mode::Exclude) if matches!(value, Value::Document(_)) => {
                fail!(31252, "Cannot use expression other than $meta in exclusion projection: {value}")
            }
            Some(Mode::Exclude) => {
                fail!(31310, "Cannot use an expression {value} in an exclusion projection")
            }
            _ => self.mode = Some(Mode::Include),
        }
        let own = value.as_document().and_then(|operator| operator.first()).map(|(name, _)| name.clone());
        // An operator inside another one keeps the code of expressions.
        let is_own = |words: &str| own.is_some_and(|own| words == format!("Unrecognized expression '{own}'"));
        let expression = expression::parse(value, self.scope).map_err(|error| match error.code() {
            168 if is_own(error.message()) => crate::error::error!(31325, "Unknown expression {value}"),
            _ => error,
        })?;
        insert(&mut self.root, parts, Child::Compute(expression))
    }

    pub fn finish(mut self) -> Result<Projection> {
        let mode = self.mode.unwrap_or(match self.id {
            Some(true) => Mode::Include,
            _ => Mode::Exclude,
        });
        if mode == Mode::Include && self.id.is_none() && self.root.child("_id").is_none() {
            self.root.children.insert(0, (Str::from("_id"), Child::Keep));
        }
        Ok(Projection { mode, root: self.root })
    }
}

/// Inserts the action at a path into the tree; it collides with an action at the same path, below it or above it.
pub(super) fn insert(branch: &mut Branch, parts: &[Str], child: Child) -> Result<()> {
    let Some((name, rest)) = parts.split_first() else { return Ok(()) };
    let at = branch.children.iter().position(|(known, _)| known == name);
    match (at, rest.is_empty()) {
        (Some(at), true) => match &branch.children[at].1 {
            Child::Branch(_) => fail!(31250, "Path collision at {}", parts.join(".")),
            _ => fail!(31250, "Path collision at {}", parts.join(".")),
        },
        (None, true) => branch.children.push((name.clone(), child)),
        (Some(at), false) => match &mut branch.children[at].1 {
            Child::Branch(inner) => insert(inner, rest, child)?,
            _ => fail!(31249, "Path collision at {} remaining portion {}", parts.join("."), rest.join(".")),
        },
        (None, false) => {
            let mut inner = Branch::default();
            insert(&mut inner, rest, child)?;
            branch.children.push((name.clone(), Child::Branch(inner)));
        }
    }
    Ok(())
}

fn add_computed(branch: &mut Branch, path: &str, value: &Value, scope: &Scope, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        fail!(15, "$addFields may be nested {DEPTH_MAX} levels deep");
    }
    let parts = split(path)?;
    if depth > 0 && parts.len() > 1 {
        fail!(40183, "FieldPath field names may not contain '.' in a nested object: {path}");
    }
    let (Some((last, above)), mut branch) = (parts.split_last(), branch) else { return Ok(()) };
    for part in above {
        branch = descend(branch, part, path)?;
    }
    match value {
        Value::Document(inner) if inner.first().is_some_and(|(name, _)| !name.starts_with('$')) => {
            let branch = descend(branch, last, path)?;
            for (name, value) in inner.iter() {
                if name.starts_with('$') {
                    fail!(40181, "an expression object must have exactly one field: {inner}");
                }
                add_computed(branch, name, value, scope, depth + 1)?;
            }
            Ok(())
        }
        Value::Document(inner) if inner.len() > 1 => {
            fail!(40181, "an expression object must have exactly one field: {inner}")
        }
        value => {
            let expression = expression::parse(value, scope)?;
            if branch.child(last).is_some() {
                fail!(40176, "specification contains two conflicting paths: {path}");
            }
            branch.children.push((last.clone(), Child::Compute(expression)));
            Ok(())
        }
    }
}

fn descend<'a>(branch: &'a mut Branch, part: &Str, path: &str) -> Result<&'a mut Branch> {
    let at = match branch.children.iter().position(|(known, _)| known == part) {
        Some(at) => at,
        None => {
            branch.children.push((part.clone(), Child::Branch(Branch::default())));
            branch.children.len() - 1
        }
    };
    match &mut branch.children[at].1 {
        Child::Branch(inner) => Ok(inner),
        _ => fail!(40176, "specification contains two conflicting paths: {path}"),
    }
}
