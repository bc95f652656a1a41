//! The methods of a script's collection: each checks its arguments, hands the call on, and returns whether it
//! was accepted.

use std::rc::Rc;

use rquickjs::function::Rest;
use rquickjs::{Ctx, Function, Object, Persistent, Result, Value};

use super::arguments::{Arguments, document_text, query_text};
use super::properties::put;
use super::sight;
use super::state::{Callback, Model};
use crate::store::{StoreOperation, StoreRequest};
use crate::worker::engine::Host;

const DOCUMENT: &str = "the link of the document";
const COLLECTION: &str = "the link of the collection";

type Method = for<'js> fn(&Model, Arguments<'js>) -> Result<bool>;

const METHODS: [(&str, Method); 7] = [
    ("readDocument", read_document),
    ("readDocuments", read_documents),
    ("queryDocuments", query_documents),
    ("createDocument", |model, arguments| store(model, StoreOperation::CreateDocument, arguments)),
    ("upsertDocument", |model, arguments| store(model, StoreOperation::UpsertDocument, arguments)),
    ("replaceDocument", replace_document),
    ("deleteDocument", delete_document),
];

pub(super) fn collection<'js>(ctx: &Ctx<'js>, host: &Host, model: &Rc<Model>) -> Result<Object<'js>> {
    let collection = Object::new(ctx.clone())?;
    put(&collection, "getSelfLink", self_link(ctx, host, model)?)?;
    let of = Rc::clone(model);
    put(&collection, "getAltLink", host.function(ctx, move || of.links.borrow().alt.clone())?)?;
    for (name, method) in METHODS {
        put(&collection, name, function(ctx, host, model, method)?)?;
    }
    Ok(collection)
}

pub(super) fn self_link<'js>(ctx: &Ctx<'js>, host: &Host, model: &Rc<Model>) -> Result<Function<'js>> {
    let model = Rc::clone(model);
    host.function(ctx, move || model.links.borrow().own.clone())
}

pub(super) fn query_function<'js>(ctx: &Ctx<'js>, host: &Host, model: &Rc<Model>) -> Result<Function<'js>> {
    function(ctx, host, model, query_documents)
}

fn function<'js>(ctx: &Ctx<'js>, host: &Host, model: &Rc<Model>, method: Method) -> Result<Function<'js>> {
    let model = Rc::clone(model);
    let function = move |ctx: Ctx<'js>, given: Rest<Value<'js>>| method(&model, Arguments::new(ctx, given.0));
    host.function(ctx, function)
}

fn read_document(model: &Model, mut arguments: Arguments<'_>) -> Result<bool> {
    let link = arguments.text(DOCUMENT)?;
    let (options, callback) = arguments.options_and_callback()?;
    let mut request = request(StoreOperation::ReadDocument, link);
    request.if_none_match = options.text("ifNoneMatch")?;
    Ok(submit(model, &arguments, request, callback))
}

fn read_documents(model: &Model, mut arguments: Arguments<'_>) -> Result<bool> {
    let link = arguments.text(COLLECTION)?;
    page(model, request(StoreOperation::ReadDocuments, link), arguments)
}

fn query_documents(model: &Model, mut arguments: Arguments<'_>) -> Result<bool> {
    let mut request = request(StoreOperation::QueryDocuments, arguments.text(COLLECTION)?);
    let query = arguments.next();
    request.body = Some(query_text(arguments.ctx(), query)?);
    page(model, request, arguments)
}

fn page(model: &Model, mut request: StoreRequest, mut arguments: Arguments<'_>) -> Result<bool> {
    let (options, callback) = arguments.options_and_callback()?;
    // The options have no effect: any query may scan, and its order is exact.
    options.flag("enableScan")?;
    options.flag("enableLowPrecisionOrderBy")?;
    request.page_size = options.page_size()?;
    request.continuation = options.text("continuation")?;
    Ok(submit(model, &arguments, request, callback))
}

/// Create and upsert.
fn store(model: &Model, operation: StoreOperation, mut arguments: Arguments<'_>) -> Result<bool> {
    let mut request = request(operation, arguments.text(COLLECTION)?);
    let body = arguments.next();
    let (options, callback) = arguments.options_and_callback()?;
    options.check_index_action()?;
    request.disables_id_generation = options.flag("disableAutomaticIdGeneration")?;
    request.if_match = options.text("etag")?;
    request.body = Some(document_text(arguments.ctx(), body, request.disables_id_generation)?);
    Ok(submit(model, &arguments, request, callback))
}

fn replace_document(model: &Model, mut arguments: Arguments<'_>) -> Result<bool> {
    let mut request = request(StoreOperation::ReplaceDocument, arguments.text(DOCUMENT)?);
    let body = arguments.next();
    let (options, callback) = arguments.options_and_callback()?;
    options.check_index_action()?;
    request.if_match = options.text("etag")?;
    request.body = Some(document_text(arguments.ctx(), body, true)?);
    Ok(submit(model, &arguments, request, callback))
}

fn delete_document(model: &Model, mut arguments: Arguments<'_>) -> Result<bool> {
    let mut request = request(StoreOperation::DeleteDocument, arguments.text(DOCUMENT)?);
    let (options, callback) = arguments.options_and_callback()?;
    options.check_absent("partitionKeyContent")?;
    request.if_match = options.text("etag")?;
    Ok(submit(model, &arguments, request, callback))
}

fn request(operation: StoreOperation, link: String) -> StoreRequest {
    StoreRequest {
        operation,
        link,
        body: None,
        if_match: None,
        if_none_match: None,
        page_size: None,
        continuation: None,
        disables_id_generation: false,
        wants_body: false,
    }
}

fn submit<'js>(
    model: &Model,
    arguments: &Arguments<'js>,
    mut request: StoreRequest,
    callback: Option<Function<'js>>,
) -> bool {
    let has_resource = request.operation != StoreOperation::DeleteDocument;
    let sees = |callback| sight::sees_resource(arguments.ctx(), model, callback);
    request.wants_body = has_resource && callback.as_ref().is_some_and(sees);
    let accepted = model.calls.borrow_mut().as_mut().is_some_and(|calls| calls.submit(request));
    if accepted {
        let function = callback.map(|callback| Persistent::save(arguments.ctx(), callback));
        model.callbacks.borrow_mut().push_back(Callback { function, has_resource });
    }
    accepted
}
