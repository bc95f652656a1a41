// Point operations, conditions, patch and errors through the SDK, over plain HTTP.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { clientOver, createContainer, expectStatus, own, unique } from '../support.mjs';

const client = clientOver('http');
let database;
let container;

before(async () => {
  ({ database } = await client.databases.create({ id: unique('items') }));
  container = await createContainer(database, { throughput: 12000 });
});
after(() => database?.delete());

// check: items
test('create, read, replace, upsert, delete', async () => {
  const item = { id: unique('crud'), pk: 'a', count: 1, nested: { list: [1, 'two', null, true, { deep: 1.5 }] } };
  const created = await container.items.create(item);
  assert.equal(created.statusCode, 201);
  assert.deepEqual(own(created.resource), item);
  assert.equal(created.etag, created.resource._etag);
  assert.ok(created.requestCharge > 0);
  assert.ok(created.headers['x-ms-session-token']);

  const reference = container.item(item.id, 'a');
  const read = await reference.read();
  assert.equal(read.statusCode, 200);
  assert.deepEqual(own(read.resource), item);

  const replaced = await reference.replace({ ...item, count: 2 });
  assert.equal(replaced.statusCode, 200);
  assert.notEqual(replaced.etag, created.etag);

  assert.equal((await container.items.upsert({ ...item, count: 3 })).statusCode, 200);
  assert.equal((await reference.read()).resource.count, 3);
  assert.equal((await container.items.upsert({ id: unique('new'), pk: 'a' })).statusCode, 201);

  assert.equal((await reference.delete()).statusCode, 204);
  assert.equal((await reference.read()).statusCode, 404);
  await expectStatus(404, () => reference.delete());
  await expectStatus(404, () => reference.replace(item));
});

// check: items-same-id
test('the same id lives once in each logical partition', async () => {
  const id = unique('same');
  await container.items.create({ id, pk: 'a', from: 'a' });
  await container.items.create({ id, pk: 'b', from: 'b' });
  await expectStatus(409, () => container.items.create({ id, pk: 'a' }));
  assert.equal((await container.item(id, 'b').read()).resource.from, 'b');
  assert.equal((await container.item(id, 'c').read()).statusCode, 404);
});

// check: partition-key-types
test('partition key values of every type', async () => {
  const values = ['', 'text', 0, -0.5, 1e300, 42, true, false, null, 'ünïcode 😀', 'x'.repeat(1000)];
  for (const pk of values) {
    const item = { id: unique('typed'), pk };
    await container.items.create(item);
    assert.deepEqual(own((await container.item(item.id, pk).read()).resource), item);
  }
  const without = { id: unique('none') };
  await container.items.create(without);
  assert.deepEqual(own((await container.item(without.id, undefined).read()).resource), without);
});

// check: item-ids
test('ids with spaces and letters of other alphabets', async () => {
  for (const name of ['a b', ' leading', 'Ünïcode', '数据', '😀', "quote'd", '"double"', 'a+b', '100%', 'a=b&c', 'tab\tin', '[x]{y}', '~!@$^*()']) {
    const item = { id: unique('') + name, pk: name };
    await container.items.create(item);
    const read = await container.item(item.id, name).read();
    assert.deepEqual(own(read.resource ?? {}), item, JSON.stringify(name));
    assert.equal((await container.item(item.id, name).delete()).statusCode, 204);
  }
});

test('ids that the reference rejects', async () => {
  await expectStatus(400, () => container.items.create({ id: 'x'.repeat(1024), pk: 'a' }));
});

// check: values-exact
test('numbers, strings and key order come back as sent', async () => {
  const item = {
    id: unique('exact'), pk: 'a', z: 1, a: 2,
    numbers: [0, -0.5, 0.1, 1e21, 1.7976931348623157e308, 5e-324, 9007199254740991, -9007199254740991, 123456789.123456],
    strings: ['', '\u0000', '\u001f', '"\\/', '\u2028', '😀', 'é'],
    empty: [{}, []],
  };
  await container.items.create(item);
  const { resource } = await container.item(item.id, 'a').read();
  assert.equal(JSON.stringify(own(resource)), JSON.stringify(item));
});

