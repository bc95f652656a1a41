//! FROM: tables by their right names, and lists as rows.
//!
//! The planner makes rows of a list in a SELECT list alone. `FROM t, UNNEST(t.a) AS x` becomes `FROM (SELECT *, unnest(t.a) AS x FROM t) AS t`,
//! and names that mean the element are rewritten where they occur. A list may move into its table like that only where no outer join
//! adds rows without the table.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, Query, SelectItem, Spanned, TableFactor, TableWithJoins,
    Value, Visit, VisitMut, Visitor,
};
use sqlparser::tokenizer::Location;

use crate::access::Typed;
use crate::catalog::{Column, Kind};
use crate::error::{Checked, checked, quoted, refuse};
use crate::lateral::{self, Lateral};
use crate::resolver::Resolver;
use crate::scope::{Element, Frame, Item, Relation};
use crate::tables;

const FORM: &str = "write FROM t CROSS JOIN UNNEST(t.list) AS x, or LEFT JOIN UNNEST(t.list) AS x ON true";

/// Place of a table in FROM, and whether an outer join may leave its columns NULL.
#[derive(Debug, Clone, Copy)]
struct Spot {
    list: usize,
    /// None for the first table of an item of the list.
    join: Option<usize>,
    is_nullable: bool,
    /// A table or subquery of its own, not a join in parentheses.
    is_single: bool,
}

#[derive(Default)]
struct Built {
    frame: Frame,
    spots: Vec<Spot>,
    from: Vec<TableWithJoins>,
}

