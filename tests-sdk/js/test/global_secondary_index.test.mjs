// Global secondary indexes through the SDK, which sends the body of a container as it is.
import assert from 'node:assert/strict';
import test from 'node:test';
import { clientOver, createContainer, expectStatus, unique, until, withDatabase } from '../support.mjs';

const client = clientOver('http');
const definition = 'SELECT c.customerId, c.email FROM c';

const createIndex = (database, source, members = { definition }) =>
  createContainer(database, {
    id: unique('byEmail'),
    partitionKey: { paths: ['/email'], version: 2 },
    globalSecondaryIndexDefinition: { sourceCollectionId: source.id, ...members },
  });

// check: secondary-index-definitions
test('an index is shown under both names, and listed by its source', () =>
  withDatabase(client, async (database) => {
    const source = await createContainer(database);
    const index = await createIndex(database, source);
    const { resource } = await index.read();
    const { sourceCollectionId, status } = resource.globalSecondaryIndexDefinition;
    assert.equal(sourceCollectionId, source.id);
    assert.equal(typeof status, 'string');
    assert.deepEqual(resource.materializedViewDefinition, resource.globalSecondaryIndexDefinition);
    const listed = (await source.read()).resource.materializedViews;
    assert.deepEqual(listed.map(({ id }) => id), [index.id]);
  }));

// check: secondary-index-definitions
test('a replace repeats or leaves out the definition, and never changes it', () =>
  withDatabase(client, async (database) => {
    const source = await createContainer(database);
    const index = await createIndex(database, source);
    const { resource } = await index.read();
    assert.equal((await index.replace(resource)).statusCode, 200);
    const { globalSecondaryIndexDefinition, materializedViewDefinition, ...without } = resource;
    const replaced = (await index.replace(without)).resource;
    assert.deepEqual(replaced.globalSecondaryIndexDefinition, globalSecondaryIndexDefinition);
    const other = { ...materializedViewDefinition, definition: 'SELECT c.email FROM c' };
    await expectStatus(400, () => index.replace({ ...without, materializedViewDefinition: other }));
  }));

// check: secondary-index-writes
test('writes of an index are refused, and its source is deleted last', () =>
  withDatabase(client, async (database) => {
    const source = await createContainer(database);
    const index = await createIndex(database, source);
    const item = { id: '1', email: 'e' };
    for (const work of [
      () => index.items.create(item),
      () => index.items.upsert(item),
      () => index.item('1', 'e').replace(item),
      () => index.item('1', 'e').patch([{ op: 'set', path: '/a', value: 1 }]),
      () => index.item('1', 'e').delete(),
    ]) {
      const error = await expectStatus(403, work, 0);
      assert.match(error.body.message, /is a global secondary index of/);
    }
    const error = await expectStatus(400, () => source.delete());
    assert.ok(error.body.message.includes(index.id), error.body.message);
    await index.delete();
    await source.delete();
  }));

// check: secondary-index-definitions
test('settings and members that nothing follows are refused by name', () =>
  withDatabase(client, async (database) => {
    const source = await createContainer(database);
    for (const members of [{ shardlake: { deadLetters: 'letters' } }, { apiSpecificDefinition: {} }]) {
      const [name] = Object.keys(members.shardlake ?? members);
      const error = await expectStatus(501, () => createIndex(database, source, { definition, ...members }));
      assert.ok(error.body.message.includes(name), error.body.message);
    }
  }));

// check: secondary-index-rows
test('rows follow the items of the source', () =>
  withDatabase(client, async (database) => {
    const source = await createContainer(database);
    await source.items.create({ id: '1', pk: 'p', customerId: 'c', email: 'a' });
    const index = await createIndex(database, source);
    const emails = async () => {
      const { resources } = await index.items.query('SELECT c._id, c.email FROM c').fetchAll();
      return JSON.stringify(resources.map(({ _id, email }) => [_id, email]).sort());
    };
    await until('the index has the first row', async () => (await emails()) === '[["1","a"]]');
    await source.items.upsert({ id: '1', pk: 'p', customerId: 'c', email: 'b' });
    await source.items.create({ id: '2', pk: 'p', email: 'a' });
    await until('the index has both rows', async () => (await emails()) === '[["1","b"],["2","a"]]');
    await source.item('1', 'p').delete();
    await until('the index has one row', async () => (await emails()) === '[["2","a"]]');
  }));
