//! Inference: new columns from a chunk of documents, and widenings that its numbers want.
//!
//! One pass over the chunk finds the documents that lack a column. Columns are made from these, with one pass
//! for each depth, so that a limit is used up level by level and in document order. A `long` column made from
//! this chunk becomes `double` at the first number that `long` lacks; an older one is reported as a wanted
//! widening. Structs and lists that got no part because of the limit are removed in the end.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use shardlake_document::{BsonKind, RawArray, RawDocument, RawElement, RawValue};

use super::arrow_types::ELEMENT;
use super::column_path::ColumnPath;
use super::column_type::{ColumnType, Fields, Member, Members, Scalar};
use super::exclude::Exclusions;
use super::makes::{Rules, begun_type, inner_exclusions};
use super::met::member_of;
use super::numbers::is_whole;
use super::table_schema::TableSchema;

/// The result of inference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learned {
    /// New properties over all levels.
    pub added: usize,
    /// `long` columns, older than this chunk, for which it has numbers that only `double` holds.
    pub widenings: Vec<ColumnPath>,
}

impl TableSchema {
    /// Adds the columns that a chunk of documents makes.
    pub fn learn<'a>(&mut self, documents: impl Iterator<Item = RawDocument<'a>>) -> Learned {
        let before = self.property_count;
        let rules = Rules { mode: self.mode, limits: self.limits };
        let mut learner = Learner {
            rules,
            count: before,
            pass: Pass::Search,
            missing: usize::MAX,
            is_incomplete: false,
            has_deeper: false,
            seen: Vec::new(),
            fresh: FxHashSet::default(),
            widenings: BTreeSet::new(),
        };
        let (fields, exclude) = (&mut self.fields, self.exclude.some());
        let incomplete: Vec<RawDocument<'a>> = if fields.is_empty() {
            learner.missing = 1;
            documents.collect()
        } else {
            documents.filter(|document| learner.is_incomplete(fields, *document, exclude)).collect()
        };
        for depth in learner.missing..=rules.limits.depth_max(rules.mode) {
            learner.pass = Pass::Create { depth };
            learner.has_deeper = false;
            for document in &incomplete {
                learner.object(fields, *document, exclude, Place { depth: 1, path: None });
            }
            if !learner.has_deeper {
                break;
            }
        }
        if !incomplete.is_empty() {
            fields.retain(|field| complete(&mut field.column_type));
        }
        self.property_count = self.fields.property_count();
        assert!(self.property_count >= before, "columns are only added");
        let widenings = learner.widenings.iter().map(|path| self.named_path(path)).collect();
        Learned { added: self.property_count - before, widenings }
    }

    /// Names for a path of indexes, in which an element's index is [`ELEMENT_INDEX`].
    fn named_path(&self, indexes: &[usize]) -> ColumnPath {
        let mut names = Vec::with_capacity(indexes.len());
        let root = ColumnType::Object(Fields::default());
        let mut column_type: &ColumnType = &root;
        for (step, index) in indexes.iter().enumerate() {
            column_type = match column_type {
                _ if step == 0 => name_field(&self.fields, *index, &mut names),
                ColumnType::Object(fields) => name_field(fields, *index, &mut names),
                ColumnType::List(Some(element)) => {
                    names.push(ELEMENT.to_owned());
                    element
                }
                _ => unreachable!("a path leads through structs and lists"),
            };
        }
        ColumnPath { names }
    }
}

fn name_field<'f>(fields: &'f Fields, index: usize, names: &mut Vec<String>) -> &'f ColumnType {
    let field = fields.get(index);
    names.push(field.column.clone());
    &field.column_type
}

/// The step into a list, in a path of indexes.
const ELEMENT_INDEX: usize = usize::MAX;

struct Learner {
    rules: Rules,
    /// Properties, those begun in this pass included.
    count: usize,
    pass: Pass,
    /// The least depth at which a column is missing.
    missing: usize,
    /// The document that is searched has a value that makes a column.
    is_incomplete: bool,
    /// A container at the depth of this pass has parts.
    has_deeper: bool,
    /// A stack of bit sets, one for each open object: fields that the object has had.
    seen: Vec<u64>,
    /// `long` columns made from this chunk.
    fresh: FxHashSet<Vec<usize>>,
    widenings: BTreeSet<Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Pass {
    /// Walks everything and creates nothing.
    Search,
    /// Creates the columns of one depth and walks no deeper.
    Create { depth: usize },
}

/// The place of a value: its depth and the indexes of the fields that lead to it.
#[derive(Clone, Copy)]
struct Place<'p> {
    depth: usize,
    path: Option<&'p Step<'p>>,
}

