//! A text taken apart into statements: queries that end with `;`, and commands that end with their line.

/// Words that begin a command. No query begins with one of them.
pub const COMMANDS: [&str; 10] =
    ["describe", "exit", "format", "help", "key", "limit", "more", "quit", "show", "use"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Without the `;`.
    Query(String),
    /// Its words, the first in lower case and without a backslash or dot.
    Command(Vec<String>),
}

/// All statements of a script. The last query needs no `;`.
pub fn split(text: &str) -> Vec<Statement> {
    let (mut statements, mut rest) = (Vec::new(), text);
    while let Some(start) = start_of_statement(rest) {
        rest = &rest[start..];
        let line = rest.lines().next().unwrap_or_default();
        if let Some(words) = command(line) {
            statements.push(Statement::Command(words));
            rest = &rest[line.len()..];
            continue;
        }
        let end = end_of_query(rest);
        let query = rest[..end.unwrap_or(rest.len())].trim();
        if !query.is_empty() {
            statements.push(Statement::Query(query.to_owned()));
        }
        rest = end.map_or("", |end| &rest[end + 1..]);
    }
    statements
}

/// Whether Enter ends the input at a terminal.
pub fn is_complete(text: &str) -> bool {
    let mut rest = text;
    loop {
        let Some(start) = start_of_statement(rest) else { return true };
        rest = &rest[start..];
        let line = rest.lines().next().unwrap_or_default();
        rest = match (command(line), end_of_query(rest)) {
            (Some(_), _) => &rest[line.len()..],
            (None, Some(end)) => &rest[end + 1..],
            (None, None) => return false,
        };
    }
}

/// Behind white space and comments.
fn start_of_statement(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start();
        at = text.len() - rest.len();
        match rest.strip_prefix("--") {
            Some(_) => at += rest.find('\n').unwrap_or(rest.len()),
            None if rest.is_empty() => return None,
            None => return Some(at),
        }
    }
}

/// The words of a line that begins with a command.
fn command(line: &str) -> Option<Vec<String>> {
    let is_marked = line.starts_with(['\\', '.']);
    let line = line.trim_start_matches(['\\', '.']).trim_end().trim_end_matches(';');
    let mut words = line.split_whitespace();
    let first = words.next()?.to_ascii_lowercase();
    let is_known = is_marked || COMMANDS.contains(&first.as_str());
    is_known.then(|| std::iter::once(first).chain(words.map(str::to_owned)).collect())
}

/// Place of the first `;` outside of strings and comments.
fn end_of_query(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            ';' => return Some(at),
            '\'' | '"' => {
                let mut is_escaped = false;
                for (_, inner) in characters.by_ref() {
                    if inner == character && !is_escaped {
                        break;
                    }
                    is_escaped = inner == '\\' && !is_escaped;
                }
            }
            '-' if characters.peek().is_some_and(|(_, next)| *next == '-') => {
                characters.by_ref().find(|(_, inner)| *inner == '\n');
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Statement {
        Statement::Query(text.to_owned())
    }

    fn command(words: &[&str]) -> Statement {
        Statement::Command(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn scripts_are_taken_apart() {
        let script = "-- first\nUSE shop/orders;\nSELECT ';', \"a\\\";\" -- not; here\nFROM c;\n\n\\describe\nSELECT 1";
        assert_eq!(
            split(script),
            [
                command(&["use", "shop/orders"]),
                query("SELECT ';', \"a\\\";\" -- not; here\nFROM c"),
                command(&["describe"]),
                query("SELECT 1"),
            ]
        );
        assert_eq!(split(" ;; -- nothing"), []);
        assert_eq!(split(".quit"), [command(&["quit"])]);
        assert_eq!(split("\\unknown x"), [command(&["unknown", "x"])]);
    }

    #[test]
    fn enter_ends_whole_statements_only() {
        for complete in ["", "  ", "exit", "SELECT 1;", "show databases", "SELECT ';' ; -- x", "-- x"] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in ["SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT 1; SELECT 2"] {
            assert!(!is_complete(open), "{open}");
        }
    }
}
