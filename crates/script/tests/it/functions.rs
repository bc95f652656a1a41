//! User-defined functions as queries call them: in batches, with and without values.

use std::time::Duration;

use crate::support::{functions, processes};
use shardlake_model::ErrorKind;
use shardlake_script::{Functions, ScriptLimits, ScriptSettings, Scripts};

/// Time limit on the calls of a batch.
const TIME: Duration = Duration::from_secs(5);

fn prepare(scripts: &Scripts, definitions: &[(&str, &str)]) -> Functions {
    functions(scripts, definitions, ScriptLimits::default()).expect("prepares")
}

fn some(json: &str) -> Option<String> {
    Some(json.to_owned())
}

#[test]
fn values_go_in_and_out_as_json_and_undefined_as_nothing() {
    // A thread serves as well as a process.
    for scripts in [processes(1), Scripts::new(ScriptSettings::default())] {
        let definitions = [
            ("kind", "function (x) { return typeof x; }"),
            ("same", "function (x) { return x; }"),
            ("count", "function () { return arguments.length; }"),
            ("add", "function add(a, b) { return a + b; }"),
            ("odd", "(x) => [NaN, () => 1, new Date(0), 'é\\n', -0, 1e21][x];"),
        ];
        let mut functions = prepare(&scripts, &definitions);
        let kinds = [None, some("null"), some("1.5"), some("\"a\""), some("[1]"), some("{}"), some("true")];
        let rows: Vec<_> = kinds.iter().map(|value| vec![value.clone()]).collect();
        let expected = ["undefined", "object", "number", "string", "object", "object", "boolean"];
        let expected: Vec<_> = expected.iter().map(|kind| some(&format!("\"{kind}\""))).collect();
        assert_eq!(functions.call("kind", &rows, TIME).expect("calls"), expected);
        assert_eq!(functions.call("same", &rows, TIME).expect("calls"), kinds);
        let counts =
            functions.call("count", &[vec![], vec![None], vec![None, some("1")]], TIME).expect("calls");
        assert_eq!(counts, [some("0"), some("1"), some("2")]);
        assert_eq!(functions.call("add", &[], TIME).expect("calls"), []);
        assert_eq!(
            functions.call("add", &[vec![some("1"), some("\"a\"")]], TIME).expect("calls"),
            [some("\"1a\"")]
        );
        let odd: Vec<_> = (0..7).map(|n| vec![some(&n.to_string())]).collect();
        let expected = [
            some("null"),
            None,
            some("\"1970-01-01T00:00:00.000Z\""),
            some("\"é\\n\""),
            some("0"),
            some("1e+21"),
            None,
        ];
        assert_eq!(functions.call("odd", &odd, TIME).expect("calls"), expected);
    }
}

#[test]
fn functions_have_no_context_and_share_nothing_between_queries() {
    let scripts = processes(1);
    let definitions = [
        ("context", "function () { return getContext(); }"),
        ("count", "function () { globalThis.n = (globalThis.n || 0) + 1; return n; }"),
        ("print", "function () { console.log('x'); return typeof __; }"),
        ("throw", "function (x) {\n  throw new RangeError('not ' + x);\n}"),
        ("later", "async function () { return 1; }"),
        ("numbered", "function (number) { throw new Error(number, 'not ' + number); }"),
    ];
    let mut functions = prepare(&scripts, &definitions);
    let row = || vec![vec![some("1")]];
    let message = |outcome: shardlake_model::Result<Vec<Option<String>>>| {
        let error = outcome.expect_err("fails");
        assert_eq!(error.kind(), ErrorKind::BadRequest);
        error.message().to_owned()
    };
    assert!(
        message(functions.call("context", &row(), TIME))
            .contains("ReferenceError: getContext is not defined")
    );
    let thrown = message(functions.call("throw", &row(), TIME));
    assert!(thrown.contains("RangeError: not 1") && thrown.contains("throw.js:2:"), "{thrown}");
    // Numbers that clients of queries act on are left out.
    for (number, kept) in [(32766, Some(32766)), (404, Some(404)), (1004, None), (-1, None)] {
        let rows = vec![vec![some(&number.to_string())]];
        let error = functions.call("numbered", &rows, TIME).expect_err("throws");
        assert_eq!((error.kind(), error.substatus()), (ErrorKind::BadRequest, kept));
        assert!(error.message().contains(&format!("Exception = Error: not {number}")), "{error}");
    }
    assert!(message(functions.call("nobody", &row(), TIME)).contains("'nobody'"));
    assert_eq!(functions.call("print", &row(), TIME).expect("calls"), [some("\"undefined\"")]);
    assert_eq!(functions.call("later", &row(), TIME).expect("calls"), [some("{}")]);
    assert_eq!(functions.call("count", &row(), TIME).expect("calls"), [some("1")]);
    drop(functions);
    assert_eq!(prepare(&scripts, &definitions).call("count", &row(), TIME).expect("calls"), [some("1")]);
}

#[test]
fn what_is_no_function_cannot_be_prepared() {
    let scripts = processes(1);
    let definitions = [("fine", "x => x"), ("wrong", "function (")];
    let error = functions(&scripts, &definitions, ScriptLimits::default()).expect_err("is refused");
    assert_eq!(error.kind(), ErrorKind::BadRequest);
    assert!(error.message().contains("SyntaxError"), "{error}");
    assert_eq!(
        prepare(&scripts, &definitions[..1]).call("fine", &[vec![None]], TIME).expect("calls"),
        [None]
    );
}
