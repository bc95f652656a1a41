//! The walk over a statement: names by their right spelling, elements of lists, T-SQL's functions.
//!
//! A query's FROM is taken out and rewritten before anything else of the query is visited, since all other names depend on it. It is put
//! back when the query ends.

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    AccessExpr, Expr, Function, Ident, NamedWindowExpr, Query, Select, SelectItem, SetExpr, Spanned,
    Subscript, Value, ValueWithSpan, VisitMut, VisitorMut, WindowType,
};

use crate::access::{self, Typed, subscript};
use crate::catalog::{Column, Kind};
use crate::clauses;
use crate::error::{Checked, Refusal, checked, flow, place, refuse};
use crate::functions;
use crate::resolver::{Resolver, Saved, kind_below};
use crate::scope::{Element, Frame, renamed, visible};
use crate::tables;
use crate::types::string;

impl Resolver<'_> {
    fn enter_query(&mut self, query: &mut Query) -> Checked<()> {
        clauses::check_query(query)?;
        clauses::limit(query, self.is_tsql)?;
        let outer = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = cte.alias.name.value.clone();
                if with.recursive {
                    self.ctes.push((name.clone(), None));
                }
                let columns = self.subquery(&mut cte.query)?;
                let columns = renamed(columns, &cte.alias);
                self.ctes.push((name, columns));
            }
        }
        let mut saved = Saved { with: query.with.take(), ctes: outer, order_by: None };
        if !matches!(&*query.body, SetExpr::Select(_)) {
            // The order of a UNION names its own columns, not those of the query around it.
            saved.order_by = query.order_by.take();
        }
        self.saved.push(saved);
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.enter_select(select, true)?;
            self.is_entered = true;
        }
        Ok(())
    }

    fn leave_query(&mut self, query: &mut Query) -> Checked<()> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.leave_select(select);
        }
        let Some(saved) = self.saved.pop() else { return Ok(()) };
        query.with = saved.with;
        self.ctes.truncate(saved.ctes);
        if let Some(mut order_by) = saved.order_by {
            let around = self.frames.len();
            self.frames.extend([Frame::barrier(), Frame::unknown()]);
            let resolved = checked(VisitMut::visit(&mut order_by, self));
            self.frames.truncate(around);
            query.order_by = Some(order_by);
            resolved?;
        }
        Ok(())
    }

    fn enter_select(&mut self, select: &mut Select, is_of_query: bool) -> Checked<()> {
        clauses::check_select(select)?;
        if select.top.is_some() {
            return refuse(
                place(&*select),
                "TOP is not translated here",
                "put the SELECT in parentheses and write LIMIT behind it",
            );
        }
        let from = std::mem::take(&mut select.from);
        let mut frame = self.from(from)?;
        frame.is_of_query = is_of_query;
        clauses::assignments(select, self.is_tsql)?;
        let alias = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        };
        frame.aliases = select.projection.iter().filter_map(alias).collect();
        if !frame.elements.is_empty() {
            let projection = std::mem::take(&mut select.projection);
            for item in projection {
                self.expand(&frame, item, &mut select.projection)?;
            }
        }
        frame.names = select.projection.iter().map(bare_name).collect();
        if self.is_tsql {
            for window in &mut select.named_window {
                if let NamedWindowExpr::WindowSpec(spec) = &mut window.1 {
                    clauses::nulls_as_tsql(&mut spec.order_by);
                }
            }
        }
        let mut from = std::mem::take(&mut frame.from);
        self.frames.push(frame);
        self.conditions(&mut from)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.from = from;
        }
        Ok(())
    }

    fn leave_select(&mut self, select: &mut Select) {
        self.name_items(select);
        self.columns = self.projected(select);
        if let Some(frame) = self.frames.pop() {
            select.from = frame.from;
        }
    }

    /// Gives members and elements the names that columns have: `x.sku` is `sku` in the result.
    fn name_items(&self, select: &mut Select) {
        let Some(frame) = self.frames.last() else { return };
        let has_all = select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
        // HAVING and QUALIFY read names of the result, too: a new name must not hide a column there.
        let is_filtered = select.having.is_some() || select.qualify.is_some();
        for (item, name) in select.projection.iter_mut().zip(&frame.names) {
            let Some(name) = name else { continue };
            let is_unique = frame.names.iter().flatten().filter(|other| *other == name).count() == 1
                && !frame.aliases.contains(name)
                && !((has_all || is_filtered) && frame.has_own_column(name));
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let is_column = match expr {
                Expr::Identifier(column) => column.value == *name,
                Expr::CompoundIdentifier(names) => {
                    let columns = 1 + usize::from(frame.relation(&names[0].value).is_some());
                    names.len() <= columns && names.last().is_some_and(|last| last.value == *name)
                }
                _ => false,
            };
            if is_unique && !is_column {
                let expr = std::mem::replace(expr, Expr::Wildcard(AttachedToken::empty()));
                *item = SelectItem::ExprWithAlias { expr, alias: tables::ident(name) };
            }
        }
    }

    /// Columns of a SELECT list, or none where one has no plain name.
    fn projected(&self, select: &Select) -> Option<Vec<Column>> {
        let frame = self.frames.last()?;
        let mut out = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { expr, alias } => {
                    out.push(Column::new(&alias.value, self.kind_of(expr)))
                }
                SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => {
                    out.push(Column::new(&bare_name(item)?, self.kind_of(expr)));
                }
                SelectItem::Wildcard(options)
                    if options.opt_rename.is_none() && options.opt_replace.is_none() =>
                {
                    if options.opt_exclude.is_some() || options.opt_except.is_some() {
                        return None;
                    }
                    for relation in &frame.relations {
                        out.extend(relation.columns.clone()?);
                        out.extend(relation.added.clone());
                    }
                }
                _ => return None,
            }
        }
        Some(out)
    }

    fn identifier(&mut self, expr: &mut Expr) -> Checked<()> {
        let Expr::Identifier(name) = expr else { return Ok(()) };
        let mut is_known = true;
        for (depth, frame) in visible(&self.frames) {
            if depth == 0 && frame.is_in_order_by && frame.is_in_result(&name.value) {
                return Ok(());
            }
            if let Some(found) = in_elements(&frame.elements, &name.value) {
                let is_twice = frame
                    .relations
                    .iter()
                    .filter_map(|relation| relation.columns.as_deref())
                    .any(|columns| tables::column(columns, name).is_some());
                if is_twice {
                    return refuse(
                        name.span.start,
                        format!("'{name}' is a column of two relations"),
                        "write the alias before it",
                    );
                }
                *expr = found.expr.clone();
                return Ok(());
            }
            if let Some(column) = frame.relations.iter().find_map(|relation| relation.column(name)) {
                if column.name != name.value {
                    *name = Ident { span: name.span, ..tables::ident(&column.name) };
                }
                return Ok(());
            }
            if frame.aliases.contains(&name.value) {
                return Ok(());
            }
            is_known &= frame.is_known();
        }
        if !is_known {
            return Ok(());
        }
        self.unknown(name)
    }

    fn unknown(&self, name: &Ident) -> Checked<()> {
        let mut known: Vec<&str> = Vec::new();
        for (_, frame) in visible(&self.frames) {
            for relation in &frame.relations {
                known.extend(relation.name.as_deref());
                known.extend(relation.columns.iter().flatten().map(|column| column.name.as_str()));
            }
            known.extend(frame.aliases.iter().map(String::as_str));
            known.extend(frame.elements.iter().map(|element| element.alias.as_str()));
            known.extend(
                frame.elements.iter().flat_map(|element| &element.columns).map(|(name, _)| name.as_str()),
            );
        }
        let hint = match known.is_empty() {
            true => "texts are written in single quotes".to_owned(),
            false => tables::column_hint(&name.value, known.into_iter()),
        };
        refuse(name.span.start, format!("there is no column '{}'", name.value), hint)
    }

    fn compound(&mut self, expr: &mut Expr) -> Checked<()> {
        let Expr::CompoundIdentifier(names) = expr else { return Ok(()) };
        if names.len() < 2 {
            return Ok(());
        }
        let mut is_known = true;
        let mut found = None;
        for (depth, frame) in visible(&self.frames) {
            if let Some(element) = frame.element(&names[0].value) {
                found = Some((depth, of_element(element, names)?));
                break;
            }
            // The database before a table without alias.
            let of_database = frame.relations.iter().any(|relation| {
                names.len() > 2
                    && relation.database.as_deref() == Some(names[0].value.as_str())
                    && relation.name.as_deref() == Some(names[1].value.as_str())
            });
            if of_database {
                names.remove(0);
            }
            if let Some((_, relation)) = frame.relation(&names[0].value) {
                let kind = match (relation.column(&names[1]), &relation.columns) {
                    (Some(column), _) => {
                        let column = column.clone();
                        if column.name != names[1].value {
                            names[1] = Ident { span: names[1].span, ..tables::ident(&column.name) };
                        }
                        column.kind
                    }
                    (None, None) => Kind::Other,
                    (None, Some(columns)) => {
                        let known = columns.iter().map(|column| column.name.as_str());
                        let hint = tables::column_hint(&names[1].value, known);
                        return refuse(
                            names[1].span.start,
                            format!("'{}' has no column '{}'", names[0].value, names[1].value),
                            hint,
                        );
                    }
                };
                access::members(&kind, &mut names[2..])?;
                found = Some((depth, of_outer(depth, names, 2)));
                break;
            }
            if let Some((value, rest)) = in_elements(&frame.elements, &names[0].value).zip(names.get(1..)) {
                let value = rest
                    .iter()
                    .try_fold(value.clone(), |value, name| value.member(&name.value, name.span.start))?;
                found = Some((depth, value.expr));
                break;
            }
            if let Some(column) = frame.relations.iter().find_map(|relation| relation.column(&names[0])) {
                let column = column.clone();
                if column.name != names[0].value {
                    names[0] = Ident { span: names[0].span, ..tables::ident(&column.name) };
                }
                access::members(&column.kind, &mut names[1..])?;
                found = Some((depth, of_outer(depth, names, 1)));
                break;
            }
            is_known &= frame.is_known();
        }
        match found {
            Some((_, right)) => *expr = right,
            None if is_known && self.frames.iter().any(|frame| !frame.is_barrier) => {
                return self.unknown(&names[0].clone());
            }
            None => {}
        }
        Ok(())
    }

    fn before(&mut self, expr: &mut Expr) -> Checked<()> {
        match expr {
            Expr::CompoundFieldAccess { .. } => flatten(expr),
            Expr::Function(function) => {
                functions::name_parts(function)?;
                if self.is_tsql {
                    order_in(function);
                }
            }
            Expr::InUnnest { .. } => {
                return refuse(
                    place(&*expr),
                    "IN UNNEST(…) is not translated",
                    "write array_has(list, value)",
                );
            }
            Expr::Prior(_) => {
                return refuse(place(&*expr), "PRIOR is not translated", "write WITH RECURSIVE");
            }
            Expr::Collate { collation, .. }
                if !collation.to_string().to_ascii_uppercase().contains("_BIN") =>
            {
                let at = collation.span().start;
                return refuse(
                    at,
                    format!("texts are compared by their code points, not by {collation}"),
                    "compare lower(…) where case must not matter",
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn after(&mut self, expr: &mut Expr) -> Checked<()> {
        match expr {
            Expr::Identifier(_) => self.identifier(expr),
            Expr::CompoundIdentifier(_) => self.compound(expr),
            Expr::CompoundFieldAccess { .. } => self.field_access(expr),
            _ => functions::translate(self, expr),
        }
    }

    /// Members in brackets by the names of the table.
    fn field_access(&mut self, expr: &mut Expr) -> Checked<()> {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(()) };
        let mut kind = self.kind_of(root);
        for access in access_chain.iter_mut() {
            if let AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) = access
                && let Value::SingleQuotedString(name) = &mut value.value
            {
                let (right, below) = tables::member(&kind, name, value.span.start)?;
                let below = below.clone();
                *name = right;
                kind = below;
            } else {
                kind = kind_below(kind, access);
            }
        }
        Ok(())
    }
}

impl VisitorMut for Resolver<'_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Refusal> {
        flow(self.enter_query(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Refusal> {
        flow(self.leave_query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Refusal> {
        if std::mem::take(&mut self.is_entered) {
            return ControlFlow::Continue(());
        }
        flow(self.enter_select(select, false))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Refusal> {
        match self.frames.last_mut() {
            Some(frame) if frame.is_of_query => frame.is_in_order_by = true,
            _ => self.leave_select(select),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Refusal> {
        flow(self.before(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Refusal> {
        flow(self.after(expr))
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Refusal> {
        if let Value::Placeholder(name) = &value.value {
            let name = name.trim_start_matches('$').to_owned();
            if !self.parameters.contains(&name) {
                self.parameters.push(name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// An element, or a column of one, by its bare name.
fn in_elements<'e>(elements: &'e [Element], name: &str) -> Option<&'e Typed> {
    elements.iter().find_map(|element| match element.is_whole && element.alias == name {
        true => Some(&element.whole),
        false => element.columns.iter().find(|(column, _)| column == name).map(|(_, value)| value),
    })
}

/// `alias.name.name` below an element.
fn of_element(element: &Element, names: &[Ident]) -> Checked<Expr> {
    let at = names[1].span.start;
    if let Some((_, value)) = element.columns.iter().find(|(name, _)| *name == names[1].value) {
        let value = names[2..]
            .iter()
            .try_fold(value.clone(), |value, name| value.member(&name.value, name.span.start))?;
        return Ok(value.expr);
    }
    if !element.is_whole {
        let known = element.columns.iter().map(|(name, _)| name.as_str());
        let hint = tables::column_hint(&names[1].value, known);
        return refuse(at, format!("'{}' has no column '{}'", element.alias, names[1].value), hint);
    }
    let value = names[1..]
        .iter()
        .try_fold(element.whole.clone(), |value, name| value.member(&name.value, name.span.start))?;
    Ok(value.expr)
}

/// A name with members. The planner knows no members by dots below columns of an outer query.
fn of_outer(depth: usize, names: &[Ident], columns: usize) -> Expr {
    let plain = |names: &[Ident]| match names {
        [name] => Expr::Identifier(name.clone()),
        names => Expr::CompoundIdentifier(names.to_vec()),
    };
    if depth == 0 || names.len() == columns {
        return plain(names);
    }
    names[columns..].iter().fold(plain(&names[..columns]), |expr, name| subscript(expr, string(&*name.value)))
}

/// The name that a bare column gives to its item of the SELECT list.
fn bare_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.value.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
            names.last().map(|name| name.value.clone())
        }
        _ => None,
    }
}

/// `a.b['c'].d` as the name `a.b` and its members.
fn flatten(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut names = match &**root {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(names) => names.clone(),
        _ => Vec::new(),
    };
    let mut rest = Vec::with_capacity(access_chain.len());
    for access in std::mem::take(access_chain) {
        match access {
            AccessExpr::Dot(Expr::Identifier(name)) if rest.is_empty() && !names.is_empty() => {
                names.push(name)
            }
            AccessExpr::Dot(Expr::Identifier(name)) => {
                let index = Expr::Value(Value::SingleQuotedString(name.value).with_span(name.span));
                rest.push(AccessExpr::Subscript(Subscript::Index { index }));
            }
            access => rest.push(access),
        }
    }
    match names.len() {
        0 => {}
        1 => **root = Expr::Identifier(names.remove(0)),
        _ => **root = Expr::CompoundIdentifier(names),
    }
    if rest.is_empty() {
        let root = std::mem::replace(&mut **root, Expr::Wildcard(AttachedToken::empty()));
        *expr = root;
    } else {
        *access_chain = rest;
    }
}

fn order_in(function: &mut Function) {
    if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
        clauses::nulls_as_tsql(&mut spec.order_by);
    }
    clauses::nulls_as_tsql(&mut function.within_group);
}
