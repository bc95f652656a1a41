//! The methods of a container: arguments are checked, reads are queued, writes are kept.

use rquickjs::{Atom, Ctx, Object, Persistent, Promise, Result, Value};
use shardlake_document::{Body, DocumentError, ParseLimits, parse_document};
use shardlake_model::Limits;

use super::containers::Container;
use super::keys::{Extent, key_of_item, key_text};
use super::reads::{Reads, Waiting, Wanted};
use super::state::{Model, refused};
use super::writes::{ItemName, Refusal, View, Write};
use crate::function_store::{
    FunctionQuery, FunctionRead, FunctionWriteKind, FunctionWriteOrder, QUERY_ROWS_MAX, patch_operations,
};
use crate::protocol::FunctionAsk;
use crate::worker::model::{Arguments, is_nothing, kind, refuse, throw};

/// Bytes of a query's text and parameters.
const QUERY_BYTES_MAX: usize = 512 << 10;
const ETAG_BYTES_MAX: usize = 1 << 10;
const TOO_LARGE: u16 = 413;

/// One call of a method; `place` is that of the container.
pub(super) fn call<'js>(
    model: &Model,
    ctx: &Ctx<'js>,
    place: usize,
    method: &str,
    given: Vec<Value<'js>>,
) -> Result<Value<'js>> {
    let containers = model.containers.borrow();
    let container = containers.get(place).ok_or_else(|| refuse(ctx, "there is no such container"))?;
    let call = Call { model, ctx, place, container };
    let mut arguments = Arguments::new(ctx.clone(), given);
    match method {
        "read" => return call.read(&mut arguments).map(Promise::into_value),
        "query" => return call.query(&mut arguments).map(Promise::into_value),
        _ => container.check_write(ctx)?,
    }
    match method {
        "create" | "upsert" | "replace" => call.write_item(method, &mut arguments),
        "patch" => call.patch(&mut arguments),
        _ => call.delete(&mut arguments),
    }?;
    Ok(Value::new_undefined(ctx.clone()))
}

struct Call<'a, 'js> {
    model: &'a Model,
    ctx: &'a Ctx<'js>,
    place: usize,
    container: &'a Container,
}

