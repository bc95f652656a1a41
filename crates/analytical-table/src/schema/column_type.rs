//! Types of columns, the fields of an object, and the members of a value in full fidelity.

use rustc_hash::FxHashMap;

use super::names::{column_name, lower_case};

/// The type of a column, a field or an element.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnType {
    Scalar(Scalar),
    Object(Fields),
    /// `None` only during inference.
    List(Option<Box<ColumnType>>),
    /// A value in full fidelity: one member per type met.
    Value(Members),
}

/// The type of a value without parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    String,
    Boolean,
    Integer,
    Long,
    Double,
    /// Microseconds since 1970 in UTC.
    Timestamp,
    Binary,
}

/// A named column or field.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The member's name in JSON, as it was first spelled.
    pub property: String,
    pub column: String,
    pub column_type: ColumnType,
}

/// The fields of an object, in the order first seen.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    list: Vec<Field>,
    by_property: FxHashMap<String, usize>,
    by_lower_case: FxHashMap<String, usize>,
}

/// A member of a value in full fidelity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    Num,
    String,
    Bool,
    Object,
    Array,
    Null,
    Float64,
    Int32,
    Int64,
    Timestamp,
    ObjectId,
    Binary,
    Decimal128,
}

/// The members of a value in full fidelity, in the order first seen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Members(Vec<(Member, ColumnType)>);

impl ColumnType {
    /// Properties that count for the limit: fields, and members of full fidelity.
    pub fn property_count(&self) -> usize {
        match self {
            ColumnType::Scalar(_) => 0,
            ColumnType::Object(fields) => fields.property_count(),
            ColumnType::List(element) => element.as_ref().map_or(0, |element| element.property_count()),
            ColumnType::Value(members) => members.iter().map(|(_, member)| 1 + member.property_count()).sum(),
        }
    }
}

impl Fields {
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn get(&self, index: usize) -> &Field {
        &self.list[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut Field {
        &mut self.list[index]
    }

    pub fn by_column(&self, column: &str) -> Option<usize> {
        self.list.iter().position(|field| field.column == column)
    }

    /// The field of a member, by the bytes of its name. Members of most documents are in the order of the
    /// fields, so the field after the last one found is tried before the look-up.
    #[inline]
    pub fn find(&self, name: &[u8], next: &mut usize) -> Option<usize> {
        let index = match self.list.get(*next) {
            Some(field) if field.property.as_bytes() == name => *next,
            _ => self.look_up(name)?,
        };
        *next = index + 1;
        Some(index)
    }

    fn look_up(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?;
        self.by_property.get(name).or_else(|| self.by_lower_case.get(&*lower_case(name))).copied()
    }

    /// Adds a field for a property that has none.
    pub(super) fn push(&mut self, property: &str, column_type: ColumnType) -> usize {
        let field =
            Field { property: property.to_owned(), column: column_name(property).into_owned(), column_type };
        self.push_field(field)
    }

    pub(super) fn push_field(&mut self, field: Field) -> usize {
        let index = self.list.len();
        self.by_property.insert(field.property.clone(), index);
        let former = self.by_lower_case.insert(lower_case(&field.property).into_owned(), index);
        assert!(former.is_none(), "one field for all spellings of a name");
        self.list.push(field);
        index
    }

    /// Removes fields that inference began and could not complete.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&mut Field) -> bool) {
        let fields = std::mem::take(self);
        for mut field in fields.list {
            if is_kept(&mut field) {
                self.push_field(field);
            }
        }
    }

    pub(super) fn property_count(&self) -> usize {
        let of_field = |field: &Field| match &field.column_type {
            // Each type of the path counts instead of the path.
            ColumnType::Value(_) => field.column_type.property_count(),
            column_type => 1 + column_type.property_count(),
        };
        self.list.iter().map(of_field).sum()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.list == other.list
    }
}

impl Member {
    pub const ALL: [Member; 13] = {
        use Member::*;
        [
            Num, String, Bool, Object, Array, Null, Float64, Int32, Int64, Timestamp, ObjectId, Binary,
            Decimal128,
        ]
    };

    pub fn name(self) -> &'static str {
        match self {
            Member::Num => "num",
            Member::String => "string",
            Member::Bool => "bool",
            Member::Object => "object",
            Member::Array => "array",
            Member::Null => "NULL",
            Member::Float64 => "float64",
            Member::Int32 => "int32",
            Member::Int64 => "int64",
            Member::Timestamp => "timestamp",
            Member::ObjectId => "objectId",
            Member::Binary => "binary",
            Member::Decimal128 => "decimal128",
        }
    }

    pub fn of_name(name: &str) -> Option<Member> {
        Member::ALL.into_iter().find(|member| member.name() == name)
    }

    /// The type of the member's column; `None` for objects and arrays.
    pub fn scalar(self) -> Option<Scalar> {
        Some(match self {
            Member::Object | Member::Array => return None,
            Member::Num | Member::Float64 => Scalar::Double,
            Member::String | Member::ObjectId | Member::Decimal128 => Scalar::String,
            Member::Bool | Member::Null => Scalar::Boolean,
            Member::Int32 => Scalar::Integer,
            Member::Int64 => Scalar::Long,
            Member::Timestamp => Scalar::Timestamp,
            Member::Binary => Scalar::Binary,
        })
    }

    /// The type of a member that was just met.
    pub(super) fn begun(self) -> ColumnType {
        match self {
            Member::Object => ColumnType::Object(Fields::default()),
            Member::Array => ColumnType::List(None),
            member => ColumnType::Scalar(member.scalar().expect("neither object nor array")),
        }
    }
}

impl Members {
    pub fn iter(&self) -> std::slice::Iter<'_, (Member, ColumnType)> {
        self.0.iter()
    }

    pub fn find(&self, member: Member) -> Option<usize> {
        self.0.iter().position(|(known, _)| *known == member)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut ColumnType {
        &mut self.0[index].1
    }

    pub(super) fn push(&mut self, member: Member, column_type: ColumnType) -> usize {
        self.0.push((member, column_type));
        self.0.len() - 1
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&mut ColumnType) -> bool) {
        self.0.retain_mut(|(_, column_type)| is_kept(column_type));
    }
}