// check: if-match
test('If-Match guards replace and delete with 412', async () => {
  const item = { id: unique('guarded'), pk: 'a', count: 1 };
  const created = await container.items.create(item);
  const reference = container.item(item.id, 'a');
  const stale = { accessCondition: { type: 'IfMatch', condition: created.etag } };
  const current = await reference.replace({ ...item, count: 2 }, stale);
  await expectStatus(412, () => reference.replace({ ...item, count: 3 }, stale));
  await expectStatus(412, () => reference.delete(stale));
  await expectStatus(412, () => container.items.upsert({ ...item, count: 3 }, stale));
  assert.equal((await reference.read()).resource.count, 2);
  const fresh = { accessCondition: { type: 'IfMatch', condition: current.etag } };
  assert.equal((await reference.delete(fresh)).statusCode, 204);
});

// check: if-none-match
test('If-None-Match answers 304 until the item changes', async () => {
  const item = { id: unique('cached'), pk: 'a', count: 1 };
  const created = await container.items.create(item);
  const reference = container.item(item.id, 'a');
  const unless = { accessCondition: { type: 'IfNoneMatch', condition: created.etag } };
  const unchanged = await reference.read(unless);
  assert.equal(unchanged.statusCode, 304);
  assert.equal(unchanged.etag, created.etag);
  await reference.replace({ ...item, count: 2 });
  assert.equal((await reference.read(unless)).statusCode, 200);
});

// check: patch, patch-atomic
test('patch applies all six operations, atomically', async () => {
  const item = { id: unique('patched'), pk: 'a', count: 1, list: [1, 2, 3], old: 'x', gone: true, moved: 'm' };
  await container.items.create(item);
  const reference = container.item(item.id, 'a');
  const { resource, statusCode } = await reference.patch([
    { op: 'add', path: '/added', value: { a: 1 } },
    { op: 'add', path: '/list/1', value: 'between' },
    { op: 'set', path: '/old', value: 'y' },
    { op: 'replace', path: '/list/0', value: 'first' },
    { op: 'remove', path: '/gone' },
    { op: 'incr', path: '/count', value: 4 },
    { op: 'move', from: '/moved', path: '/arrived' },
  ]);
  assert.equal(statusCode, 200);
  assert.deepEqual(own(resource), {
    id: item.id, pk: 'a', count: 5, list: ['first', 'between', 2, 3], old: 'y', added: { a: 1 }, arrived: 'm',
  });

  await expectStatus(400, () => reference.patch([
    { op: 'incr', path: '/count', value: 1 },
    { op: 'replace', path: '/absent', value: 1 },
  ]));
  assert.equal((await reference.read()).resource.count, 5, 'nothing of a failed patch is applied');
  await expectStatus(400, () => reference.patch([{ op: 'set', path: '/pk', value: 'b' }]));
  await expectStatus(400, () => reference.patch([{ op: 'set', path: '/id', value: 'b' }]));
  await expectStatus(400, () => reference.patch(Array(11).fill({ op: 'incr', path: '/count', value: 1 })));
  await expectStatus(404, () => container.item(unique('absent'), 'a').patch([{ op: 'set', path: '/x', value: 1 }]));
});

// check: patch-conditions
test('patch conditions hold or answer 412', async () => {
  const item = { id: unique('conditional'), pk: 'a', count: 1 };
  await container.items.create(item);
  const reference = container.item(item.id, 'a');
  const operations = [{ op: 'incr', path: '/count', value: 1 }];
  const held = await reference.patch({ condition: 'from c where c.count = 1', operations });
  assert.equal(held.resource.count, 2);
  await expectStatus(412, () => reference.patch({ condition: 'from c where c.count = 1', operations }));
});