impl<'js> Call<'_, 'js> {
    fn read(&self, arguments: &mut Arguments<'js>) -> Result<Promise<'js>> {
        let name = self.name(arguments)?;
        self.reads(Reads::count)?;
        let view = self.model.writes.borrow().view(&name);
        let patches = match view {
            View::Written(item) => return settled(self.ctx, item),
            View::Stored(patches) => patches,
        };
        let read = FunctionRead {
            container: self.container.name.clone(),
            id: name.id.clone(),
            partition_key: name.partition_key.clone(),
        };
        self.ask(FunctionAsk::Read(read), Wanted::Item(name, patches))
    }

    fn ask(&self, ask: FunctionAsk, wanted: Wanted) -> Result<Promise<'js>> {
        self.reads(|reads| reads.check_room(&ask))?;
        let (promise, resolve, reject) = self.ctx.promise()?;
        let save = |function| Persistent::save(self.ctx, function);
        let waiting = Waiting { wanted, resolve: save(resolve), reject: save(reject) };
        self.reads(|reads| {
            reads.ask(ask, waiting);
            Ok(())
        })?;
        Ok(promise)
    }

    /// Work on the reads. It runs no code of the function, which could come back here.
    fn reads<T>(&self, work: impl FnOnce(&mut Reads) -> std::result::Result<T, Refusal>) -> Result<T> {
        let worked = self.model.reads.borrow_mut().as_mut().map(work);
        worked.ok_or(rquickjs::Error::Unknown)?.map_err(|refusal| refused(self.ctx, &refusal))
    }

    fn query(&self, arguments: &mut Arguments<'js>) -> Result<Promise<'js>> {
        let text = arguments.text("a query")?;
        let parameters = self.parameters(&arguments.next())?;
        let options = Options::of(self.ctx, arguments.next(), &["partitionKey", "max"])?;
        let partition_key = match options.partition_key()? {
            Some(key) => Some(key_text(self.ctx, &key, self.container, Extent::Prefix)?),
            None => None,
        };
        let rows_max = options.rows_max()?;
        if text.len() + parameters.len() > QUERY_BYTES_MAX {
            let message = format!("a query and its parameters have at most {QUERY_BYTES_MAX} bytes");
            return Err(throw(self.ctx, TOO_LARGE, &message));
        }
        let query = FunctionQuery {
            container: self.container.name.clone(),
            text,
            parameters,
            partition_key,
            rows_max: rows_max.unwrap_or(QUERY_ROWS_MAX + 1),
        };
        self.reads(Reads::count)?;
        self.ask(FunctionAsk::Query(query), Wanted::Rows { rows_max })
    }

    fn parameters(&self, given: &Value<'js>) -> Result<String> {
        if is_nothing(given) {
            return Ok("{}".to_owned());
        }
        let object = given.as_object().filter(|_| !given.is_array() && !given.is_function());
        let Some(object) = object else {
            let message = format!(
                "the parameters of a query are an object, {{\"@name\": value}}, and not {}",
                kind(given)
            );
            return Err(refuse(self.ctx, message));
        };
        for name in object.keys::<String>() {
            let name = name?;
            if !name.starts_with('@') {
                let message = format!("the name of a query's parameter begins with '@', unlike '{name}'");
                return Err(refuse(self.ctx, message));
            }
        }
        self.json(given.clone(), "the parameters of a query")
    }

    fn write_item(&self, method: &str, arguments: &mut Arguments<'js>) -> Result<()> {
        let item = arguments.next();
        let if_match = self.if_match(arguments.next())?;
        if !item.is_object() || item.is_array() || item.is_function() {
            return Err(refuse(
                self.ctx,
                format!("{method} takes an item, which is an object, and not {}", kind(&item)),
            ));
        }
        if method == "create" && if_match.is_some() {
            let message = "create takes no 'ifMatch': an item that does not exist has no etag; use replace";
            return Err(refuse(self.ctx, message));
        }
        let item = self.json(item, "an item")?;
        let body = self.body(&item)?;
        let Some(id) = body.raw().get("id").and_then(text_of).filter(|id| !id.is_empty()) else {
            return Err(refuse(self.ctx, "an item needs an 'id' that is a text and not empty"));
        };
        let partition_key = key_of_item(body.raw(), &self.container.key_paths);
        let name = ItemName { container: self.place, partition_key, id };
        let (write, kind) = match method {
            "create" => (Write::Create(body), FunctionWriteKind::Create { item }),
            "upsert" => (Write::Upsert(body), FunctionWriteKind::Upsert { item }),
            _ => (Write::Replace(body), FunctionWriteKind::Replace { item }),
        };
        self.add(name, write, kind, if_match)
    }

    fn patch(&self, arguments: &mut Arguments<'js>) -> Result<()> {
        let name = self.name(arguments)?;
        let operations = arguments.next();
        let if_match = self.if_match(arguments.next())?;
        if !operations.is_array() {
            let message = format!("patch takes an array of operations, and not {}", kind(&operations));
            return Err(refuse(self.ctx, message));
        }
        let operations = self.json(operations, "a patch")?;
        let parsed = patch_operations(&operations, &self.container.key_paths, &Limits::default());
        let parsed = parsed.map_err(|error| refuse(self.ctx, error.message()))?;
        let (id, partition_key) = (name.id.clone(), name.partition_key.clone());
        let kind = FunctionWriteKind::Patch { id, partition_key, operations };
        self.add(name, Write::Patch(parsed), kind, if_match)
    }

    fn delete(&self, arguments: &mut Arguments<'js>) -> Result<()> {
        let name = self.name(arguments)?;
        let if_match = self.if_match(arguments.next())?;
        let kind =
            FunctionWriteKind::Delete { id: name.id.clone(), partition_key: name.partition_key.clone() };
        self.add(name, Write::Delete, kind, if_match)
    }

    fn add(
        &self,
        name: ItemName,
        write: Write,
        kind: FunctionWriteKind,
        if_match: Option<String>,
    ) -> Result<()> {
        let order = FunctionWriteOrder { container: self.container.name.clone(), kind, if_match };
        let added = self.model.writes.borrow_mut().add(name, write, order);
        added.map_err(|refusal| refused(self.ctx, &refusal))
    }

    /// The first two arguments of reads, patches and deletes.
    fn name(&self, arguments: &mut Arguments<'js>) -> Result<ItemName> {
        let id = arguments.text("the id of an item")?;
        let bytes_max = Limits::default().item_id_bytes_max;
        if id.len() > bytes_max {
            return Err(refuse(self.ctx, format!("the id of an item has at most {bytes_max} bytes")));
        }
        let partition_key = key_text(self.ctx, &arguments.next(), self.container, Extent::Whole)?;
        Ok(ItemName { container: self.place, partition_key, id })
    }

    fn if_match(&self, options: Value<'js>) -> Result<Option<String>> {
        let Some(etag) = Options::of(self.ctx, options, &["ifMatch"])?.get("ifMatch")? else {
            return Ok(None);
        };
        match etag.as_string() {
            Some(etag) => match etag.to_string()? {
                etag if etag.len() <= ETAG_BYTES_MAX => Ok(Some(etag)),
                _ => Err(refuse(self.ctx, "'ifMatch' is longer than any etag")),
            },
            None => Err(refuse(
                self.ctx,
                format!("'ifMatch' is an etag, which is a text, and not {}", kind(&etag)),
            )),
        }
    }

    fn body(&self, item: &str) -> Result<Body> {
        let limits = ParseLimits::of_items(&Limits::default());
        parse_document(item.as_bytes(), &limits).map_err(|error| {
            let number = match error {
                DocumentError::TooLarge { .. } => TOO_LARGE,
                _ => 400,
            };
            throw(self.ctx, number, &format!("the item cannot be stored: {error}"))
        })
    }

    fn json(&self, value: Value<'js>, subject: &str) -> Result<String> {
        match self.ctx.json_stringify(value)? {
            Some(json) => json.to_string(),
            None => {
                Err(refuse(self.ctx, format!("{subject} has no JSON form: its 'toJSON' returned nothing")))
            }
        }
    }
}

