//! Text to dates: the usual spellings, and formats with `%` parts.

use super::calendar::{Civil, days_in_month, iso_to_days};
use super::format::MONTHS;
use super::zone::{Zone, parse_offset};

/// Fields of a date, as far as they are read.
#[derive(Clone, Debug, Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    clock: Option<(i64, i64, i64, i64)>,
    zone: Option<Zone>,
}

impl Fields {
    fn to_millis(&self, zone: Option<&Zone>) -> Result<i64, String> {
        if self.zone.is_some() && zone.is_some() {
            return Err("you cannot pass in a date/time string with time zone information together with a timezone argument".into());
        }
        let (hour, minute, second, milli) = self.clock.unwrap_or_default();
        let base = self.first_day()?;
        let civil = Civil { hour, minute, second, milli, ..base };
        let wall = civil.to_millis().ok_or("the date is out of range")?;
        let zone = self.zone.as_ref().or(zone).unwrap_or(&Zone::UTC);
        zone.to_utc(wall).ok_or_else(|| "the date is out of range".into())
    }

    /// The day, as a time of midnight.
    fn first_day(&self) -> Result<Civil, String> {
        let of_days = |days: i64| Civil::from_millis(days * super::DAY);
        if let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) {
            if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
                return Err("the date is invalid".into());
            }
            return Ok(Civil { year, month, day, hour: 0, minute: 0, second: 0, milli: 0 });
        }
        if let (Some(year), Some(day)) = (self.year.or(self.iso_year), self.year_day) {
            return Ok(of_days(super::days_from_civil(year, 1, 1) + day - 1));
        }
        if let Some(year) = self.iso_year {
            let (week, day) = (self.iso_week.unwrap_or(1), self.iso_day.unwrap_or(1));
            return Ok(of_days(iso_to_days(year, week, day)));
        }
        if let (Some(year), None, None, None) = (self.year, self.month, self.day, self.iso_week) {
            return Ok(Civil { year, month: 1, day: 1, hour: 0, minute: 0, second: 0, milli: 0 });
        }
        Err("an incomplete date/time string has been found, with elements missing".into())
    }
}

/// A position in a text.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Up to `most` digits.
    fn digits(&mut self, most: usize) -> &'a str {
        let end = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let before = self.rest;
        let digits = self.digits(most);
        if digits.len() < least || digits.is_empty() {
            self.rest = before;
            return None;
        }
        digits.parse().ok()
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Milliseconds of a fraction of a second.
    fn fraction(&mut self) -> i64 {
        let digits = self.digits(20);
        format!("{:0<3}", digits).get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// Reads a date in one of the usual spellings.
pub(crate) fn parse_text(text: &str, zone: Option<&Zone>) -> Result<i64, String> {
    let mut scanner = Scanner { rest: text };
    let mut fields = Fields::default();
    scanner.rest = scanner.rest.trim_matches([' ', '\t']);
    if scanner.rest.is_empty() {
        return Err("an empty string is no date".into());
    }
    while !scanner.rest.is_empty() {
        if !take_part(&mut scanner, &mut fields) {
            return Err(format!("unexpected character at \"{}\"", scanner.rest));
        }
        scanner.skip_spaces();
    }
    let is_year_alone = fields.month.is_none() && fields.year_day.is_none() && fields.iso_week.is_none();
    if is_year_alone {
        return Err("an incomplete date/time string has been found, with elements missing".into());
    }
    fields.to_millis(zone)
}

fn take_part(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    let has_date = fields.year.is_some() || fields.iso_week.is_some();
    let first = scanner.rest.chars().next().unwrap_or(' ');
    if first.is_ascii_digit() {
        let colon = scanner
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .filter(|at| scanner.rest[*at..].starts_with(':'));
        if colon.is_some() || (has_date && fields.clock.is_none()) {
            return take_clock(scanner, fields);
        }
        return take_digits(scanner, fields);
    }
    if matches!(first, '+' | '-') && has_date {
        return take_offset(scanner, fields);
    }
    if matches!(first, 'T' | 't') && has_date && scanner.rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
        scanner.eat(first);
        return take_clock(scanner, fields);
    }
    take_word(scanner, fields)
}

