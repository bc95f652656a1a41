//! Whether a value makes a column: nulls, `{}` and `[]` make none in well-defined mode, nor do values that only
//! have parts beyond the limits.

use shardlake_document::{RawArray, RawDocument, RawElement, RawValue};

use super::column_type::{ColumnType, Fields, Member, Scalar};
use super::exclude::{Excluded, Exclusions};
use super::met::member_of;
use super::names::{column_name, is_system_column};
use super::numbers::is_whole;
use super::table_schema::{SchemaLimits, SchemaMode};

/// The rules by which values make columns.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub mode: SchemaMode,
    pub limits: SchemaLimits,
}

impl Rules {
    /// Whether a property may have a column by its name. The root has depth 1.
    pub fn allows_name(&self, name: &str, depth: usize) -> bool {
        let is_reserved = depth == 1 && is_system_column(name);
        !is_reserved && self.fits_name(name)
    }

    /// An empty name is a column that most SQL dialects cannot name.
    pub fn fits_name(&self, name: &str) -> bool {
        !name.is_empty() && column_name(name).len() <= self.limits.name_bytes
    }

    pub fn fits_depth(&self, depth: usize) -> bool {
        depth <= self.limits.depth_max(self.mode)
    }

    pub fn makes_column(&self, element: &RawElement<'_>, exclude: Option<&Exclusions>, depth: usize) -> bool {
        let Some(value) = element.value() else { return false };
        if !self.fits_depth(depth) {
            return false;
        }
        let is_full = self.mode.is_full_fidelity();
        let member = if is_full { member_of(self.mode, element) } else { Some(Member::Object) };
        match (value, member) {
            (_, None) => false,
            (RawValue::Null, _) => is_full,
            (RawValue::Object(document), _) => self.makes_struct(document, exclude, depth + 1),
            (RawValue::Array(array), _) => self.makes_list(array, exclude, depth + 1),
            (RawValue::NonJson(value), Some(Member::Object)) => {
                self.makes_struct(value.shown().raw(), exclude, depth + 1)
            }
            _ => true,
        }
    }

    fn makes_struct(&self, document: RawDocument<'_>, exclude: Option<&Exclusions>, depth: usize) -> bool {
        self.fits_depth(depth)
            && document.elements().any(|element| {
                let Some(name) = element.name() else { return false };
                let Some(inner) = inner_exclusions(exclude, &element) else { return false };
                self.allows_name(name, depth) && self.makes_column(&element, inner, depth)
            })
    }

    fn makes_list(&self, array: RawArray<'_>, exclude: Option<&Exclusions>, depth: usize) -> bool {
        self.fits_depth(depth) && array.elements().any(|element| self.makes_column(&element, exclude, depth))
    }
}

/// The exclusions inside of a member; `None` if the member is excluded itself.
#[inline]
pub fn inner_exclusions<'e>(
    exclude: Option<&'e Exclusions>,
    element: &RawElement<'_>,
) -> Option<Option<&'e Exclusions>> {
    let (Some(exclude), Some(name)) = (exclude, element.name()) else { return Some(None) };
    match exclude.member(name) {
        Excluded::No => Some(None),
        Excluded::Inside(inner) => Some(Some(inner)),
        Excluded::Yes => None,
    }
}

/// The type that the first value of a path gives to its column in well-defined mode.
pub fn begun_type(value: &RawValue<'_>) -> Option<ColumnType> {
    Some(match value {
        RawValue::Null => return None,
        RawValue::Bool(_) => ColumnType::Scalar(Scalar::Boolean),
        RawValue::Int(_) => ColumnType::Scalar(Scalar::Long),
        RawValue::Double(value) if is_whole(*value) => ColumnType::Scalar(Scalar::Long),
        RawValue::Double(_) => ColumnType::Scalar(Scalar::Double),
        RawValue::String(_) => ColumnType::Scalar(Scalar::String),
        RawValue::Array(_) => ColumnType::List(None),
        RawValue::Object(_) | RawValue::NonJson(_) => ColumnType::Object(Fields::default()),
    })
}
