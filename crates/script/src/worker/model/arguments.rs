//! Arguments of the object model's methods, read with care: every property may be a getter, every object a
//! proxy, and mistakes are thrown as errors of the model.

use rquickjs::{Ctx, Error, Exception, FromAtom, Function, Object, Result, Value};

pub(super) const BAD_REQUEST: u16 = 400;

/// Throws `{number, body}`, which is an error too.
pub(in crate::worker) fn throw(ctx: &Ctx<'_>, number: u16, message: &str) -> Error {
    match failure(ctx, number, message) {
        Ok(failure) => failure.throw(),
        Err(error) => error,
    }
}

pub(in crate::worker) fn failure<'js>(ctx: &Ctx<'js>, number: u16, message: &str) -> Result<Exception<'js>> {
    let failure = Exception::from_message(ctx.clone(), message)?;
    failure.as_object().set("number", number)?;
    failure.as_object().set("body", message)?;
    Ok(failure)
}

pub(in crate::worker) fn refuse(ctx: &Ctx<'_>, message: impl AsRef<str>) -> Error {
    throw(ctx, BAD_REQUEST, message.as_ref())
}

pub(super) fn unsupported(ctx: &Ctx<'_>, what: &str) -> Error {
    throw(ctx, BAD_REQUEST, &format!("{what} not supported"))
}

/// The arguments of one call, from left to right.
pub(in crate::worker) struct Arguments<'js> {
    ctx: Ctx<'js>,
    values: std::vec::IntoIter<Value<'js>>,
}

impl<'js> Arguments<'js> {
    pub(in crate::worker) fn new(ctx: Ctx<'js>, values: Vec<Value<'js>>) -> Arguments<'js> {
        Arguments { ctx, values: values.into_iter() }
    }

    pub(super) fn ctx(&self) -> &Ctx<'js> {
        &self.ctx
    }

    pub(in crate::worker) fn next(&mut self) -> Value<'js> {
        self.values.next().unwrap_or_else(|| Value::new_undefined(self.ctx.clone()))
    }

    /// A string that is not empty.
    pub(in crate::worker) fn text(&mut self, what: &str) -> Result<String> {
        let value = self.next();
        match value.as_string() {
            Some(text) => match text.to_string() {
                Ok(text) if text.is_empty() => Err(refuse(&self.ctx, format!("{what} must not be empty"))),
                Err(Error::Utf8(_)) => Err(refuse(&self.ctx, format!("{what} is no well-formed text"))),
                text => text,
            },
            None => Err(refuse(&self.ctx, format!("{what} must be a string, and is {}", kind(&value)))),
        }
    }

    /// The last two arguments of every method: options may be left out, and the callback too.
    pub(super) fn options_and_callback(&mut self) -> Result<(Options<'js>, Option<Function<'js>>)> {
        let (first, second) = (self.next(), self.next());
        let (options, callback) =
            if first.is_function() && second.is_undefined() { (second, first) } else { (first, second) };
        let object = match options {
            none if is_nothing(&none) => None,
            options => match options.as_object() {
                Some(object) if !options.is_function() => Some(object.clone()),
                _ => {
                    return Err(refuse(
                        &self.ctx,
                        format!("options must be an object, and are {}", kind(&options)),
                    ));
                }
            },
        };
        let callback = match callback {
            none if is_nothing(&none) => None,
            callback => match callback.as_function() {
                Some(function) => Some(function.clone()),
                None => {
                    let message = format!("the callback must be a function, and is {}", kind(&callback));
                    return Err(refuse(&self.ctx, message));
                }
            },
        };
        Ok((Options { ctx: self.ctx.clone(), object }, callback))
    }
}

pub(super) struct Options<'js> {
    ctx: Ctx<'js>,
    object: Option<Object<'js>>,
}

