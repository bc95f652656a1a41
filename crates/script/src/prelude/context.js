// Ties the objects of the host together. Evaluates to a function that returns `getContext`.
//
// Only this may hold objects in closures: the engine sees what its own closures hold, and not what the host's do.
(function (host, names, collection, request, response) {
  'use strict';
  const { apply } = Reflect;
  const { queryDocuments, getSelfLink } = collection;
  const append = response && response.appendBody;
  // What is used rarely is compiled when it is first asked for.
  let extension;
  const extended = () => (extension ??= host.extension()(queryDocuments, getSelfLink, append, host.failure));
  for (const name of names) {
    collection[name] = (...given) => apply(extended()[name], undefined, given);
  }
  Object.defineProperty(collection, 'spatial', { get: () => extended().spatial, enumerable: true });
  const context = { getCollection: () => collection, abort: host.abort };
  if (request) context.getRequest = () => request;
  if (response) context.getResponse = () => response;
  return () => context;
})