impl Resolver<'_> {
    /// Names of a FROM. The frame keeps the rewritten clause.
    pub(crate) fn from(&mut self, from: Vec<TableWithJoins>) -> Checked<Frame> {
        let mut built = Built::default();
        for item in from {
            self.item(&mut built, item)?;
        }
        assert_eq!(built.spots.len(), built.frame.relations.len(), "each relation has a place in FROM");
        built.frame.from = built.from;
        Ok(built.frame)
    }

    fn item(&mut self, built: &mut Built, item: TableWithJoins) -> Checked<()> {
        let TableWithJoins { relation, joins } = item;
        let first_relation = built.frame.relations.len();
        let mut list = built.from.len();
        match self.lateral(built, relation, false)? {
            // A list that became a column of its table: the relations after it are joined to that table.
            None => {
                let Some(host) = built.frame.elements.last().map(|element| built.spots[element.host].list)
                else {
                    return Ok(());
                };
                list = host;
                for join in joins {
                    match join.join_operator {
                        JoinOperator::Join(_)
                        | JoinOperator::Inner(_)
                        | JoinOperator::CrossJoin(_)
                        | JoinOperator::Left(_)
                        | JoinOperator::LeftOuter(_)
                        | JoinOperator::CrossApply
                        | JoinOperator::OuterApply => {
                            self.join(built, join, list, built.frame.relations.len())?
                        }
                        _ => {
                            return refuse(
                                join.span().start,
                                "this join cannot follow UNNEST after a comma",
                                FORM,
                            );
                        }
                    }
                }
                return Ok(());
            }
            Some(relation) => {
                built.from.push(TableWithJoins { relation, joins: Vec::new() });
            }
        }
        self.add(built, list, None)?;
        for join in joins {
            self.join(built, join, list, first_relation)?;
        }
        Ok(())
    }

    fn join(&mut self, built: &mut Built, join: Join, list: usize, first_relation: usize) -> Checked<()> {
        let at = join.span().start;
        let Join { relation, global, join_operator } = join;
        let relation = match is_lateral(&relation) {
            false => relation,
            true => {
                let keeps = kept_rows(&join_operator, at)?;
                match self.lateral(built, relation, keeps)? {
                    None => return Ok(()),
                    Some(relation) => relation,
                }
            }
        };
        let (left, right) = match &join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::CrossJoin(constraint) => {
                merges(&mut built.frame, constraint);
                (false, false)
            }
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                merges(&mut built.frame, constraint);
                (false, true)
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                merges(&mut built.frame, constraint);
                (true, false)
            }
            JoinOperator::FullOuter(constraint) => {
                merges(&mut built.frame, constraint);
                (true, true)
            }
            JoinOperator::LeftSemi(_) | JoinOperator::LeftAnti(_) => (false, true),
            JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => (true, false),
            JoinOperator::CrossApply | JoinOperator::OuterApply => {
                return refuse(at, "APPLY is translated for OPENJSON and UNNEST alone", FORM);
            }
            _ => {
                return refuse(
                    at,
                    "this kind of join is not translated",
                    "write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN",
                );
            }
        };
        for spot in &mut built.spots[first_relation..] {
            spot.is_nullable |= left;
        }
        let joins = &mut built.from[list].joins;
        joins.push(Join { relation, global, join_operator });
        let join = joins.len() - 1;
        self.add(built, list, Some(join))?;
        if let Some(spot) = built.spots.last_mut() {
            spot.is_nullable |= right;
        }
        Ok(())
    }

    /// Names of the table or subquery at a place, in the order of FROM.
    fn add(&mut self, built: &mut Built, list: usize, join: Option<usize>) -> Checked<()> {
        let mut factor = std::mem::replace(factor_at(&mut built.from, list, join), nothing());
        let known = self.factor(&mut factor, &mut built.frame)?;
        *factor_at(&mut built.from, list, join) = factor;
        let is_single = known.is_some();
        if let Some(relation) = known {
            built.frame.relations.push(relation);
        }
        // A join in parentheses has added its own relations.
        while built.spots.len() < built.frame.relations.len() {
            built.frame.order.push(Item::Relation(built.spots.len()));
            built.spots.push(Spot { list, join, is_nullable: false, is_single });
        }
        Ok(())
    }

    /// Resolves a table or subquery. None for a join in parentheses, whose relations are added to the frame.
    fn factor(&mut self, factor: &mut TableFactor, frame: &mut Frame) -> Checked<Option<Relation>> {
        match factor {
            TableFactor::Table { .. } => self.plain(factor).map(Some),
            TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
                let columns = self.subquery(subquery)?;
                Ok(Some(Relation::of_alias(alias.as_ref(), columns)))
            }
            TableFactor::NestedJoin { alias: None, table_with_joins } => {
                self.nested(table_with_joins, frame)?;
                Ok(None)
            }
            TableFactor::UNNEST {
                array_exprs, alias, with_offset: false, with_ordinality: false, ..
            } => {
                for expr in array_exprs {
                    checked(VisitMut::visit(expr, self))?;
                }
                Ok(Some(Relation::of_alias(alias.as_ref(), None)))
            }
            other => refused(other),
        }
    }

    /// A table by its name.
    fn plain(&mut self, factor: &mut TableFactor) -> Checked<Relation> {
        let at = factor.span().start;
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                let bare = tables::parts(name)?.last().map(|part| part.value.clone());
                let (table, columns) = self.table(name)?;
                let mut relation = Relation::of_alias(alias.as_ref(), columns);
                if relation.name.is_none() {
                    relation.name = bare;
                    relation.database = table.map(|table| table.database);
                }
                Ok(relation)
            }
            TableFactor::Table { name, args: Some(_), alias, with_ordinality: false, .. }
                if is_series(name) =>
            {
                let mut relation = Relation::of_alias(alias.as_ref(), None);
                relation.name.get_or_insert_with(|| name.to_string());
                relation.columns = None;
                Ok(relation)
            }
            TableFactor::Table { name, args: Some(_), .. } => refuse(
                at,
                format!("there is no table function '{name}'"),
                "functions that make tables are generate_series, range and UNNEST",
            ),
            TableFactor::Table { with_hints, .. } if !with_hints.is_empty() => refuse(
                at,
                "hints of tables are not translated",
                "leave WITH (…) out: queries read one version of each table and lock nothing",
            ),
            TableFactor::Table { sample: Some(_), .. } => {
                refuse(at, "TABLESAMPLE is not translated", "write WHERE random() < 0.1")
            }
            TableFactor::Table { version: Some(_), .. } => refuse(
                at,
                "a version of a table belongs to the request",
                "send asOf with the request, or --as-of with the command",
            ),
            other => refuse(
                at,
                format!("'{}' is not translated", quoted(other)),
                "name the table and its alias alone",
            ),
        }
    }

    /// A join in parentheses.
    fn nested(&mut self, table_with_joins: &mut TableWithJoins, frame: &mut Frame) -> Checked<()> {
        let at = table_with_joins.span().start;
        let mut inner = Built::default();
        let item =
            std::mem::replace(table_with_joins, TableWithJoins { relation: nothing(), joins: Vec::new() });
        self.item(&mut inner, item)?;
        if !inner.frame.elements.is_empty() {
            return refuse(at, "UNNEST inside of a join in parentheses is not translated", FORM);
        }
        if let Some(item) = inner.from.pop() {
            *table_with_joins = item;
        }
        frame.has_merged_columns |= inner.frame.has_merged_columns;
        frame.relations.append(&mut inner.frame.relations);
        Ok(())
    }

    /// Makes a list a column of its table. Returns the factor where it reads no column of a table before it.
    fn lateral(
        &mut self,
        built: &mut Built,
        factor: TableFactor,
        keeps: bool,
    ) -> Checked<Option<TableFactor>> {
        if !is_lateral(&factor) {
            return Ok(Some(factor));
        }
        let at = place_of(&factor);
        let mut lateral = Lateral::of(factor, at)?;
        let names = names_in(&lateral.list);
        if names.is_empty() {
            return match lateral.constant() {
                Some(factor) if !keeps => Ok(Some(factor)),
                Some(_) => refuse(at, "LEFT JOIN UNNEST reads a column of a table before it", FORM),
                None => refuse(at, "OPENJSON reads a column of a table before it", FORM),
            };
        }
        let host = host_of(&built.frame, &names, at)?;
        let frame = std::mem::take(&mut built.frame);
        self.frames.push(frame);
        let resolved = checked(VisitMut::visit(&mut lateral.list, self));
        let kind = self.kind_of(&lateral.list);
        built.frame = self.frames.pop().unwrap_or_default();
        resolved?;
        let spot = built.spots[host];
        let relation = &built.frame.relations[host];
        if spot.is_nullable || !spot.is_single {
            return refuse(
                at,
                "a list of a table on the optional side of a join is not translated",
                "make its rows in a subquery first: LEFT JOIN (SELECT t.*, unnest(t.list) AS x FROM t) AS t ON …",
            );
        }
        let Some(name) = relation.name.clone() else {
            return refuse(at, "the table of the list has no name", "give the subquery an alias");
        };
        let column = lateral.column.clone();
        if relation.column(&Ident::with_quote('"', &*column)).is_some() {
            return refuse(at, format!("'{column}' is also a column of '{name}'"), "choose another alias");
        }
        if built.frame.relation(&lateral.alias).is_some() || built.frame.element(&lateral.alias).is_some() {
            return refuse(at, format!("'{}' names two tables", lateral.alias), "choose another alias");
        }
        let list = Typed::new(lateral.list.clone(), kind).at(&lateral.path, at)?;
        let kind = match list.kind {
            Kind::List(kind) => *kind,
            Kind::Other => Kind::Other,
            Kind::Text => {
                return refuse(
                    at,
                    format!("{} is a text, not a list", quoted(&list.expr)),
                    "a list in a text is not read: store it as a list",
                );
            }
            _ => {
                return refuse(
                    at,
                    format!("{} is no list", quoted(&list.expr)),
                    "DESCRIBE and the name of the table lists columns with types",
                );
            }
        };
        let factor = factor_at(&mut built.from, spot.list, spot.join);
        let inner = std::mem::replace(factor, nothing());
        *factor = lateral::wrapped(inner, &name, list.expr, &column, keeps);
        built.frame.relations[host].added.push(Column::new(&column, kind.clone()));
        built.frame.relations[host].database = None;
        let whole =
            Typed::new(Expr::CompoundIdentifier(vec![tables::ident(&name), tables::ident(&column)]), kind);
        let columns = lateral.columns(&whole)?;
        built.frame.order.push(Item::Element(built.frame.elements.len()));
        built.frame.elements.push(Element {
            alias: lateral.alias,
            host,
            whole,
            columns,
            is_whole: lateral.is_whole,
        });
        Ok(None)
    }

    /// Visits the conditions of joins, which see all of FROM.
    pub(crate) fn conditions(&mut self, from: &mut [TableWithJoins]) -> Checked<()> {
        for item in from {
            if let TableFactor::NestedJoin { table_with_joins, .. } = &mut item.relation {
                self.conditions(std::slice::from_mut(&mut **table_with_joins))?;
            }
            for join in &mut item.joins {
                if let TableFactor::NestedJoin { table_with_joins, .. } = &mut join.relation {
                    self.conditions(std::slice::from_mut(&mut **table_with_joins))?;
                }
                if let Some(JoinConstraint::On(condition)) = constraint(&mut join.join_operator) {
                    checked(VisitMut::visit(condition, self))?;
                }
            }
        }
        Ok(())
    }

    /// Writes an asterisk out where elements of lists are columns of their tables.
    pub(crate) fn expand(&self, frame: &Frame, item: SelectItem, out: &mut Vec<SelectItem>) -> Checked<()> {
        let at = item.span().start;
        match item {
            SelectItem::Wildcard(options) => {
                let is_in_order = matches!(frame.order.as_slice(), [Item::Relation(0), rest @ ..] if rest.iter().all(|item| matches!(item, Item::Element(_))))
                    && frame.elements.iter().all(|element| element.is_whole);
                if is_in_order {
                    out.push(SelectItem::Wildcard(options));
                    return Ok(());
                }
                if frame.has_merged_columns
                    || options.opt_exclude.is_some()
                    || options.opt_except.is_some()
                    || options.opt_replace.is_some()
                {
                    return refuse(
                        at,
                        "this asterisk with UNNEST or OPENJSON is not translated",
                        "name the columns",
                    );
                }
                for item in &frame.order {
                    match item {
                        Item::Relation(at) => out.push(lateral::all_of(&frame.relations[*at])),
                        Item::Element(at) => all_of_element(frame, &frame.elements[*at], false, out)?,
                    }
                }
                Ok(())
            }
            SelectItem::QualifiedWildcard(kind, options) => {
                let alias = crate::resolver::alias_of_wildcard(&kind).map(|alias| alias.value.clone());
                let Some(alias) = alias else {
                    out.push(SelectItem::QualifiedWildcard(kind, options));
                    return Ok(());
                };
                if let Some(element) = frame.element(&alias) {
                    return all_of_element(frame, element, true, out);
                }
                match frame.relation(&alias) {
                    Some((_, relation)) if !relation.added.is_empty() => {
                        if options.opt_exclude.is_some()
                            || options.opt_except.is_some()
                            || options.opt_replace.is_some()
                        {
                            return refuse(
                                at,
                                "this asterisk with UNNEST or OPENJSON is not translated",
                                "name the columns",
                            );
                        }
                        out.push(lateral::all_of(relation));
                    }
                    _ => out.push(SelectItem::QualifiedWildcard(kind, options)),
                }
                Ok(())
            }
            item => {
                out.push(item);
                Ok(())
            }
        }
    }
}

