//! Full-text policy of a container, and its rules with the full-text indexes of the indexing policy (search-wire.md §5).
//!
//! Definitions are kept and checked as the service checks them. No query uses a full-text index yet.

use serde::{Deserialize, Serialize};

use crate::{Error, FullTextIndex, Result};

const LANGUAGES: [&str; 7] = ["en-US", "fr-FR", "de-DE", "es-ES", "it-IT", "pt-PT", "pt-BR"];
const PACKAGES: [&str; 2] = ["legacy", "standard"];
const TOKENIZERS: [&str; 1] = ["word"];
const FILTERS: [&str; 4] = ["stop", "lowercase", "stem", "ascii"];
const STOP_WORD_LISTS: [&str; 3] = ["none", "basic", "extended"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct FullTextPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_language: Option<String>,
    /// The analyzers of the whole container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The settings of paths without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_spec: Option<FullTextSpec>,
    #[serde(default)]
    pub full_text_paths: Vec<FullTextPath>,
}

/// How texts are tokenised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct FullTextSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_word_list_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_stop_words: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_stop_words: Option<Vec<String>>,
}

/// The members after the path are those of [`FullTextSpec`], written out so that an unknown one is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FullTextPath {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_word_list_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_stop_words: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove_stop_words: Option<Vec<String>>,
}

pub(crate) fn validate_full_text(policy: Option<&FullTextPolicy>, indexes: &[FullTextIndex]) -> Result<()> {
    policy.map_or(Ok(()), FullTextPolicy::validate)?;
    let paths: &[FullTextPath] = policy.map_or(&[], |policy| &policy.full_text_paths);
    for (number, FullTextIndex { path }) in indexes.iter().enumerate() {
        let refused = |why: String| Err(Error::bad_request(why));
        if path.is_empty() {
            return refused(format!("Missing path in full-text index specification at index ({number})"));
        }
        if !path.starts_with('/') {
            return refused(format!(
                "Full-text index specification at index ({number}) contains invalid path"
            ));
        }
        if !paths.iter().any(|indexed| indexed.path == *path) {
            return refused(format!(
                "The path of the Full Text Index {path} does not match the path specified in the Full Text Policy"
            ));
        }
    }
    Ok(())
}

impl FullTextPolicy {
    fn validate(&self) -> Result<()> {
        validate_language(self.default_language.as_ref())?;
        validate_named("package", self.package.iter(), &PACKAGES)?;
        let is_standard = self.package.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("standard"));
        let own = self.default_spec.clone().unwrap_or_default();
        let language = own.language.as_ref().or(self.default_language.as_ref());
        own.validate(is_standard, language, own.stop_word_list_kind.as_ref())?;
        for path in &self.full_text_paths {
            if !path.path.starts_with('/') {
                return Err(Error::bad_request(format!(
                    "The Full Text Policy contains an invalid Path: {}",
                    path.path
                )));
            }
            let spec = path.spec();
            let kind = spec.stop_word_list_kind.as_ref().or(own.stop_word_list_kind.as_ref());
            spec.validate(is_standard, spec.language.as_ref().or(language), kind)?;
        }
        Ok(())
    }
}

impl FullTextPath {
    fn spec(&self) -> FullTextSpec {
        FullTextSpec {
            language: self.language.clone(),
            tokenizer: self.tokenizer.clone(),
            filters: self.filters.clone(),
            stop_word_list_kind: self.stop_word_list_kind.clone(),
            add_stop_words: self.add_stop_words.clone(),
            remove_stop_words: self.remove_stop_words.clone(),
        }
    }
}

impl FullTextSpec {
    /// `language` and `list_kind` are those in force, inherited ones included.
    fn validate(
        &self,
        is_standard: bool,
        language: Option<&String>,
        list_kind: Option<&String>,
    ) -> Result<()> {
        validate_language(self.language.as_ref())?;
        validate_named("tokenizer", self.tokenizer.iter(), &TOKENIZERS)?;
        validate_named("filters", self.filters.iter().flatten(), &FILTERS)?;
        validate_named("stopWordListKind", self.stop_word_list_kind.iter(), &STOP_WORD_LISTS)?;
        if !is_standard && (self.tokenizer.is_some() || self.filters.is_some()) {
            return Err(Error::bad_request(
                "The Full Text Policy contains a tokenizer or filters, which the package 'standard' alone has",
            ));
        }
        let words = || self.add_stop_words.iter().chain(&self.remove_stop_words).flatten();
        if words().next().is_some() && (language.is_none() || list_kind.is_none()) {
            return Err(Error::bad_request(
                "The Full Text Policy contains stop words without a language and a stopWordListKind",
            ));
        }
        match words().find(|word| !is_word(word)) {
            Some(word) => Err(Error::bad_request(format!(
                "The Full Text Policy contains an invalid stop word '{word}': words have no blanks, control characters or punctuation"
            ))),
            None => Ok(()),
        }
    }
}

fn is_word(word: &str) -> bool {
    let is_outside = |character: char| {
        character.is_whitespace() || character.is_control() || character.is_ascii_punctuation()
    };
    !word.is_empty() && !word.contains(is_outside)
}

fn validate_language(language: Option<&String>) -> Result<()> {
    let Some(language) = language else { return Ok(()) };
    // Locale identifiers of Windows, such as 1033, are names of languages too.
    let is_number = !language.is_empty() && language.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || LANGUAGES.iter().any(|name| name.eq_ignore_ascii_case(language)) {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "The Full Text Policy contains an unsupported language {language}. Supported languages are: {}",
        LANGUAGES.join(", ")
    )))
}

fn validate_named<'n>(
    member: &str,
    mut names: impl Iterator<Item = &'n String>,
    known: &[&str],
) -> Result<()> {
    match names.find(|name| !known.iter().any(|one| one.eq_ignore_ascii_case(name))) {
        Some(name) => Err(Error::bad_request(format!(
            "The Full Text Policy contains an invalid {member} {name}: use {}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}
