//! Objects of a bucket, and the effects of requests on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use super::message::{Answer, Request};

const PAGE: usize = 1000;
/// No test depends on dates.
const LAST_MODIFIED: &str = "2026-11-23T08:00:00.000Z";

#[derive(Default)]
pub(super) struct Objects {
    found: BTreeMap<String, Object>,
    /// Parts of unfinished uploads, by upload id.
    uploads: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    versions: u64,
}

struct Object {
    content: Arc<Vec<u8>>,
    tag: String,
}

impl Objects {
    pub fn below(&self, prefix: &str) -> Vec<(String, usize)> {
        let found = self.found.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, object)| (key.clone(), object.content.len())).collect()
    }

    pub fn answer(&mut self, request: &Request) -> Answer {
        let has = |name: &str| request.query.contains_key(name);
        match request.method.as_str() {
            "GET" if request.key.is_empty() => self.list(request),
            "GET" | "HEAD" => self.get(request),
            "PUT" if has("uploadId") => self.put_part(request),
            "PUT" => self.put(request, request.body.clone()),
            "POST" if has("uploads") => self.begin_upload(request),
            "POST" if has("uploadId") => self.end_upload(request),
            "POST" if has("delete") => self.delete_many(request),
            "DELETE" if has("uploadId") => {
                self.uploads.remove(&request.query["uploadId"]);
                Answer::empty(204)
            }
            "DELETE" => {
                self.found.remove(&request.key);
                Answer::empty(204)
            }
            _ => Answer::error(501, "NotImplemented"),
        }
    }

    fn get(&self, request: &Request) -> Answer {
        let Some(object) = self.found.get(&request.key) else { return Answer::error(404, "NoSuchKey") };
        let length = object.content.len();
        let date = httpdate::fmt_http_date(SystemTime::now());
        let answer = |status: u16, body: Vec<u8>| {
            Answer { body, ..Answer::empty(status) }
                .with("etag", object.tag.clone())
                .with("last-modified", date.clone())
        };
        if request.method == "HEAD" {
            return answer(200, Vec::new()).with("content-length", length.to_string());
        }
        match request.range(length) {
            Some((start, _)) if start >= length => Answer::error(416, "InvalidRange"),
            Some((start, end)) => answer(206, object.content[start..end].to_vec())
                .with("content-range", format!("bytes {start}-{}/{length}", end - 1)),
            None => answer(200, object.content.to_vec()),
        }
    }

    fn put(&mut self, request: &Request, content: Vec<u8>) -> Answer {
        let there = self.found.get(&request.key);
        let is_refused = match (request.header("if-none-match"), request.header("if-match")) {
            (Some(_), _) => there.is_some(),
            (None, Some(tag)) => there.is_none_or(|object| object.tag != tag),
            (None, None) => false,
        };
        if is_refused {
            return Answer::error(412, "PreconditionFailed");
        }
        self.versions += 1;
        let tag = format!("\"{:032x}\"", self.versions);
        self.found.insert(request.key.clone(), Object { content: Arc::new(content), tag: tag.clone() });
        Answer::empty(200).with("etag", tag)
    }

    fn begin_upload(&mut self, request: &Request) -> Answer {
        self.versions += 1;
        let id = format!("upload-{}", self.versions);
        self.uploads.insert(id.clone(), BTreeMap::new());
        Answer::xml(format!(
            "<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>{}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>",
            escaped(&request.key)
        ))
    }

    fn put_part(&mut self, request: &Request) -> Answer {
        let number = request.query.get("partNumber").and_then(|number| number.parse().ok());
        match (self.uploads.get_mut(&request.query["uploadId"]), number) {
            (Some(parts), Some(number)) => {
                parts.insert(number, request.body.clone());
                Answer::empty(200).with("etag", format!("\"part-{number}\""))
            }
            _ => Answer::error(404, "NoSuchUpload"),
        }
    }

    fn end_upload(&mut self, request: &Request) -> Answer {
        let Some(parts) = self.uploads.remove(&request.query["uploadId"]) else {
            return Answer::error(404, "NoSuchUpload");
        };
        let put = self.put(request, parts.into_values().flatten().collect());
        let tag = put.headers.iter().find(|(name, _)| *name == "etag").map(|(_, tag)| tag.clone());
        match tag {
            Some(tag) => Answer::xml(format!(
                "<CompleteMultipartUploadResult><Bucket>bucket</Bucket><Key>{}</Key><ETag>{}</ETag></CompleteMultipartUploadResult>",
                escaped(&request.key),
                escaped(&tag)
            )),
            None => put,
        }
    }

    fn delete_many(&mut self, request: &Request) -> Answer {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let mut deleted = String::from("<DeleteResult>");
        for part in text.split("<Key>").skip(1) {
            let key = part.split("</Key>").next().unwrap_or_default();
            self.found.remove(&unescaped(key));
            write!(deleted, "<Deleted><Key>{key}</Key></Deleted>").expect("a string takes any text");
        }
        Answer::xml(deleted + "</DeleteResult>")
    }

    fn list(&self, request: &Request) -> Answer {
        let of = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, delimiter) = (of("prefix"), of("delimiter"));
        let after = of("start-after").max(of("continuation-token"));
        let (mut contents, mut folders, mut next) = (String::new(), Vec::<String>::new(), None);
        let found = self.found.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        for (count, (key, object)) in found.filter(|(key, _)| **key > after).enumerate() {
            if count == PAGE {
                break;
            }
            next = Some((count, key.clone()));
            let rest = &key[prefix.len()..];
            if let Some(end) = (!delimiter.is_empty()).then(|| rest.find(&delimiter)).flatten() {
                let folder = format!("{prefix}{}", &rest[..=end]);
                if folders.last() != Some(&folder) {
                    folders.push(folder);
                }
                continue;
            }
            write!(
                contents,
                "<Contents><Key>{}</Key><LastModified>{LAST_MODIFIED}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                escaped(key),
                escaped(&object.tag),
                object.content.len()
            )
            .expect("a string takes any text");
        }
        let folders: String = folders
            .iter()
            .map(|folder| format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(folder)))
            .collect();
        let next = next.filter(|(count, _)| count + 1 == PAGE).map_or(String::new(), |(_, key)| {
            format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(&key))
        });
        Answer::xml(format!("<ListBucketResult>{contents}{folders}{next}</ListBucketResult>"))
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
}