// check: partition-key-mismatch
test('a partition key in the header must be the one in the body', async () => {
  const item = { id: unique('mismatch'), pk: 'a' };
  await container.items.create(item);
  await expectStatus(400, () => container.item(item.id, 'a').replace({ ...item, pk: 'b' }));
});

// check: large-items
test('items above two megabytes are refused with 413', async () => {
  await expectStatus(413, () => container.items.create({ id: unique('large'), pk: 'a', text: 'x'.repeat(2 * 1024 * 1024 + 1024) }));
  const near = { id: unique('near'), pk: 'a', text: 'x'.repeat(2 * 1024 * 1024 - 4096) };
  assert.equal((await container.items.create(near)).statusCode, 201);
  assert.equal((await container.item(near.id, 'a').read()).resource.text.length, near.text.length);
});

// check: unique-keys
test('unique keys hold within a logical partition', async () => {
  const unique_ = await createContainer(database, { uniqueKeyPolicy: { uniqueKeys: [{ paths: ['/email'] }] } });
  await unique_.items.create({ id: '1', pk: 'a', email: 'x@example.org' });
  await expectStatus(409, () => unique_.items.create({ id: '2', pk: 'a', email: 'x@example.org' }));
  assert.equal((await unique_.items.create({ id: '2', pk: 'b', email: 'x@example.org' })).statusCode, 201);
});

// check: session-tokens
test('a reader sees its own writes by session token', async () => {
  const item = { id: unique('session'), pk: 'a', count: 0 };
  let { headers } = await container.items.create(item);
  const other = clientOver('http').database(database.id).container(container.id);
  for (let count = 1; count <= 20; count += 1) {
    ({ headers } = await container.item(item.id, 'a').replace({ ...item, count }));
    const read = await other.item(item.id, 'a').read({ sessionToken: headers['x-ms-session-token'], consistencyLevel: 'Session' });
    assert.equal(read.resource.count, count);
  }
});

// check: hierarchical-keys
test('hierarchical keys', async () => {
  const tenants = await createContainer(database, {
    partitionKey: { paths: ['/tenant', '/user', '/session'], kind: 'MultiHash', version: 2 },
    throughput: 12000,
  });
  const items = [];
  for (const tenant of ['t1', 't2']) {
    for (const user of ['u1', 'u2']) {
      for (const session of [1, 2]) items.push({ id: `${tenant}.${user}.${session}`, tenant, user, session });
    }
  }
  for (const item of items) assert.equal((await tenants.items.create(item)).statusCode, 201);
  for (const item of items) {
    const reference = tenants.item(item.id, [item.tenant, item.user, item.session]);
    assert.deepEqual(own((await reference.read()).resource), item);
  }
  await expectStatus(409, () => tenants.items.create(items[0]));
  const wrong = await tenants.item(items[0].id, ['t1', 'u2', 1]).read();
  assert.equal(wrong.statusCode, 404);
  assert.equal((await tenants.item(items[0].id, ['t1', 'u1', 1]).delete()).statusCode, 204);
});

// check: delete-by-partition-key
test('all items of a logical partition go at once', async () => {
  const pk = unique('doomed');
  for (const id of ['1', '2', '3']) await container.items.create({ id, pk });
  await container.items.create({ id: 'spared', pk: `${pk}-other` });
  await container.deleteAllItemsForPartitionKey(pk);
  for (const id of ['1', '2', '3']) assert.equal((await container.item(id, pk).read()).statusCode, 404);
  assert.equal((await container.item('spared', `${pk}-other`).read()).statusCode, 200);
});

// check: missing-parents
test('a missing container or database is 404', async () => {
  await expectStatus(404, () => database.container('absent').items.create({ id: '1', pk: 'a' }));
  await expectStatus(404, () => client.database('absent').containers.create({ id: 'c', partitionKey: { paths: ['/pk'] } }));
});

// check: wrong-key
test('a wrong key is refused with 401', async () => {
  const stranger = clientOver('http', { key: Buffer.from('another key, of the usual length or so..................').toString('base64') });
  await expectStatus(401, () => stranger.databases.create({ id: unique('never') }));
});
