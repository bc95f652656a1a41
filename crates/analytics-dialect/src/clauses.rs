//! Clauses that the grammar knows and the planner ignores or lacks, refused by name: none of them may change a result in silence.

use sqlparser::ast::{
    BinaryOperator, Expr, Fetch, GroupByExpr, LimitClause, Offset, OffsetRows, OrderBy, OrderByExpr,
    OrderByKind, Query, Select, SelectFlavor, SelectItem, SetExpr, Spanned, Statement, Top, TopQuantity,
};
use sqlparser::tokenizer::Location;

use crate::error::{Checked, place, refuse};
use crate::types::number;

/// The query of a statement that may run, or none where the statement names a table or lists all.
pub(crate) fn query_of(statement: &mut Statement) -> Checked<Option<&mut Box<Query>>> {
    let at = statement.span().start;
    match statement {
        Statement::Query(query) => Ok(Some(query)),
        Statement::ExplainTable { .. } => Ok(None),
        Statement::ShowTables {
            terse: false,
            history: false,
            extended: false,
            full: false,
            external: false,
            show_options,
        } if show_options.show_in.is_none()
            && show_options.starts_with.is_none()
            && show_options.limit.is_none()
            && show_options.filter_position.is_none() =>
        {
            Ok(None)
        }
        Statement::ShowTables { .. } => refuse(
            at,
            "SHOW TABLES takes no further words",
            "write SELECT table_schema, table_name FROM information_schema.tables WHERE …",
        ),
        Statement::Explain { statement, query_plan: false, estimate: false, .. } => {
            match statement.as_mut() {
                Statement::Query(query) => Ok(Some(query)),
                _ => refuse(at, "EXPLAIN explains queries alone", "write EXPLAIN SELECT …"),
            }
        }
        _ => refuse(
            at,
            "only SELECT, WITH, EXPLAIN, DESCRIBE and SHOW TABLES run on the analytical store",
            "items are changed through the NoSQL and MongoDB APIs",
        ),
    }
}

pub(crate) fn check_query(query: &Query) -> Checked<()> {
    let at = place(query);
    if !query.locks.is_empty() {
        return refuse(
            at,
            "FOR UPDATE and FOR SHARE lock rows, which a table of columns does not have",
            "leave the clause out",
        );
    }
    if query.for_clause.is_some() {
        return refuse(
            at,
            "FOR JSON and FOR XML are not translated",
            "ask for the result as JSON: --format json, or the header Accept",
        );
    }
    if query.settings.is_some() || query.format_clause.is_some() {
        return refuse(
            at,
            "SETTINGS and FORMAT belong to the request, not to the statement",
            "leave the clause out",
        );
    }
    if !query.pipe_operators.is_empty() {
        return refuse(
            at,
            "pipe operators are not translated",
            "write the query with SELECT … FROM … WHERE …",
        );
    }
    if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause
        && !limit_by.is_empty()
    {
        return refuse(
            at,
            "LIMIT … BY is not translated",
            "use row_number() OVER (PARTITION BY … ORDER BY …) and QUALIFY",
        );
    }
    match &*query.body {
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => refuse(
            at,
            "a query changes nothing in the analytical store",
            "items are changed through the NoSQL and MongoDB APIs",
        ),
        SetExpr::Table(_) => refuse(at, "TABLE is no query here", "write SELECT * FROM …"),
        _ => Ok(()),
    }
}

pub(crate) fn check_select(select: &Select) -> Checked<()> {
    let at = place(select);
    let named = [
        (!select.connect_by.is_empty(), "CONNECT BY is not translated", "write WITH RECURSIVE"),
        (
            !select.lateral_views.is_empty(),
            "LATERAL VIEW is not translated",
            "write CROSS JOIN UNNEST(list) AS x",
        ),
        (select.prewhere.is_some(), "PREWHERE is not translated", "write WHERE"),
        (!select.cluster_by.is_empty(), "CLUSTER BY is not translated", "write ORDER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY is not translated", "leave the clause out"),
        (!select.sort_by.is_empty(), "SORT BY is not translated", "write ORDER BY"),
        (select.into.is_some(), "SELECT INTO makes a table: queries only read", "leave INTO out"),
        (
            select.value_table_mode.is_some(),
            "SELECT AS VALUE and AS STRUCT are not translated",
            "name the columns",
        ),
        (select.exclude.is_some(), "EXCLUDE follows the asterisk", "write SELECT * EXCLUDE (…)"),
        (select.flavor != SelectFlavor::Standard, "a query begins with SELECT", "write SELECT * FROM …"),
        (select.projection.is_empty(), "SELECT has no columns", "write SELECT * FROM …"),
        (select.select_modifiers.is_some(), "modifiers of SELECT are not translated", "leave them out"),
    ];
    if let Some((_, message, hint)) = named.into_iter().find(|(is_there, ..)| *is_there) {
        return refuse(at, message, hint);
    }
    if let GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) = &select.group_by
        && !modifiers.is_empty()
    {
        return refuse(
            at,
            "GROUP BY … WITH is not translated",
            "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)",
        );
    }
    Ok(())
}