impl<'js> Options<'js> {
    fn value(&self, name: &str) -> Result<Option<Value<'js>>> {
        let Some(object) = &self.object else { return Ok(None) };
        let value: Value = object.get(name)?;
        Ok(if is_nothing(&value) { None } else { Some(value) })
    }

    fn wrong<T>(&self, name: &str, wanted: &str, value: &Value<'_>) -> Result<T> {
        Err(refuse(&self.ctx, format!("option '{name}' must be {wanted}, and is {}", kind(value))))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.as_string() {
            Some(text) => match text.to_string() {
                Err(Error::Utf8(_)) => self.wrong(name, "well-formed text", &value),
                text => text.map(Some),
            },
            None => self.wrong(name, "a string", &value),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        let Some(value) = self.value(name)? else { return Ok(false) };
        value.as_bool().map_or_else(|| self.wrong(name, "true or false", &value), Ok)
    }

    /// Items of a page: -1 leaves the number to the store.
    pub(super) fn page_size(&self) -> Result<Option<i64>> {
        let name = "pageSize";
        let Some(value) = self.value(name)? else { return Ok(None) };
        let size = value.as_number().filter(|size| size.fract() == 0.0 && *size <= f64::from(i32::MAX));
        match size {
            Some(size) if size == -1.0 || size >= 1.0 => Ok(Some(size as i64)),
            _ if value.is_number() => {
                Err(refuse(&self.ctx, format!("option '{name}' must be -1 or a whole number above 0")))
            }
            _ => self.wrong(name, "a number", &value),
        }
    }

    /// The former option to index a single document; only its default is accepted.
    pub(super) fn check_index_action(&self) -> Result<()> {
        match self.text("indexAction")?.as_deref() {
            None | Some("default") => Ok(()),
            Some(action @ ("include" | "exclude")) => {
                Err(unsupported(&self.ctx, &format!("option 'indexAction' with '{action}' is")))
            }
            Some(_) => Err(refuse(&self.ctx, "option 'indexAction' must be default, include or exclude")),
        }
    }

    pub(super) fn check_absent(&self, name: &str) -> Result<()> {
        match self.value(name)? {
            None => Ok(()),
            Some(_) => Err(unsupported(&self.ctx, &format!("option '{name}' is"))),
        }
    }
}

/// A document as JSON text. The script's object is not changed; an empty id is left out, so that an id is
/// generated.
pub(super) fn document_text<'js>(ctx: &Ctx<'js>, body: Value<'js>, keeps_id: bool) -> Result<String> {
    let text = body.as_string().map(|text| text.to_string()).transpose()?;
    let value = match &text {
        Some(text) => ctx.json_parse(text.as_str())?,
        None => body,
    };
    let object = match value.as_object() {
        Some(object) if !value.is_array() && !value.is_function() => object,
        _ => {
            let message = format!("a document must be an object or the text of one, and is {}", kind(&value));
            return Err(refuse(ctx, message));
        }
    };
    let lacks_id = !keeps_id && object.contains_key("id")? && is_falsy(&object.get("id")?);
    match text {
        Some(text) if !lacks_id => Ok(text),
        _ if lacks_id => json(ctx, without_id(ctx, object)?.into_value()),
        _ => json(ctx, value),
    }
}

fn without_id<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Result<Object<'js>> {
    let copy = Object::new(ctx.clone())?;
    for property in object.props::<rquickjs::Atom, Value>() {
        let (name, value) = property?;
        if String::from_atom(name.clone())? != "id" {
            copy.set(name, value)?;
        }
    }
    Ok(copy)
}

/// A query as JSON text: a string, or an object of its text and its parameters.
pub(super) fn query_text<'js>(ctx: &Ctx<'js>, query: Value<'js>) -> Result<String> {
    if query.is_string() {
        return json(ctx, query);
    }
    let Some(given) = query.as_object().filter(|_| !query.is_function()) else {
        let message = format!(
            "a query must be a string or an object with query and parameters, and is {}",
            kind(&query)
        );
        return Err(refuse(ctx, message));
    };
    let (text, parameters): (Value, Value) = (given.get("query")?, given.get("parameters")?);
    if !text.is_string() {
        return Err(refuse(ctx, "a query object must have its text in 'query'"));
    }
    let object = Object::new(ctx.clone())?;
    object.set("query", text)?;
    if !is_nothing(&parameters) {
        if !parameters.is_array() {
            return Err(refuse(ctx, "the 'parameters' of a query must be an array"));
        }
        object.set("parameters", parameters)?;
    }
    json(ctx, object.into_value())
}

fn json<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> Result<String> {
    match ctx.json_stringify(value)? {
        Some(json) => json.to_string(),
        None => Err(refuse(ctx, "a document must be an object, and its toJSON made nothing of it")),
    }
}

pub(in crate::worker) fn is_nothing(value: &Value<'_>) -> bool {
    value.is_undefined() || value.is_null()
}

fn is_falsy(value: &Value<'_>) -> bool {
    is_nothing(value)
        || value.as_bool() == Some(false)
        || value.as_number().is_some_and(|number| number == 0.0 || number.is_nan())
        || value.as_string().is_some_and(|text| text.to_string().is_ok_and(|text| text.is_empty()))
}

/// The kind of a value, for messages.
pub(in crate::worker) fn kind(value: &Value<'_>) -> &'static str {
    match value {
        value if value.is_undefined() => "undefined",
        value if value.is_null() => "null",
        value if value.is_bool() => "a boolean",
        value if value.is_number() || value.is_big_int() => "a number",
        value if value.is_string() => "a string",
        value if value.is_array() => "an array",
        value if value.is_function() => "a function",
        value if value.is_symbol() => "a symbol",
        _ => "an object",
    }
}
