// Databases, containers and offers through the SDK, over plain HTTP.
import assert from 'node:assert/strict';
import test from 'node:test';
import { clientOver, createContainer, drain, endpoints, expectStatus, unique, withDatabase } from '../support.mjs';

const client = clientOver('http');

test('account document keeps the client where it is', async () => {
  const { resource } = await client.getDatabaseAccount();
  assert.equal(resource.consistencyPolicy, 'Session');
  // The account's id makes this SDK ignore locations, so it stays at the address it was given.
  assert.equal(await client.getWriteEndpoint(), new URL(endpoints.http).href);
});

// check: databases
test('database life cycle', async () => {
  const id = unique('life');
  const created = await client.databases.create({ id });
  assert.equal(created.statusCode, 201);
  for (const member of ['_rid', '_self', '_etag', '_ts']) assert.ok(created.resource[member], member);
  assert.ok(created.requestCharge > 0);

  await expectStatus(409, () => client.databases.create({ id }));
  assert.equal((await client.databases.createIfNotExists({ id })).statusCode, 200);
  assert.equal((await client.database(id).read()).resource.id, id);
  const { items } = await drain(client.databases.readAll());
  assert.ok(items.some((database) => database.id === id));

  assert.equal((await client.database(id).delete()).statusCode, 204);
  await expectStatus(404, () => client.database(id).read());
  await expectStatus(404, () => client.database(id).delete());
});

// check: database-names
test('database names with spaces and letters of other alphabets', async () => {
  for (const name of ['a b', 'Ünïcode', '数据库', 'emoji 😀', "it's", 'a+b=c&d', '100%']) {
    const id = unique(name);
    await client.databases.create({ id });
    assert.equal((await client.database(id).read()).resource.id, id);
    assert.equal((await client.database(id).delete()).statusCode, 204);
  }
});

// check: containers
test('container life cycle', () => withDatabase(client, async (database) => {
  const id = unique('life');
  const created = await database.containers.create({ id, partitionKey: { paths: ['/pk'] } });
  assert.equal(created.statusCode, 201);
  assert.deepEqual(created.resource.partitionKey.paths, ['/pk']);
  assert.deepEqual(created.resource.indexingPolicy.includedPaths, [{ path: '/*' }]);
  assert.equal(created.resource.indexingPolicy.indexingMode, 'consistent');
  assert.deepEqual(created.resource.conflictResolutionPolicy.mode, 'LastWriterWins');

  await expectStatus(409, () => database.containers.create({ id, partitionKey: { paths: ['/pk'] } }));
  assert.equal((await database.containers.createIfNotExists({ id, partitionKey: { paths: ['/pk'] } })).statusCode, 200);
  const { items } = await drain(database.containers.readAll());
  assert.deepEqual(items.map((container) => container.id), [id]);

  const container = database.container(id);
  assert.equal((await container.delete()).statusCode, 204);
  await expectStatus(404, () => container.read());
}));

// check: container-policies
test('container policies are kept and can be replaced', () => withDatabase(client, async (database) => {
  const definition = {
    id: unique('policies'),
    partitionKey: { paths: ['/pk'], version: 2 },
    defaultTtl: 3600,
    uniqueKeyPolicy: { uniqueKeys: [{ paths: ['/email'] }, { paths: ['/a', '/b'] }] },
    indexingPolicy: {
      indexingMode: 'consistent',
      automatic: true,
      includedPaths: [{ path: '/*' }],
      excludedPaths: [{ path: '/large/*' }],
      compositeIndexes: [[{ path: '/name', order: 'ascending' }, { path: '/age', order: 'descending' }]],
      spatialIndexes: [{ path: '/location/*', types: ['Point', 'Polygon'] }],
    },
    geospatialConfig: { type: 'Geography' },
    computedProperties: [{ name: 'lower', query: 'SELECT VALUE LOWER(c.name) FROM c' }],
  };
  const container = await createContainer(database, definition);
  const { resource } = await container.read();
  assert.equal(resource.defaultTtl, 3600);
  assert.deepEqual(resource.uniqueKeyPolicy, definition.uniqueKeyPolicy);
  assert.deepEqual(resource.indexingPolicy.compositeIndexes, definition.indexingPolicy.compositeIndexes);
  assert.equal(resource.indexingPolicy.spatialIndexes[0].path, '/location/*');
  assert.ok(resource.indexingPolicy.excludedPaths.some((excluded) => excluded.path === '/large/*'));
  assert.deepEqual(resource.computedProperties, definition.computedProperties);
  assert.equal(resource.geospatialConfig.type, 'Geography');

  const replaced = await container.replace({ ...resource, defaultTtl: 60 });
  assert.equal(replaced.statusCode, 200);
  assert.equal((await container.read()).resource.defaultTtl, 60);
  await expectStatus(400, () => container.replace({ ...resource, partitionKey: { paths: ['/other'], version: 2 } }));
}));