/// FETCH, and TOP of the query's own SELECT, as LIMIT.
pub(crate) fn limit(query: &mut Query, is_tsql: bool) -> Checked<()> {
    let at = place(query);
    if let Some(fetch) = query.fetch.take() {
        let count = fetched(fetch, at)?;
        let offset = match query.limit_clause.take() {
            None => None,
            Some(LimitClause::LimitOffset { limit: None, offset, .. }) => offset,
            Some(_) => return refuse(at, "LIMIT and FETCH limit the same rows", "keep one of them"),
        };
        // The word ROWS is T-SQL's and the standard's; the planner reads the number alone.
        let offset = offset.map(|offset| Offset { value: offset.value, rows: OffsetRows::None });
        query.limit_clause =
            Some(LimitClause::LimitOffset { limit: Some(count), offset, limit_by: Vec::new() });
    }
    match query.body.as_mut() {
        SetExpr::Select(select) => {
            if let Some(top) = select.top.take() {
                if query.limit_clause.is_some() {
                    return refuse(at, "TOP and LIMIT limit the same rows", "keep one of them");
                }
                query.limit_clause = Some(first(top, at)?);
            }
        }
        body => limit_members(body)?,
    }
    if is_tsql && let Some(order_by) = &mut query.order_by {
        order_as_tsql(order_by);
    }
    Ok(())
}

/// TOP in a member of a UNION limits that member alone.
fn limit_members(body: &mut SetExpr) -> Checked<()> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            limit_members(left)?;
            limit_members(right)
        }
        SetExpr::Select(select) if select.top.is_some() => {
            let at = place(&**select);
            let Some(top) = select.top.take() else { return Ok(()) };
            let limit_clause = Some(first(top, at)?);
            let select = std::mem::replace(
                body,
                SetExpr::Values(sqlparser::ast::Values {
                    explicit_row: false,
                    value_keyword: false,
                    rows: Vec::new(),
                }),
            );
            *body = SetExpr::Query(Box::new(Query { limit_clause, ..query(select) }));
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(crate) fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

fn first(top: Top, at: Location) -> Checked<LimitClause> {
    let count = match top {
        Top { with_ties: true, .. } => {
            return refuse(
                at,
                "TOP … WITH TIES is not translated",
                "use rank() OVER (ORDER BY …) and QUALIFY rank <= n",
            );
        }
        Top { percent: true, .. } => {
            return refuse(
                at,
                "TOP … PERCENT is not translated",
                "use percent_rank() OVER (ORDER BY …) and QUALIFY",
            );
        }
        Top { quantity: Some(TopQuantity::Constant(count)), .. } => number(count),
        Top { quantity: Some(TopQuantity::Expr(count)), .. } => count,
        Top { quantity: None, .. } => return refuse(at, "TOP has no number", "write TOP 10"),
    };
    Ok(LimitClause::LimitOffset { limit: Some(count), offset: None, limit_by: Vec::new() })
}

fn fetched(fetch: Fetch, at: Location) -> Checked<Expr> {
    match fetch {
        Fetch { with_ties: true, .. } => refuse(
            at,
            "FETCH … WITH TIES is not translated",
            "use rank() OVER (ORDER BY …) and QUALIFY rank <= n",
        ),
        Fetch { percent: true, .. } => refuse(
            at,
            "FETCH … PERCENT is not translated",
            "use percent_rank() OVER (ORDER BY …) and QUALIFY",
        ),
        Fetch { quantity, .. } => Ok(quantity.unwrap_or_else(|| number(1))),
    }
}

fn order_as_tsql(order_by: &mut OrderBy) {
    if let OrderByKind::Expressions(exprs) = &mut order_by.kind {
        nulls_as_tsql(exprs);
    }
}

/// T-SQL orders NULL before all values, in both directions by its rank.
pub(crate) fn nulls_as_tsql(exprs: &mut [OrderByExpr]) {
    for expr in exprs {
        let is_ascending = expr.options.asc != Some(false);
        expr.options.nulls_first.get_or_insert(is_ascending);
    }
}

/// `SELECT name = expression` names a column in T-SQL, and compares elsewhere.
pub(crate) fn assignments(select: &mut Select, is_tsql: bool) -> Checked<()> {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = item else {
            continue;
        };
        let Expr::Identifier(name) = &**left else { continue };
        if !is_tsql {
            return refuse(
                name.span.start,
                format!("'{name} = …' may be a name or a comparison here"),
                format!("write {right} AS {name} for a name, or ({name} = {right}) for a comparison"),
            );
        }
        let alias = name.clone();
        let expr = std::mem::replace(&mut **right, number(0));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    Ok(())
}
