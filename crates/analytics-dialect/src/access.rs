//! Members and elements below a column, with the names and types that the table has.

use sqlparser::ast::{AccessExpr, Expr, Ident, Subscript};
use sqlparser::tokenizer::Location;

use crate::catalog::Kind;
use crate::error::{Checked, refuse};
use crate::json_path::Step;
use crate::tables;
use crate::types::{number, string};

/// An expression and its type.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub expr: Expr,
    pub kind: Kind,
}

impl Typed {
    pub fn new(expr: Expr, kind: Kind) -> Typed {
        Typed { expr, kind }
    }

    /// The value at the end of a path.
    pub fn at(self, steps: &[Step], place: Location) -> Checked<Typed> {
        steps.iter().try_fold(self, |value, step| match step {
            Step::Member(name) => value.member(name, place),
            Step::Index(index) => value.element(*index, place),
        })
    }

    pub fn member(self, name: &str, at: Location) -> Checked<Typed> {
        let (name, kind) = tables::member(&self.kind, name, at)?;
        Ok(Typed::new(subscript(self.expr, string(name)), kind.clone()))
    }

    /// An element by its place from 0. SQL counts from 1.
    fn element(self, index: u64, at: Location) -> Checked<Typed> {
        let kind = match self.kind {
            Kind::List(kind) => *kind,
            Kind::Other => Kind::Other,
            _ => {
                return refuse(
                    at,
                    format!("[{index}] reads a value that is no list"),
                    "DESCRIBE lists columns with types",
                );
            }
        };
        Ok(Typed::new(subscript(self.expr, number(index + 1)), kind))
    }
}

/// The members of a name with dots, in the table's names.
pub(crate) fn members(kind: &Kind, names: &mut [Ident]) -> Checked<Kind> {
    let mut kind = kind;
    for name in names {
        let (right, of_member) = tables::member(kind, &name.value, name.span.start)?;
        if right != name.value {
            *name = Ident { span: name.span, ..tables::ident(&right) };
        }
        kind = of_member;
    }
    Ok(kind.clone())
}

pub(crate) fn subscript(expr: Expr, index: Expr) -> Expr {
    let access = AccessExpr::Subscript(Subscript::Index { index });
    match expr {
        Expr::CompoundFieldAccess { root, mut access_chain } => {
            access_chain.push(access);
            Expr::CompoundFieldAccess { root, access_chain }
        }
        expr => Expr::CompoundFieldAccess { root: Box::new(expr), access_chain: vec![access] },
    }
}
