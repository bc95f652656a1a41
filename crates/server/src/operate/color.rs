//! Colours of tables at a terminal.

use std::io::{self, IsTerminal};

use clap::ValueEnum;

/// The choice of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// At a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    Always,
    Never,
}

/// Writes texts with or without colours; without them by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Paint {
    is_on: bool,
}

impl Color {
    /// For standard output.
    pub fn paint(self) -> Paint {
        let is_wanted = || {
            let variable =
                |name: &str| std::env::vars_os().find(|(found, _)| found == name).map(|(_, value)| value);
            io::stdout().is_terminal()
                && variable("NO_COLOR").is_none_or(|value| value.is_empty())
                && variable("TERM").is_none_or(|term| term != "dumb")
        };
        Paint { is_on: self == Color::Always || self == Color::Auto && is_wanted() }
    }
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// A remark that matters less than the result above it.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }
    pub fn head(self, text: &str) -> String {
        self.with("1", text)
    }

    /// A table with its first line in bold.
    pub fn table(self, text: &str) -> String {
        match text.split_once('\n') {
            Some((head, rest)) => format!("{}\n{rest}", self.head(head)),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_and_never_need_no_terminal() {
        assert_eq!(Color::Always.paint().table("a\nb\n"), "\x1b[1ma\x1b[0m\nb\n");
        assert_eq!(Color::Never.paint().table("a\nb\n"), "a\nb\n");
        assert_eq!(Color::Always.paint().bad("x"), "\x1b[31mx\x1b[0m");
    }
}
