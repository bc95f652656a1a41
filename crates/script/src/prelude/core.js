// The object model of stored procedures and triggers. Evaluates to a function that gets the host's functions and the
// invocation, puts the model into the global object, and returns what the host calls.
//
// Everything used after the script has started is captured first: what a script does to shared objects
// harms only itself, but its errors should still be the right ones.
(function (host, config) {
  'use strict';
  const { parse, stringify } = JSON;
  const { apply } = Reflect;
  const { isArray } = Array;
  const { assign, create, defineProperty, freeze } = Object;
  const { isInteger } = Number;
  const then = Promise.prototype.then;
  const NativePromise = Promise;
  const NativeError = Error;
  const wellFormed = String.prototype.toWellFormed;

  const ErrorCodes = freeze({
    BadRequest: 400, Forbidden: 403, NotFound: 404, Conflict: 409, PreconditionFailed: 412,
    RequestEntityTooLarge: 413, RetryWith: 449, InternalServerError: 500,
  });

  // Errors of the model: `{number, body}` when printed as JSON, and errors when thrown.
  function failure(number, message) {
    const error = new NativeError(message);
    error.number = number;
    error.body = message;
    return error;
  }
  const refuse = (message) => { throw failure(ErrorCodes.BadRequest, message); };
  const unsupported = (what) => { throw failure(ErrorCodes.BadRequest, `${what} not supported`); };

  // ---- callbacks, in the order of their calls; a list, since an array could be given setters by the script

  let first, last;
  function expect(callback) {
    const entry = { callback, next: undefined };
    if (last) last.next = entry; else first = entry;
    last = entry;
  }
  function take() {
    const { callback } = first;
    first = first.next;
    if (!first) last = undefined;
    return callback;
  }

  // What an asynchronous function throws counts as thrown.
  let rejection;
  function watch(result) {
    if (result instanceof NativePromise) {
      apply(then, result, [undefined, (reason) => { rejection ??= { reason }; }]);
    }
  }
  function settle() {
    if (rejection) throw rejection.reason;
  }

  function deliver(succeeded, number, message, resource, continuation, notModified) {
    const callback = take();
    let result;
    if (succeeded) {
      const options = {};
      if (continuation !== undefined) options.continuation = continuation;
      if (notModified) options.notModified = true;
      if (callback) result = callback(undefined, resource, options);
    } else {
      const error = failure(number, message);
      if (!callback) throw error;
      result = callback(error, undefined, {});
    }
    watch(result);
  }

  // ---- arguments

  const show = (value) => typeof value;
  function text(value, what) {
    if (typeof value !== 'string' || value === '') refuse(`${what} must be a string that is not empty, and is ${value === '' ? 'empty' : show(value)}`);
    return apply(wellFormed, value, []);
  }
  function option(options, name, type) {
    const value = options[name];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== type) refuse(`option '${name}' must be a ${type}, and is ${show(value)}`);
    return type === 'string' ? apply(wellFormed, value, []) : value;
  }
  function pageSizeOf(options) {
    const size = option(options, 'pageSize', 'number');
    if (size !== undefined && (!isInteger(size) || size < -1 || size === 0 || size > 0x7fffffff)) {
      refuse("option 'pageSize' must be -1 or a whole number above 0");
    }
    return size;
  }
  function indexActionOf(options) {
    const action = option(options, 'indexAction', 'string');
    if (action !== undefined && action !== 'default') {
      if (action !== 'include' && action !== 'exclude') refuse("option 'indexAction' must be default, include or exclude");
      unsupported(`option 'indexAction' with '${action}' is`);
    }
  }
  const NO_OPTIONS = freeze(create(null));
  // The last two arguments of every method: options may be left out.
  function tail(options, callback) {
    if (typeof options === 'function' && callback === undefined) { callback = options; options = undefined; }
    if (options === undefined || options === null) options = NO_OPTIONS;
    else if (typeof options !== 'object') refuse(`options must be an object, and are ${show(options)}`);
    if (callback === null) callback = undefined;
    if (callback !== undefined && typeof callback !== 'function') refuse(`the callback must be a function, and is ${show(callback)}`);
    return { options, callback };
  }
  // The document as text. The caller's object stays as it is; an id that is nothing is left out, so that one is made.
  function documentText(body, keepsId) {
    let document = typeof body === 'string' ? parse(body) : body;
    if (typeof document !== 'object' || document === null || isArray(document)) {
      refuse(`a document must be an object or the text of one, and is ${document === null ? 'null' : isArray(document) ? 'an array' : show(document)}`);
    }
    if (!keepsId && 'id' in document && !document.id) {
      document = assign({}, document);
      delete document.id;
    } else if (document !== body) {
      return body;
    }
    const json = stringify(document);
    if (typeof json !== 'string') refuse('a document must be an object, and its toJSON made nothing of it');
    return json;
  }
  function queryText(query) {
    if (typeof query === 'string') return stringify(query);
    if (typeof query !== 'object' || query === null) refuse(`a query must be a string or an object with query and parameters, and is ${show(query)}`);
    if (typeof query.query !== 'string') refuse("a query object must have its text in 'query'");
    if (query.parameters !== undefined && query.parameters !== null && !isArray(query.parameters)) refuse("the 'parameters' of a query must be an array");
    return stringify({ query: query.query, parameters: query.parameters ?? [] });
  }

  // ---- the collection

  const READ = 0, READ_FEED = 1, QUERY = 2, CREATE = 3, UPSERT = 4, REPLACE = 5, DELETE = 6;
  function call(callback, operation, link, body, ifMatch, ifNoneMatch, pageSize, continuation, bringsId) {
    const flags = bringsId ? operation | 16 : operation;
    const accepted = host.call(flags, link, body, ifMatch, ifNoneMatch, pageSize, continuation);
    if (accepted) expect(callback);
    return accepted;
  }
  function store(operation, link, body, first, second) {
    const { options, callback } = tail(first, second);
    indexActionOf(options);
    const bringsId = option(options, 'disableAutomaticIdGeneration', 'boolean') === true;
    return call(callback, operation, text(link, 'the link of the collection'), documentText(body, bringsId),
      option(options, 'etag', 'string'), undefined, undefined, undefined, bringsId);
  }
  function page(operation, link, body, first, second) {
    const { options, callback } = tail(first, second);
    option(options, 'enableScan', 'boolean');
    option(options, 'enableLowPrecisionOrderBy', 'boolean');
    return call(callback, operation, text(link, 'the link of the collection'), body, undefined, undefined,
      pageSizeOf(options), option(options, 'continuation', 'string'), false);
  }

  const collection = {
    getSelfLink: () => config.selfLink,
    getAltLink: () => config.altLink,
    readDocument(link, first, second) {
      const { options, callback } = tail(first, second);
      return call(callback, READ, text(link, 'the link of the document'), undefined, undefined,
        option(options, 'ifNoneMatch', 'string'), undefined, undefined, false);
    },
    readDocuments: (link, options, callback) => page(READ_FEED, link, undefined, options, callback),
    queryDocuments: (link, query, options, callback) => page(QUERY, link, queryText(query), options, callback),
    createDocument: (link, body, options, callback) => store(CREATE, link, body, options, callback),
    upsertDocument: (link, body, options, callback) => store(UPSERT, link, body, options, callback),
    replaceDocument(link, body, first, second) {
      const { options, callback } = tail(first, second);
      indexActionOf(options);
      return call(callback, REPLACE, text(link, 'the link of the document'), documentText(body, true),
        option(options, 'etag', 'string'), undefined, undefined, undefined, false);
    },
    deleteDocument(link, first, second) {
      const { options, callback } = tail(first, second);
      if (options.partitionKeyContent !== undefined) unsupported("option 'partitionKeyContent' is");
      const done = callback && ((error, _, answered) => callback(error, answered));
      return call(done, DELETE, text(link, 'the link of the document'), undefined,
        option(options, 'etag', 'string'), undefined, undefined, undefined, false);
    },
  };

  // ---- request and response

  // One body: as JSON text, so that what is set is what the value was when it was set.
  function body(initial, isWritable, canAppend) {
    const name = 'Body';
    let json = initial;
    const set = (value) => store(stringify(value));
    function store(next) {
      if (next !== undefined && next.length > config.responseMax) {
        throw failure(ErrorCodes.RequestEntityTooLarge, `Resulting message would be too large because of "${name}". Return from script with current message and use continuation token to call the script again or modify your script.`);
      }
      json = next;
    }
    const get = () => (json === undefined ? undefined : parse(json));
    // On the texts: what is there is not read again for every piece.
    function append(value) {
      if (json === undefined) return set(value);
      const isList = json[0] === '[' && isArray(value);
      // What is neither becomes text: 1 and 2 are "12".
      if (json[0] !== '"' && !isList) store(stringify(json));
      const next = stringify(isList || typeof value === 'string' ? value : String(stringify(value)));
      const comma = isList && json.length > 2 && next.length > 2 ? ',' : '';
      store(json.substring(0, json.length - 1) + comma + next.substring(1));
    }
    const only = (name) => { if (name !== 'Body') refuse(`there is no property '${name}' here, only 'Body'`); };
    const model = {
      getBody: get,
      getValue(name) { only(name); return get(); },
    };
    if (isWritable) {
      model.setBody = set;
      model.setValue = (name, value) => { only(name); set(value); };
    }
    if (canAppend) {
      model.appendBody = append;
      model.appendValue = (name, value) => { only(name); append(value); };
    }
    return { model, text: () => json };
  }

  const request = config.role === 'procedure' ? undefined : body(config.requestBody, config.role === 'pre', config.role === 'pre');
  const response = config.role === 'pre' ? undefined : body(config.responseBody, true, true);
  if (request) request.model.getOperationType = () => config.operation;
  if (response) {
    response.model.getResourceQuotaCurrentUsage = () => unsupported('resource quotas are');
    response.model.getMaxResourceQuota = () => unsupported('resource quotas are');
    if (request) response.model.getOperationType = () => config.operation;
  }

  // ---- what is used rarely is compiled when it is first asked for

  const internals = { collection, response, refuse, unsupported, tail, pageSizeOf, option, page: collection.queryDocuments, ErrorCodes };
  let extension;
  const later = (name) => function (...given) {
    extension ??= host.extension()(internals);
    return apply(extension[name], undefined, given);
  };
  for (const name of ['filter', 'map', 'pluck', 'flatten', 'unwind', 'sortBy', 'sortByDescending', 'chain',
    'readAttachment', 'readAttachments', 'queryAttachments', 'createAttachment', 'upsertAttachment', 'replaceAttachment', 'deleteAttachment']) {
    collection[name] = later(name);
  }
  const spatial = {};
  for (const name of ['distance', 'intersects', 'within', 'isValid', 'isValidDetailed']) {
    spatial[name] = () => unsupported(`__.spatial.${name} is`);
  }
  collection.spatial = spatial;

  // ---- the global object

  function abort(reason) {
    const error = reason === undefined ? failure(ErrorCodes.BadRequest, 'the script was aborted') : reason;
    rejection ??= { reason: error };
    throw error;
  }
  const context = { getCollection: () => collection, abort };
  if (request) context.getRequest = () => request.model;
  if (response) context.getResponse = () => response.model;
  const shorthand = create(collection);
  if (request) shorthand.request = request.model;
  if (response) shorthand.response = response.model;

  // `%s %d %i %f %j %o %%` as elsewhere; what is left over follows after a space.
  function format(given) {
    const print = (value) => {
      if (typeof value === 'string') return value;
      if (typeof value !== 'object' || value === null) return String(value);
      try { return value instanceof NativeError ? String(value) : stringify(value); } catch { return '[object]'; }
    };
    let at = 1, line;
    if (typeof given[0] === 'string') {
      line = '';
      const pattern = given[0];
      let start = 0;
      for (let i = 0; i + 1 < pattern.length; i++) {
        if (pattern[i] !== '%') continue;
        const kind = pattern[i + 1];
        let shown;
        if (kind === '%') shown = '%';
        else if (at < given.length) {
          if (kind === 's') shown = print(given[at++]);
          else if (kind === 'd' || kind === 'f') shown = String(Number(given[at++]));
          else if (kind === 'i') shown = String(Math.trunc(Number(given[at++])));
          else if (kind === 'j' || kind === 'o' || kind === 'O') shown = String(stringify(given[at++]));
        }
        if (shown === undefined) continue;
        line += pattern.substring(start, i) + shown;
        start = ++i + 1;
      }
      line += pattern.substring(start);
    } else line = given.length ? print(given[0]) : '';
    for (; at < given.length; at++) line += ' ' + print(given[at]);
    return line;
  }
  const print = config.logs ? (...given) => host.log(apply(wellFormed, format(given), [])) : () => {};
  const console = { log: print, info: print, warn: print, error: print, debug: print };

  // What threads share is of no use to one.
  delete globalThis.Atomics;
  delete globalThis.SharedArrayBuffer;
  const define = (name, value) => defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  define('getContext', () => context);
  define('__', shorthand);
  define('console', console);
  define('ErrorCodes', ErrorCodes);

  return {
    start(script, given) {
      const values = parse(given);
      if (!isArray(values)) refuse('the arguments of a stored procedure must be an array');
      watch(apply(script, undefined, values));
    },
    deliver,
    settle,
    responseBody: () => response?.text(),
    requestBody: () => (config.role === 'pre' ? request.text() : undefined),
  };
})
