//! State of a group: its rows that count, and of each aggregate as much as its result and the removal of any
//! row need.
//!
//! Results are those of the query language (`value/aggregate.rs`), but for SUM and AVG of doubles: these are
//! rounded once here, and after each addition there.

use shardlake_document::{Value, decode_ordered};

use super::argument::{Argument, Lost};
use super::coding::{Reader, Writer};
use super::exact_sum::ExactSum;
use super::extremes::Extremes;
use crate::bound::Aggregate;
use crate::value::aggregate::AggregateFunction;
use crate::value::arithmetic::number_value;

/// Version of the stored form.
const VERSION: u64 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct GroupState {
    /// Rows of items in the group; without any the group does not exist.
    rows: u64,
    aggregates: Vec<AggregateState>,
}

#[derive(Debug, Clone, PartialEq)]
enum AggregateState {
    Count(u64),
    Sum(Box<SumState>),
    Extreme { extremes: Extremes, poison: u64 },
}

#[derive(Debug, Clone, PartialEq)]
struct SumState {
    averages: bool,
    sum: ExactSum,
    /// Numbers, finite or not.
    numbers: u64,
    /// Positive infinity, negative infinity, no number.
    endless: [u64; 3],
    poison: u64,
}

impl GroupState {
    pub(super) fn new(aggregates: &[Aggregate]) -> GroupState {
        let aggregates = aggregates.iter().map(|aggregate| AggregateState::new(aggregate.function));
        GroupState { rows: 0, aggregates: aggregates.collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether every aggregate has its value. Extremes may be lost by [`GroupState::take_out`].
    pub fn is_known(&self) -> bool {
        self.rows == 0
            || self.aggregates.iter().all(|aggregate| match aggregate {
                AggregateState::Extreme { extremes, .. } => extremes.is_known(),
                AggregateState::Count(_) | AggregateState::Sum(_) => true,
            })
    }

    /// Whether both are states of the same rows. As many extremes are compared as both have.
    pub fn agrees_with(&self, other: &GroupState) -> bool {
        let mut pairs = self.aggregates.iter().zip(&other.aggregates);
        let is_as_long = self.aggregates.len() == other.aggregates.len();
        self.rows == other.rows && is_as_long && pairs.all(|(one, other)| one.agrees_with(other))
    }

    /// Adds a row of a live item.
    pub fn add(&mut self, arguments: &[Argument]) {
        assert_eq!(arguments.len(), self.aggregates.len(), "a row has an argument for each aggregate");
        self.rows += 1;
        self.aggregates.iter_mut().zip(arguments).for_each(|(aggregate, argument)| aggregate.add(argument));
    }

    /// Takes out a row that was added before.
    pub fn take_out(&mut self, arguments: &[Argument]) -> Result<(), Lost> {
        if arguments.len() != self.aggregates.len() {
            return Err(Lost);
        }
        self.rows = self.rows.checked_sub(1).ok_or(Lost)?;
        let mut pairs = self.aggregates.iter_mut().zip(arguments);
        pairs.try_for_each(|(aggregate, argument)| aggregate.take_out(argument))
    }

    pub(super) fn results(&self) -> Vec<Value> {
        self.aggregates.iter().map(AggregateState::result).collect()
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.number(VERSION);
        out.number(self.rows);
        for aggregate in &self.aggregates {
            match aggregate {
                AggregateState::Count(count) => out.number(*count),
                AggregateState::Sum(sum) => sum.write(out),
                AggregateState::Extreme { extremes, poison } => {
                    out.number(*poison);
                    extremes.write(out);
                }
            }
        }
    }

    pub(super) fn read(bytes: &mut Reader<'_>, aggregates: &[Aggregate]) -> Option<GroupState> {
        if bytes.number()? != VERSION {
            return None;
        }
        let rows = bytes.number()?;
        let read = aggregates.iter().map(|aggregate| AggregateState::read(bytes, aggregate.function));
        Some(GroupState { rows, aggregates: read.collect::<Option<_>>()? })
    }
}

impl AggregateState {
    fn new(function: AggregateFunction) -> AggregateState {
        match function {
            AggregateFunction::Count | AggregateFunction::CountIf => AggregateState::Count(0),
            AggregateFunction::Sum | AggregateFunction::Average => {
                AggregateState::Sum(Box::new(SumState::new(function == AggregateFunction::Average)))
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let extremes = Extremes::new(function == AggregateFunction::Max);
                AggregateState::Extreme { extremes, poison: 0 }
            }
            AggregateFunction::MakeList | AggregateFunction::MakeSet => {
                unreachable!("other aggregates do not pass the refusals")
            }
        }
    }

    fn add(&mut self, argument: &Argument) {
        match (self, argument) {
            (_, Argument::Nothing) => {}
            (AggregateState::Count(count), _) => *count += 1,
            (AggregateState::Sum(sum), Argument::Number(number)) => sum.add(*number),
            (AggregateState::Sum(sum), _) => sum.poison += 1,
            (AggregateState::Extreme { extremes, .. }, Argument::Extreme(value)) => extremes.add(value),
            (AggregateState::Extreme { poison, .. }, _) => *poison += 1,
        }
    }

    fn take_out(&mut self, argument: &Argument) -> Result<(), Lost> {
        let less = |count: &mut u64| -> Result<(), Lost> {
            *count = count.checked_sub(1).ok_or(Lost)?;
            Ok(())
        };
        match (self, argument) {
            (_, Argument::Nothing) => Ok(()),
            (AggregateState::Count(count), _) => less(count),
            (AggregateState::Sum(sum), Argument::Number(number)) => sum.take_out(*number),
            (AggregateState::Sum(sum), _) => less(&mut sum.poison),
            (AggregateState::Extreme { extremes, .. }, Argument::Extreme(_) | Argument::Hashed(_)) => {
                extremes.take_out(argument)
            }
            (AggregateState::Extreme { poison, .. }, _) => less(poison),
        }
    }

    fn agrees_with(&self, other: &AggregateState) -> bool {
        match (self, other) {
            (
                AggregateState::Extreme { extremes, poison },
                AggregateState::Extreme { extremes: others, poison: other_poison },
            ) => poison == other_poison && extremes.agree_with(others),
            (one, other) => one == other,
        }
    }

    /// `Undefined` when there is no result.
    fn result(&self) -> Value {
        match self {
            AggregateState::Count(count) => Value::Int(*count as i64),
            AggregateState::Sum(sum) => sum.result(),
            AggregateState::Extreme { poison: 1.., .. } => Value::Undefined,
            AggregateState::Extreme { extremes, .. } => {
                let best = extremes.best().and_then(|best| decode_ordered(best).ok());
                best.map_or(Value::Undefined, |(value, _)| value)
            }
        }
    }

    fn read(bytes: &mut Reader<'_>, function: AggregateFunction) -> Option<AggregateState> {
        Some(match AggregateState::new(function) {
            AggregateState::Count(_) => AggregateState::Count(bytes.number()?),
            AggregateState::Sum(sum) => AggregateState::Sum(Box::new(SumState::read(bytes, sum.averages)?)),
            AggregateState::Extreme { .. } => {
                let poison = bytes.number()?;
                let extremes = Extremes::read(bytes, function == AggregateFunction::Max)?;
                AggregateState::Extreme { extremes, poison }
            }
        })
    }
}

impl SumState {
    fn new(averages: bool) -> SumState {
        SumState { averages, sum: ExactSum::ZERO, numbers: 0, endless: [0; 3], poison: 0 }
    }

    fn add(&mut self, number: f64) {
        self.numbers += 1;
        match place_of_endless(number) {
            None => self.sum.add(number),
            Some(place) => self.endless[place] += 1,
        }
    }

    fn take_out(&mut self, number: f64) -> Result<(), Lost> {
        self.numbers = self.numbers.checked_sub(1).ok_or(Lost)?;
        match place_of_endless(number) {
            None => self.sum.take_out(number),
            Some(place) => self.endless[place] = self.endless[place].checked_sub(1).ok_or(Lost)?,
        }
        Ok(())
    }

    fn result(&self) -> Value {
        let sum = match self.endless {
            [0, 0, 0] => self.sum.rounded(),
            [_, 0, 0] => f64::INFINITY,
            [0, _, 0] => f64::NEG_INFINITY,
            _ => f64::NAN,
        };
        match (self.poison, self.averages, self.numbers) {
            (1.., _, _) | (_, true, 0) => Value::Undefined,
            (_, false, _) => number_value(sum),
            (_, true, numbers) => number_value(sum / numbers as f64),
        }
    }

    fn write(&self, out: &mut Writer) {
        [self.numbers, self.poison].into_iter().chain(self.endless).for_each(|count| out.number(count));
        let mut sum = Vec::new();
        self.sum.write(&mut sum);
        out.bytes(&sum);
    }

    fn read(bytes: &mut Reader<'_>, averages: bool) -> Option<SumState> {
        let (numbers, poison) = (bytes.number()?, bytes.number()?);
        let endless = [bytes.number()?, bytes.number()?, bytes.number()?];
        let sum = ExactSum::read(bytes.bytes()?)?;
        Some(SumState { averages, sum, numbers, endless, poison })
    }
}

/// Expressions may have results that no item has.
fn place_of_endless(number: f64) -> Option<usize> {
    match number {
        f64::INFINITY => Some(0),
        f64::NEG_INFINITY => Some(1),
        number if number.is_nan() => Some(2),
        _ => None,
    }
}
