//! Items in memory, and queries run over them page by page.
#![allow(clippy::unwrap_used)] // a test may fail by panicking

pub mod random;
pub mod table;
pub mod user_functions;

use std::sync::Arc;

use shardlake_document::{Body, Envelope, ItemView, ParseLimits, Value};
use shardlake_model::{ContainerRid, DatabaseRid};
use shardlake_sql::{
    ComputedProperties, Execution, Flow, GeometryKind, Merger, PageLimits, PreparedQuery, QueryEnvironment,
    QueryPlan, Rows, SqlError, SupportedFeatures, compare_sort_keys, parse_query, plan_query,
};
use shardlake_stdx::{Guid, HybridTime, Timestamp};
use user_functions::{BuiltIns, MakeFunctions};

pub const UNLIMITED: PageLimits = PageLimits { rows: 1_000_000, size_bytes: 1 << 30 };

/// Items in the order in which a partition would have them.
pub struct Items(Vec<(Body, Envelope)>, Calling);

/// How user-defined functions are called.
#[derive(Clone)]
pub struct Calling {
    pub functions: MakeFunctions,
    /// Calls are gathered before items are fed.
    pub gathers: bool,
}

impl Default for Calling {
    fn default() -> Self {
        Calling { functions: Arc::new(|| Box::new(BuiltIns)), gathers: true }
    }
}

impl Items {
    pub fn new(values: &[Value]) -> Items {
        Items::numbered(values, 1)
    }

    /// Several containers' worth of items can have ordinals of one.
    pub fn numbered(values: &[Value], first_ordinal: u64) -> Items {
        let bodies: Vec<Body> = values.iter().map(|value| value.to_body().unwrap()).collect();
        let envelope = |index: usize, body: &Body| Envelope {
            lsn: index as u64 + 1,
            time: HybridTime::from_seconds(1_750_000_000 + index as u64),
            region: 0,
            etag: Guid([7; 16]),
            ordinal: index as u64 + first_ordinal,
            ttl_seconds: None,
            json_size_bytes: body.raw().as_bytes().len() as u32,
            is_altered: false,
        };
        let with_envelope = |(index, body): (usize, Body)| {
            let envelope = envelope(index, &body);
            (body, envelope)
        };
        Items(bodies.into_iter().enumerate().map(with_envelope).collect(), Calling::default())
    }

    pub fn calling(self, calling: Calling) -> Items {
        Items(self.0, calling)
    }

    /// An execution with all it needs.
    fn supplied(&self, query: &PreparedQuery, execution: Execution) -> Execution {
        if query.user_functions().is_empty() {
            return execution;
        }
        execution.calling((self.1.functions)())
    }

    /// Before the item with this number is fed, of those that an execution is fed from `first` on.
    fn gather(&self, execution: &mut Execution, first: usize, done: usize, gathered: &mut usize) {
        if !self.1.gathers || done < *gathered {
            return;
        }
        let count = execution.items_to_gather(done - first);
        let items = self.0[done..].iter().take(count);
        let items: Vec<_> = items.map(|(body, envelope)| (view(body, envelope), false)).collect();
        execution.gather_calls(&items, &|| false);
        *gathered = done + items.len();
    }

    pub fn from_json(text: &[u8]) -> Items {
        let limits = ParseLimits { size_max_bytes: text.len(), ..ParseLimits::default() };
        let Value::Array(values) = Value::from_json(text, &limits).unwrap() else {
            panic!("a list of items")
        };
        Items::new(&values)
    }