struct Step<'p> {
    parent: Option<&'p Step<'p>>,
    index: usize,
}

impl Place<'_> {
    fn indexes(&self) -> Vec<usize> {
        let mut indexes = Vec::with_capacity(self.depth);
        let mut step = self.path;
        while let Some(Step { parent, index }) = step {
            indexes.push(*index);
            step = *parent;
        }
        indexes.reverse();
        indexes
    }
}

impl Learner {
    /// Whether a document makes columns. Numbers in older columns are seen to on the way.
    fn is_incomplete(
        &mut self,
        fields: &mut Fields,
        document: RawDocument<'_>,
        exclude: Option<&Exclusions>,
    ) -> bool {
        self.is_incomplete = false;
        self.object(fields, document, exclude, Place { depth: 1, path: None });
        self.is_incomplete
    }

    fn object(
        &mut self,
        fields: &mut Fields,
        document: RawDocument<'_>,
        exclude: Option<&Exclusions>,
        place: Place<'_>,
    ) {
        let base = self.seen.len();
        let mut next = 0;
        for element in document.elements() {
            if element.kind() == Some(BsonKind::Null) && !self.rules.mode.is_full_fidelity() {
                continue;
            }
            let found = fields.find(element.name_bytes(), &mut next);
            if let Some(index) = found
                && is_plain(&fields.get(index).column_type, &element)
            {
                if fields.get(index).column_type == ColumnType::Scalar(Scalar::Long) {
                    self.see(base, index);
                }
                continue;
            }
            let Some(exclude) = inner_exclusions(exclude, &element) else { continue };
            let created = match found {
                Some(_) => None,
                None => self.create_field(fields, &element, exclude, place.depth),
            };
            let Some(index) = found.or(created) else { continue };
            if self.see(base, index) {
                continue;
            }
            let step = Step { parent: place.path, index };
            let place = Place { depth: place.depth, path: Some(&step) };
            let column_type = &mut fields.get_mut(index).column_type;
            if created.is_some() {
                self.note_fresh(column_type, place);
            }
            self.value(column_type, &element, exclude, place);
        }
        self.seen.truncate(base);
    }

    fn create_field(
        &mut self,
        fields: &mut Fields,
        element: &RawElement<'_>,
        exclude: Option<&Exclusions>,
        depth: usize,
    ) -> Option<usize> {
        if !self.may_create(depth) {
            return None;
        }
        let name = element.name().filter(|name| self.rules.allows_name(name, depth))?;
        let column_type = self.create(element, exclude, depth)?;
        Some(fields.push(name, column_type))
    }