// check: container-refusals
test('container definitions that the reference rejects', () => withDatabase(client, async (database) => {
  const reject = (definition) =>
    expectStatus(400, () => database.containers.create({ id: unique('bad'), partitionKey: { paths: ['/pk'] }, ...definition }));
  await reject({ defaultTtl: 0 });
  await reject({ defaultTtl: -10 });
  await reject({ id: 'x'.repeat(256) });
  await reject({ partitionKey: { paths: ['/a', '/b', '/c', '/d'], kind: 'MultiHash', version: 2 } });
  await reject({ indexingPolicy: { indexingMode: 'sometimes' } });
}));

// check: throughput
test('manual throughput is an offer that can be read and replaced', () => withDatabase(client, async (database) => {
  const container = await createContainer(database, { throughput: 12000 });
  const { resource: offer } = await container.readOffer();
  assert.equal(offer.content.offerThroughput, 12000);
  const { resource: definition } = await container.read();
  assert.equal(offer.resource, definition._self);
  assert.equal(offer.offerResourceId, definition._rid);

  const changed = { ...offer, content: { ...offer.content, offerThroughput: 10000 } };
  const replaced = await client.offer(offer.id).replace(changed);
  assert.equal(replaced.statusCode, 200);
  assert.equal((await client.offer(offer.id).read()).resource.content.offerThroughput, 10000);
  await expectStatus(400, () => client.offer(offer.id).replace({ ...offer, content: { ...offer.content, offerThroughput: -200 } }));
  const { items } = await drain(client.offers.readAll());
  assert.ok(items.some((one) => one.id === offer.id));
}));

test('autoscale throughput is kept as its maximum', () => withDatabase(client, async (database) => {
  const container = await createContainer(database, { maxThroughput: 4000 });
  const { resource: offer } = await container.readOffer();
  assert.equal(offer.content.offerAutopilotSettings.maxThroughput, 4000);
}));

// check: shared-throughput
test('database throughput is shared and has an offer', async () => {
  const { database } = await client.databases.create({ id: unique('shared'), throughput: 1000 });
  const { resource: offer } = await database.readOffer();
  assert.equal(offer.content.offerThroughput, 1000);
  await database.delete();
});

test('throughput splits a container into physical partitions', () => withDatabase(client, async (database) => {
  const container = await createContainer(database, { throughput: 30000 });
  const { resources } = await container.readPartitionKeyRanges().fetchAll();
  assert.equal(resources.length, 5);
  const sorted = [...resources].sort((left, right) => (left.minInclusive < right.minInclusive ? -1 : 1));
  assert.equal(sorted[0].minInclusive, '');
  assert.equal(sorted.at(-1).maxExclusive, 'FF');
  for (let index = 1; index < sorted.length; index += 1) {
    assert.equal(sorted[index].minInclusive, sorted[index - 1].maxExclusive, 'ranges have no gap and no overlap');
  }
}));

// check: recreated-container
test('a recreated container is another container', () => withDatabase(client, async (database) => {
  const definition = { id: unique('again'), partitionKey: { paths: ['/pk'] } };
  const first = (await database.containers.create(definition)).resource;
  await database.container(definition.id).items.create({ id: '1', pk: 'a' });
  await database.container(definition.id).delete();
  const second = (await database.containers.create(definition)).resource;
  assert.notEqual(second._rid, first._rid);
  const { statusCode } = await clientOver('http').database(database.id).container(definition.id).item('1', 'a').read();
  assert.equal(statusCode, 404);
}));
