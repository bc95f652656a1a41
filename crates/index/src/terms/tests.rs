//! Terms against the definition in words, computed properties, composites, bounds.

use super::*;
use crate::path_hash;
use proptest::prelude::*;
use shardlake_document::{Envelope, ParseLimits, decode_index_value, parse_document};
use shardlake_model::{ContainerRid, DatabaseRid, IndexPathSegment, IndexingPolicy, Limits};
use shardlake_sql::ComputedProperties;
use std::collections::BTreeSet;

fn layout(policy: &str, computed: &[(&str, &str)]) -> IndexLayout {
    let policy: IndexingPolicy = serde_json::from_str(policy).expect("a policy");
    let policy = policy.normalise(&Limits::default()).expect("valid");
    let computed: Vec<_> =
        computed.iter().map(|(name, query)| (name.to_string(), query.to_string())).collect();
    let computed = ComputedProperties::compile(&computed).expect("compiles");
    IndexLayout::new(1, &policy, computed).expect("compiles").expect("indexes something")
}

fn with_item<R>(json: &str, check: impl FnOnce(&ItemView<'_>) -> R) -> R {
    let body = parse_document(json.as_bytes(), &ParseLimits::default()).expect("valid");
    let etag = shardlake_stdx::Random::seeded(1).guid();
    let envelope = Envelope {
        lsn: 1,
        time: shardlake_stdx::HybridTime::from_seconds(7),
        region: 0,
        etag,
        ordinal: 1,
        ttl_seconds: None,
        json_size_bytes: 0,
        is_altered: false,
    };
    let container = ContainerRid { database: DatabaseRid(1), number: 1 };
    check(&ItemView { body: body.raw(), envelope: &envelope, container, items_link: "" })
}

fn terms_of(json: &str, layout: &IndexLayout) -> BTreeSet<Vec<u8>> {
    with_item(json, |item| {
        let terms = ItemTerms::of(item, layout);
        let list: Vec<Vec<u8>> = terms.iter().map(<[u8]>::to_vec).collect();
        assert!(list.is_sorted() && terms.iter().all(|term| terms.contains(term)));
        let distinct: BTreeSet<Vec<u8>> = list.iter().cloned().collect();
        assert_eq!(distinct.len(), list.len(), "every term comes once");
        distinct
    })
}

fn name(text: &str) -> IndexPathSegment {
    IndexPathSegment::Name(text.into())
}

fn term(path: &[IndexPathSegment], value: &Value) -> Vec<u8> {
    let mut term = path_hash(path).to_be_bytes().to_vec();
    encode_index_value(value, &mut term);
    term
}

/// The definition in words, node by node.
fn expect_nodes(
    value: &serde_json::Value,
    path: &mut Vec<IndexPathSegment>,
    layout: &IndexLayout,
    out: &mut BTreeSet<Vec<u8>>,
) {
    let mut child = |segment: IndexPathSegment, value: &serde_json::Value| {
        path.push(segment);
        if layout.paths.is_indexed(path) || *path == [name("id")] {
            let text = format!("{{\"v\":{value}}}");
            let body = parse_document(text.as_bytes(), &ParseLimits::default()).expect("valid");
            out.insert(term(path, &Value::from_raw(body.raw().get("v").expect("there"))));
        }
        expect_nodes(value, path, layout, out);
        path.pop();
    };
    match value {
        serde_json::Value::Object(members) => {
            members.iter().for_each(|(member, value)| child(name(member), value))
        }
        serde_json::Value::Array(elements) => {
            elements.iter().for_each(|value| child(IndexPathSegment::AnyElement, value))
        }
        _ => {}
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-2i64..2).prop_map(Into::into),
        "[ab]{0,2}".prop_map(Into::into),
    ];
    let value = scalar.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[abc]", value, 0..4).prop_map(|mut map| {
        map.insert("id".into(), "x".into());
        serde_json::Value::Object(map.into_iter().collect())
    })
}

