//! Heat over time and the hash space: one matrix for a container, of the partitions that there are and of those that were.
//!
//! Columns are periods, rows are equal parts of a span of the hash space. A partition reports its heat in 32
//! parts, so the rows and its parts rarely fall together:
//!
//! ```text
//! parts of a partition   |  a  |  b  |  c  |         share, throttled: a row shows the highest of the parts that it meets,
//! rows                   | 0 | 1 | 2 | 3 | 4 |       and rows within one part repeat it
//!                          a  a/b  b  b/c  c         request units: a row has its portion of each part
//! ```
//!
//! Time on the map is the clock's elapsed time plus [`HEAT_MAP_BEFORE`], so that it has space for the heat of
//! earlier processes (`earlier_heat.rs`). Cells of a time in which no process counted are NaN: whether there
//! was traffic is unknown.

use std::time::Duration;

use shardlake_heat::{PARTS, PERIODS, Period};
use shardlake_model::{Error, Result};
use shardlake_router::{ContainerHandle, Epoch, HistoryEvent};
use shardlake_routing::{Epk, EpkScale, KeyRange};

use crate::Upkeep;
use crate::earlier_heat::{EarlierHeat, ShownPeriods};

/// Time on the map before the process: as far as the coarsest periods reach, and a whole number of each.
pub const HEAT_MAP_BEFORE: Duration = Duration::from_secs(28 * 24 * 3600);
pub const HEAT_ROWS_MAX: usize = 512;
/// Bound on the refusals that are listed one by one; where there are more, the gravest are listed.
const THROTTLED_MAX: usize = 10_000;

/// Measure that a cell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeatMeasure {
    /// RU/s of a part of a partition over the RU/s of the partition's budget.
    Share,
    /// RU/s.
    RequestUnits,
    /// Refused operations over all operations of the partition.
    Throttled,
}