    /// A page, and the position of the next: a count of items and the executor's state.
    pub fn page(
        &self,
        query: &PreparedQuery,
        limits: PageLimits,
        position: Option<&[u8]>,
    ) -> Result<(Rows, Option<Vec<u8>>), SqlError> {
        let (first, state) = match position {
            None => (0, None),
            Some(bytes) => {
                let (first, state) = bytes.split_at(4);
                let state = (!state.is_empty()).then_some(state);
                (u32::from_be_bytes(first.try_into().unwrap()) as usize, state)
            }
        };
        let mut execution = self.supplied(query, Execution::start(query, limits, false, state)?);
        let mut gathered = 0;
        let (mut done, mut flow) = (first, Flow::More);
        // A query that reads no items has its row from whatever item it is given.
        let nothing = (Value::Object(vec![]).to_body().unwrap(), SPARE);
        let alone = [nothing];
        let items = if query.reads_items() { &self.0[..] } else { &alone };
        while done < items.len() && flow == Flow::More {
            if query.reads_items() {
                self.gather(&mut execution, first, done, &mut gathered);
            }
            let (body, envelope) = &items[done];
            flow = execution.push(&view(body, envelope), false, &|| false)?;
            done += usize::from(flow == Flow::More);
        }
        let exhausted = flow == Flow::More;
        let output = execution.finish(exhausted, &|| false)?;
        let next = match (output.rescan, flow) {
            (true, _) => Some(0),
            (false, Flow::PageFull) => Some(done),
            (false, _) => None,
        };
        let next =
            next.map(|done| [&(done as u32).to_be_bytes()[..], &output.state.unwrap_or_default()].concat());
        Ok((output.rows, next))
    }

    /// Sorts the items like an index with these members, with true for descending ones.
    pub fn sorted(mut self, keys: &[(String, bool)]) -> Items {
        self.0.sort_by(|left, right| {
            let value = |item: &(Body, Envelope), name: &str| item.0.raw().get(name).map(Value::from_raw);
            for (name, descending) in keys {
                let values = (value(left, name).unwrap_or_default(), value(right, name).unwrap_or_default());
                let order = compare_sort_keys(&values.0, &values.1);
                if order.is_ne() {
                    return if *descending { order.reverse() } else { order };
                }
            }
            let order = left.1.ordinal.cmp(&right.1.ordinal);
            if keys.first().is_some_and(|(_, descending)| *descending) { order.reverse() } else { order }
        });
        self
    }

    /// The rows collected by one of several executions over different items.
    pub fn collected(
        &self,
        query: &PreparedQuery,
        limits: PageLimits,
        ordered: bool,
        state: Option<&[u8]>,
    ) -> Result<Execution, SqlError> {
        let mut execution = self.supplied(query, Execution::collecting(query, limits, ordered, state)?);
        let mut gathered = 0;
        for (done, (body, envelope)) in self.0.iter().enumerate() {
            self.gather(&mut execution, 0, done, &mut gathered);
            if execution.push(&view(body, envelope), false, &|| false)? != Flow::More {
                break;
            }
        }
        Ok(execution)
    }

    /// All rows, in as few pages as there can be.
    pub fn rows(&self, query: &PreparedQuery) -> Result<Vec<String>, SqlError> {
        self.paged_rows(query, UNLIMITED)
    }

    /// All rows, page by page; each page within its limits.
    pub fn paged_rows(&self, query: &PreparedQuery, limits: PageLimits) -> Result<Vec<String>, SqlError> {
        let (mut all, mut position, mut empty_pages) = (vec![], None, 0);
        loop {
            let (rows, next) = self.page(query, limits, position.as_deref())?;
            check_limits(&rows, limits);
            empty_pages += usize::from(rows.is_empty() && next.is_some());
            assert!(empty_pages <= self.0.len(), "only groups come to nothing, and each only once");
            all.extend(texts(&rows));
            match next {
                Some(next) => position = Some(next),
                None => return Ok(all),
            }
        }
    }
}

const SPARE: Envelope = Envelope {
    lsn: 1,
    time: HybridTime::from_seconds(1_750_000_000),
    region: 0,
    etag: Guid([7; 16]),
    ordinal: 0,
    ttl_seconds: None,
    json_size_bytes: 0,
    is_altered: false,
};

fn view<'i>(body: &'i Body, envelope: &'i Envelope) -> ItemView<'i> {
    let container = ContainerRid { database: DatabaseRid(1), number: 1 };
    ItemView { body: body.raw(), envelope, container, items_link: "dbs/x/colls/y/docs/" }
}

pub fn check_limits(rows: &Rows, limits: PageLimits) {
    assert!(rows.len() <= limits.rows);
    assert!(rows.len() <= 1 || rows.size_bytes() <= limits.size_bytes);
}