/// The options of a method. Unknown ones are refused: a condition with a mistake in its name would be lost.
struct Options<'js> {
    ctx: Ctx<'js>,
    object: Option<Object<'js>>,
}

impl<'js> Options<'js> {
    fn of(ctx: &Ctx<'js>, given: Value<'js>, known: &[&str]) -> Result<Options<'js>> {
        if is_nothing(&given) {
            return Ok(Options { ctx: ctx.clone(), object: None });
        }
        let is_object = given.is_object() && !given.is_array() && !given.is_function();
        let Some(object) = given.as_object().filter(|_| is_object) else {
            return Err(refuse(ctx, format!("options are an object, and not {}", kind(&given))));
        };
        for name in object.keys::<Atom>() {
            let name = name?.to_string()?;
            if !known.contains(&name.as_str()) {
                let known = known.join("' and '");
                return Err(refuse(ctx, format!("there is no option '{name}': the options are '{known}'")));
            }
        }
        Ok(Options { ctx: ctx.clone(), object: Some(object.clone()) })
    }

    fn get(&self, name: &str) -> Result<Option<Value<'js>>> {
        let Some(object) = &self.object else { return Ok(None) };
        let value: Value = object.get(name)?;
        Ok(if is_nothing(&value) { None } else { Some(value) })
    }

    /// The key may be null. A key that is undefined by mistake would ask the whole container.
    fn partition_key(&self) -> Result<Option<Value<'js>>> {
        let name = "partitionKey";
        let Some(object) = &self.object else { return Ok(None) };
        if !object.contains_key(name)? {
            return Ok(None);
        }
        let value: Value = object.get(name)?;
        if value.is_undefined() {
            let message = "'partitionKey' is undefined: leave it out to query the whole container, or give \
                           [undefined] for items without a value";
            return Err(refuse(&self.ctx, message));
        }
        Ok(Some(value))
    }

    fn rows_max(&self) -> Result<Option<u32>> {
        let Some(value) = self.get("max")? else { return Ok(None) };
        let whole = value.as_number().filter(|rows| rows.fract() == 0.0);
        match whole {
            Some(rows) if (1.0..=f64::from(QUERY_ROWS_MAX)).contains(&rows) => Ok(Some(rows as u32)),
            _ => Err(refuse(&self.ctx, format!("'max' is a whole number from 1 to {QUERY_ROWS_MAX}"))),
        }
    }
}

/// A promise that has its value: JSON text, or undefined.
fn settled<'js>(ctx: &Ctx<'js>, item: Option<String>) -> Result<Promise<'js>> {
    let (promise, resolve, _) = ctx.promise()?;
    let value = match item {
        Some(json) => ctx.json_parse(json)?,
        None => Value::new_undefined(ctx.clone()),
    };
    resolve.call::<_, ()>((value,))?;
    Ok(promise)
}

fn text_of(value: shardlake_document::RawValue<'_>) -> Option<String> {
    match value {
        shardlake_document::RawValue::String(text) => Some(text.to_owned()),
        _ => None,
    }
}