    /// Notes a field of an open object. Returns whether the object has had it, in another spelling.
    fn see(&mut self, base: usize, index: usize) -> bool {
        let (word, bit) = (base + index / 64, 1 << (index % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let had = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        had
    }

    fn array(
        &mut self,
        element_type: &mut Option<Box<ColumnType>>,
        array: RawArray<'_>,
        exclude: Option<&Exclusions>,
        place: Place<'_>,
    ) {
        for element in array.elements() {
            if element_type.is_none() {
                *element_type = self.create(&element, exclude, place.depth).map(Box::new);
                if let Some(element_type) = element_type {
                    self.note_fresh(element_type, place);
                }
            }
            if let Some(element_type) = element_type {
                self.value(element_type, &element, exclude, place);
            }
        }
    }

    /// The type for a path without one; `None` if the value makes none, or not in this pass.
    fn create(
        &mut self,
        element: &RawElement<'_>,
        exclude: Option<&Exclusions>,
        depth: usize,
    ) -> Option<ColumnType> {
        if !self.may_create(depth) || !self.rules.makes_column(element, exclude, depth) {
            return None;
        }
        if self.pass == Pass::Search {
            self.note_missing(depth);
            return None;
        }
        if self.rules.mode.is_full_fidelity() {
            // The member, which is made next, counts.
            return Some(ColumnType::Value(Members::default()));
        }
        self.count += 1;
        begun_type(&element.value()?)
    }

    fn may_create(&self, depth: usize) -> bool {
        let is_depth = match self.pass {
            Pass::Search => depth < self.missing || !self.is_incomplete,
            Pass::Create { depth: of_pass } => depth == of_pass,
        };
        is_depth && self.count < self.rules.limits.properties
    }

    fn note_missing(&mut self, depth: usize) {
        self.missing = self.missing.min(depth);
        self.is_incomplete = true;
    }

    fn value(
        &mut self,
        column_type: &mut ColumnType,
        element: &RawElement<'_>,
        exclude: Option<&Exclusions>,
        place: Place<'_>,
    ) {
        let ColumnType::Value(members) = column_type else {
            return self.part(column_type, element, exclude, place);
        };
        let Some(member) = member_of(self.rules.mode, element) else { return };
        let index = match members.find(member) {
            Some(index) => index,
            None => {
                if !self.may_create(place.depth) || !self.rules.makes_column(element, exclude, place.depth) {
                    return;
                }
                if self.pass == Pass::Search {
                    self.note_missing(place.depth);
                    return;
                }
                self.count += 1;
                members.push(member, member.begun())
            }
        };
        if matches!(member, Member::Object | Member::Array) {
            self.part(members.get_mut(index), element, exclude, place);
        }
    }

    fn part(
        &mut self,
        column_type: &mut ColumnType,
        element: &RawElement<'_>,
        exclude: Option<&Exclusions>,
        place: Place<'_>,
    ) {
        if is_plain(column_type, element) {
            return;
        }
        let Some(value) = element.value() else { return };
        match (&mut *column_type, value) {
            (ColumnType::Scalar(Scalar::Long), RawValue::Double(number))
                if !is_whole(number) && self.wants_double(place) =>
            {
                *column_type = ColumnType::Scalar(Scalar::Double);
            }
            (ColumnType::Object(fields), RawValue::Object(document)) => {
                self.inside(place, |learner, place| learner.object(fields, document, exclude, place));
            }
            (ColumnType::Object(fields), RawValue::NonJson(value)) => {
                self.inside(place, |learner, place| {
                    learner.object(fields, value.shown().raw(), exclude, place);
                });
            }
            (ColumnType::List(element), RawValue::Array(array)) => {
                self.inside(place, |learner, place| {
                    let step = Step { parent: place.path, index: ELEMENT_INDEX };
                    learner.array(element, array, exclude, Place { path: Some(&step), ..place });
                });
            }
            _ => {}
        }
    }

    fn note_fresh(&mut self, column_type: &ColumnType, place: Place<'_>) {
        if *column_type == ColumnType::Scalar(Scalar::Long) {
            self.fresh.insert(place.indexes());
        }
    }

    /// Whether a `long` column becomes `double` now. An older one is a wanted widening.
    fn wants_double(&mut self, place: Place<'_>) -> bool {
        let indexes = place.indexes();
        let is_fresh = self.fresh.contains(&indexes);
        if !is_fresh {
            self.widenings.insert(indexes);
        }
        is_fresh
    }

    fn inside(&mut self, place: Place<'_>, walk: impl FnOnce(&mut Learner, Place<'_>)) {
        if let Pass::Create { depth } = self.pass
            && place.depth >= depth
        {
            self.has_deeper = true;
            return;
        }
        walk(self, Place { depth: place.depth + 1, path: place.path });
    }
}

/// Whether a value neither makes nor changes a column, by its kind alone.
#[inline]
fn is_plain(column_type: &ColumnType, element: &RawElement<'_>) -> bool {
    match column_type {
        ColumnType::Scalar(Scalar::Long) => element.kind() != Some(BsonKind::Double),
        ColumnType::Scalar(_) => true,
        _ => false,
    }
}

/// Whether a type has all its parts. Parts without parts of their own are removed first.
fn complete(column_type: &mut ColumnType) -> bool {
    match column_type {
        ColumnType::Scalar(_) => true,
        ColumnType::Object(fields) => {
            fields.retain(|field| complete(&mut field.column_type));
            !fields.is_empty()
        }
        ColumnType::List(element) => {
            element.take_if(|element| !complete(element));
            element.is_some()
        }
        ColumnType::Value(members) => {
            members.retain(complete);
            !members.is_empty()
        }
    }
}
