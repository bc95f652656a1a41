// What scripts use rarely: the query functions of the collection, and what is refused by name. Evaluates to a function
// that gets what it needs of the model and returns the methods.
//
// A chain is a list of stages that is run over the documents of the logical partition page by page, as many as are needed to fill
// the page that was asked for. A sort needs all of them. A continuation says where in which page of documents to go on.
(function (queryDocuments, getSelfLink, append, failure) {
  'use strict';
  const { parse, stringify } = JSON;
  const { apply } = Reflect;
  const { isArray } = Array;
  const { isInteger } = Number;
  const sort = Array.prototype.sort;
  const EVERYTHING = 'SELECT * FROM root r';
  const PAGE = 100;

  const refuse = (message) => { throw failure(400, message); };
  const mustBe = (type, value, what) => {
    if (typeof value !== type) refuse(`${what} must be a ${type}, and is ${value === null ? 'null' : typeof value}`);
    return value;
  };

  // ---- stages: each gets one value and hands on any number; what is undefined is left out

  const stages = {
    filter(predicate) {
      mustBe('function', predicate, 'the predicate of filter');
      return (value, emit) => { if (predicate(value)) emit(value); };
    },
    map(transformation) {
      mustBe('function', transformation, 'the transformation of map');
      return (value, emit) => emit(transformation(value));
    },
    pluck(name) {
      mustBe('string', name, 'the property of pluck');
      return (value, emit) => { if (value !== null && typeof value === 'object') emit(value[name]); };
    },
    flatten(isShallow) {
      const flatten = (value, emit, depth) => {
        if (!isArray(value) || depth === 0) return emit(value);
        for (let i = 0; i < value.length; i++) flatten(value[i], emit, depth - 1);
      };
      return (value, emit) => flatten(value, emit, isShallow === true ? 1 : Infinity);
    },
    unwind(inner, result) {
      mustBe('function', inner, 'the inner collection of unwind');
      if (result !== undefined && result !== null) mustBe('function', result, 'the result of unwind');
      return (value, emit) => {
        const values = inner(value);
        if (!isArray(values)) return;
        for (let i = 0; i < values.length; i++) emit(result ? result(value, values[i]) : [value, values[i]]);
      };
    },
    sortBy: (key) => ordering(key, 1),
    sortByDescending: (key) => ordering(key, -1),
  };

  // The order of ORDER BY.
  function rank(value) {
    switch (typeof value) {
      case 'undefined': return 0;
      case 'boolean': return 2;
      case 'number': return 3;
      case 'string': return 4;
      default: return value === null ? 1 : isArray(value) ? 5 : 6;
    }
  }
  function compare(a, b) {
    const difference = rank(a) - rank(b);
    if (difference !== 0 || rank(a) > 4) return difference;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  function ordering(key, direction) {
    mustBe('function', key, 'the key of a sort');
    const stage = (values) => {
      const keyed = [];
      for (let i = 0; i < values.length; i++) keyed[i] = { key: key(values[i]), value: values[i] };
      apply(sort, keyed, [(a, b) => direction * compare(a.key, b.key)]);
      for (let i = 0; i < keyed.length; i++) keyed[i] = keyed[i].value;
      return keyed;
    };
    stage.needsAll = true;
    return stage;
  }

  // Stages over a list; a list again.
  function through(chain, values) {
    for (let i = 0; i < chain.length; i++) {
      const stage = chain[i];
      if (stage.needsAll) { values = stage(values); continue; }
      const next = [];
      const emit = (value) => { if (value !== undefined) next[next.length] = value; };
      for (let j = 0; j < values.length; j++) stage(values[j], emit);
      values = next;
    }
    return values;
  }

  // ---- running a chain

  function position(text) {
    if (text === undefined || text === null) return { skip: 0 };
    mustBe('string', text, "option 'continuation'");
    let start;
    try { start = parse(text); } catch { start = undefined; }
    const isPosition = start !== null && typeof start === 'object' && isInteger(start.skip) && start.skip >= 0;
    if (!isPosition) refuse("option 'continuation' is none that this function returned");
    return start;
  }

  function run(chain, options, callback) {
    if (options === undefined || options === null) options = {};
    mustBe('object', options, 'options');
    if (callback === undefined || callback === null) {
      if (!append) refuse('a callback is needed where there is no response to append to');
      callback = (error, values) => { if (error) throw error; append(values); };
    }
    mustBe('function', callback, 'the callback');
    const size = options.pageSize ?? PAGE;
    if (!isInteger(size) || size < -1 || size === 0) refuse("option 'pageSize' must be -1 or a whole number above 0");
    const wanted = size === -1 ? Infinity : size;
    let needsAll = false;
    for (let i = 0; i < chain.length; i++) needsAll ||= chain[i].needsAll === true;
    return (needsAll ? collected : paged)(chain, wanted, position(options.continuation), callback);
  }

  const ask = (token, callback) => {
    const isAccepted = queryDocuments(getSelfLink(), EVERYTHING, { pageSize: PAGE, continuation: token }, callback);
    return { isAccepted };
  };
  const place = (token, skip) => ({ continuation: stringify({ token, skip }) });

  // Without a sort: page after page, until there is enough.
  function paged(chain, wanted, start, callback) {
    const values = [];
    let { token, skip } = start;
    const next = (error, documents, { continuation }) => {
      if (error) return callback(error, undefined, {});
      const found = through(chain, documents);
      let i = skip;
      while (i < found.length && values.length < wanted) values[values.length] = found[i++];
      if (i < found.length) return callback(undefined, values, place(token, i));
      if (continuation === undefined) return callback(undefined, values, {});
      token = continuation;
      skip = 0;
      if (values.length < wanted && ask(token, next).isAccepted) return undefined;
      return callback(undefined, values, place(token, 0));
    };
    return ask(token, next);
  }

  // With a sort: all documents first. There is no answer from some of them.
  function collected(chain, wanted, { skip }, callback) {
    const documents = [];
    const next = (error, page, { continuation }) => {
      if (error) return callback(error, undefined, {});
      for (let i = 0; i < page.length; i++) documents[documents.length] = page[i];
      if (continuation !== undefined) {
        if (ask(continuation, next).isAccepted) return undefined;
        return callback(failure(403, 'the documents could not all be read for a sort: further calls were not accepted'), undefined, {});
      }
      const all = through(chain, documents);
      const values = [];
      let i = skip;
      while (i < all.length && values.length < wanted) values[values.length] = all[i++];
      return callback(undefined, values, i < all.length ? place(undefined, i) : {});
    };
    return ask(undefined, next);
  }

  // ---- methods: one stage at once, or a chain of them until `value`

  function ending(first, second) {
    return typeof first === 'function' && second === undefined ? { callback: first } : { options: first, callback: second };
  }
  const once = (stage, first, second) => {
    const { options, callback } = ending(first, second);
    return run([stage], options, callback);
  };
  const methods = {
    filter: (predicate, first, second) => once(stages.filter(predicate), first, second),
    map: (transformation, first, second) => once(stages.map(transformation), first, second),
    pluck: (name, first, second) => once(stages.pluck(name), first, second),
    flatten: (isShallow, first, second) => typeof isShallow === 'boolean' || isShallow === undefined || isShallow === null
      ? once(stages.flatten(isShallow), first, second)
      : once(stages.flatten(false), isShallow, first),
    unwind: (inner, result, first, second) => typeof result === 'function' || result === undefined || result === null
      ? once(stages.unwind(inner, result), first, second)
      : once(stages.unwind(inner), result, first),
    sortBy: (key, first, second) => once(stages.sortBy(key), first, second),
    sortByDescending: (key, first, second) => once(stages.sortByDescending(key), first, second),
    chain() {
      const given = [];
      const chain = {
        value(first, second) {
          const { options, callback } = ending(first, second);
          return run(given, options, callback);
        },
      };
      for (const name in stages) {
        chain[name] = (first, second) => {
          given[given.length] = stages[name](first, second);
          return chain;
        };
      }
      return chain;
    },
    spatial: {},
  };

  // ---- what is not there says so

  for (const name of ['readAttachment', 'readAttachments', 'queryAttachments', 'createAttachment', 'upsertAttachment', 'replaceAttachment', 'deleteAttachment']) {
    methods[name] = () => refuse(`${name} is not supported`);
  }
  for (const name of ['distance', 'intersects', 'within', 'isValid', 'isValidDetailed']) {
    methods.spatial[name] = () => refuse(`__.spatial.${name} is not supported`);
  }
  return methods;
})