/// A date that begins with digits: by year, month or day first.
fn take_digits(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    let digits = scanner.digits(8);
    let number: i64 = digits.parse().unwrap_or(0);
    if digits.len() == 8 {
        fields.year = Some(number / 10_000);
        (fields.month, fields.day) = (Some(number / 100 % 100), Some(number % 100));
        return true;
    }
    if digits.len() == 4 {
        if fields.month.is_some() && fields.day.is_some() {
            fields.year = Some(number);
            return true;
        }
        return take_after_year(scanner, fields, number);
    }
    if scanner.eat('/') {
        (fields.month, fields.day) = (Some(number), scanner.number(1, 2));
        if scanner.eat('/') {
            fields.year = scanner.number(4, 4);
        }
        return fields.day.is_some() && fields.year.is_some();
    }
    let between = scanner.rest.chars().next();
    if let Some(c @ ('-' | '.')) = between {
        scanner.eat(c);
        fields.day = Some(number);
        fields.month = scanner.number(1, 2).or_else(|| month_of(scanner.word()));
        fields.year = if scanner.eat(c) { scanner.number(4, 4) } else { None };
        return fields.month.is_some() && fields.year.is_some();
    }
    if digits.len() <= 2 && fields.day.is_none() {
        for suffix in ["st", "nd", "rd", "th"] {
            scanner.rest = scanner.rest.strip_prefix(suffix).unwrap_or(scanner.rest);
        }
        fields.day = Some(number);
        return true;
    }
    false
}

fn take_after_year(scanner: &mut Scanner<'_>, fields: &mut Fields, year: i64) -> bool {
    let separator = if scanner.rest.starts_with('/') { '/' } else { '-' };
    if scanner.rest.starts_with('W') || scanner.rest.starts_with("-W") {
        scanner.eat('-');
        scanner.eat('W');
        (fields.iso_year, fields.iso_week) = (Some(year), scanner.number(2, 2));
        scanner.eat('-');
        fields.iso_day = scanner.number(1, 1);
        fields.year = Some(year);
        return fields.iso_week.is_some();
    }
    fields.year = Some(year);
    if !scanner.eat(separator) {
        return true;
    }
    let start = scanner.rest;
    match scanner.digits(3) {
        "" => {
            fields.month = month_of(scanner.word());
            fields.day = if scanner.eat(separator) { scanner.number(1, 2) } else { None };
            fields.month.is_some()
        }
        digits if digits.len() == 3 => {
            fields.year_day = digits.parse().ok();
            true
        }
        digits => {
            fields.month = digits.parse().ok();
            if !scanner.eat(separator) {
                scanner.rest = &start[digits.len()..];
                fields.day = Some(1);
                return true;
            }
            fields.day = scanner.number(1, 2);
            fields.day.is_some()
        }
    }
}

fn take_clock(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    if fields.clock.is_some() {
        return false;
    }
    let Some(mut hour) = scanner.number(1, 2) else { return false };
    let (mut minute, mut second, mut milli) = (0, 0, 0);
    if scanner.eat(':') {
        let Some(value) = scanner.number(2, 2) else { return false };
        minute = value;
        if scanner.eat(':') {
            let Some(value) = scanner.number(2, 2) else { return false };
            second = value;
            if scanner.eat('.') || scanner.eat(',') {
                milli = scanner.fraction();
            }
        }
    } else if let Some(value) = scanner.number(2, 2) {
        minute = value;
        second = scanner.number(2, 2).unwrap_or(0);
    }
    let before = scanner.rest;
    scanner.skip_spaces();
    match scanner.word().to_ascii_lowercase().as_str() {
        "am" if hour <= 12 => hour %= 12,
        "pm" if hour <= 12 => hour = hour % 12 + 12,
        _ => scanner.rest = before,
    }
    fields.clock = Some((hour, minute, second, milli));
    hour <= 24 && minute < 60 && second < 61
}

fn take_offset(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    let end = scanner.rest[1..]
        .find(|c: char| !c.is_ascii_digit() && c != ':')
        .map_or(scanner.rest.len(), |at| at + 1);
    let (offset, rest) = scanner.rest.split_at(end);
    scanner.rest = rest;
    let minutes = parse_offset(offset).or_else(|| {
        let padded = format!("{}0{}", &offset[..1], &offset[1..]);
        parse_offset(&padded)
    });
    fields.zone = minutes.map(|minutes| Zone::Fixed(minutes * 60_000));
    fields.zone.is_some()
}

fn take_word(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    let start = scanner.rest;
    let word = scanner.word();
    if word.is_empty() {
        return false;
    }
    if let Some(month) = month_of(word) {
        fields.month = Some(month);
        return true;
    }
    let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let lower = word.to_ascii_lowercase();
    if days.iter().any(|day| lower.starts_with(day)) && lower.len() <= 9 {
        return true;
    }
    if let Some(hours) = abbreviation(&lower) {
        fields.zone = Some(Zone::Fixed(hours * 3_600_000));
        return fields.year.is_some();
    }
    let end = start.find(' ').unwrap_or(start.len());
    scanner.rest = &start[end..];
    fields.zone = Zone::parse(&start[..end]);
    fields.zone.is_some()
}