#[derive(Debug, Clone)]
pub struct HeatMapRequest {
    /// How far back; the finest periods that reach so far are taken.
    pub window: Duration,
    pub rows: usize,
    pub measure: HeatMeasure,
    pub span: KeyRange,
    /// The sequence of an earlier map: only its last column and later ones are wanted.
    pub since: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct HeatMap {
    /// The number of the last column, which is still counted.
    pub sequence: u32,
    pub period_seconds: u32,
    /// Numbers of the columns: this one to the sequence.
    pub first: u32,
    /// One more than the number of rows.
    pub row_bounds: Vec<Epk>,
    /// One column of rows after the other.
    pub cells: Vec<f32>,
    pub throttled: Vec<ThrottledRows>,
    /// The epochs that reach into the columns.
    pub epochs: Vec<Epoch>,
    pub events: Vec<HistoryEvent>,
    /// From when on there is anything to know. All times are of the map.
    pub known_since: Duration,
}

/// Rows of a column with a partition that refused operations.
#[derive(Debug, Clone, PartialEq)]
pub struct ThrottledRows {
    pub column: u32,
    pub rows: RowSpan,
    /// Share of the partition's operations.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSpan {
    pub first: usize,
    pub count: usize,
}

/// The length of the finest periods that reach back so far, and how many of them there are.
pub fn periods_of(window: Duration) -> (u32, u32) {
    let reaches = |(seconds, count): &(u32, u32)| u64::from(*seconds) * u64::from(*count) >= window.as_secs();
    PERIODS.into_iter().find(reaches).unwrap_or(PERIODS[PERIODS.len() - 1])
}

impl Upkeep {
    pub fn heat_map(&self, container: &ContainerHandle, request: &HeatMapRequest) -> Result<HeatMap> {
        if request.span.is_empty() || !(1..=HEAT_ROWS_MAX).contains(&request.rows) {
            return Err(Error::bad_request(format!(
                "a heat map has 1 to {HEAT_ROWS_MAX} rows, and its 'min' is below its 'max'"
            )));
        }
        let entry = self.router().current_entry(&container.entry)?;
        let definition = &entry.record.container.definition.partition_key;
        let elapsed = self.0.router.clock().elapsed();
        let now = elapsed + HEAT_MAP_BEFORE;
        let past = entry.history.past();
        let earlier = EarlierHeat::new(&past.earlier, self.0.router.clock().now(), now);
        let oldest = earlier.known.first().map_or(HEAT_MAP_BEFORE, |(from, _)| *from).min(HEAT_MAP_BEFORE);
        let columns = Columns::of(request, now, oldest);
        let scale = EpkScale::new(definition, &request.span);
        let mut canvas =
            Canvas::new(request, columns, scale, self.router().limits().partition_throughput_max as f64);
        let epochs: Vec<Epoch> =
            earlier.epochs.iter().cloned().chain(past.epochs.iter().map(later)).collect();
        let later_events =
            past.events.iter().map(|event| HistoryEvent { at: event.at + HEAT_MAP_BEFORE, ..event.clone() });
        let events = earlier.events.iter().cloned().chain(later_events);
        let events = events.filter(|event| columns.reach(event.at)).collect();
        for gone in &past.earlier.partitions {
            let Some((bounds, periods)) = earlier.of_partition(gone, definition, &columns.shown()) else {
                continue;
            };
            canvas.paint(&Source::of(gone.range_id, bounds, periods, &epochs));
        }
        for gone in &past.partitions {
            let periods = gone.heat.periods(elapsed, columns.period_seconds, columns.first_of_process());
            canvas.paint(&Source::of(
                gone.range_id,
                gone.heat.part_bounds(),
                columns.placed(periods),
                &epochs,
            ));
        }
        let known_since = past.known_since.map_or(now, |moment| moment + HEAT_MAP_BEFORE);
        let mut known = earlier.known;
        known.push((known_since, now));
        drop(past);
        for partition in entry.map.iter() {
            let (bounds, periods) = {
                let heat = partition.hosted().partition().heat(definition);
                let periods = heat.periods(elapsed, columns.period_seconds, columns.first_of_process());
                (heat.part_bounds(), columns.placed(periods))
            };
            canvas.paint(&Source::of(partition.range_id(), bounds, periods, &epochs));
        }
        canvas.forget_outside(&known);
        let known_since = known.iter().map(|(from, _)| *from).min().unwrap_or(now);
        hold_to(&mut canvas.throttled, THROTTLED_MAX);
        let row_bounds = canvas.row_bounds(&request.span);
        let last_before = epochs.iter().rposition(|epoch| !columns.reach(epoch.from)).unwrap_or(0);
        Ok(HeatMap {
            sequence: columns.last,
            period_seconds: columns.period_seconds,
            first: columns.first,
            row_bounds,
            cells: canvas.cells,
            throttled: canvas.throttled,
            epochs: epochs.into_iter().skip(last_before).collect(),
            events,
            known_since,
        })
    }
}

impl HeatMap {
    /// The rows that a span of the hash space meets, for drawing.
    pub fn rows_of(&self, range: &KeyRange) -> Option<RowSpan> {
        let count = self.row_bounds.len() - 1;
        let ends_below = |bound: &Epk| *bound <= range.min;
        let first = self.row_bounds[1..].partition_point(ends_below);
        let end = self.row_bounds[..count].partition_point(|bound| *bound < range.max);
        (first < end).then(|| RowSpan { first, count: end - first })
    }
}

fn later(epoch: &Epoch) -> Epoch {
    Epoch { from: epoch.from + HEAT_MAP_BEFORE, ranges: epoch.ranges.clone() }
}

/// The periods that are shown.
#[derive(Debug, Clone, Copy)]
struct Columns {
    period_seconds: u32,
    first: u32,
    last: u32,
    now: Duration,
}

impl Columns {
    /// They begin where the window or the recorded heat begins, whichever is later.
    fn of(request: &HeatMapRequest, now: Duration, oldest: Duration) -> Columns {
        let (period_seconds, count) = periods_of(request.window);
        let last = (now.as_secs() / u64::from(period_seconds)) as u32;
        let wanted = (request.window.as_secs().div_ceil(u64::from(period_seconds)) as u32).clamp(1, count);
        let begin = (oldest.as_secs() / u64::from(period_seconds)) as u32;
        let first = (last + 1).saturating_sub(wanted).max(begin.min(last));
        // An unknown `since` (of another window or another process) asks for everything.
        let since = request.since.filter(|since| (first..=last).contains(since));
        Columns { period_seconds, first: since.unwrap_or(first), last, now }
    }

