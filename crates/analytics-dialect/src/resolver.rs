//! State of the walk over a statement: names in scope, tables found, types of expressions.

use sqlparser::ast::{
    AccessExpr, Expr, Ident, ObjectName, ObjectNamePart, OrderBy, Query, SelectItemQualifiedWildcardKind,
    SetExpr, Spanned, Subscript, Value, VisitMut, With,
};

use crate::access;
use crate::catalog::{Column, Kind, Settings, TableName};
use crate::error::{Checked, checked};
use crate::literals;
use crate::scope::{Frame, visible};
use crate::tables::{self, Found};

/// Parts of a query that are not visited with its body.
pub(crate) struct Saved {
    pub with: Option<With>,
    /// Names of WITH that are known outside of the query.
    pub ctes: usize,
    pub order_by: Option<OrderBy>,
}

pub(crate) struct Resolver<'s> {
    pub settings: Settings<'s>,
    pub is_tsql: bool,
    pub frames: Vec<Frame>,
    pub ctes: Vec<(String, Option<Vec<Column>>)>,
    pub tables: Vec<TableName>,
    pub parameters: Vec<String>,
    /// Parts of the queries around, until each ends.
    pub saved: Vec<Saved>,
    /// The next SELECT belongs to the query just entered.
    pub is_entered: bool,
    /// Columns of the SELECT that was left last.
    pub columns: Option<Vec<Column>>,
}

impl<'s> Resolver<'s> {
    pub fn new(settings: Settings<'s>, is_tsql: bool) -> Resolver<'s> {
        Resolver {
            settings,
            is_tsql,
            frames: Vec::new(),
            ctes: Vec::new(),
            tables: Vec::new(),
            parameters: Vec::new(),
            saved: Vec::new(),
            is_entered: false,
            columns: None,
        }
    }

    pub fn resolve(&mut self, query: &mut Query) -> Checked<()> {
        checked(query.visit(self))?;
        let is_balanced = self.frames.is_empty() && self.saved.is_empty() && self.ctes.is_empty();
        assert!(is_balanced, "each query put back the parts that were taken out of it");
        Ok(())
    }

    /// The right name of a table, and its columns.
    pub fn table(&mut self, name: &mut ObjectName) -> Checked<(Option<TableName>, Option<Vec<Column>>)> {
        let parts = tables::parts(name)?;
        if let [single] = parts.as_slice()
            && let Some((_, columns)) = self.ctes.iter().rev().find(|(cte, _)| *cte == single.value)
        {
            return Ok((None, columns.clone()));
        }
        match tables::table(&self.settings, &parts)? {
            Found::Information => Ok((None, None)),
            Found::Table(table) => {
                let found =
                    TableName { database: table.database.clone(), container: table.container.clone() };
                if !self.tables.contains(&found) {
                    self.tables.push(found.clone());
                }
                let at = name.span();
                let part = |name: &str| ObjectNamePart::Identifier(Ident { span: at, ..tables::ident(name) });
                *name = ObjectName(vec![part(&table.database), part(&table.container)]);
                Ok((Some(found), Some(table.columns.clone()).filter(|columns| !columns.is_empty())))
            }
        }
    }

    /// A query that sees nothing around it. Returns its columns, where they are known.
    pub fn subquery(&mut self, query: &mut Query) -> Checked<Option<Vec<Column>>> {
        self.frames.push(Frame::barrier());
        let is_entered = std::mem::take(&mut self.is_entered);
        let resolved = checked(query.visit(self));
        self.is_entered = is_entered;
        self.frames.pop();
        resolved?;
        let is_select = matches!(&*query.body, SetExpr::Select(_));
        Ok(self.columns.take().filter(|_| is_select))
    }

    /// The type of an expression, as far as the translation depends on it.
    pub fn kind_of(&self, expr: &Expr) -> Kind {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(_) => Kind::Text,
                Value::Number(text, _) if text.bytes().all(|byte| byte.is_ascii_digit()) => Kind::Long,
                Value::Number(..) => Kind::Double,
                Value::Boolean(_) => Kind::Boolean,
                _ => Kind::Other,
            },
            Expr::Nested(inner) => self.kind_of(inner),
            Expr::Cast { data_type, .. } => crate::types::kind_of(data_type),
            Expr::BinaryOp { op: sqlparser::ast::BinaryOperator::StringConcat, .. } => Kind::Text,
            Expr::Function(function) => literals::kind_of(function),
            Expr::Identifier(name) => {
                let columns = visible(&self.frames)
                    .find_map(|(_, frame)| frame.relations.iter().find_map(|relation| relation.column(name)));
                columns.map_or(Kind::Other, |column| column.kind.clone())
            }
            Expr::CompoundIdentifier(names) => self.kind_of_names(names),
            Expr::CompoundFieldAccess { root, access_chain } => {
                let mut kind = self.kind_of(root);
                for access in access_chain {
                    kind = kind_below(kind, access);
                }
                kind
            }
            _ => Kind::Other,
        }
    }

    fn kind_of_names(&self, names: &[Ident]) -> Kind {
        let below = |column: &Column, rest: &[Ident]| {
            access::members(&column.kind, &mut rest.to_vec()).unwrap_or(Kind::Other)
        };
        for (_, frame) in visible(&self.frames) {
            if let Some((_, relation)) = frame.relation(&names[0].value) {
                return relation.column(&names[1]).map_or(Kind::Other, |column| below(column, &names[2..]));
            }
            if let Some(column) = frame.relations.iter().find_map(|relation| relation.column(&names[0])) {
                return below(column, &names[1..]);
            }
        }
        Kind::Other
    }
}

pub(crate) fn kind_below(kind: Kind, access: &AccessExpr) -> Kind {
    match (kind, access) {
        (Kind::List(kind), AccessExpr::Subscript(Subscript::Index { .. })) => *kind,
        (kind @ Kind::List(_), AccessExpr::Subscript(Subscript::Slice { .. })) => kind,
        (kind @ Kind::Struct(_), AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) })) => {
            match &value.value {
                Value::SingleQuotedString(name) => tables::member(&kind, name, value.span.start)
                    .map_or(Kind::Other, |(_, kind)| kind.clone()),
                _ => Kind::Other,
            }
        }
        _ => Kind::Other,
    }
}

/// The alias before `.*`.
pub(crate) fn alias_of_wildcard(kind: &SelectItemQualifiedWildcardKind) -> Option<&Ident> {
    match kind {
        SelectItemQualifiedWildcardKind::ObjectName(name) => match name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => Some(ident),
            _ => None,
        },
        SelectItemQualifiedWildcardKind::Expr(_) => None,
    }
}
