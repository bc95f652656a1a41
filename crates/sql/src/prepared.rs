//! A query that is ready to run for one request.

use std::cell::Cell;
use std::sync::Arc;

use shardlake_document::Value;
use shardlake_model::ContainerScripts;
use shardlake_stdx::Timestamp;

use crate::bind::{self, ComputedProperties, Environment};
use crate::bound::{Aggregate, BoundQuery, BoundSource, Expression, OrderRefusal, Projection};
use crate::error::{Rule, SqlError};
use crate::syntax::ParsedQuery;
use crate::value::aggregate::AggregateFunction;
use crate::value::context::{FunctionContext, GeometryKind};
use crate::value::datum::value_size;
use crate::value::meter::Meter;

/// Environment of a query: its inputs other than text and parameters.
#[derive(Debug, Clone, Copy)]
pub struct QueryEnvironment<'a> {
    pub computed: &'a ComputedProperties,
    pub geometry: GeometryKind,
    pub now: Timestamp,
    pub random_seed: u64,
    /// The container's scripts, of which queries may call the functions; `None` where they may call none.
    pub scripts: Option<&'a ContainerScripts>,
}

/// A parsed query with its parameters, bound to one container; cheap to clone.
#[derive(Debug, Clone)]
pub struct PreparedQuery {
    shared: Arc<Shared>,
    now: Timestamp,
    random_seed: u64,
    /// Its rows may come in any order.
    in_any_order: bool,
}

/// What binding came to.
#[derive(Debug)]
struct Shared {
    query: Arc<BoundQuery>,
    /// Of the container: what the query names by them is substituted, but indexes know them by name.
    computed: ComputedProperties,
    is_heavy: bool,
    user_functions: Vec<Arc<str>>,
    geometry: GeometryKind,
    steps: u64,
    is_lasting: bool,
}

/// Steps for each byte of a query: it is parsed, bound, and planned for the index.
const STEPS_PER_BYTE: u64 = 2;
/// A query whose constants took more steps may have made large ones.
const LASTING_STEPS_MAX: u64 = 1024;
/// Longer ones seldom repeat.
const LASTING_BYTES_MAX: u64 = 8 * 1024;

impl PreparedQuery {
    /// Parameters are name (with `@`) and value; of two for one name the last counts.
    pub fn prepare(
        query: &ParsedQuery,
        parameters: &[(String, Value)],
        environment: &QueryEnvironment<'_>,
    ) -> Result<PreparedQuery, SqlError> {
        let &QueryEnvironment { computed, geometry, now, random_seed, scripts } = environment;
        let functions =
            FunctionContext { now, geometry, random: Cell::new(random_seed), ..Default::default() };
        let meter = Meter::default();
        let environment = Environment {
            parameters,
            computed,
            functions: &functions,
            scripts,
            meter: &meter,
            is_own: query.wants_bodies(),
        };
        let mut bound = bind::bind(query.text(), query.tree(), &environment)?;
        if let (true, &Projection::All(slot)) = (query.wants_bodies(), &bound.projection) {
            bound.projection = Projection::Bodies(slot);
        }
        let user_functions = bind::function_names(&bound);
        let steps_of_text = steps_of_text(query.text(), parameters);
        let shared = Shared {
            is_heavy: !user_functions.is_empty() || bound.has_loops(),
            query: Arc::new(bound),
            computed: computed.clone(),
            user_functions,
            geometry,
            steps: meter.steps().saturating_add(steps_of_text),
            is_lasting: !functions.has_told_time.get()
                && meter.steps() <= LASTING_STEPS_MAX
                && steps_of_text <= LASTING_BYTES_MAX * STEPS_PER_BYTE,
        };
        Ok(PreparedQuery { shared: Arc::new(shared), now, random_seed, in_any_order: false })
    }

    /// The same query in a request of another time; to be asked of one that is lasting.
    pub fn at(&self, now: Timestamp, random_seed: u64) -> PreparedQuery {
        PreparedQuery { shared: self.shared.clone(), now, random_seed, in_any_order: self.in_any_order }
    }

    /// The time and the seed of its execution.
    pub fn moment(&self) -> (Timestamp, u64) {
        (self.now, self.random_seed)
    }

    pub fn comes_in_any_order(&self) -> bool {
        self.in_any_order
    }

    /// Whether the query stays as it is while its text, its parameters and the container do, and is worth keeping: none of
    /// its constants depends on the time, and none is large.
    pub fn is_lasting(&self) -> bool {
        self.shared.is_lasting
    }

    /// What it took to prepare: its constants, and its text with the parameters.
    pub fn steps(&self) -> u64 {
        self.shared.steps
    }

    pub(crate) fn bound(&self) -> &BoundQuery {
        &self.shared.query
    }

    /// The query that reads items, where this one is over its whole result.
    pub(crate) fn innermost(&self) -> Option<PreparedQuery> {
        let (inner, ..) = self.bound().whole_result()?;
        let shared = Shared {
            query: Arc::new(inner.innermost().clone()),
            computed: self.shared.computed.clone(),
            user_functions: self.shared.user_functions.clone(),
            ..*self.shared
        };
        Some(PreparedQuery { shared: Arc::new(shared), ..*self })
    }

