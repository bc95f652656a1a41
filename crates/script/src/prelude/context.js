// Ties the objects of the host together, and lets errors have numbers. Evaluates to a function that returns `getContext`.
//
// Only this may hold objects in closures: the engine sees what its own closures hold, and not what the host's do.
(function (host, names, collection, request, response) {
  'use strict';
  const { apply, construct } = Reflect;
  const { queryDocuments, getSelfLink } = collection;
  const append = response && response.appendBody;
  // What is used rarely is compiled when it is first asked for.
  let extension;
  const extended = () => (extension ??= host.extension()(queryDocuments, getSelfLink, append, host.failure));
  for (const name of names) {
    collection[name] = (...given) => apply(extended()[name], undefined, given);
  }
  Object.defineProperty(collection, 'spatial', { get: () => extended().spatial, enumerable: true });
  // An error may begin with its number, as in `new Error(404, 'no such order')`.
  const make = (target, given, made) => {
    if (given.length < 2 || typeof given[0] !== 'number') return construct(target, given, made);
    const error = construct(target, [given[1]], made);
    error.number = given[0];
    return error;
  };
  const numbered = new Proxy(Error, { construct: make, apply: (target, _, given) => make(target, given, target) });
  Object.defineProperty(globalThis, 'Error', { value: numbered, writable: true, configurable: true });
  Object.defineProperty(numbered.prototype, 'constructor', { value: numbered, writable: true, configurable: true });
  const context = { getCollection: () => collection, abort: host.abort };
  if (request) context.getRequest = () => request;
  if (response) context.getResponse = () => response;
  return () => context;
})
