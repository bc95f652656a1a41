//! Refusals of the server as an operator reads them: the error, and the command that shows more.
//!
//! The server's errors begin with the sentences that SDKs look for, and name things by the protocol's words. Here those sentences
//! are left out, and the rest is joined with the remedy.

use http::StatusCode;
use percent_encoding::percent_decode_str;
use shardlake_gateway_nosql::own_words;

/// Description of a refusal of the request to `path`.
pub fn of_refusal(status: StatusCode, sentence: &str, path: &str) -> String {
    let one_line: Vec<&str> = sentence.split_whitespace().collect();
    let one_line = one_line.join(" ");
    let own = beginning_small(own_words(&one_line));
    match status {
        StatusCode::UNAUTHORIZED => "the server does not accept the key: give --key or --key-file".to_owned(),
        StatusCode::NOT_FOUND if path.contains("/projections/") => {
            format!("{own}: `shardlake projections list` shows those there are")
        }
        StatusCode::NOT_FOUND if path.contains("/copies/") => {
            format!("{own}: `shardlake copies list` shows those there are")
        }
        StatusCode::NOT_FOUND if path.contains("/backups") => own,
        StatusCode::NOT_FOUND if path.ends_with("/analytics/sql") => {
            format!("{own}: `shardlake analytics status` shows the tables there are")
        }
        StatusCode::NOT_IMPLEMENTED if !own.is_empty() => own,
        StatusCode::NOT_FOUND => format!("{own}: `shardlake partitions` shows the containers there are"),
        StatusCode::GONE => {
            let container = container_of(path).unwrap_or_default();
            let what = match range_in(&own) {
                Some(id) => format!("there is no partition {id}"),
                None => own,
            };
            format!(
                "{what}: `shardlake partitions {container}` shows those there are; splits and merges give new ids"
            )
        }
        _ if own.is_empty() || status.is_server_error() => {
            format!("{own} ({status})").trim_start().to_owned()
        }
        _ => own,
    }
}

/// `database/container` of a path in a container.
fn container_of(path: &str) -> Option<String> {
    let mut segments = path.split('/').skip_while(|segment| *segment != "dbs").skip(1);
    let (database, _colls, container) = (segments.next()?, segments.next()?, segments.next()?);
    let decoded = |segment| percent_decode_str(segment).decode_utf8_lossy().into_owned();
    Some(format!("{}/{}", decoded(database), decoded(container)))
}

/// The id in "partition key range 9 does not exist …".
fn range_in(sentence: &str) -> Option<u32> {
    sentence.split("partition key range ").nth(1)?.split(' ').next()?.parse().ok()
}

/// Ours are no sentences of their own in a line that begins with the program's name.
fn beginning_small(text: &str) -> String {
    let text = text.trim_end_matches('.');
    match text.strip_prefix("There ") {
        Some(rest) => format!("there {rest}"),
        None => text.to_owned(),
    }
}

/// `1 item`, `2 items`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", crate::number_text::thousands(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_sentences_become_what_is_wrong_and_what_to_do() {
        let path = "/_shardlake/v1/dbs/my%20shop/colls/orders/partitions/9/split";
        for (status, sentence, words) in [
            (
                404,
                "Owner resource does not exist. There is no container 'x'",
                "there is no container 'x': `shardlake partitions` shows",
            ),
            (
                410,
                "The requested resource is no longer available. partition key range 9 does not exist (any more): refresh the partition key ranges",
                "there is no partition 9: `shardlake partitions my shop/orders` shows",
            ),
            (400, "there is no shard 9", "there is no shard 9"),
            (429, "Request rate is large. try again", "try again"),
            (503, "storage refuses writes", "storage refuses writes (503 Service Unavailable)"),
            (409, "", "(409 Conflict)"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let plain = of_refusal(status, sentence, path);
            assert!(plain.starts_with(words), "{plain}");
        }
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(
            [counted(0, "item"), counted(1, "item"), counted(1_200, "item")],
            ["0 items", "1 item", "1,200 items"]
        );
    }
}