    fn shown(self) -> ShownPeriods {
        ShownPeriods { period_seconds: self.period_seconds, first: self.first, last: self.last }
    }

    /// Periods before the process.
    fn before(self) -> u32 {
        (HEAT_MAP_BEFORE.as_secs() / u64::from(self.period_seconds)) as u32
    }

    /// The first that the process may have counted, by its own number.
    fn first_of_process(self) -> u32 {
        self.first.saturating_sub(self.before())
    }

    /// The process's periods by their place on the map.
    fn placed(self, mut periods: Vec<Period>) -> Vec<Period> {
        periods.iter_mut().for_each(|period| period.number += self.before());
        periods
    }

    fn count(self) -> usize {
        assert!(self.first <= self.last, "a map has at least one column");
        (self.last - self.first) as usize + 1
    }

    /// Whether a point in time is not before the columns.
    fn reach(self, at: Duration) -> bool {
        at.as_secs() / u64::from(self.period_seconds) >= u64::from(self.first)
    }

    /// How much of a period has passed.
    fn seconds_of(self, number: u32) -> f64 {
        let start = u64::from(number) * u64::from(self.period_seconds);
        let passed = self.now.as_secs_f64() - start as f64;
        passed.clamp(1.0, f64::from(self.period_seconds))
    }

    fn end_of(self, number: u32) -> Duration {
        Duration::from_secs((u64::from(number) + 1) * u64::from(self.period_seconds))
    }
}

/// A partition as the map sees it.
struct Source {
    bounds: Vec<Epk>,
    periods: Vec<Period>,
    /// From when on it had which budget, oldest first, in RU/s.
    budgets: Vec<(Duration, Option<f64>)>,
}

impl Source {
    fn of(range_id: u32, bounds: Vec<Epk>, periods: Vec<Period>, epochs: &[Epoch]) -> Source {
        let budget = |epoch: &Epoch| {
            let range = epoch.ranges.iter().find(|range| range.range_id == range_id)?;
            Some((epoch.from, range.budget_centi.map(|centi| centi as f64 / 100.0)))
        };
        Source { bounds, periods, budgets: epochs.iter().filter_map(budget).collect() }
    }

    /// In force at the end of a period, or the first that it had.
    fn budget_at(&self, end: Duration) -> Option<f64> {
        debug_assert!(
            self.budgets.is_sorted_by(|left, right| left.0 <= right.0),
            "budgets are kept in the order of their times"
        );
        let before = self.budgets.partition_point(|(from, _)| *from <= end);
        self.budgets.get(before.saturating_sub(1)).and_then(|(_, budget)| *budget)
    }
}

struct Canvas {
    measure: HeatMeasure,
    rows: usize,
    columns: Columns,
    scale: EpkScale,
    span: KeyRange,
    /// RU/s where nothing limits a partition.
    budget_without: f64,
    cells: Vec<f32>,
    throttled: Vec<ThrottledRows>,
}

impl Canvas {
    fn new(request: &HeatMapRequest, columns: Columns, scale: EpkScale, budget_without: f64) -> Canvas {
        Canvas {
            measure: request.measure,
            rows: request.rows,
            columns,
            scale,
            span: request.span.clone(),
            budget_without,
            cells: vec![0.0; columns.count() * request.rows],
            throttled: Vec::new(),
        }
    }

    /// Position of a bound among the rows.
    fn place(&self, bound: &Epk) -> f64 {
        if *bound >= self.span.max {
            return self.rows as f64;
        }
        self.scale.fraction(bound) * self.rows as f64
    }

