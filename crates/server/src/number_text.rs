//! Numbers and sizes as texts for people, and texts that are safe at a terminal.

pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| size >> (10 * (unit + 1)) == 0).unwrap_or(UNITS.len() - 1);
    match unit {
        0 => format!("{size} B"),
        _ => format!("{:.1} {}", size as f64 / (1_u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}

/// `12,345`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A text without characters that command a terminal: they are shown by their escapes, except for the ends of lines.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() && character != '\n' {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mä\u{9b}\r\n"), "a\\u{1b}[31mä\\u{9b}\\r\n");
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([thousands(7), thousands(1234), thousands(1_234_567)], ["7", "1,234", "1,234,567"]);
        assert_eq!(
            [bytes(7), bytes(2048), bytes(3 << 29), bytes(u64::MAX)],
            ["7 B", "2.0 KiB", "1.5 GiB", "16777216.0 TiB"]
        );
    }
}