/// Columns of an element. A name that a table has, too, keeps the alias before it, since a result has no two columns of one name.
fn all_of_element(
    frame: &Frame,
    element: &Element,
    is_members: bool,
    out: &mut Vec<SelectItem>,
) -> Checked<()> {
    let alias = |name: &str| match frame.has_own_column(name) {
        true => tables::ident(&format!("{}.{name}", element.alias)),
        false => tables::ident(name),
    };
    let member =
        |name: &str| Expr::CompoundIdentifier(vec![tables::ident(&element.alias), tables::ident(name)]);
    if !element.is_whole {
        for (name, _) in &element.columns {
            out.push(SelectItem::ExprWithAlias { expr: member(name), alias: alias(name) });
        }
        return Ok(());
    }
    if !is_members {
        out.push(SelectItem::UnnamedExpr(Expr::Identifier(tables::ident(&element.alias))));
        return Ok(());
    }
    let Kind::Struct(fields) = &element.whole.kind else {
        return refuse(
            Location { line: 1, column: 1 },
            format!("the members of '{}' are not known", element.alias),
            "name the members: x.member",
        );
    };
    for field in fields {
        out.push(SelectItem::ExprWithAlias { expr: member(&field.name), alias: alias(&field.name) });
    }
    Ok(())
}

