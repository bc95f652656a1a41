//! `$bucketAuto`: so many buckets of about the same size.

use std::sync::Arc;

use super::buckets::{counted, is_expression, parse_outputs};
use super::options::Options;
use super::run::{Context, Operator, Stage};
use crate::accumulator::{Accumulator, State};
use crate::error::{Result, fail};
use crate::expression::{Expression, Scope, parse as parse_expression};
use crate::order;
use crate::value::{Document, Str, Value};
use shardlake_collation::Collation;

pub(super) struct BucketAuto {
    group_by: Expression,
    buckets: usize,
    outputs: Vec<(Str, Accumulator)>,
    granularity: Option<Granularity>,
    collation: Collation,
}

/// Preferred numbers that boundaries are rounded to.
enum Granularity {
    Series(Vec<f64>),
    PowersOfTwo,
}

pub(super) fn parse_bucket_auto(options: &Options<'_>, scope: &Scope) -> Result<BucketAuto> {
    let group_by = options.value("groupBy");
    if !is_expression(group_by) {
        fail!(
            40239,
            "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object"
        );
    }
    let buckets = options.value("buckets").to_i32_exact().unwrap_or_default() as usize;
    let granularity = options.text("granularity").map(|name| parse_granularity(name)).transpose()?;
    // No outputs mean those of the default.
    let output = options.inner("output").filter(|outputs| !outputs.is_empty());
    let output = output.map_or_else(counted, |outputs| Document::clone(outputs));
    Ok(BucketAuto {
        group_by: parse_expression(group_by, scope)?,
        buckets,
        outputs: parse_outputs(&output, scope)?,
        granularity,
        collation: scope.collation().clone(),
    })
}

fn parse_granularity(name: &str) -> Result<Granularity> {
    let e_series = |count: u32, digits: i32| -> Vec<f64> {
        let unit = 10f64.powi(digits);
        (0..count).map(|at| (10f64.powf(f64::from(at) / f64::from(count)) * unit).round() / unit).collect()
    };
    let series = match name {
        "R5" => vec![10.0, 16.0, 25.0, 40.0, 63.0],
        "R10" => vec![100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 630.0, 800.0],
        "R20" => vec![
            100.0, 112.0, 125.0, 140.0, 160.0, 180.0, 200.0, 224.0, 250.0, 280.0, 315.0, 355.0, 400.0, 450.0,
            500.0, 560.0, 630.0, 710.0, 800.0, 900.0,
        ],
        "R40" | "R80" => e_series(if name == "R40" { 40 } else { 80 }, 2),
        "1-2-5" => vec![10.0, 20.0, 50.0],
        "E6" => vec![10.0, 15.0, 22.0, 33.0, 47.0, 68.0],
        "E12" => vec![10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 39.0, 47.0, 56.0, 68.0, 82.0],
        "E24" => vec![
            10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0, 39.0, 43.0,
            47.0, 51.0, 56.0, 62.0, 68.0, 75.0, 82.0, 91.0,
        ],
        "E48" => e_series(48, 2),
        "E96" => e_series(96, 2),
        "E192" => e_series(192, 2),
        "POWERSOF2" => return Ok(Granularity::PowersOfTwo),
        other => fail!(40257, "Unknown rounding granularity '{other}'"),
    };
    // All in one decade.
    let scale = 10f64.powf(series[0].log10().floor());
    Ok(Granularity::Series(series.iter().map(|number| number / scale).collect()))
}

impl Granularity {
    /// The least preferred number above a value.
    fn round_up(&self, value: f64) -> f64 {
        self.neighbour(value, true)
    }

    /// The greatest preferred number below a value.
    fn round_down(&self, value: f64) -> f64 {
        self.neighbour(value, false)
    }

    fn neighbour(&self, value: f64, up: bool) -> f64 {
        if value == 0.0 {
            return 0.0;
        }
        match self {
            Granularity::PowersOfTwo => {
                let exponent = value.log2();
                let next = if up { exponent.floor() + 1.0 } else { exponent.ceil() - 1.0 };
                next.exp2()
            }
            Granularity::Series(series) => {
                let decade = value.log10().floor() as i32;
                let numbers =
                    (decade - 1..=decade + 1).flat_map(|at| {
                        series.iter().map(move |number| {
                            if at < 0 { number / 10f64.powi(-at) } else { number * 10f64.powi(at) }
                        })
                    });
                let mut numbers: Vec<f64> = numbers.collect();
                numbers.sort_by(f64::total_cmp);
                let found = if up {
                    numbers.into_iter().find(|number| *number > value)
                } else {
                    numbers.into_iter().rev().find(|number| *number < value)
                };
                found.unwrap_or(value)
            }
        }
    }
}