/// Hours east of UTC of the zones that have letters everywhere.
fn abbreviation(lower: &str) -> Option<i64> {
    Some(match lower {
        "z" | "utc" | "gmt" => 0,
        "est" => -5,
        "edt" | "cst" if lower == "edt" => -4,
        "cst" => -6,
        "cdt" => -5,
        "mst" => -7,
        "mdt" => -6,
        "pst" => -8,
        "pdt" => -7,
        "cet" => 1,
        "cest" => 2,
        _ => return None,
    })
}

fn month_of(word: &str) -> Option<i64> {
    let lower = word.to_ascii_lowercase();
    let is = |name: &str| {
        let name = name.to_ascii_lowercase();
        lower == name
            || (lower.len() == 3 && name.starts_with(&lower))
            || (lower == "sept" && name == "september")
    };
    MONTHS.iter().position(|name| is(name)).map(|at| at as i64 + 1)
}

/// Reads a date by a format with `%` parts.
pub(crate) fn parse_by_format(text: &str, format: &str, zone: Option<&Zone>) -> Result<i64, String> {
    let mut scanner = Scanner { rest: text };
    let mut fields = Fields::default();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        let taken = match letter {
            '%' => take_formatted(&mut scanner, &mut fields, letters.next().unwrap_or('%')),
            other => scanner.eat(other),
        };
        if taken.then_some(()).is_none() {
            return Err(format!("the text does not match the format at \"{}\"", scanner.rest));
        }
    }
    if !scanner.rest.is_empty() {
        return Err("trailing data".into());
    }
    if (fields.iso_year.is_some() || fields.iso_week.is_some())
        && (fields.month.is_some() || fields.day.is_some())
    {
        return Err("mixing of ISO dates with natural dates is not allowed".into());
    }
    fields.to_millis(zone)
}

fn take_formatted(scanner: &mut Scanner<'_>, fields: &mut Fields, part: char) -> bool {
    let mut clock = fields.clock.unwrap_or_default();
    let number = |scanner: &mut Scanner<'_>, least, most, slot: &mut Option<i64>| {
        *slot = scanner.number(least, most);
        slot.is_some()
    };
    let mut slot = None;
    let taken = match part {
        'Y' => return number(scanner, 4, 4, &mut fields.year),
        'm' => return number(scanner, 2, 2, &mut fields.month),
        'd' => return number(scanner, 2, 2, &mut fields.day),
        // The reference counts these days from 0: its `001` is the second of January.
        'j' => {
            fields.year_day = scanner.number(3, 3).map(|day| day + 1);
            return fields.year_day.is_some();
        }
        'G' => return number(scanner, 4, 4, &mut fields.iso_year),
        'V' => return number(scanner, 2, 2, &mut fields.iso_week),
        'u' => return number(scanner, 1, 1, &mut fields.iso_day),
        'b' | 'B' => {
            fields.month = month_of(scanner.word());
            return fields.month.is_some();
        }
        'z' => return take_offset_or_z(scanner, fields),
        'Z' => {
            let sign = if scanner.eat('-') { -1 } else { i64::from(scanner.eat('+')) };
            let minutes = scanner.number(1, 4);
            fields.zone = minutes.filter(|_| sign != 0).map(|minutes| Zone::Fixed(sign * minutes * 60_000));
            return fields.zone.is_some();
        }
        '%' => return scanner.eat('%'),
        'H' => number(scanner, 2, 2, &mut slot) && slot.is_some_and(|hour| hour < 24),
        'M' | 'S' => number(scanner, 2, 2, &mut slot) && slot.is_some_and(|value| value < 60),
        'L' => number(scanner, 1, 3, &mut slot),
        _ => false,
    };
    let value = slot.unwrap_or(0);
    match part {
        'H' => clock.0 = value,
        'M' => clock.1 = value,
        'S' => clock.2 = value,
        _ => clock.3 = value,
    }
    fields.clock = Some(clock);
    taken
}

fn take_offset_or_z(scanner: &mut Scanner<'_>, fields: &mut Fields) -> bool {
    if scanner.rest.starts_with(['+', '-']) {
        return take_offset(scanner, fields);
    }
    take_word(scanner, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_are_understood() {
        let wanted = 1_486_555_840_787;
        for text in ["2017-02-08T12:10:40.787Z", "2017-02-08 12:10:40.787", "2017-02-08T13:10:40.787+01:00"] {
            assert_eq!(parse_text(text, None), Ok(wanted), "{text}");
        }
        let day = Ok(1_486_512_000_000);
        for text in
            ["2017-02-08", "Feb 8, 2017", "8 February 2017", "02/08/2017", "Wed, 8 Feb 2017", "20170208"]
        {
            assert_eq!(parse_text(text, None), day, "{text}");
        }
        assert!(parse_text("2017", None).is_err() && parse_text("not a date", None).is_err());
    }
}