fn refused(factor: &TableFactor) -> Checked<Option<Relation>> {
    let at = place_of(factor);
    let (message, hint) = match factor {
        TableFactor::Derived { lateral: true, .. } | TableFactor::Function { lateral: true, .. } => {
            ("LATERAL is translated for UNNEST alone", FORM)
        }
        TableFactor::Derived { .. } => ("TABLESAMPLE is not translated", "write WHERE random() < 0.1"),
        TableFactor::Pivot { .. } => {
            ("PIVOT is not translated", "write sum(…) FILTER (WHERE …) AS name for each column")
        }
        TableFactor::Unpivot { .. } => {
            ("UNPIVOT is not translated", "write UNION ALL of one SELECT for each column")
        }
        TableFactor::OpenJsonTable { .. } => (
            "OPENJSON reads a column of a table before it",
            "write FROM t CROSS APPLY OPENJSON(t.list) WITH (…) AS x",
        ),
        TableFactor::JsonTable { .. } => ("JSON_TABLE is not translated", FORM),
        other => {
            let message = format!("'{}' is not translated", quoted(other));
            return refuse(at, message, "name a table, a subquery or UNNEST(list)");
        }
    };
    refuse(at, message, hint)
}

fn place_of(factor: &TableFactor) -> Location {
    match factor {
        TableFactor::OpenJsonTable { json_expr, .. } => json_expr.span().start,
        factor => factor.span().start,
    }
}

