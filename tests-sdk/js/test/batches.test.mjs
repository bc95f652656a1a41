// Transactional batches, bulk and feeds through the SDK, over plain HTTP.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { clientOver, createContainer, drain, own, unique } from '../support.mjs';

const client = clientOver('http');
let database;
let container;

before(async () => {
  ({ database } = await client.databases.create({ id: unique('batches') }));
  container = await createContainer(database, { throughput: 12000 });
});
after(() => database?.delete());

const statuses = (results) => results.map((result) => result.statusCode);

// check: batch
test('a batch of every kind of operation succeeds as one', async () => {
  const pk = unique('pk');
  await container.items.create({ id: 'old', pk, count: 1 });
  await container.items.create({ id: 'doomed', pk });
  const { result, code } = await container.items.batch([
    { operationType: 'Create', resourceBody: { id: 'new', pk, text: 'é' } },
    { operationType: 'Upsert', resourceBody: { id: 'upserted', pk } },
    { operationType: 'Read', id: 'old' },
    { operationType: 'Replace', id: 'old', resourceBody: { id: 'old', pk, count: 2 } },
    { operationType: 'Patch', id: 'old', resourceBody: { operations: [{ op: 'incr', path: '/count', value: 40 }] } },
    { operationType: 'Delete', id: 'doomed' },
  ], pk);
  assert.equal(code, 200);
  assert.deepEqual(statuses(result), [201, 201, 200, 200, 200, 204]);
  assert.equal(result[2].resourceBody.count, 1, 'a read inside sees what came before it');
  assert.equal(result[4].resourceBody.count, 42);
  assert.ok(result.every((one) => one.requestCharge > 0));
  assert.equal((await container.item('old', pk).read()).resource.count, 42);
  assert.equal((await container.item('doomed', pk).read()).statusCode, 404);
});

// check: batch-atomic
test('a failing operation undoes the batch and the others answer 424', async () => {
  const pk = unique('pk');
  await container.items.create({ id: 'taken', pk, count: 1 });
  const { result } = await container.items.batch([
    { operationType: 'Create', resourceBody: { id: 'first', pk } },
    { operationType: 'Patch', id: 'taken', resourceBody: { operations: [{ op: 'incr', path: '/count', value: 1 }] } },
    { operationType: 'Create', resourceBody: { id: 'taken', pk } },
    { operationType: 'Create', resourceBody: { id: 'last', pk } },
  ], pk);
  assert.deepEqual(statuses(result), [424, 424, 409, 424]);
  assert.equal((await container.item('first', pk).read()).statusCode, 404);
  assert.equal((await container.item('taken', pk).read()).resource.count, 1);
});

// check: batch-etags
test('etags are honoured inside a batch', async () => {
  const pk = unique('pk');
  const created = await container.items.create({ id: 'x', pk, count: 1 });
  await container.item('x', pk).replace({ id: 'x', pk, count: 2 });
  const { result } = await container.items.batch([
    { operationType: 'Create', resourceBody: { id: 'y', pk } },
    { operationType: 'Replace', id: 'x', ifMatch: created.etag, resourceBody: { id: 'x', pk, count: 3 } },
  ], pk);
  assert.deepEqual(statuses(result), [424, 412]);
  assert.equal((await container.item('x', pk).read()).resource.count, 2);
});

// check: batch-hierarchical
test('a batch in a hierarchical container', async () => {
  const tenants = await createContainer(database, { partitionKey: { paths: ['/t', '/u'], kind: 'MultiHash', version: 2 } });
  const { result } = await tenants.items.batch([
    { operationType: 'Create', resourceBody: { id: '1', t: 'a', u: 'b' } },
    { operationType: 'Create', resourceBody: { id: '2', t: 'a', u: 'b' } },
  ], ['a', 'b']);
  assert.deepEqual(statuses(result), [201, 201]);
});