impl Stage for BucketAuto {
    fn start(self: Arc<Self>) -> Box<dyn Operator> {
        Box::new(BucketAutoRun { stage: self, rows: Vec::new(), bytes: 0 })
    }
}

struct BucketAutoRun {
    stage: Arc<BucketAuto>,
    rows: Vec<(Value, Value)>,
    bytes: usize,
}

impl BucketAutoRun {
    fn check(&self, key: &Value) -> Result<()> {
        if self.stage.granularity.is_none() {
            return Ok(());
        }
        let Some(number) = key.to_f64() else {
            fail!(
                40258,
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: {}",
                key.type_name()
            );
        };
        if number.is_nan() {
            fail!(
                40259,
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN"
            );
        }
        if number < 0.0 {
            fail!(
                40260,
                "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number"
            );
        }
        Ok(())
    }

    /// Ends of the buckets, as places behind their last rows, and their boundaries.
    fn cut(&self) -> Vec<(usize, Value, Value)> {
        let total = self.rows.len();
        let wanted = (total as f64 / self.stage.buckets as f64).round().max(1.0) as usize;
        let (mut start, mut buckets) = (0, Vec::<(usize, Value, Value)>::new());
        while start < total {
            let is_last = buckets.len() + 1 == self.stage.buckets;
            let mut end = if is_last { total } else { (start + wanted).min(total) };
            while end < total
                && order::equal_by(&self.stage.collation, &self.rows[end].0, &self.rows[end - 1].0)
            {
                end += 1;
            }
            let low = match (&self.stage.granularity, buckets.last()) {
                (Some(_), Some((_, _, high))) => high.clone(),
                (Some(granularity), None) => {
                    rounded(&self.rows[0].0, |number| granularity.round_down(number))
                }
                (None, _) => self.rows[start].0.clone(),
            };
            let high = match &self.stage.granularity {
                Some(granularity) => {
                    let high = rounded(&self.rows[end - 1].0, |number| granularity.round_up(number));
                    while end < total && order::compare(&self.rows[end].0, &high).is_lt() {
                        end += 1;
                    }
                    high
                }
                None => {
                    self.rows.get(end).map_or_else(|| self.rows[total - 1].0.clone(), |(key, _)| key.clone())
                }
            };
            assert!(start < end && end <= total, "each bucket has a document");
            buckets.push((end, low, high));
            start = end;
        }
        assert!(buckets.len() <= self.stage.buckets, "there are no more buckets than were asked for");
        buckets
    }
}

fn rounded(key: &Value, round: impl Fn(f64) -> f64) -> Value {
    Value::Double(round(key.to_f64().unwrap_or(0.0)))
}

impl Operator for BucketAutoRun {
    fn push(&mut self, document: Value, context: &mut Context<'_>, _: &mut Vec<Value>) -> Result<bool> {
        let key = self.stage.group_by.evaluate_on(&mut context.env, &document)?.or_null();
        self.check(&key)?;
        self.bytes += document.size() + key.size();
        context.check_memory("$bucketAuto", self.bytes)?;
        self.rows.push((key, document));
        Ok(true)
    }

    fn finish(&mut self, context: &mut Context<'_>, out: &mut Vec<Value>) -> Result<()> {
        let collation = &self.stage.collation;
        self.rows.sort_by(|(left, _), (right, _)| order::compare_by(collation, left, right));
        let mut start = 0;
        for (end, low, high) in self.cut() {
            let mut id = Document::one("min", low);
            id.push("max", high);
            let mut result = Document::one("_id", Value::document(id));
            for (name, output) in &self.stage.outputs {
                let mut state: State = output.start(&mut context.env)?;
                for (_, document) in &self.rows[start..end] {
                    context.env.set_root(document.clone());
                    output.add(&mut state, document, &mut context.env)?;
                }
                result.push(name.clone(), state.value());
            }
            out.push(Value::document(result));
            start = end;
        }
        Ok(())
    }
}
