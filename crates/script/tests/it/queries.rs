//! The query functions of a script's collection, alone and chained, over several pages of documents.

use crate::support::{Documents, body, processes, run};
use serde_json::{Value, json};

fn items() -> Documents {
    let item = |n: i64| json!({"id": format!("{n:03}"), "n": n, "tags": [[n % 3], [n % 5, "x"]], "even": n % 2 == 0});
    Documents::with(&(0..250).map(item).collect::<Vec<_>>())
}

fn answer(source: &str) -> Value {
    let done = run(&processes(1), &mut items(), &format!("function () {{ {source} }}"), "[]");
    body(&done.expect("runs"))
}

#[test]
fn results_go_to_the_callback_or_into_the_response() {
    assert_eq!(
        answer("__.filter(d => d.n >= 247).isAccepted; __.map(d => d.n, {pageSize: 2});")
            .as_array()
            .map(Vec::len),
        Some(5)
    );
    let called = "const {isAccepted} = __.filter(d => d.n === 5, (e, found) => __.response.setBody([isAccepted, found[0].n]));";
    assert_eq!(answer(called), json!([true, 5]));
    assert_eq!(
        answer(
            "__.pluck('n', {pageSize: 3}, (e, found, {continuation}) => __.response.setBody([found, typeof continuation]));"
        ),
        json!([[0, 1, 2], "string"])
    );
    assert_eq!(answer("__.pluck('nothing');"), json!([]));
}

#[test]
fn stages_do_what_their_names_say() {
    assert_eq!(
        answer("__.chain().filter(d => d.n === 4).pluck('tags').flatten().value();"),
        json!([1, 4, "x"])
    );
    assert_eq!(
        answer("__.chain().filter(d => d.n === 4).pluck('tags').flatten(true).value();"),
        json!([[1], [4, "x"]])
    );
    assert_eq!(
        answer("__.chain().filter(d => d.n === 4).unwind(d => d.tags, (d, t) => [d.n, t.length]).value();"),
        json!([[4, 1], [4, 2]])
    );
    assert_eq!(
        answer("__.chain().filter(d => d.n < 2).unwind(d => d.tags[0]).map(p => p.length).value();"),
        json!([2, 2])
    );
    assert_eq!(
        answer("__.chain().sortByDescending(d => d.n).pluck('n').value({pageSize: 3});"),
        json!([249, 248, 247])
    );
    assert_eq!(
        answer("__.chain().filter(d => d.n < 5).sortBy(d => d.even).pluck('n').value();"),
        json!([1, 3, 0, 2, 4])
    );
    let kinds = "const kinds = [undefined, null, true, 2, '2', [2], {}];
        __.chain().filter(d => d.n < 7).sortByDescending(d => kinds[(d.n * 3) % 7]).map(d => (d.n * 3) % 7).value();";
    assert_eq!(answer(kinds), json!([6, 5, 4, 3, 2, 1, 0]));
}

#[test]
fn continuations_go_on_where_a_page_ended() {
    for chain in ["filter(d => d.n % 2)", "unwind(d => d.tags).map(p => p[0])", "sortByDescending(d => d.n)"]
    {
        let source = format!(
            "const seen = [], pages = [];
             (function next(error, page, options) {{
                if (error) throw error;
                if (page) {{ for (const d of page) seen.push(d.n); pages.push(page.length); }}
                if (!options || options.continuation) {{
                    __.chain().{chain}.value({{pageSize: 37, continuation: options && options.continuation}}, next);
                }} else __.response.setBody([seen, pages]);
             }})();"
        );
        let whole = answer(&format!("__.chain().{chain}.pluck('n').value({{pageSize: -1}});"));
        let answer = answer(&source);
        assert_eq!(answer[0], whole, "{chain}");
        let pages = answer[1].as_array().expect("a list");
        assert!(pages[..pages.len() - 1].iter().all(|size| *size == 37), "{chain}: {pages:?}");
    }
}

#[test]
fn errors_of_predicates_and_of_the_store_are_told() {
    let fails = |source: &str, documents: &mut Documents| {
        run(&processes(1), documents, source, "[]").expect_err("fails").message().to_owned()
    };
    let thrown = fails("function () { __.filter(d => { throw new Error('at ' + d.n); }); }", &mut items());
    assert!(thrown.contains("Error: at 0"), "{thrown}");
    let mut limited = Documents { calls_max: Some(1), ..items() };
    let refused = fails("function () { __.sortBy(d => d.n); }", &mut limited);
    assert!(refused.contains("could not all be read"), "{refused}");
}