    fn paint(&mut self, source: &Source) {
        let places: Vec<f64> = source.bounds.iter().map(|bound| self.place(bound)).collect();
        let (Some(low), Some(high)) = (places.first().copied(), places.last().copied()) else { return };
        if high <= low {
            return;
        }
        for period in &source.periods {
            let column = (period.number - self.columns.first) as usize;
            let seconds = self.columns.seconds_of(period.number);
            let operations = period.total_operations() + u64::from(period.throttled);
            let refused = f64::from(period.throttled) / operations.max(1) as f64;
            if period.throttled > 0 {
                let rows = span_of(low, high, self.rows);
                self.throttled.push(ThrottledRows { column: period.number, rows, share: refused });
            }
            let budget = source.budget_at(self.columns.end_of(period.number)).unwrap_or(self.budget_without);
            let cells = &mut self.cells[column * self.rows..][..self.rows];
            for part in 0..PARTS {
                let (from, to) = (places[part], places[part + 1]);
                if to <= from {
                    continue;
                }
                let rate = period.parts[part] / seconds;
                let rows = span_of(from, to, self.rows);
                let cells = &mut cells[rows.first..][..rows.count];
                match self.measure {
                    HeatMeasure::Share => {
                        let share = (rate / budget.max(f64::MIN_POSITIVE)) as f32;
                        cells.iter_mut().for_each(|cell| *cell = cell.max(share));
                    }
                    HeatMeasure::Throttled => {
                        cells.iter_mut().for_each(|cell| *cell = cell.max(refused as f32));
                    }
                    HeatMeasure::RequestUnits => {
                        for (cell, row) in cells.iter_mut().zip(rows.first..) {
                            let common = to.min(row as f64 + 1.0) - from.max(row as f64);
                            *cell += (rate * (common / (to - from)).max(0.0)) as f32;
                        }
                    }
                }
            }
        }
    }

    /// Clears the cells of times in which no process counted.
    fn forget_outside(&mut self, known: &[(Duration, Duration)]) {
        let number = |moment: Duration| moment.as_secs() / u64::from(self.columns.period_seconds);
        let spans: Vec<_> = known.iter().map(|(from, to)| number(*from)..=number(*to)).collect();
        let columns = self.cells.chunks_mut(self.rows).zip(u64::from(self.columns.first)..);
        for (cells, column) in columns {
            if !spans.iter().any(|span| span.contains(&column)) {
                cells.fill(f32::NAN);
            }
        }
    }

    fn row_bounds(&self, span: &KeyRange) -> Vec<Epk> {
        let inner = (1..self.rows).map(|row| self.scale.bound(row as f64 / self.rows as f64));
        std::iter::once(span.min.clone()).chain(inner).chain([span.max.clone()]).collect()
    }
}

/// By column again, once the gravest are found.
fn hold_to(throttled: &mut Vec<ThrottledRows>, count_max: usize) {
    if throttled.len() > count_max {
        throttled.sort_by(|one, other| other.share.total_cmp(&one.share));
        throttled.truncate(count_max);
    }
    throttled.sort_by_key(|one| (one.column, one.rows.first));
}

/// The rows that an interval meets; at least one.
fn span_of(from: f64, to: f64, rows: usize) -> RowSpan {
    let first = (from as usize).min(rows - 1);
    let end = (to.ceil() as usize).clamp(first + 1, rows);
    RowSpan { first, count: end - first }
}

#[cfg(test)]
mod tests {
    use shardlake_model::PartitionKeyDefinition;

    use super::*;

    fn request(rows: usize, measure: HeatMeasure) -> HeatMapRequest {
        let window = Duration::from_secs(600);
        HeatMapRequest { window, rows, measure, span: KeyRange::full(), since: None }
    }

