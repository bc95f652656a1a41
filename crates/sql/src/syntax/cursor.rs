//! State of the parser, and its view of the tokens: peeking at the next token, and consuming it.

use super::ast::{Identifier, Span};
use super::lexer::{Kind, Lexer, Token, is_reserved, unquote};
use crate::error::SqlError;

pub(crate) struct Parser<'t> {
    pub(super) lexer: Lexer<'t>,
    pub(super) nesting: usize,
    /// The last token read, in bytes.
    last_start: usize,
    last_end: usize,
    last_string: Span,
    /// The depth of the deepest expression of the current query.
    pub(super) query_depth: usize,
    /// Counts of the whole text, subqueries included.
    pub(super) ands: usize,
    pub(super) ors: usize,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t str) -> Self {
        Parser {
            lexer: Lexer::new(text),
            nesting: 0,
            last_start: 0,
            last_end: 0,
            last_string: Span::default(),
            query_depth: 0,
            ands: 0,
            ors: 0,
        }
    }

    pub fn identifier(&mut self) -> Result<&'t str, SqlError> {
        let token = self.advance();
        let text = self.lexer.text_of(token);
        if token.kind == Kind::Word && !is_reserved(text) {
            Ok(text)
        } else {
            Err(self.lexer.syntax_error(token))
        }
    }

    pub fn identifier_token(&mut self) -> Result<Identifier, SqlError> {
        let token = self.peek();
        let name = self.identifier()?.to_string();
        Ok(Identifier { name, span: span(token) })
    }

    /// Reads the next token, which is a string, and returns its characters.
    pub fn string(&mut self) -> Result<String, SqlError> {
        let token = self.advance();
        self.unquoted(token)
    }

    pub fn unquoted(&self, token: Token) -> Result<String, SqlError> {
        match token.kind {
            Kind::String => unquote(self.lexer.text_of(token))
                .ok_or_else(|| self.lexer.syntax_error(Token { kind: Kind::BadString, ..token })),
            _ => Err(self.lexer.syntax_error(token)),
        }
    }

    pub fn text_of(&self, token: Token) -> &'t str {
        self.lexer.text_of(token)
    }

    pub fn syntax_error(&self, token: Token) -> SqlError {
        self.lexer.syntax_error(token)
    }

    /// The span from a token to the end of the last one read.
    pub fn span_from(&self, first: Token) -> Span {
        Span { start: first.start, end: self.last_end.max(first.start) }
    }

    /// The last token read.
    pub fn last_span(&self) -> Span {
        Span { start: self.last_start, end: self.last_end }
    }

    /// The last string read.
    pub fn last_string(&self) -> Span {
        self.last_string
    }

    pub fn peek(&self) -> Token {
        self.lexer.peek()
    }

    pub fn advance(&mut self) -> Token {
        let token = self.lexer.next();
        (self.last_start, self.last_end) = (token.start, token.end);
        if token.kind == Kind::String {
            self.last_string = span(token);
        }
        token
    }

    pub fn peek_is_word(&self, keyword: &str) -> bool {
        let token = self.peek();
        token.kind == Kind::Word && self.lexer.text_of(token).eq_ignore_ascii_case(keyword)
    }

    pub fn accept_word(&mut self, keyword: &str) -> bool {
        let is_next = self.peek_is_word(keyword);
        if is_next {
            self.advance();
        }
        is_next
    }

    pub fn expect_word(&mut self, keyword: &str) -> Result<(), SqlError> {
        if self.accept_word(keyword) { Ok(()) } else { Err(self.syntax_error_here()) }
    }

    pub fn accept_symbol(&mut self, symbol: &'static str) -> bool {
        let is_next = self.peek().kind == Kind::Symbol(symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    pub fn expect_symbol(&mut self, symbol: &'static str) -> Result<(), SqlError> {
        if self.accept_symbol(symbol) { Ok(()) } else { Err(self.syntax_error_here()) }
    }

    pub fn syntax_error_here(&self) -> SqlError {
        self.lexer.syntax_error(self.peek())
    }

    /// Consumes an operator word, and the `NOT` before it.
    pub fn advance_words(&mut self, negated: bool) {
        self.advance();
        if negated {
            self.advance();
        }
    }
}

pub(super) fn span(token: Token) -> Span {
    Span { start: token.start, end: token.end }
}