// check: bulk
test('bulk spreads operations over physical partitions and keeps their order', async () => {
  const operations = [];
  for (let number = 0; number < 250; number += 1) {
    const pk = `bulk-${number % 37}`;
    operations.push({ operationType: 'Create', partitionKey: pk, resourceBody: { id: `b${number}`, pk, number } });
  }
  const created = await container.items.executeBulkOperations(operations);
  assert.equal(created.length, operations.length);
  created.forEach((one, index) => {
    assert.equal(one.error, undefined, JSON.stringify(one.error));
    assert.equal(one.response.statusCode, 201);
    assert.equal(one.response.resourceBody.number, index);
  });
  const mixed = await container.items.executeBulkOperations([
    { operationType: 'Read', id: 'b3', partitionKey: 'bulk-3' },
    { operationType: 'Create', partitionKey: 'bulk-4', resourceBody: { id: 'b4', pk: 'bulk-4' } },
    { operationType: 'Patch', id: 'b5', partitionKey: 'bulk-5', resourceBody: { operations: [{ op: 'incr', path: '/number', value: 1000 }] } },
    { operationType: 'Delete', id: 'b6', partitionKey: 'bulk-6' },
    { operationType: 'Replace', id: 'b7', partitionKey: 'bulk-7', resourceBody: { id: 'b7', pk: 'bulk-7', number: -7 } },
    { operationType: 'Upsert', partitionKey: 'bulk-8', resourceBody: { id: 'b8', pk: 'bulk-8', number: -8 } },
    { operationType: 'Read', id: 'absent', partitionKey: 'bulk-9' },
  ]);
  const codes = mixed.map((one) => one.response?.statusCode ?? one.error?.code);
  assert.deepEqual(codes, [200, 409, 200, 204, 200, 200, 404]);
  assert.equal((await container.item('b5', 'bulk-5').read()).resource.number, 1005);
});

test('the older bulk call answers by index too', async () => {
  const results = await container.items.bulk([
    { operationType: 'Create', partitionKey: 'old-1', resourceBody: { id: 'o1', pk: 'old-1' } },
    { operationType: 'Create', partitionKey: 'old-2', resourceBody: { id: 'o2', pk: 'old-2' } },
    { operationType: 'Read', id: 'nothing', partitionKey: 'old-3' },
  ], { continueOnError: true });
  assert.deepEqual(statuses(results), [201, 201, 404]);
});

test('feeds of containers come in pages', async () => {
  const { database: many } = await client.databases.create({ id: unique('pages') });
  const ids = Array.from({ length: 7 }, (_, number) => `c${number}`);
  for (const id of ids) await many.containers.create({ id, partitionKey: { paths: ['/pk'] } });
  const { items, pages } = await drain(many.containers.readAll({ maxItemCount: 3 }));
  assert.deepEqual(items.map((one) => one.id).sort(), ids);
  assert.equal(pages, 3);
  await many.delete();
});

test('an item feed returns every item once, in pages', async () => {
  const feed = await createContainer(database, { throughput: 12000 });
  const written = Array.from({ length: 60 }, (_, number) => ({ id: `f${number}`, pk: `p${number % 11}`, number }));
  for (const item of written) await feed.items.create(item);
  const { items, pages } = await drain(feed.items.query(undefined, { maxItemCount: 10 }));
  const byId = (left, right) => (left.id < right.id ? -1 : 1);
  assert.deepEqual(items.map(own).sort(byId), written.sort(byId));
  assert.ok(pages >= 6, `${pages} pages`);
});

// check: hierarchical-prefix-queries
test('an item feed can be limited to a prefix of a hierarchical key', async () => {
  const tenants = await createContainer(database, {
    partitionKey: { paths: ['/t', '/u'], kind: 'MultiHash', version: 2 }, throughput: 12000,
  });
  for (const t of ['a', 'b']) {
    for (const u of ['1', '2', '3']) await tenants.items.create({ id: `${t}${u}`, t, u });
  }
  const ids = async (partitionKey) => {
    const { items } = await drain(tenants.items.query(undefined, { partitionKey }));
    return items.map((item) => item.id).sort();
  };
  assert.deepEqual(await ids(['a', '2']), ['a2']);
  assert.deepEqual(await ids(['b']), ['b1', 'b2', 'b3']);
});