fn is_lateral(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::UNNEST { .. } | TableFactor::OpenJsonTable { .. } => true,
        TableFactor::Function { lateral: true, name, .. } => name.to_string().eq_ignore_ascii_case("unnest"),
        _ => false,
    }
}

fn is_series(name: &sqlparser::ast::ObjectName) -> bool {
    ["generate_series", "range"].iter().any(|series| name.to_string().eq_ignore_ascii_case(series))
}

/// Whether a join keeps rows with empty lists. Joins with conditions of their own are refused.
fn kept_rows(operator: &JoinOperator, at: Location) -> Checked<bool> {
    let is_true = |constraint: &JoinConstraint| match constraint {
        JoinConstraint::None => true,
        JoinConstraint::On(Expr::Value(value)) => value.value == Value::Boolean(true),
        JoinConstraint::On(Expr::BinaryOp { left, op: sqlparser::ast::BinaryOperator::Eq, right }) => {
            matches!(**left, Expr::Value(_)) && left == right
        }
        _ => false,
    };
    match operator {
        JoinOperator::CrossJoin(_) | JoinOperator::CrossApply => Ok(false),
        JoinOperator::OuterApply => Ok(true),
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) if is_true(constraint) => Ok(false),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) if is_true(constraint) => {
            Ok(true)
        }
        JoinOperator::Join(_) | JoinOperator::Inner(_) => refuse(
            at,
            "JOIN UNNEST takes no condition",
            "write CROSS JOIN UNNEST(t.list) AS x, and the condition after WHERE",
        ),
        _ => refuse(at, "this kind of join with UNNEST is not translated", FORM),
    }
}

fn merges(frame: &mut Frame, constraint: &JoinConstraint) {
    frame.has_merged_columns |= matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural);
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

fn factor_at(from: &mut [TableWithJoins], list: usize, join: Option<usize>) -> &mut TableFactor {
    let item = &mut from[list];
    match join {
        None => &mut item.relation,
        Some(join) => &mut item.joins[join].relation,
    }
}

/// Stands where a factor was taken out, until it is put back.
fn nothing() -> TableFactor {
    TableFactor::UNNEST {
        alias: None,
        array_exprs: Vec::new(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// First names of all columns in an expression, with the second name where there is one.
fn names_in(expr: &Expr) -> Vec<Vec<Ident>> {
    struct Names(Vec<Vec<Ident>>);
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) => self.0.push(vec![name.clone()]),
                Expr::CompoundIdentifier(names) => self.0.push(names.clone()),
                _ => {}
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let mut names = Names(Vec::new());
    let _is_whole = Visit::visit(expr, &mut names);
    names.0
}

/// The one relation whose columns a list reads.
fn host_of(frame: &Frame, names: &[Vec<Ident>], at: Location) -> Checked<usize> {
    let mut hosts = BTreeSet::new();
    for name in names {
        let first = &name[0];
        let of_element = frame.elements.iter().find(|element| {
            element.alias == first.value
                || element.columns.iter().any(|(column, _)| name.len() == 1 && *column == first.value)
        });
        let by_name = frame.relation(&first.value).map(|(at, _)| at);
        let by_database = frame.relations.iter().position(|relation| {
            name.len() > 2
                && relation.database.as_deref() == Some(&*first.value)
                && relation.name.as_deref() == Some(&*name[1].value)
        });
        let by_column = || {
            let with =
                frame.relations.iter().enumerate().filter(|(_, relation)| relation.column(first).is_some());
            let with: Vec<usize> = with.map(|(at, _)| at).collect();
            match (with.as_slice(), frame.relations.len()) {
                ([host], _) => Some(*host),
                ([], 1) => Some(0),
                _ => None,
            }
        };
        let host = of_element.map(|element| element.host).or(by_name).or(by_database).or_else(by_column);
        let Some(host) = host else {
            let hint = match frame.relations.len() {
                0 => FORM.to_owned(),
                _ => format!("write the table's alias before '{first}'; {FORM}"),
            };
            return refuse(first.span.start, format!("no table before UNNEST has '{first}'"), hint);
        };
        hosts.insert(host);
    }
    match hosts.into_iter().collect::<Vec<_>>().as_slice() {
        [host] => Ok(*host),
        _ => refuse(at, "a list over columns of several tables is not translated", FORM),
    }
}
