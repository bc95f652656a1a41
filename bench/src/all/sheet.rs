//! Results of `all`: lines of operations, and the figures that have a goal.

use std::fmt::Write as _;

use crate::compare::Ratios;
use crate::load::Measured;
use crate::point;
use crate::report::{self, Line};

/// The builds, by the names of their lines.
pub const BUILDS: [&str; 2] = ["before", "after"];

#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// One line of the table of goals: values of both builds, one for each round.
#[derive(Debug)]
pub struct Figure {
    pub name: String,
    pub goal: Goal,
    pub rounds: [Vec<f64>; 2],
}

/// Which lines a figure compares.
pub struct Ratio {
    pub name: &'static str,
    pub operation: &'static str,
    pub connections: usize,
    /// A contestant of the same operation to compare with.
    pub yardstick: &'static str,
    pub at_least: f64,
}

#[derive(Debug, Default)]
pub struct Sheet {
    pub lines: Vec<Line>,
    pub figures: Vec<Figure>,
    /// Further tables and remarks, in Markdown.
    pub notes: String,
}

impl Sheet {
    pub fn add(
        &mut self,
        operation: &'static str,
        connections: usize,
        contestant: &'static str,
        measured: Measured,
    ) {
        point::add(&mut self.lines, (operation, connections, contestant), measured);
    }

    pub fn figure(&mut self, name: impl Into<String>, goal: Goal, rounds: [Vec<f64>; 2]) {
        self.figures.push(Figure { name: name.into(), goal, rounds });
    }

    /// A value of every round of a contestant; none where it did not take part.
    pub fn values(
        &self,
        operation: &str,
        connections: usize,
        contestant: &str,
        value: impl Fn(&Measured) -> f64,
    ) -> Vec<f64> {
        let is_it = |line: &&Line| {
            (line.operation, line.connections, line.contestant) == (operation, connections, contestant)
        };
        self.lines.iter().find(is_it).map_or(Vec::new(), |line| line.rounds.iter().map(value).collect())
    }

    /// The values of both builds.
    pub fn of_builds(
        &self,
        operation: &str,
        connections: usize,
        value: impl Fn(&Measured) -> f64,
    ) -> [Vec<f64>; 2] {
        BUILDS.map(|build| self.values(operation, connections, build, &value))
    }

    /// Throughput of both builds by that of a yardstick, round by round; nothing where the yardstick is missing.
    pub fn ratio(&mut self, ratio: &Ratio) {
        let speed = |one: &Measured| one.per_second;
        let yardstick = self.values(ratio.operation, ratio.connections, ratio.yardstick, speed);
        if yardstick.is_empty() {
            return;
        }
        let rounds = self
            .of_builds(ratio.operation, ratio.connections, speed)
            .map(|ours| ours.iter().zip(&yardstick).map(|(ours, yardstick)| ours / yardstick).collect());
        self.figure(ratio.name, Goal::AtLeast(ratio.at_least), rounds);
    }

    /// The figures with their goals, then every line.
    pub fn text(&self) -> String {
        let mut out = String::from("| figure | before | after | goal | met |\n|---|---:|---:|---:|---|\n");
        for Figure { name, goal, rounds: [before, after] } in &self.figures {
            let (goal, met) = match *goal {
                Goal::AtLeast(least) => (format!("≥ {}", shown(least)), median(after) >= least),
                Goal::AtMost(most) => (format!("≤ {}", shown(most)), median(after) <= most),
            };
            let met = if met { "yes" } else { "no" };
            line(
                &mut out,
                format_args!("| {name} | {} | {} | {goal} | {met} |", spread(before), spread(after)),
            );
        }
        line(&mut out, format_args!("\nMedians (least–most of the rounds). Every operation:\n"));
        out.push_str("| operation | connections | contestant | ops/s | p50 µs | p99 µs | server CPU µs/op |\n|---|---:|---|---:|---:|---:|---:|\n");
        for one in &self.lines {
            let Measured { per_second, p50_us, p99_us, cpu_us } = report::median(&one.rounds);
            let cpu = if cpu_us > 0.0 { format!("{cpu_us:.1}") } else { "–".into() };
            let (operation, connections, contestant) = (one.operation, one.connections, one.contestant);
            line(
                &mut out,
                format_args!(
                    "| {operation} | {connections} | {contestant} | {per_second:.0} | {p50_us:.0} | {p99_us:.0} | {cpu} |"
                ),
            );
        }
        out + &self.notes
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes any text");
}

fn median(values: &[f64]) -> f64 {
    Ratios::new(values.iter().copied()).median()
}

/// The median, with the least and the most.
pub fn spread(values: &[f64]) -> String {
    let all = Ratios::new(values.iter().copied());
    match values.len() {
        0 => "–".into(),
        1 => shown(all.median()),
        _ => format!("{} ({}–{})", shown(all.median()), shown(all.least()), shown(all.most())),
    }
}

fn shown(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.1}M", value / 1e6)
    } else if value >= 1000.0 {
        format!("{:.0}k", value / 1e3)
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(per_second: f64) -> Measured {
        Measured { per_second, ..Measured::default() }
    }

    #[test]
    fn a_ratio_compares_the_contestants_of_one_round() {
        let mut sheet = Sheet::default();
        for (before, after, yardstick) in [(10.0, 20.0, 10.0), (30.0, 60.0, 20.0)] {
            for (contestant, speed) in [("before", before), ("after", after), ("other", yardstick)] {
                sheet.add("read", 4, contestant, measured(speed));
            }
        }
        let ratio =
            |yardstick| Ratio { name: "reads", operation: "read", connections: 4, yardstick, at_least: 3.0 };
        sheet.ratio(&ratio("other"));
        sheet.ratio(&ratio("not installed"));
        let text = sheet.text();
        assert!(text.contains("| reads | 1.25 (1.00–1.50) | 2.50 (2.00–3.00) | ≥ 3.00 | no |"), "{text}");
        assert_eq!(sheet.figures.len(), 1);
    }
}
