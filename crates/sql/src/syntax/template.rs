//! A query without its literals, to count queries of one kind together.
//!
//! Numbers and strings become `?`, several in a row one, so that lists of any length look alike; spaces and
//! comments become one space. Names stay, also those written as strings: `c["name"]`, `{"name": …}`. Values
//! of users do not show, except the keywords `true` and `null`.

use super::lexer::{Kind, Lexer, Token};

/// Bytes of a template; longer ones are cut and end in `…`.
pub const TEMPLATE_BYTES_MAX: usize = 512;
const CUT: &str = "…";

pub fn template(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    let mut template = Template { text: String::with_capacity(text.len().min(TEMPLATE_BYTES_MAX)), end: 0 };
    let (mut before, mut last) = (Kind::End, Kind::End);
    loop {
        let token = lexer.next();
        let is_name = match (last, before) {
            (Kind::Symbol("["), Kind::Word | Kind::Symbol("]" | ")")) => true,
            (Kind::Symbol("{" | ","), _) => lexer.peek().kind == Kind::Symbol(":"),
            _ => false,
        };
        let is_room = match token.kind {
            Kind::End => break,
            Kind::Number => template.push_literal(token),
            Kind::String if !is_name => template.push_literal(token),
            _ => template.push(token, lexer.text_of(token)),
        };
        if !is_room {
            template.text.push_str(CUT);
            break;
        }
        (before, last) = (last, token.kind);
    }
    template.text
}

struct Template {
    text: String,
    /// The end of the last token in the query.
    end: usize,
}

impl Template {
    fn push_literal(&mut self, token: Token) -> bool {
        let Some(list) = self.text.strip_suffix(',').map(str::trim_end) else { return self.push(token, "?") };
        if !list.ends_with('?') || list.ends_with("??") {
            return self.push(token, "?");
        }
        self.text.truncate(list.len());
        self.end = token.end;
        true
    }

    /// Whether the text fitted.
    fn push(&mut self, token: Token, text: &str) -> bool {
        let space = if token.start > self.end && !self.text.is_empty() { " " } else { "" };
        if self.text.len() + space.len() + text.len() + CUT.len() > TEMPLATE_BYTES_MAX {
            return false;
        }
        self.text.push_str(space);
        self.text.push_str(text);
        self.end = token.end;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_go_and_names_stay() {
        for (text, expected) in [
            (
                "SELECT * FROM c WHERE c.id = 'a' AND c.n>=-1.5e3",
                "SELECT * FROM c WHERE c.id = ? AND c.n>=-?",
            ),
            (
                "SELECT  *\n FROM c -- all\nWHERE c[\"my name\"] = \"x\"",
                "SELECT * FROM c WHERE c[\"my name\"] = ?",
            ),
            ("SELECT VALUE {\"a\": 1, 'b': \"c\"} FROM c", "SELECT VALUE {\"a\": ?, 'b': ?} FROM c"),
            (
                "SELECT c.a ? 'x' : 'y' FROM c WHERE c.t IN ('a', 'b',3)",
                "SELECT c.a ? ? : ? FROM c WHERE c.t IN (?)",
            ),
            (
                "SELECT TOP 10 c.a[0] FROM c WHERE c.b = @b AND c.d = true",
                "SELECT TOP ? c.a[?] FROM c WHERE c.b = @b AND c.d = true",
            ),
            (
                "SELECT * FROM c WHERE ARRAY_CONTAINS([1, 2], c.a) OFFSET 5 LIMIT 7",
                "SELECT * FROM c WHERE ARRAY_CONTAINS([?], c.a) OFFSET ? LIMIT ?",
            ),
            ("", ""),
        ] {
            assert_eq!(template(text), expected);
        }
        let lists =
            |count: usize| template(&format!("SELECT * FROM c WHERE c.a IN ({}0)", "1,".repeat(count)));
        assert_eq!(lists(1), lists(5000));
    }

    #[test]
    fn long_ones_are_cut_between_tokens() {
        let long = template(&format!("SELECT {}c.a FROM c", "c.a, ".repeat(500)));
        assert!(long.len() <= TEMPLATE_BYTES_MAX && long.ends_with(CUT), "{long}");
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_template(text in "\\PC{0,200}|[a-z'\"\\[\\]{},:?0-9 ]{0,900}") {
            prop_assert!(template(&text).len() <= TEMPLATE_BYTES_MAX);
        }
    }
}