fn policy() -> impl Strategy<Value = String> {
    let segment = prop_oneof![Just("a"), Just("b"), Just("[]"), Just("[1]"), Just("c")];
    let path = (prop::collection::vec(segment, 1..4), any::<bool>())
        .prop_map(|(path, scalar)| format!("/{}/{}", path.join("/"), if scalar { "?" } else { "*" }));
    (prop::collection::btree_map(path, any::<bool>(), 0..6), any::<bool>()).prop_map(|(paths, root)| {
        let list = |included: bool| {
            let own =
                paths.iter().filter(|(_, include)| **include == included).map(|(path, _)| path.as_str());
            let all = own.chain((root == included).then_some("/*"));
            all.map(|path| format!("{{\"path\":\"{path}\"}}")).collect::<Vec<_>>().join(",")
        };
        format!(r#"{{"includedPaths":[{}],"excludedPaths":[{}]}}"#, list(true), list(false))
    })
}

/// The terms of an item whose arrays are summarised, from all of its terms: one in the place of those
/// below an outermost array, if these are more than `max`.
fn summarised(item: &serde_json::Value, all: &BTreeSet<Vec<u8>>, max: usize) -> BTreeSet<Vec<u8>> {
    fn arrays(
        value: &serde_json::Value,
        path: &mut Vec<IndexPathSegment>,
        out: &mut Vec<(Vec<IndexPathSegment>, serde_json::Value)>,
    ) {
        match value {
            serde_json::Value::Array(_) => out.push((path.clone(), value.clone())),
            serde_json::Value::Object(members) => {
                for (member, value) in members {
                    path.push(name(member));
                    arrays(value, path, out);
                    path.pop();
                }
            }
            _ => {}
        }
    }
    let (mut found, mut terms) = (Vec::new(), all.clone());
    arrays(item, &mut Vec::new(), &mut found);
    for (path, array) in found {
        let mut below = BTreeSet::new();
        expect_nodes(&array, &mut path.clone(), &layout("{}", &[]), &mut below);
        let below: Vec<_> = below.intersection(all).collect();
        if below.len() > max {
            below.into_iter().for_each(|term| assert!(terms.remove(term)));
            let elements: Vec<_> = path.into_iter().chain([IndexPathSegment::AnyElement]).collect();
            let hash = crate::summary_hash(&elements).expect("it ends in an element");
            terms.insert(summary_term(hash).to_vec());
        }
    }
    terms
}

proptest! {
    #[test]
    fn an_item_with_too_many_terms_has_summaries_of_its_large_arrays(item in json(), policy in policy(), max in 0usize..8) {
        let exact = layout(&policy, &[]);
        let all = terms_of(&item.to_string(), &exact);
        let of_body = |layout: &IndexLayout| {
            with_item(&item.to_string(), |view| ItemTerms::of_body(view.body, layout, None).0)
        };
        let (body, summarising) = (of_body(&exact), layout(&policy, &[]).with_exact_terms_max(Some(max)));
        let expected = if body.len() > max { summarised(&item, &all, 1) } else { all };
        prop_assert_eq!(terms_of(&item.to_string(), &summarising), expected);
        prop_assert_eq!(of_body(&summarising).found(), body.len());
    }

    #[test]
    fn every_node_that_the_policy_covers_has_its_term(item in json(), policy in policy()) {
        let layout = layout(&policy, &[]);
        let mut expected = BTreeSet::from([term(&[name("_ts")], &Value::Int(7))]);
        expect_nodes(&item, &mut vec![], &layout, &mut expected);
        for explicit in &layout.explicit {
            let missing = with_item(&item.to_string(), |view| view.body.get_path(&explicit.names).is_none());
            if missing {
                let path: Vec<_> = explicit.names.iter().map(|text| name(text)).collect();
                expected.insert(term(&path, &Value::Undefined));
            }
        }
        prop_assert_eq!(terms_of(&item.to_string(), &layout), expected);
    }

    #[test]
    fn differences_lead_from_one_set_to_the_other(old in json(), new in json()) {
        let layout = layout("{}", &[]);
        let of = |item: &serde_json::Value| with_item(&item.to_string(), |view| ItemTerms::of(view, &layout));
        let mut set: BTreeSet<Vec<u8>> = of(&old).iter().map(<[u8]>::to_vec).collect();
        of(&old).difference(&of(&new), &mut |gone, term| {
            assert!(if gone { set.remove(term) } else { set.insert(term.to_vec()) });
        });
        prop_assert_eq!(set, of(&new).iter().map(<[u8]>::to_vec).collect());
    }
}

#[test]
fn computed_properties_are_indexed_where_named_and_hide_stored_ones() {
    let computed = [("lower", "SELECT VALUE LOWER(c.a) FROM c"), ("other", "SELECT VALUE c.a FROM c")];
    let policy = r#"{"includedPaths":[{"path":"/*"},{"path":"/lower/?"}],
        "compositeIndexes":[[{"path":"/lower"},{"path":"/_ts","order":"descending"}]]}"#;
    let terms = terms_of(r#"{"id":"1","a":"X","lower":1,"other":{"x":1}}"#, &layout(policy, &computed));
    let of = |text: &str| -> Vec<Vec<u8>> {
        let prefix = path_hash(&[name(text)]).to_be_bytes();
        terms.iter().filter(|term| term.starts_with(&prefix)).cloned().collect()
    };
    assert_eq!(of("lower"), [term(&[name("lower")], &Value::String("x".into()))]);
    assert!(of("other").is_empty());
    // id, a, lower, _ts and the composite's.
    assert_eq!(terms.len(), 5);
    let missing = terms_of(r#"{"id":"1","lower":1}"#, &layout(policy, &computed));
    assert!(missing.contains(&term(&[name("lower")], &Value::Undefined)));
}

#[test]
fn composites_hold_their_members_in_order_inverted_where_declared() {
    let policy = r#"{"compositeIndexes":[[{"path":"/a"},{"path":"/b/c","order":"descending"}],
        [{"path":"/t/[]/x"},{"path":"/a"}]]}"#;
    let layout = layout(policy, &[]);
    assert_eq!(layout.composites.len(), 1, "nothing can be ordered by array elements");
    let value = |json: &str| {
        with_item(json, |item| {
            let mut value = vec![];
            layout.for_each_composite_value(0, item, &mut |bytes| value = bytes.to_vec());
            value
        })
    };
    let ordered = [
        r#"{"id":"1"}"#,
        r#"{"id":"1","a":1,"b":{"c":"z"}}"#,
        r#"{"id":"1","a":1,"b":{"c":"y"}}"#,
        r#"{"id":"1","a":1,"b":2}"#,
        r#"{"id":"1","a":2,"b":{"c":"z"}}"#,
    ];
    assert!(ordered.windows(2).all(|pair| value(pair[0]) < value(pair[1])));
}

