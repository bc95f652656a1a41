//! Headers of a successful item operation, the responses that have to be fastest.
//!
//! Hashing two dozen names and allocating as many values would cost more than reading the item. So a map with every name in
//! place is made once; a response copies it and overwrites the values in order, each a slice of one shared buffer.

use bytes::Bytes;
use http::header::{CONTENT_LOCATION, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};
use shardlake_account::ContainerHandle;
use shardlake_model::ReplyMeta;
use shardlake_stdx::Guid;

use crate::header_names;
use crate::header_text::{
    Echo, push_alt_content_path, push_charge, push_location, push_milliseconds, push_number,
};
use crate::session::push_token;

/// Names in the order in which [`ItemHeaders::render`] writes their values.
const NAMES: usize = 17;

fn names() -> [HeaderName; NAMES] {
    [
        &header_names::REQUEST_CHARGE,
        &header_names::ACTIVITY_ID,
        &header_names::TRANSPORT_REQUEST_ID,
        &header_names::REQUEST_DURATION,
        &CONTENT_LOCATION,
        &header_names::CONTENT_PATH,
        &header_names::ALT_CONTENT_PATH,
        &header_names::RANGE_ID,
        &header_names::SESSION_TOKEN,
        &ETAG,
        &header_names::LSN,
        &header_names::LOCAL_LSN,
        &header_names::QUORUM_ACKED_LSN,
        &header_names::QUORUM_ACKED_LOCAL_LSN,
        &header_names::GLOBAL_COMMITTED_LSN,
        &header_names::ITEM_LSN,
        &header_names::ITEM_LOCAL_LSN,
    ]
    .map(HeaderName::clone)
}

pub(crate) struct ItemHeaders {
    /// First the names above, then the headers that never change.
    template: HeaderMap,
}

impl ItemHeaders {
    pub fn new(constant: &HeaderMap, capacity: usize) -> ItemHeaders {
        let mut template = HeaderMap::with_capacity(capacity);
        for name in names() {
            template.insert(name, HeaderValue::from_static(""));
        }
        for (name, value) in constant {
            template.insert(name.clone(), value.clone());
        }
        template.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // The map promises no order; ours rests on it keeping that of insertion, so it is checked where it is made.
        assert!(template.keys().take(NAMES).eq(&names()), "a header map iterates in the order of insertion");
        ItemHeaders { template }
    }

    /// `request_id` counts requests; `meta` must name its range.
    pub fn render(
        &self,
        meta: &ReplyMeta,
        container: &ContainerHandle,
        etag: Guid,
        echo: Echo<'_>,
        request_id: u64,
    ) -> HeaderMap {
        let range_id = meta.range_id.expect("an item lies in a range");
        let mut text = Vec::with_capacity(512);
        let mut ends = [0; NAMES];
        let mut end = 0;
        let mut mark = |text: &Vec<u8>| {
            ends[end] = text.len();
            end += 1;
        };
        push_charge(&mut text, meta.charge_centi);
        mark(&text);
        text.extend_from_slice(&echo.activity_id.to_ascii());
        mark(&text);
        push_number(&mut text, request_id);
        mark(&text);
        push_milliseconds(&mut text, echo.duration);
        mark(&text);
        push_location(&mut text, echo);
        mark(&text);
        text.extend_from_slice(container.rid_text().as_bytes());
        mark(&text);
        push_alt_content_path(&mut text, container.alt_link());
        mark(&text);
        push_number(&mut text, u64::from(range_id));
        mark(&text);
        push_token(&mut text, range_id, meta.session_version, meta.lsn);
        mark(&text);
        text.push(b'"');
        text.extend_from_slice(&etag.to_ascii());
        text.push(b'"');
        mark(&text);
        push_number(&mut text, meta.lsn);
        mark(&text);
        push_number(&mut text, meta.item_lsn);
        mark(&text);

        let text = Bytes::from(text);
        let value = |index: usize| {
            let start = if index == 0 { 0 } else { ends[index - 1] };
            HeaderValue::from_maybe_shared(text.slice(start..ends[index]))
                .expect("texts above are visible ASCII")
        };
        let mut headers = self.template.clone();
        let mut slots = headers.values_mut();
        let mut set = |value: HeaderValue| *slots.next().expect("the template has a slot for each") = value;
        (0..10).for_each(|index| set(value(index)));
        let (lsn, item_lsn) = (value(10), value(11));
        (0..5).for_each(|_| set(lsn.clone()));
        (0..2).for_each(|_| set(item_lsn.clone()));
        headers
    }
}
