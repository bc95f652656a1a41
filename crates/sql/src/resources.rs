//! Queries over resources that are not items: databases, containers, offers, users, permissions and scripts, as rows in memory.

use std::sync::Arc;

use shardlake_document::Value;
use shardlake_stdx::{Timestamp, murmur3_128_seeded};

use crate::bind::{ComputedProperties, check_parameters};
use crate::error::SqlError;
use crate::execute::{Execution, Flow, PageLimits, Rows};
use crate::prepared::{PreparedQuery, QueryEnvironment};
use crate::syntax::parse_query;
use crate::value::context::GeometryKind;
use crate::value::meter::Meter;

/// Steps of a page, which is made on a thread that serves requests.
const STEPS_MAX: u64 = 20_000_000;

/// A resource: its own id and its JSON form.
#[derive(Debug, Clone)]
pub struct Resource {
    pub rid: String,
    pub value: Value,
}

/// The position at which a query over resources resumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePosition {
    /// Own id of the last resource read.
    pub after: String,
    /// State of the execution.
    pub state: Option<Vec<u8>>,
}

#[derive(Debug)]
pub struct ResourcePage {
    pub rows: Rows,
    pub next: Option<ResourcePosition>,
}

/// One page. `resources` are in the order of their own ids.
pub fn query_resources(
    (text, parameters): (&str, &[(String, Value)]),
    resources: &[Resource],
    now: Timestamp,
    position: Option<&ResourcePosition>,
    limits: PageLimits,
) -> Result<ResourcePage, SqlError> {
    let environment = QueryEnvironment {
        computed: &ComputedProperties::default(),
        geometry: GeometryKind::default(),
        now,
        random_seed: now.milliseconds(),
        scripts: None,
    };
    check_parameters(parameters)?;
    let query = PreparedQuery::prepare(&parse_query(text)?, parameters, &environment)?;
    if query.has_order_by() {
        return Err(SqlError::OrderByOverResources);
    }
    let meter = Arc::new(Meter::default());
    let interrupt = || meter.steps() > STEPS_MAX;
    let state = position.and_then(|position| position.state.as_deref());
    let mut execution = Execution::start(&query, limits, false, state)?.metered(meter.clone());
    let after = position.map_or("", |position| &position.after);
    let (mut last, mut flow) = (after, Flow::More);
    if query.reads_items() {
        for resource in resources.iter().filter(|resource| resource.rid.as_str() > after) {
            flow = execution.push_value(&resource.value, number_of(&resource.rid), &interrupt)?;
            if flow != Flow::More {
                break;
            }
            last = &resource.rid;
        }
    } else {
        flow = execution.push_nothing(&interrupt)?;
    }
    let output = execution.finish(flow == Flow::More, &interrupt)?;
    let next = match (output.rescan, flow) {
        (true, _) => Some(ResourcePosition { after: String::new(), state: output.state }),
        (false, Flow::PageFull) => Some(ResourcePosition { after: last.to_owned(), state: output.state }),
        (false, Flow::More | Flow::Complete) => None,
    };
    Ok(ResourcePage { rows: output.rows, next })
}

/// Number that identifies a resource on the next page.
fn number_of(rid: &str) -> u64 {
    murmur3_128_seeded(rid.as_bytes(), (0, 0)).0
}