pub fn texts(rows: &Rows) -> Vec<String> {
    rows.iter().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect()
}

pub fn environment(computed: &ComputedProperties) -> QueryEnvironment<'_> {
    QueryEnvironment {
        computed,
        geometry: GeometryKind::Geography,
        now: Timestamp(1_750_000_000_000),
        random_seed: 1,
        scripts: Some(user_functions::scripts()),
    }
}

pub fn prepare(text: &str) -> Result<PreparedQuery, SqlError> {
    prepare_with(text, &[])
}

pub fn prepare_with(text: &str, parameters: &[(String, Value)]) -> Result<PreparedQuery, SqlError> {
    let computed = ComputedProperties::default();
    PreparedQuery::prepare(&parse_query(text)?, parameters, &environment(&computed))
}

/// The plan of a query over a container that is partitioned by `/pk`.
pub fn plan(text: &str) -> Result<QueryPlan, SqlError> {
    plan_with(text, &[])
}

pub fn plan_with(text: &str, parameters: &[(String, Value)]) -> Result<QueryPlan, SqlError> {
    let computed = ComputedProperties::default();
    let definition = serde_json::from_str(r#"{"paths":["/pk"],"kind":"Hash","version":2}"#).unwrap();
    plan_query(
        &parse_query(text)?,
        parameters,
        &definition,
        &environment(&computed),
        SupportedFeatures::all(),
    )
}

/// All rows of a query over several sources, merged page by page.
pub fn merged_rows(
    text: &str,
    parameters: &[(String, Value)],
    sources: &[Items],
    limits: PageLimits,
) -> Result<Vec<String>, SqlError> {
    let plan = plan_with(text, parameters)?;
    let (mut all, mut state): (Vec<String>, Option<Vec<u8>>) = (vec![], None);
    let mut empty_pages = 0;
    loop {
        let mut merger = Merger::new(&plan.info, text, sources.len(), limits, state.as_deref())?;
        let mut openings = vec![];
        for source in 0..sources.len() {
            let opening = merger.opening(source);
            openings.push((prepare_with(&opening.text, parameters)?, opening.position));
        }
        let chunk = merger.chunk_limits();
        loop {
            let needs = merger.needs();
            if needs.is_empty() {
                break;
            }
            for source in needs {
                let (query, position) = &mut openings[source];
                let (rows, next) = sources[source].page(query, chunk, position.as_deref())?;
                position.clone_from(&next);
                merger.feed(source, &rows, next)?;
            }
        }
        let page = merger.take_page()?;
        check_limits(&page.rows, limits);
        all.extend(texts(&page.rows));
        state = page.state;
        let Some(state) = &state else { return Ok(all) };
        assert!(state.len() < 600, "{} bytes of state", state.len());
        empty_pages += usize::from(page.rows.is_empty());
        let items: usize = sources.iter().map(|source| source.0.len()).sum();
        assert!(empty_pages <= items, "only groups come to nothing, and each only once");
    }
}

/// All rows of a query over several sources, merged page by page from the rows their executions collect.
pub fn absorbed_rows(
    query: &PreparedQuery,
    sources: &[Items],
    limits: PageLimits,
    ordered: bool,
) -> Result<Vec<String>, SqlError> {
    let (mut all, mut state, mut empty_pages): (Vec<String>, Option<Vec<u8>>, usize) = (vec![], None, 0);
    loop {
        // Rows of a source beyond its share are left for the next page.
        let share = match query.is_ordered() {
            true => PageLimits { rows: limits.rows.div_ceil(2), ..limits },
            false => limits,
        };
        let mut merged = Execution::merging(query, limits, state.clone())?;
        if let Some(source) = sources.first() {
            merged = source.supplied(query, merged);
        }
        for source in sources {
            merged.absorb(source.collected(query, share, ordered, state.as_deref())?)?;
        }
        let page = merged.finish(true, &|| false)?;
        check_limits(&page.rows, limits);
        all.extend(texts(&page.rows));
        empty_pages += usize::from(page.rows.is_empty());
        state = page.state;
        if state.is_none() {
            return Ok(all);
        }
        assert!(empty_pages <= 30, "the pages come to an end");
    }
}
