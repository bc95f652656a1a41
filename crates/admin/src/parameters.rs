//! The parameters of a query string, decoded. An unknown one is refused, so that a misspelt one is noticed.

use std::collections::BTreeMap;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use shardlake_model::{Error, Result};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    pub fn parse(query: &str, known: &[&str]) -> Result<Parameters> {
        let mut found = BTreeMap::new();
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(Error::bad_request(format!(
                    "the parameter '{parameter}' is not known here: {}",
                    if known.is_empty() {
                        "this path takes none".to_owned()
                    } else {
                        format!("there are {known}")
                    }
                )));
            }
            let value = percent_decode_str(value).decode_utf8().map_err(|_| {
                Error::bad_request(format!("the parameter '{name}' does not decode to UTF-8 text"))
            })?;
            if found.insert(name.to_owned(), value.into_owned()).is_some() {
                return Err(Error::bad_request(format!("the parameter '{name}' is there twice")));
            }
        }
        Ok(Parameters(found))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                Error::bad_request(format!(
                    "the parameter '{name}' is '{text}': write a whole number in its bounds"
                ))
            })
        };
        self.get(name).map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_known_or_refused() {
        let parse = |query| Parameters::parse(query, &["key", "rows"]);
        let parameters = parse("key=%5B%22a%26b%22%5D&rows=7").expect("valid");
        assert_eq!(parameters.get("key"), Some("[\"a&b\"]"));
        assert_eq!(parameters.number::<u32>("rows").expect("valid"), Some(7));
        assert_eq!(parse("").expect("valid").number::<u32>("rows").expect("none"), None);
        assert!(parse("rows=-1").expect("valid").number::<u32>("rows").is_err());
        for query in ["row=1", "rows=1&rows=2", "key=%ff", "=1"] {
            assert!(parse(query).is_err(), "{query}");
        }
        let told = Parameters::parse("x=1", &[]).expect_err("unknown").to_string();
        assert!(told.contains("takes none"), "{told}");
    }
}