    /// A partition of the whole space with request units in one of its parts, in the second 700.
    fn canvas(rows: usize, measure: HeatMeasure, budget: Option<f64>) -> Canvas {
        let definition = PartitionKeyDefinition::hash("/pk");
        let scale = EpkScale::new(&definition, &KeyRange::full());
        let (request, now) = (request(rows, measure), Duration::from_secs(705));
        let inner = (1..PARTS).map(|part| scale.bound(part as f64 / PARTS as f64));
        let bounds = std::iter::once(KeyRange::full().min).chain(inner).chain([KeyRange::full().max]);
        let mut parts = [0.0; PARTS];
        parts[16] = 40.0;
        let period = Period {
            number: 700,
            ru: [40.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            operations: [30, 0, 0, 0, 0, 0],
            throttled: 10,
            busiest_second_ru: 40.0,
            parts,
        };
        let source = Source {
            bounds: bounds.collect(),
            periods: vec![period],
            budgets: vec![(Duration::ZERO, budget)],
        };
        let mut canvas = Canvas::new(&request, Columns::of(&request, now, Duration::ZERO), scale, 10_000.0);
        canvas.paint(&source);
        canvas
    }

    fn column(canvas: &Canvas, number: u32) -> Vec<f32> {
        let column = (number - canvas.columns.first) as usize;
        canvas.cells[column * canvas.rows..][..canvas.rows].to_vec()
    }

    #[test]
    fn one_hot_part_is_a_whole_budget_whatever_the_rows() {
        for rows in [1, 4, 32, 33, 64, 512] {
            let share = column(&canvas(rows, HeatMeasure::Share, Some(40.0)), 700);
            assert_eq!(share.iter().copied().fold(0.0, f32::max), 1.0, "{rows} rows");
            let sum: f32 = column(&canvas(rows, HeatMeasure::RequestUnits, None), 700).iter().sum();
            assert!((sum - 40.0).abs() < 1e-3, "{rows} rows: {sum}");
        }
        let share = column(&canvas(64, HeatMeasure::Share, Some(40.0)), 700);
        let hot: Vec<usize> = (0..64).filter(|row| share[*row] > 0.0).collect();
        assert_eq!(hot, [32, 33], "two rows within one part repeat it");
        assert_eq!(column(&canvas(1, HeatMeasure::Share, None), 700), [0.004], "of what a partition can");
    }

    #[test]
    fn what_was_refused_is_told_of_the_partition() {
        let canvas = canvas(8, HeatMeasure::Throttled, None);
        assert_eq!(column(&canvas, 700), [0.25; 8]);
        let rows = RowSpan { first: 0, count: 8 };
        assert_eq!(canvas.throttled, [ThrottledRows { column: 700, rows, share: 0.25 }]);
        assert_eq!(column(&canvas, 699), [0.0; 8]);
    }

    #[test]
    fn of_too_many_refusals_the_gravest_are_told() {
        let rows = RowSpan { first: 0, count: 1 };
        let dot = |column: u32| ThrottledRows { column, rows, share: f64::from(column % 10) / 10.0 };
        let mut dots: Vec<ThrottledRows> = (0..100).rev().map(dot).collect();
        hold_to(&mut dots, 10);
        assert_eq!(dots.iter().map(|dot| dot.column % 10).collect::<Vec<_>>(), [9; 10]);
        assert!(dots.is_sorted_by_key(|dot| dot.column));
    }

    #[test]
    fn columns_reach_from_the_window_or_from_a_sequence_to_now() {
        let now = Duration::from_secs(7205);
        let columns = |window: u64, since| {
            let window = Duration::from_secs(window);
            let columns = Columns::of(
                &HeatMapRequest { window, since, ..request(1, HeatMeasure::Share) },
                now,
                Duration::ZERO,
            );
            (columns.period_seconds, columns.first, columns.last)
        };
        assert_eq!(columns(600, None), (1, 6606, 7205));
        assert_eq!(columns(601, None), (60, 110, 120));
        assert_eq!(columns(21_600, None), (60, 0, 120));
        assert_eq!(columns(600, Some(7203)), (1, 7203, 7205));
        assert_eq!(columns(600, Some(5)), (1, 6606, 7205), "too long ago");
        assert_eq!(columns(600, Some(9000)), (1, 6606, 7205), "of another process");
    }

    #[test]
    fn what_nobody_knows_is_no_number() {
        let mut canvas = canvas(2, HeatMeasure::Share, None);
        canvas.forget_outside(&[(Duration::from_secs(690), Duration::from_secs(705))]);
        assert!(column(&canvas, 689).iter().all(|cell| cell.is_nan()));
        assert_eq!(column(&canvas, 690), [0.0; 2]);
    }
}
