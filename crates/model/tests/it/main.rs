//! Sources and the values that are made of them.
#![allow(clippy::unwrap_used)] // tests

use serde::{Deserialize, Serialize};
use shardlake_model::{Derived, Error, Source};

/// Numbers as text, and their sum.
#[derive(Debug, Serialize, Deserialize)]
struct Numbers {
    text: String,
}

#[derive(Debug, PartialEq)]
struct Sum(u64);

impl Source<Sum> for Numbers {
    type Error = String;

    fn remake(&self) -> Result<Sum, String> {
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("'{text}': {error}"));
        self.text.split('+').map(number).sum::<Result<u64, String>>().map(Sum)
    }
}

fn derived(text: &str) -> Result<Derived<Numbers, Sum>, String> {
    Derived::of(Numbers { text: text.to_owned() })
}

#[test]
fn only_the_source_is_encoded_and_the_value_is_made_again() {
    let sent = derived("1+20+300").unwrap();
    assert_eq!(sent.value(), &Sum(321));
    let bytes = serde_json::to_string(&sent).unwrap();
    assert_eq!(bytes, r#"{"text":"1+20+300"}"#);
    let received: Derived<Numbers, Sum> = serde_json::from_str(&bytes).unwrap();
    assert_eq!((received.value(), &*received.source().text), (&Sum(321), "1+20+300"));
}

#[test]
fn a_source_without_a_value_is_refused_where_it_is_made_and_where_it_is_received() {
    assert!(derived("1+x").unwrap_err().contains("'x'"));
    let received = serde_json::from_str::<Derived<Numbers, Sum>>(r#"{"text":"7+"}"#);
    assert!(received.unwrap_err().to_string().contains("''"));
}

#[test]
fn an_error_carries_code_details_and_the_refused_body() {
    let error = Error::bad_request("no").with_code(121, vec![5, 0]).with_document(&[1, 2, 3]);
    assert_eq!((error.code(), error.details()), (Some(121), &[5, 0][..]));
    assert_eq!(error.document(), Some(&[1, 2, 3][..]));
    let plain = Error::internal("no");
    assert_eq!((plain.code(), plain.details(), plain.document()), (None, &[][..], None));
}
