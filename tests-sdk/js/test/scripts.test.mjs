// Stored procedures, triggers and user-defined functions through the SDK, over plain HTTP and over TLS.
import assert from 'node:assert/strict';
import test from 'node:test';
import { clientOver, createContainer, drain, expectStatus, own, unique, withDatabase } from '../support.mjs';

/** The three kinds behind one face: the feed, one of them, and a definition. */
const KINDS = {
  procedure: {
    all: (container) => container.scripts.storedProcedures,
    one: (container, id) => container.scripts.storedProcedure(id),
    definition: (id) => ({ id, body: 'function () { getContext().getResponse().setBody(1); }' }),
  },
  trigger: {
    all: (container) => container.scripts.triggers,
    one: (container, id) => container.scripts.trigger(id),
    definition: (id) => ({ id, body: 'function () { }', triggerType: 'Pre', triggerOperation: 'All' }),
  },
  function: {
    all: (container) => container.scripts.userDefinedFunctions,
    one: (container, id) => container.scripts.userDefinedFunction(id),
    definition: (id) => ({ id, body: 'function (x) { return x * 2; }' }),
  },
};

for (const scheme of ['http', 'https']) {
  const client = clientOver(scheme);
  const inContainer = (work, definition) =>
    withDatabase(client, async (database) => work(await createContainer(database, definition)));

  for (const [name, { all, one, definition }] of Object.entries(KINDS)) {
    // check: scripts
    test(`${scheme}: a ${name} is created, read, replaced and deleted`, () => inContainer(async (container) => {
      const id = unique('a script');
      const created = await all(container).create(definition(id));
      assert.equal(created.statusCode, 201);
      assert.deepEqual(own(created.resource), definition(id));
      for (const member of ['_rid', '_self', '_etag', '_ts']) assert.ok(created.resource[member], member);
      await expectStatus(409, () => all(container).create(definition(id)));

      const read = await one(container, id).read();
      assert.deepEqual(read.resource, created.resource);
      const { items } = await drain(all(container).readAll());
      assert.deepEqual(items, [created.resource]);

      const changed = { ...read.resource, body: 'function () { return 2; }' };
      const stale = { accessCondition: { type: 'IfMatch', condition: '"other"' } };
      await expectStatus(412, () => one(container, id).replace(changed, stale));
      const replaced = await one(container, id).replace(changed);
      assert.equal(replaced.statusCode, 200);
      assert.equal(replaced.resource.body, changed.body);
      assert.notEqual(replaced.resource._etag, created.resource._etag);

      assert.equal((await one(container, id).delete()).statusCode, 204);
      await expectStatus(404, () => one(container, id).read());
      await expectStatus(404, () => one(container, id).delete());
      await expectStatus(404, () => one(container, id).replace(definition(id)));
    }));

    test(`${scheme}: ${name}s are queried and come in pages`, () => inContainer(async (container) => {
      const ids = ['a', 'b', 'c', 'd', 'e'].map(unique);
      for (const id of ids) await all(container).create(definition(id));
      const query = { query: 'SELECT * FROM root r WHERE r.id = @id', parameters: [{ name: '@id', value: ids[2] }] };
      const { resources } = await all(container).query(query).fetchAll();
      assert.deepEqual(resources.map((script) => script.id), [ids[2]]);
      const { items, pages } = await drain(all(container).readAll({ maxItemCount: 2 }));
      assert.deepEqual(items.map((script) => script.id).sort(), ids.sort());
      assert.equal(pages, 3);
    }));

    test(`${scheme}: a ${name} that is no function is refused when it arrives`, () => inContainer(async (container) => {
      const broken = { ...definition('broken'), body: 'function () { return 1 +; }' };
      const error = await expectStatus(400, () => all(container).create(broken));
      assert.match(error.body.message, /'broken'/);
      await expectStatus(404, () => one(container, 'broken').read());
    }));
  }

  test(`${scheme}: bodies may be functions of the caller`, () => inContainer(async (container) => {
    const body = function (greeting) {
      // eslint-disable-next-line no-undef
      getContext().getResponse().setBody(`${greeting}, world`);
    };
    await container.scripts.storedProcedures.create({ id: 'greet', body });
    const { resource } = await container.scripts.storedProcedure('greet').execute('k', ['hello']);
    assert.equal(resource, 'hello, world');
    // The SDK sends a method as it prints it, which is no function by itself.
    const { triggers } = container.scripts;
    const methods = { stamp() { getContext().getRequest().setBody({ id: 'stamped', pk: 'k' }); } };
    await triggers.create({ id: 'stamp', body: methods.stamp, triggerType: 'Pre', triggerOperation: 'Create' });
    const created = await container.items.create({ id: 'sent', pk: 'k' }, { preTriggerInclude: 'stamp' });
    assert.equal(created.resource.id, 'stamped');
  }));

  // check: stored-procedures
  test(`${scheme}: a procedure reads and writes its logical partition in one transaction`, () => inContainer(async (container) => {
    const body = function (id, fails) {
      const context = getContext();
      const collection = context.getCollection();
      const accepted = collection.createDocument(collection.getSelfLink(), { id, pk: 'k', at: 1 }, (error, created) => {
        if (error) throw error;
        created.at = 2;
        collection.replaceDocument(created._self, created, (failed, replaced) => {
          if (failed) throw failed;
          if (fails) throw new Error('second thoughts');
          context.getResponse().setBody({ id: replaced.id, at: replaced.at });
        });
      });
      if (!accepted) throw new Error('not accepted');
    };
    await container.scripts.storedProcedures.create({ id: 'write', body });
    const procedure = container.scripts.storedProcedure('write');
    const done = await procedure.execute('k', ['one', false]);
    assert.equal(done.statusCode, 200);
    assert.deepEqual(done.resource, { id: 'one', at: 2 });
    assert.ok(done.requestCharge > 0);
    assert.ok(done.headers['x-ms-session-token']);
    assert.equal((await container.item('one', 'k').read()).resource.at, 2);

    const error = await expectStatus(400, () => procedure.execute('k', ['two', true]));
    assert.match(error.body.message, /Encountered exception while executing Javascript/i);
    assert.match(error.body.message, /second thoughts/);
    assert.equal((await container.item('two', 'k').read()).statusCode, 404);
    // Items of another partition key are beyond its reach.
    await expectStatus(400, () => procedure.execute('another', ['three', false]));
    assert.equal((await container.item('three', 'k').read()).statusCode, 404);
  }));

  test(`${scheme}: what a procedure answers, and what it is given`, () => inContainer(async (container) => {
    const create = (id, body) => container.scripts.storedProcedures.create({ id, body });
    const run = async (id, ...rest) => (await container.scripts.storedProcedure(id).execute('k', ...rest)).resource;
    await create('echo', 'function (a, b) { getContext().getResponse().setBody([a, b === undefined]); }');
    await create('silent', 'function () { }');
    assert.deepEqual(await run('echo', [{ deep: [1, 'é'] }]), [{ deep: [1, 'é'] }, true]);
    assert.deepEqual(await run('echo', 'alone'), ['alone', true]);
    assert.deepEqual(await run('echo'), [null, true]);
    assert.equal(await run('silent'), '');
    await expectStatus(404, () => run('missing'));
  }));

  test(`${scheme}: what a procedure logs comes back on request`, () => inContainer(async (container) => {
    const body = "function () { console.log('The value of %s is %s.', 'x', 1); }";
    await container.scripts.storedProcedures.create({ id: 'log', body });
    const procedure = container.scripts.storedProcedure('log');
    const header = 'x-ms-documentdb-script-log-results';
    const told = await procedure.execute('k', [], { enableScriptLogging: true });
    assert.equal(decodeURIComponent(told.headers[header]), 'The value of x is 1.');
    assert.equal((await procedure.execute('k', [])).headers[header], undefined);
  }));

  // check: triggers
  test(`${scheme}: triggers run where they are named`, () => inContainer(async (container) => {
    const { triggers } = container.scripts;
    const pre = function () {
      const request = getContext().getRequest();
      const item = request.getBody();
      item.stamped = request.getOperationType();
      request.setBody(item);
    };
    const post = function () {
      const context = getContext();
      const created = context.getResponse().getBody();
      const collection = context.getCollection();
      if (created.poison) throw new Error('refused afterwards');
      collection.createDocument(collection.getSelfLink(), { id: `${created.id} audit`, pk: created.pk }, (error) => {
        if (error) throw error;
      });
    };
    await triggers.create({ id: 'stamp', body: pre, triggerType: 'Pre', triggerOperation: 'All' });
    await triggers.create({ id: 'audit', body: post, triggerType: 'Post', triggerOperation: 'Create' });
    const both = { preTriggerInclude: 'stamp', postTriggerInclude: ['audit'] };

    const { resource } = await container.items.create({ id: 'a', pk: 'k' }, both);
    assert.equal(resource.stamped, 'Create');
    assert.equal((await container.item('a audit', 'k').read()).statusCode, 200);
    assert.equal((await container.items.create({ id: 'b', pk: 'k' })).resource.stamped, undefined);
    const { resource: replaced } = await container.item('b', 'k').replace({ id: 'b', pk: 'k' }, { preTriggerInclude: 'stamp' });
    assert.equal(replaced.stamped, 'Replace');

    // The trigger belongs to the write: both or neither.
    await expectStatus(400, () => container.items.create({ id: 'c', pk: 'k', poison: true }, both));
    assert.equal((await container.item('c', 'k').read()).statusCode, 404);
    await expectStatus(400, () => container.items.create({ id: 'd', pk: 'k' }, { preTriggerInclude: 'unknown' }));
    await expectStatus(400, () => container.item('b', 'k').replace({ id: 'b', pk: 'k' }, { postTriggerInclude: 'audit' }));
  }));

  // check: functions
  test(`${scheme}: functions are called in queries`, () => inContainer(async (container) => {
    await container.scripts.userDefinedFunctions.create({ id: 'twice', body: 'function (x) { return x * 2; }' });
    for (const number of [1, 2, 3]) await container.items.create({ id: `${number}`, pk: 'k', number });
    const query = 'SELECT VALUE udf.twice(c.number) FROM c WHERE udf.twice(c.number) > 2 ORDER BY c.number';
    const { resources } = await container.items.query(query, { partitionKey: 'k' }).fetchAll();
    assert.deepEqual(resources, [4, 6]);
    const unknown = container.items.query('SELECT VALUE udf.nobody(c) FROM c', { partitionKey: 'k' });
    await expectStatus(400, () => unknown.fetchAll());
  }));

  test(`${scheme}: a procedure that does not end is ended`, () => inContainer(async (container) => {
    await container.scripts.storedProcedures.create({ id: 'loop', body: 'function () { while (true) { } }' });
    await container.scripts.storedProcedures.create({ id: 'deep', body: 'function f() { f(); }' });
    await expectStatus(403, () => container.scripts.storedProcedure('loop').execute('k', []));
    await expectStatus(400, () => container.scripts.storedProcedure('deep').execute('k', []));
    await container.items.create({ id: 'after', pk: 'k' });
  }));
}
