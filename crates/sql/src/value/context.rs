//! Context of an evaluation: inputs of functions, the counter of its work, calls of user-defined functions.

use std::cell::{Cell, RefCell};

use shardlake_stdx::Timestamp;

use crate::error::SqlError;
use crate::value::meter::Meter;
use crate::value::user_functions::Calls;

/// Inputs of functions besides their arguments.
#[derive(Debug, Default)]
pub(crate) struct FunctionContext {
    /// When the query began.
    pub now: Timestamp,
    /// Whether a function has read `now`.
    pub has_told_time: Cell<bool>,
    pub geometry: GeometryKind,
    /// The state of `RAND`.
    pub random: Cell<u64>,
}

/// How the coordinates of spatial values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GeometryKind {
    /// Longitude and latitude on the WGS-84 ellipsoid.
    #[default]
    Geography,
    /// The plane.
    Geometry,
}

/// State shared by a whole execution.
pub(crate) struct EvaluationContext<'s> {
    pub functions: &'s FunctionContext,
    /// True when the time budget is used up.
    interrupt: &'s dyn Fn() -> bool,
    meter: &'s Meter,
    calls: Option<&'s RefCell<Calls>>,
    /// A row met an unknown call; only while calls are gathered.
    awaits: Cell<bool>,
}

impl<'s> EvaluationContext<'s> {
    pub fn new(functions: &'s FunctionContext, interrupt: &'s dyn Fn() -> bool, meter: &'s Meter) -> Self {
        EvaluationContext { functions, interrupt, meter, calls: None, awaits: Cell::new(false) }
    }

    /// Sets the calls of user-defined functions.
    pub fn with_calls(self, calls: Option<&'s RefCell<Calls>>) -> Self {
        EvaluationContext { calls, ..self }
    }

    #[inline]
    pub fn calls(&self) -> Option<&'s RefCell<Calls>> {
        self.calls
    }

    /// Whether a row awaited a call since the flag was last set; sets the flag to `awaits`.
    #[inline]
    pub fn swap_awaits(&self, awaits: bool) -> bool {
        self.awaits.replace(awaits)
    }

    /// Starts counting for another item.
    #[inline]
    pub fn begin_item(&self) {
        self.meter.begin_item();
    }

    /// Counts work; fails when the time is used up.
    #[inline]
    pub fn step(&self, steps: u64) -> Result<(), SqlError> {
        self.meter.step(steps, self.interrupt)
    }
}