    /// Refuses an order that a plan can ask for, but no partition can give.
    pub(crate) fn check_order(&self) -> Result<(), SqlError> {
        match self.bound().innermost().order_refusal.or(self.bound().order_refusal) {
            Some(OrderRefusal::Correlated) => Err(SqlError::CorrelatedOrderBy),
            Some(OrderRefusal::WholeItem) => {
                Err(SqlError::Rule { rule: Rule::OrderByNotAPath, location: None })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn computed(&self) -> &ComputedProperties {
        &self.shared.computed
    }

    pub(crate) fn shared(&self) -> Arc<BoundQuery> {
        self.shared.query.clone()
    }

    /// For one execution, which draws its random numbers from it.
    pub(crate) fn function_context(&self) -> FunctionContext {
        FunctionContext {
            now: self.now,
            geometry: self.shared.geometry,
            random: Cell::new(self.random_seed),
            ..Default::default()
        }
    }

    /// Whether the result depends on nothing but how many items match.
    pub fn counts_items(&self) -> bool {
        let query = self.bound();
        let counts = |aggregate: &Aggregate| {
            aggregate.function == AggregateFunction::Count
                && matches!(&aggregate.argument, Expression::Literal(value) if !value.is_undefined())
        };
        query.sources == [BoundSource::Item]
            && query.grouping.as_ref().is_some_and(|grouping| {
                grouping.keys.is_empty()
                    && !grouping.aggregates.is_empty()
                    && grouping.aggregates.iter().all(counts)
            })
    }

    /// Whether some rows are enough for a page, where rows come in the order of `ORDER BY` or there is none.
    pub fn may_stop_early(&self, ordered: bool) -> bool {
        let query = self.bound().innermost();
        query.grouping.is_none() && !query.distinct && (ordered || query.order_by.is_empty())
    }

    /// Whether rows come in the order in which items are fed, for lack of one of their own. Groups come as their first items do.
    pub fn comes_in_the_order_of_items(&self) -> bool {
        let query = self.bound().innermost();
        let is_one_group = query.grouping.as_ref().is_some_and(|grouping| grouping.keys.is_empty());
        query.order_by.is_empty() && !is_one_group && !self.in_any_order
    }

    /// The same for one to whom the order of rows without one of their own makes no difference.
    pub fn in_any_order(self) -> PreparedQuery {
        PreparedQuery { in_any_order: true, ..self }
    }

    /// Whether rows are passed over before the first that counts.
    pub fn has_offset(&self) -> bool {
        self.bound().offset > 0
    }

    /// Whether `FROM` is a subquery whose rows are known only when all items have been read.
    pub fn reads_a_whole_result(&self) -> bool {
        self.bound().reads_a_whole_result()
    }

    /// Whether rows of items come in the order of `ORDER BY`. Groups are put in order when all rows have been seen.
    pub fn is_ordered(&self) -> bool {
        self.has_order_by() && self.bound().grouping.is_none()
    }

    pub(crate) fn has_order_by(&self) -> bool {
        !self.bound().order_by.is_empty()
    }

    /// Whether rows of several partitions have to be merged by their sort keys. Clients expect it of groups, too, where rows show
    /// the keys.
    pub fn merges_in_order(&self) -> bool {
        let shows_keys = match &self.bound().projection {
            Projection::Object(members) => members.iter().any(|(name, _)| name == "orderByItems"),
            Projection::All(_) | Projection::Bodies(_) | Projection::Value(_) => false,
        };
        self.is_ordered() || (self.has_order_by() && shows_keys)
    }

    /// Identity of an ordered query for continuation tokens; `None` without `ORDER BY` and of groups. Queries with equal identities share positions. A
    /// position is sort keys with an item and the number of a row of that item. So filter and selection have no part in the identity,
    /// except conditions on joined values, which change the numbers of an item's rows.
    pub fn order_identity(&self) -> Option<String> {
        let query = self.bound();
        let of_joins = || query.conditions().iter().filter(|condition| !query.is_of_item(condition));
        let joined: Vec<&Expression> = if query.sources.len() > 1 { of_joins().collect() } else { vec![] };
        let rows = (&query.sources, &query.order_by, query.offset, query.limit, joined);
        let told_apart = query.distinct.then_some(&query.projection);
        self.is_ordered().then(|| format!("{rows:?} {told_apart:?}"))
    }

    /// False for queries that never name the container: they have the same rows everywhere, for no item in particular.
    pub fn reads_items(&self) -> bool {
        self.bound().reads_items()
    }

    /// The user-defined functions that it calls: an execution needs them, and blocks while it calls them.
    pub fn user_functions(&self) -> &[Arc<str>] {
        &self.shared.user_functions
    }

    /// Whether one item can cost much more than looking at it once.
    pub fn is_heavy(&self) -> bool {
        self.shared.is_heavy
    }
}

fn steps_of_text(text: &str, parameters: &[(String, Value)]) -> u64 {
    let values: usize = parameters.iter().map(|(name, value)| name.len() + value_size(value)).sum();
    STEPS_PER_BYTE * (text.len() + values) as u64
}
