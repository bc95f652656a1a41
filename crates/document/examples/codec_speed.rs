//! Times the codec on a 1 KB item: `cargo run --release --example codec_speed`. Prints the median of rounds in µs per KB.
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a measuring tool for people

use std::hint::black_box;
use std::time::Instant;

use shardlake_document::{
    Envelope, ParseLimits, RawValue, Record, Value, apply_patch, json_size, parse_document, parse_path,
    write_json,
};
use shardlake_document::{Number, PatchOperation};

const ROUNDS: usize = 15;
const REPEATS: usize = 4000;

fn main() {
    let json = item();
    let limits = ParseLimits::default();
    let body = parse_document(json.as_bytes(), &limits).expect("the item is valid");
    let envelope = Envelope {
        lsn: 1,
        time: shardlake_stdx::HybridTime::from_seconds(1_700_000_000),
        region: 0,
        etag: Default::default(),
        ordinal: 1,
        ttl_seconds: None,
        json_size_bytes: json.len() as u32,
        is_altered: false,
    };
    let record = Record::encode(&envelope, body.raw());
    let kilobytes = json.len() as f64 / 1024.0;
    println!("item: {} bytes of JSON, {} of BSON", json.len(), body.as_bytes().len());
    report("JSON -> BSON", kilobytes, || parse_document(black_box(json.as_bytes()), &limits).is_ok());
    report("JSON -> serde_json::Value", kilobytes, || {
        serde_json::from_slice::<serde_json::Value>(black_box(json.as_bytes())).is_ok()
    });
    let mut out = Vec::with_capacity(4096);
    report("BSON -> JSON", kilobytes, || {
        out.clear();
        write_json(black_box(body.raw()), &mut out);
        !out.is_empty()
    });
    report("BSON -> JSON size", kilobytes, || json_size(black_box(body.raw())) > 0);
    report("record encode", kilobytes, || !Record::encode(black_box(&envelope), body.raw()).is_empty());
    report("record decode", kilobytes, || Record::decode(black_box(&record)).is_ok());
    report("three fields", kilobytes, || {
        let raw = black_box(body.raw());
        let city = raw.get_path(&["address", "city"]);
        raw.get("type").is_some() && raw.get("total").is_some() && matches!(city, Some(RawValue::String(_)))
    });
    report("BSON -> tree -> BSON", kilobytes, || {
        Value::from_document(black_box(body.raw())).to_body().is_ok()
    });
    let path = parse_path("/address/visits").expect("a pointer");
    let operations = [PatchOperation::Increment { path, by: Number::Int(1) }];
    report("patch", kilobytes, || apply_patch(black_box(body.raw()), &operations).is_ok());
}

fn report(name: &str, kilobytes: f64, mut step: impl FnMut() -> bool) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..REPEATS {
                assert!(step());
            }
            start.elapsed().as_secs_f64() * 1e6 / REPEATS as f64 / kilobytes
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:28} {:8.3} µs/KB", times[ROUNDS / 2]);
}

fn item() -> String {
    let lines: Vec<String> = (0..6)
        .map(|line| {
            format!(
                r#"{{"sku":"BK-R93R-{line}","name":"Road-150 Red, {line}","price":{}.27,"quantity":{line}}}"#,
                3578 + line
            )
        })
        .collect();
    format!(
        r#"{{"id":"a3b1c5d7-0000-4a5b-8c9d-ffeeddccbbaa","type":"salesOrder","customerId":"54AB87A7-BDB9-4FAE-A668-AA9F43E26628","orderDate":"2014-02-16T00:00:00","shipDate":"2014-02-23T00:00:00","total":2181.5625,"paid":true,"note":null,"address":{{"line1":"100 Main Street","city":"Zürich \"Nord\"","zip":"8001","visits":3}},"details":[{}],"tags":["bike","road","red"]}}"#,
        lines.join(",")
    )
}
