//! The grammar: DataFusion's own dialect with the order of arguments that T-SQL has, its tokens, and a parser over them.

use std::any::TypeId;

use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

use crate::error::{Checked, of_tokenizer};

/// Most recursion of the parser.
const RECURSION_MAX: usize = 36;

/// DataFusion's own dialect, with the order of arguments that T-SQL has in CONVERT.
#[derive(Debug)]
struct TableDialect;

static GENERIC: GenericDialect = GenericDialect {};

impl Dialect for TableDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GENERIC.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GENERIC.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GENERIC.is_identifier_part(ch)
    }

    fn convert_type_before_value(&self) -> bool {
        true
    }

    fn supports_try_convert(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_dictionary_syntax(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }

    fn supports_select_wildcard_replace(&self) -> bool {
        true
    }

    fn support_map_literal_syntax(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn allow_extract_single_quotes(&self) -> bool {
        true
    }

    fn supports_extract_comma_syntax(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    fn supports_values_as_table_factor(&self) -> bool {
        true
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        true
    }

    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn supports_struct_literal(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_string_escape_constant(&self) -> bool {
        true
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_interval_options(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn supports_comma_separated_trim(&self) -> bool {
        true
    }

    fn supports_connect_by(&self) -> bool {
        true
    }

    fn supports_pipe_operator(&self) -> bool {
        true
    }

    fn supports_limit_by(&self) -> bool {
        true
    }
}

pub(crate) fn tokenized(text: &str) -> Checked<Vec<TokenWithSpan>> {
    Tokenizer::new(&TableDialect, text).tokenize_with_location().map_err(of_tokenizer)
}

/// A parser over some tokens of a statement.
pub(crate) fn parser_over(tokens: &[TokenWithSpan]) -> Parser<'static> {
    Parser::new(&TableDialect).with_recursion_limit(RECURSION_MAX).with_tokens_with_locations(tokens.to_vec())
}

pub(crate) fn is_word(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// Tokens of a generated text, all at one place.
pub(crate) fn generated(text: &str, span: Span) -> Checked<Vec<TokenWithSpan>> {
    let mut tokens = tokenized(text)?;
    tokens.retain(|token| token.token != Token::EOF);
    for token in &mut tokens {
        token.span = span;
    }
    Ok(tokens)
}
