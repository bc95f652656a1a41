//! The explorer: the pages of `/_explorer/`, which are files in the program.
//!
//! | path | answer |
//! |---|---|
//! | `/_explorer` | 308 to `/_explorer/` |
//! | `/_explorer/assets/{build}/…` | a file that never changes, as its build is in the path; 404 for another build's |
//! | any other below, of a browser | `index.html`, with the build filled in; the page reads its own path |
//!
//! | file | responsibility |
//! |---|---|
//! | `assets.rs` | the files, their build, and their compressed forms |
//! | `headers.rs` | headers for browsers: content security policy and the like; conditional requests |
//! | `host.rs` | which connections are a secure context, without which a browser signs nothing |
//!
//! It answers without a key and knows nothing of the account: the pages send signed requests for their data, like any other
//! client. It sets no cookies and no `Access-Control-*` header. Requests here are not counted among those for data.

mod assets;
mod headers;
mod host;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use shardlake_gateway_nosql::{AnswerBody, Scheme};

use assets::{Assets, Bundle};
use headers::Sent;

use crate::answers::{Reply, failure};
use crate::config::Config;

use crate::settings::ExplorerMode;

pub use host::ROOT;
const PAGE: &str = "index.html";
/// Folder of assets, in the explorer's files and in its paths.
const ASSETS: &str = "assets/";

/// The explorer's pages, if they are served.
#[derive(Debug)]
pub struct Explorer {
    /// `None` where it is switched off.
    assets: Option<Assets>,
}

impl Explorer {
    pub fn new(config: &Config) -> Explorer {
        Explorer { assets: is_on(config).then(Assets::new) }
    }

    #[cfg(test)]
    pub fn off() -> Explorer {
        Explorer { assets: None }
    }

    /// Whether there is something to lead a browser to.
    pub fn is_served(&self) -> bool {
        self.assets.as_ref().is_some_and(|assets| assets.bundle().file(PAGE).is_some())
    }

    /// Whether a path is the explorer's.
    pub fn owns(path: &str) -> bool {
        path == "/_explorer" || path.starts_with(ROOT)
    }

    pub fn answer<B>(&self, request: &Request<B>, scheme: Scheme) -> Reply {
        let Some(assets) = &self.assets else {
            return not_found("the explorer is switched off: start the server with --explorer on");
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut reply =
                failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is defined here");
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        let Some(rest) = request.uri().path().strip_prefix(ROOT) else {
            return redirect(StatusCode::PERMANENT_REDIRECT);
        };
        let bundle = assets.bundle();
        match rest.strip_prefix(ASSETS) {
            Some(asset) => Self::asset(request, &bundle, asset),
            None if rest == PAGE || takes_html(request) => Self::page(request, &bundle, scheme),
            None => not_found("the explorer has no file of this name: ask for text/html to get its page"),
        }
    }

    /// `asset` is the build and the file's path in the folder of assets.
    fn asset<B>(request: &Request<B>, bundle: &Bundle, asset: &str) -> Reply {
        let name = asset.strip_prefix(bundle.build()).and_then(|rest| rest.strip_prefix('/'));
        match name.and_then(|name| bundle.file(&format!("{ASSETS}{name}"))) {
            Some(file) => headers::file(request, bundle.build(), Sent::Forever(file)),
            None => not_found("this server has another build of the explorer: load the page again"),
        }
    }

    fn page<B>(request: &Request<B>, bundle: &Bundle, scheme: Scheme) -> Reply {
        let authority = authority(request);
        if !host::is_secure_context(scheme, authority) {
            return headers::notice(host::notice(authority));
        }
        match bundle.file(PAGE) {
            Some(file) => headers::file(request, bundle.build(), Sent::Page(file)),
            None => not_found("this server was built without its explorer"),
        }
    }
}

/// Whether its pages are to be served.
pub fn is_on(config: &Config) -> bool {
    match config.explorer {
        ExplorerMode::On => true,
        ExplorerMode::Off => false,
        ExplorerMode::Auto => config.may_have_well_known_key(),
    }
}

/// A redirect to the explorer.
pub fn redirect(status: StatusCode) -> Reply {
    let mut reply = Response::new(AnswerBody::from(Bytes::new()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(LOCATION, HeaderValue::from_static(ROOT));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

/// Whether the client accepts HTML, as browsers do when a page is opened.
pub fn takes_html<B>(request: &Request<B>) -> bool {
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.trim().starts_with("text/html"))
}

/// The authority by which the request calls the server. It has passed `host_check.rs`.
fn authority<B>(request: &Request<B>) -> &str {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    request.uri().authority().map(|authority| authority.as_str()).or(host).unwrap_or("localhost")
}

fn not_found(message: &str) -> Reply {
    failure(StatusCode::NOT_FOUND, "NotFound", message)
}
