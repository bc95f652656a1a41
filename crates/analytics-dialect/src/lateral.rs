//! A list in FROM: `UNNEST(list) AS x` and `OPENJSON(list) WITH (…) AS x`.

use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, ObjectName,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins,
    Value, WildcardAdditionalOptions,
};
use sqlparser::tokenizer::Location;

use crate::access::Typed;
use crate::clauses;
use crate::error::{Checked, refuse};
use crate::json_path::{self, Step};
use crate::scope::Relation;
use crate::tables;
use crate::types::{call, cast_column, number};

pub(crate) struct Lateral {
    pub list: Expr,
    /// Path from the expression to the list.
    pub path: Vec<Step>,
    pub alias: String,
    /// Name of the element as a column of its table.
    pub column: String,
    /// The alias names the element, so that `x` and `x.member` mean it.
    pub is_whole: bool,
    declared: Vec<Declared>,
    /// The factor, where it is an UNNEST.
    unnest: Option<TableFactor>,
}

struct Declared {
    name: String,
    data_type: Option<DataType>,
    path: Vec<Step>,
    at: Location,
}

impl Lateral {
    pub fn of(factor: TableFactor, at: Location) -> Checked<Lateral> {
        match factor {
            TableFactor::UNNEST { with_offset: true, .. }
            | TableFactor::UNNEST { with_ordinality: true, .. } => refuse(
                at,
                "UNNEST WITH ORDINALITY and WITH OFFSET are not translated",
                "make rows of places: UNNEST(range(1, CAST(cardinality(t.list) AS BIGINT) + 1)) AS i, then t.list[i]",
            ),
            TableFactor::UNNEST { mut array_exprs, alias, .. } => match array_exprs.len() {
                1 => Lateral::unnest(array_exprs.remove(0), alias, at),
                _ => {
                    refuse(at, "UNNEST of several lists is not translated", "write one UNNEST for each list")
                }
            },
            TableFactor::Function { args, alias, .. } => match args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] => {
                    Lateral::unnest(list.clone(), alias, at)
                }
                _ => {
                    refuse(at, "UNNEST of several lists is not translated", "write one UNNEST for each list")
                }
            },
            TableFactor::OpenJsonTable { columns, .. } if columns.is_empty() => refuse(
                at,
                "OPENJSON without WITH is not translated: its key, value and type are texts",
                "write CROSS JOIN UNNEST(t.list) AS x, then x.member",
            ),
            TableFactor::OpenJsonTable { json_expr, json_path, columns, alias } => {
                let path = match json_path.map(|path| path.value) {
                    None => Vec::new(),
                    Some(Value::SingleQuotedString(path)) => json_path::parse(&path, at)?,
                    Some(_) => return refuse(at, "the path of OPENJSON is no text", "write '$.member'"),
                };
                let declared = columns.into_iter().map(|column| {
                    let at = column.name.span.start;
                    let path = column.path.unwrap_or_else(|| format!("$.\"{}\"", column.name.value));
                    let path = json_path::parse(&path, at)?;
                    let data_type = Some(column.r#type).filter(|_| !column.as_json);
                    Ok(Declared { name: column.name.value, data_type, path, at })
                });
                let declared = declared.collect::<Checked<Vec<_>>>()?;
                let alias = alias.map_or_else(|| "openjson".to_owned(), |alias| alias.name.value);
                Ok(Lateral {
                    list: json_expr,
                    path,
                    column: alias.clone(),
                    alias,
                    is_whole: false,
                    declared,
                    unnest: None,
                })
            }
            _ => refuse(at, "this is no list in FROM", "write UNNEST(t.list) AS x"),
        }
    }

    fn unnest(list: Expr, alias: Option<TableAlias>, at: Location) -> Checked<Lateral> {
        let unnest = TableFactor::UNNEST {
            alias: alias.clone(),
            array_exprs: vec![list.clone()],
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
        let (alias, columns) = match alias {
            None => ("unnest".to_owned(), Vec::new()),
            Some(alias) => (alias.name.value, alias.columns),
        };
        let declared: Vec<Declared> = columns
            .into_iter()
            .map(|column| Declared {
                name: column.name.value,
                data_type: None,
                path: Vec::new(),
                at: column.name.span.start,
            })
            .collect();
        if declared.len() > 1 {
            return refuse(
                at,
                "UNNEST has one column",
                "write UNNEST(t.list) AS x(element), and x.element.member for its members",
            );
        }
        let column = declared.first().map_or_else(|| alias.clone(), |column| column.name.clone());
        let is_whole = declared.is_empty();
        Ok(Lateral { list, path: Vec::new(), alias, column, is_whole, declared, unnest: Some(unnest) })
    }

    /// The factor itself, where its list is no column of a table.
    pub fn constant(self) -> Option<TableFactor> {
        self.unnest
    }

    /// Columns of the element, cast as they are declared.
    pub fn columns(&self, whole: &Typed) -> Checked<Vec<(String, Typed)>> {
        let column = |declared: &Declared| {
            let value = whole.clone().at(&declared.path, declared.at)?;
            let expr = match &declared.data_type {
                None => value.expr,
                Some(data_type) => cast_column(value.expr, data_type, &value.kind, declared.at)?,
            };
            Ok((declared.name.clone(), Typed::new(expr, value.kind)))
        };
        self.declared.iter().map(column).collect()
    }
}

/// `(SELECT *, unnest(list) AS column FROM inner) AS name`. `keeps` makes one row of NULL from an empty list, or from none.
pub(crate) fn wrapped(inner: TableFactor, name: &str, list: Expr, column: &str, keeps: bool) -> TableFactor {
    let list = if keeps { never_empty(list) } else { list };
    let projection = vec![
        SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias { expr: call("unnest", vec![list]), alias: tables::ident(column) },
    ];
    let mut select = empty_select();
    select.projection = projection;
    select.from = vec![TableWithJoins { relation: inner, joins: Vec::new() }];
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(clauses::query(SetExpr::Select(Box::new(select)))),
        alias: Some(TableAlias { explicit: true, name: tables::ident(name), columns: Vec::new(), at: None }),
        sample: None,
    }
}

fn never_empty(list: Expr) -> Expr {
    let has_elements = Expr::BinaryOp {
        left: Box::new(call("cardinality", vec![list.clone()])),
        op: BinaryOperator::Gt,
        right: Box::new(number(0)),
    };
    Expr::Case {
        case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: has_elements, result: list }],
        else_result: Some(Box::new(call("make_array", vec![Expr::value(Value::Null)]))),
    }
}

/// All columns of a relation without those that a rewriting added.
pub(crate) fn all_of(relation: &Relation) -> SelectItem {
    let added: Vec<ObjectName> =
        relation.added.iter().map(|column| ObjectName::from(vec![tables::ident(&column.name)])).collect();
    let options = WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(added)).filter(|_| !relation.added.is_empty()),
        ..WildcardAdditionalOptions::default()
    };
    match &relation.name {
        None => SelectItem::Wildcard(options),
        Some(name) => {
            let name = ObjectName::from(vec![tables::ident(name)]);
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
        }
    }
}

fn empty_select() -> Select {
    use sqlparser::ast::{GroupByExpr, SelectFlavor};
    Select {
        select_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: Vec::new(),
        exclude: None,
        into: None,
        from: Vec::new(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
