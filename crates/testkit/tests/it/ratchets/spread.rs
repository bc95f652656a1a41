//! Sizes that grow unnoticed: types over many files, arguments packed into tuples, long files and
//! functions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::Ratchet;
use super::circles::entries;
use super::sources::Sources;

/// Files that may hold an `impl` of one type.
const IMPL_FILES: f64 = 5.0;
/// Members from which a tuple is a list of arguments without names.
const TUPLE_MEMBERS: usize = 3;

static IMPL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^impl(?:<[^{]*?>)? ((?:\w+::)*\w+)(?:<[^{]*>)?(?: where[^{]*)? \{").unwrap()
});
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn \w+(?:<[^(]*>)?\(").unwrap());

pub fn measure(sources: &Sources) -> Vec<Ratchet> {
    let about = "Files with an `impl` of one type, traits aside, for types with more than 5.";
    let mut spread = Ratchet::most("impl_files", about, IMPL_FILES);
    let about = "Parameters that are tuples of 3 or more members, by crate.";
    let mut tuples = Ratchet::most("tuple_parameters", about, 0.0);
    let about = "Lines of the longest file and function, and of the façade; tests are not counted.";
    let mut lengths = Ratchet::most("lengths", about, 0.0);
    let mut longest: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for (name, sources) in sources.production() {
        let mut types: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let (mut found, mut lines) = (Vec::new(), 0);
        for source in sources {
            lines += source.production_lines;
            for head in IMPL.captures_iter(&source.code) {
                let type_name = head[1].rsplit("::").next().unwrap().to_owned();
                types.entry(type_name).or_default().insert(source.file.as_deref().unwrap());
            }
            let functions = tuple_parameters(&source.code);
            found.extend(functions.into_iter().map(|function| format!("{} {function}", source.path)));
            let file = longest.entry("file").or_default();
            *file = std::mem::take(file).max((source.production_lines, source.path.clone()));
            let function = longest.entry("function").or_default();
            if let Some((lines, name)) = longest_function(&source.code) {
                *function = std::mem::take(function).max((lines, format!("{}, {name}", source.path)));
            }
        }
        if name == "account" {
            lengths.add("façade", lines as f64, "crates/account/src");
        }
        tuples.add(name, found.len() as f64, found.join("; "));
        for (type_name, files) in types.into_iter().filter(|(_, files)| files.len() as f64 > IMPL_FILES) {
            let places = files.iter().copied().collect::<Vec<_>>().join(" ");
            spread.add(&format!("{name}::{type_name}"), files.len() as f64, places);
        }
    }
    for (name, (lines, place)) in longest {
        lengths.add(name, lines as f64, place);
    }
    vec![spread, tuples, lengths]
}

/// The functions of a text, once for each tuple parameter.
fn tuple_parameters(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for head in FUNCTION.find_iter(code) {
        let list = &code[head.end()..];
        let parameters = entries(&list[..end_of_list(list)]);
        let tuples = parameters.into_iter().filter(|parameter| is_tuple(parameter));
        let name = head.as_str().trim_start_matches("fn ").split(['(', '<']).next().unwrap();
        found.extend(tuples.map(|_| name.to_owned()));
    }
    found
}

fn is_tuple(parameter: &str) -> bool {
    // A pattern in front of the colon may be a tuple as well.
    let type_text = parameter.split(": ").last().unwrap_or_default();
    let type_text = type_text.trim_start_matches('&').trim_start_matches("mut ");
    let members = type_text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    members.is_some_and(|members| entries(members).len() >= TUPLE_MEMBERS)
}

/// The end of a parameter list that was opened before the text.
fn end_of_list(text: &str) -> usize {
    let mut depth = 0;
    let end = text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    end.unwrap_or(text.len())
}

/// Lines and name of the longest function, as rustfmt sets it: it ends with a brace below its first
/// column.
fn longest_function(code: &str) -> Option<(usize, String)> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+).*[^}]$").unwrap()
    });
    let (mut open, mut longest) = (Vec::new(), None);
    for (number, line) in code.lines().map(str::trim_end).enumerate() {
        if let Some(head) = line.contains("fn ").then(|| HEAD.captures(line)).flatten() {
            open.push((head[1].len(), number, head[2].to_owned()));
        } else if line.trim_start().starts_with(')') && line.ends_with(';') {
            // The end of a declaration without a body.
            let column = line.len() - line.trim_start().len();
            open.pop_if(|(indent, ..)| *indent == column);
        } else if line.ends_with('}') && line.trim_start() == "}" {
            let column = line.len() - 1;
            while let Some((_, start, name)) = open.pop_if(|(indent, ..)| *indent >= column) {
                longest = longest.max(Some((number - start + 1, name)));
            }
        }
    }
    longest
}

#[test]
fn impls_tuples_and_lengths_are_found() {
    let heads =
        "impl A {\nimpl<'a> b::C<'a> {\nimpl D for E {\nimpl<T: F<G>> H<T> where T: I {\n    impl J {\n";
    let found: Vec<_> = IMPL.captures_iter(heads).map(|head| head[1].to_owned()).collect();
    assert_eq!(found, ["A", "b::C", "H"]);
    let code =
        "fn a(b: (C, D), (e, f, g): (H, I<J, K>, L)) {}\nfn m<N>(o: &(P, (Q, R), S), t: Vec<(U, V, W)>) {}";
    assert_eq!(tuple_parameters(code), ["a", "m"]);
    let code = "    pub async fn long(\n    ) {\n        work();\n    }\nfn short() {\n}\n";
    assert_eq!(longest_function(code), Some((4, "long".to_owned())));
    let code = "trait T {\n    fn declared(\n        a: A,\n    ) -> B;\n}\nfn short() {\n}\n";
    assert_eq!(longest_function(code), Some((2, "short".to_owned())));
}
