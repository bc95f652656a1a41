//! Published values, vectors of our own making by another implementation, and the shared file of them where it is present.

use serde_json::Value;
use shardlake_testkit::{own_vectors, shared_directory};

use super::*;

fn v1(key: Vec<KeyComponent>) -> String {
    let definition = PartitionKeyDefinition { version_sent: Some(1), ..PartitionKeyDefinition::hash("/pk") };
    effective_partition_key(&definition, &PartitionKey(key)).to_hex()
}

fn v2(key: Vec<KeyComponent>) -> String {
    effective_partition_key(&PartitionKeyDefinition::hash("/pk"), &PartitionKey(key)).to_hex()
}

fn text(value: &str) -> KeyComponent {
    KeyComponent::String(value.into())
}

#[test]
fn published_values_come_out() {
    use KeyComponent::{Bool, Null, Number, Undefined};
    let cases: &[(KeyComponent, &str, &str)] = &[
        (text(""), "05C1CF33970FF80800", "32E9366E637A71B4E710384B2F4970A0"),
        (text("a"), "05C1D78593652C086200", "3A5381E1114EB8D3FCC90795045B49B7"),
        (text("redmond"), "05C1EFE313830C087366656E706F6500", "22E342F38A486A088463DFF7838A5963"),
        (text("\0"), "05C171D9EB1A080100", "03BEA7EF2A069D1693F46CE6922E2F8E"),
        (text("\u{4f60}\u{597d}"), "05C1D37361259408E5BEA1E6A6BE00", "004DC6466F1ECD29F3606AEBC7AFC317"),
        (text("\u{1f600}"), "05C1814D5F9C08F1A0998100", "28D7FCB721E75FBE0DAC3D71DAB82766"),
        (Number(0.0), "05C1BF6DA11560058000", "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"),
        (Number(-0.0), "05C1E703ED99A0058000", "3D018BB1DF3DB27235766E81FD10406E"),
        (Number(1.0), "05C1ED172B6B2605BFF0", "20CD98B339BA78A5D0CF6953B87070B0"),
        (Number(42.0), "05C1E75FCB273A05C04580", "08E6D561F6FD951DCC25E7E4EA2884B5"),
        (Number(0.1), "05C1D92733D70405BFB9CD673399CD6734", "21DEBA97B3AF01087F4E1F889B0A7739"),
        (Number(5e-324), "05C1E5C91F4D3005800101010101010102", "0E6CBA63A280927DE485DEF865800139"),
        (Bool(true), "05C1D7C5A903D803", "0E711127C5B5A8E4726AC6DD306A3E59"),
        (Bool(false), "05C1DB857D857C02", "2FE1BE91E90A3439635E0E9E37361EF2"),
        (Null, "05C1ED45D7475601", "378867E4430E67857ACE5C908374FE16"),
        (Undefined, "05C1D529E345DC00", "11622DAA78F835834610ABE56EFF5CB5"),
    ];
    for (value, expected_v1, expected_v2) in cases {
        assert_eq!(v1(vec![value.clone()]), *expected_v1, "{value:?}");
        assert_eq!(v2(vec![value.clone()]), *expected_v2, "{value:?}");
    }
    let mixed = vec![Number(5.0), text("redmond"), Bool(true), Null];
    assert_eq!(v2(mixed), "3032DECBE2AB1768D8E0AEDEA35881DF");
}

#[test]
fn long_strings_are_cut_in_version_1_only() {
    assert_eq!(v1(vec![text(&"a".repeat(100))]), v1(vec![text(&"a".repeat(150))]));
    assert_eq!(v1(vec![text(&"a".repeat(101))]).len(), 218);
    let two_bytes_each = v1(vec![text(&"é".repeat(100))]);
    assert!(two_bytes_each.starts_with("05C1D9C91DF1D808C4AAC4AA") && two_bytes_each.ends_with("C4AAC4"));
    assert_eq!(v2(vec![text(&"a".repeat(100))]), "0DBD7D229437BB665DE6417747994D57");
    assert_eq!(v2(vec![text(&"a".repeat(1024))]), "332BDF5512AE49615F32C7D98C2DB86C");
}

#[test]
fn a_hierarchical_prefix_is_a_prefix_of_the_hash() {
    let definition = PartitionKeyDefinition::multi_hash(&["/a", "/b", "/c"]);
    let full = PartitionKey(vec![text("a"), text("b"), text("c")]);
    let hex = effective_partition_key(&definition, &full).to_hex();
    assert_eq!(
        hex,
        "3A5381E1114EB8D3FCC90795045B49B7195644569A78B1E22D200348AF9416CE2562D4841EF4AF76D90EC904CEE5FA9A"
    );
    let prefix = PartitionKey(full.0[..2].to_vec());
    assert!(hex.starts_with(&effective_partition_key(&definition, &prefix).to_hex()));
}

/// A key component as vectors write it.
fn component(value: &Value) -> KeyComponent {
    match value {
        Value::Null => KeyComponent::Null,
        Value::Bool(value) => KeyComponent::Bool(*value),
        Value::Number(number) => KeyComponent::Number(number.as_f64().expect("a double")),
        Value::String(text) => KeyComponent::String(text.as_str().into()),
        Value::Object(_) => KeyComponent::Undefined,
        Value::Array(_) => panic!("{value} is no key component"),
    }
}

fn components(values: &Value) -> Vec<KeyComponent> {
    values.as_array().expect("a list of components").iter().map(component).collect()
}

fn multi_hash(key: Vec<KeyComponent>) -> String {
    let paths = ["/a", "/b", "/c"];
    let definition = PartitionKeyDefinition::multi_hash(&paths[..key.len()]);
    effective_partition_key(&definition, &PartitionKey(key)).to_hex()
}

#[test]
fn hashes_are_those_of_another_implementation() {
    for vector in own_vectors("partition_keys") {
        let key = components(&vector["key"]);
        assert_eq!(v2(key.clone()), vector["v2"], "{vector}");
        assert_eq!(multi_hash(key.clone()), vector["multiHash"], "{vector}");
        if vector["v1"].is_string() {
            assert_eq!(v1(key), vector["v1"], "{vector}");
        }
    }
}

#[test]
fn hashes_are_those_of_the_shared_vectors() {
    let test = "hashes_are_those_of_the_shared_vectors";
    let Some(directory) = shared_directory("conformance", test) else { return };
    let text = std::fs::read(directory.join("epk_vectors.json")).expect("the file is there");
    let vectors: Value = serde_json::from_slice(&text).expect("JSON");
    for vector in vectors["hash"].as_array().expect("a list") {
        let key = vec![component(&vector["value"])];
        assert_eq!(v2(key.clone()), vector["v2"], "{vector}");
        // The Python SDK, which these come from, ends the null of version 1 with the hash; the .NET SDK writes its type as well.
        if key != [KeyComponent::Null] {
            assert_eq!(v1(key), vector["v1"], "{vector}");
        }
    }
    for vector in vectors["multihash"].as_array().expect("a list") {
        assert_eq!(multi_hash(components(&vector["values"])), vector["multihash"], "{vector}");
    }
}
