//! The view of a run equals its writes, committed one after the other; and a commit never overwrites a version
//! that the run has not seen.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Read,
    Create(u8),
    Upsert(u8),
    Replace(u8),
    Increment(u8),
    Remove,
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Read),
        1 => (0..9u8).prop_map(Step::Create),
        1 => (0..9u8).prop_map(Step::Upsert),
        3 => (0..9u8).prop_map(Step::Replace),
        3 => (0..9u8).prop_map(Step::Increment),
        1 => Just(Step::Remove),
        1 => Just(Step::Delete),
    ]
}

fn name() -> ItemName {
    ItemName { container: 0, partition_key: "[\"x\"]".into(), id: "a".into() }
}

fn item(number: u8) -> String {
    json!({"id": "a", "n": number}).to_string()
}

fn parse(item: &str) -> Body {
    parse_document(item.as_bytes(), &STORED_LIMITS).expect("an item")
}

impl Step {
    fn write(&self) -> Option<(Write, FunctionWriteKind)> {
        let patch = |operation: PatchOperation, text: Value| {
            let (id, partition_key) = ("a".into(), "[\"x\"]".into());
            let operations = json!([text]).to_string();
            (Write::Patch(vec![operation]), FunctionWriteKind::Patch { id, partition_key, operations })
        };
        let path = || vec!["n".to_owned()];
        Some(match self {
            Step::Read => return None,
            Step::Create(n) => {
                (Write::Create(parse(&item(*n))), FunctionWriteKind::Create { item: item(*n) })
            }
            Step::Upsert(n) => {
                (Write::Upsert(parse(&item(*n))), FunctionWriteKind::Upsert { item: item(*n) })
            }
            Step::Replace(n) => {
                (Write::Replace(parse(&item(*n))), FunctionWriteKind::Replace { item: item(*n) })
            }
            Step::Increment(n) => {
                let by = shardlake_document::Number::Int((*n).into());
                let text = json!({"op": "incr", "path": "/n", "value": n});
                patch(PatchOperation::Increment { path: path(), by }, text)
            }
            Step::Remove => {
                patch(PatchOperation::Remove { path: path() }, json!({"op": "remove", "path": "/n"}))
            }
            Step::Delete => {
                let (id, partition_key) = ("a".into(), "[\"x\"]".into());
                (Write::Delete, FunctionWriteKind::Delete { id, partition_key })
            }
        })
    }
}

/// The item after a commit of these writes, or `None` where one of them is refused. `etag` is that of the
/// stored version.
fn committed(stored: Option<&str>, etag: &str, orders: &[FunctionWriteOrder]) -> Option<Option<Body>> {
    let (mut body, mut etag) = (stored.map(parse), Some(etag.to_owned()));
    for order in orders {
        let exists = body.is_some();
        if order.if_match.is_some() && order.if_match != etag {
            return None;
        }
        body = match &order.kind {
            FunctionWriteKind::Create { .. } if exists => return None,
            FunctionWriteKind::Replace { .. }
            | FunctionWriteKind::Patch { .. }
            | FunctionWriteKind::Delete { .. }
                if !exists =>
            {
                return None;
            }
            FunctionWriteKind::Create { item }
            | FunctionWriteKind::Upsert { item }
            | FunctionWriteKind::Replace { item } => Some(parse(item)),
            FunctionWriteKind::Patch { operations, .. } => {
                let limits = shardlake_model::Limits::default();
                let operations =
                    crate::function_store::patch_operations(operations, &[], &limits).expect("operations");
                Some(apply_patch(body.as_ref()?.raw(), &operations).ok()?)
            }
            FunctionWriteKind::Delete { .. } => None,
        };
        // The version after an own write has an etag that no run knows.
        etag = None;
    }
    Some(body)
}

/// A run over one stored item, and whether it replaced a version that it had read.
fn run(stored: Option<&str>, steps: &[Step]) -> (Writes, bool) {
    let (mut writes, mut has_read, mut depends) = (Writes::default(), false, false);
    let mut is_own = false;
    for step in steps {
        match step.write() {
            None => {
                let View::Stored(patches) = writes.view(&name()) else { continue };
                has_read |=
                    writes.read(name(), &patches, stored.map(str::to_owned)).is_ok() && stored.is_some();
            }
            Some((write, kind)) => {
                let is_whole = !matches!(write, Write::Patch(_));
                let is_replace = matches!(write, Write::Replace(_));
                let order = FunctionWriteOrder { container: "c".into(), kind, if_match: None };
                if writes.add(name(), write, order).is_ok() {
                    depends |= is_replace && has_read && !is_own;
                    is_own |= is_whole;
                }
            }
        }
    }
    (writes, depends)
}

proptest! {
    #[test]
    fn the_view_is_that_of_the_commit(exists in any::<bool>(), steps in proptest::collection::vec(step(), 0..8)) {
        let stored = json!({"id": "a", "n": 5, "_etag": "e1"}).to_string();
        let stored = exists.then_some(stored.as_str());
        let (mut writes, _) = run(stored, &steps);
        let seen = match writes.view(&name()) {
            View::Written(item) => Ok(item),
            View::Stored(patches) => writes.read(name(), &patches, stored.map(str::to_owned)),
        };
        let Some(item) = committed(stored, "e1", &writes.into_orders()) else { return Ok(()) };
        let seen = seen.expect("a commit that succeeds can be read").map(|item| parse(&item));
        prop_assert_eq!(seen, item);
    }

    #[test]
    fn no_version_is_replaced_that_was_not_read(steps in proptest::collection::vec(step(), 0..8)) {
        let stored = json!({"id": "a", "n": 5, "_etag": "e1"}).to_string();
        let (writes, depends) = run(Some(&stored), &steps);
        let orders = writes.into_orders();
        let newer = json!({"id": "a", "n": 6}).to_string();
        prop_assert!(!depends || committed(Some(&newer), "e2", &orders).is_none(), "{:?}", orders);
        // Without another writer the condition changes nothing.
        let free: Vec<_> =
            orders.iter().map(|order| FunctionWriteOrder { if_match: None, ..order.clone() }).collect();
        prop_assert_eq!(committed(Some(&stored), "e1", &orders), committed(Some(&stored), "e1", &free));
    }
}
