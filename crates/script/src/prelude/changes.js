// The containers that functions over changes see, and their context. Evaluates to a function that gets functions of the
// host, which check every argument, and returns the two methods of the context.
(function (find, call, letter) {
  'use strict';
  class Container {
    #place;
    constructor(place) { this.#place = place; }
    read(id, partitionKey) { return call(this.#place, 'read', id, partitionKey); }
    query(text, parameters, options) { return call(this.#place, 'query', text, parameters, options); }
    create(item, options) { call(this.#place, 'create', item, options); }
    upsert(item, options) { call(this.#place, 'upsert', item, options); }
    replace(item, options) { call(this.#place, 'replace', item, options); }
    patch(id, partitionKey, operations, options) { call(this.#place, 'patch', id, partitionKey, operations, options); }
    delete(id, partitionKey, options) { call(this.#place, 'delete', id, partitionKey, options); }
  }
  delete Container.prototype.constructor;
  return {
    container(name) { return new Container(find(name)); },
    deadLetter(change, reason) { letter(change, reason); },
  };
})