#[test]
fn long_strings_are_cut_and_large_items_take_one_pass() {
    let long = "x".repeat(5000);
    let elements: Vec<String> = (0..100_000).map(|n| (n % 50_000).to_string()).collect();
    let json = format!(r#"{{"id":"1","s":"{long}","list":[{}]}}"#, elements.join(","));
    let terms = terms_of(&json, &layout("{}", &[]));
    assert_eq!(terms.len(), 50_000 + 4);
    let prefix = path_hash(&[name("s")]).to_be_bytes();
    let cut = terms.iter().find(|term| term.starts_with(&prefix)).expect("there");
    assert!(cut.len() < 150 && decode_index_value(&cut[8..]).is_none());
}

#[test]
fn large_arrays_are_summarised_first_and_small_ones_where_that_is_not_enough() {
    let layout = layout("{}", &[]).with_exact_terms_max(Some(1000));
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let one = format!(r#"{{"id":"1","many":[{}],"few":[1,2,3]}}"#, numbers(2000));
    // id, many, few and its elements, _ts, and the summary of many.
    assert_eq!(terms_of(&one, &layout).len(), 1 + 1 + 4 + 1 + 1);
    let lists: Vec<String> = (0..100).map(|n| format!("\"l{n}\":[{}]", numbers(50))).collect();
    let all = format!(r#"{{"id":"1",{}}}"#, lists.join(","));
    assert_eq!(terms_of(&all, &layout).len(), 1 + 2 * 100 + 1);
    let exact = format!(r#"{{"id":"1","many":[{}]}}"#, numbers(998));
    assert_eq!(terms_of(&exact, &layout).len(), 1 + 999 + 1, "as many as there may be");
}
