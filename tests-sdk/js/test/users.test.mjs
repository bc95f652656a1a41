// Users, permissions and what clients without a key can do with resource tokens, over plain HTTP.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { CosmosClient, PermissionMode } from '@azure/cosmos';
import { clientOver, createContainer, drain, endpoints, expectStatus, unique } from '../support.mjs';

const client = clientOver('http');
let database;
let container;
let other;
let user;

before(async () => {
  ({ database } = await client.databases.create({ id: unique('users') }));
  container = await createContainer(database);
  other = await createContainer(database);
  ({ user } = await database.users.create({ id: unique('ann') }));
  for (const pk of ['k', 'z']) {
    for (const id of ['a', 'b']) await container.items.create({ id, pk, count: 1 });
  }
});
after(() => database?.delete());

/** A permission of the user that the test leaves behind no more than the container. */
async function permitted(definition, work) {
  const { resource: permission } = await user.permissions.create({ id: unique('permission'), ...definition });
  try {
    return await work(permission);
  } finally {
    await user.permission(permission.id).delete();
  }
}

/** The container as a client sees it that holds nothing but permissions. */
function seenWith(options, { id } = container) {
  const restricted = new CosmosClient({ endpoint: endpoints.http, ...options });
  return restricted.database(database.id).container(id);
}

const ids = (items) => items.map(({ pk, id }) => pk + id).sort();

// check: users
test('users are created, read, listed, queried, renamed, upserted and deleted', async () => {
  const id = unique('bob');
  const { resource: created, statusCode } = await database.users.create({ id });
  assert.equal(statusCode, 201);
  assert.deepEqual((await database.user(id).read()).resource, created);
  await expectStatus(409, () => database.users.create({ id }));
  const { resources: listed } = await database.users.readAll().fetchAll();
  assert.ok(listed.some((one) => one.id === id));
  const query = { query: 'SELECT * FROM root r WHERE r.id = @id', parameters: [{ name: '@id', value: id }] };
  assert.equal((await database.users.query(query).fetchAll()).resources.length, 1);
  const renamed = unique('bea');
  const { resource: replaced } = await database.user(id).replace({ ...created, id: renamed });
  assert.equal(replaced._rid, created._rid);
  assert.equal((await database.users.upsert({ id: renamed })).resource._rid, created._rid);
  const upserted = await database.users.upsert({ id });
  assert.equal(upserted.statusCode, 201);
  await database.user(id).delete();
  await database.user(renamed).delete();
  await expectStatus(404, () => database.user(renamed).read());
});

// check: permissions
test('permissions are created, read, listed, queried, replaced, upserted and deleted', async () => {
  const definition = { id: unique('p'), permissionMode: PermissionMode.Read, resource: container.url };
  const { resource: created } = await user.permissions.create(definition);
  assert.equal(created.permissionMode, PermissionMode.Read, 'in the letters it was written in');
  assert.ok(created._token.startsWith('type=resource&ver=1.0&sig='));
  await expectStatus(409, () => user.permissions.create({ ...definition, resource: other.url }));
  await expectStatus(409, () => user.permissions.create({ ...definition, id: unique('p') }));
  const { resources: listed } = await user.permissions.readAll().fetchAll();
  assert.deepEqual(listed.map((one) => one.id), [definition.id]);
  assert.ok(listed[0]._token, 'feeds carry tokens');
  const query = { query: 'SELECT * FROM root r WHERE r.id = @id', parameters: [{ name: '@id', value: definition.id }] };
  assert.equal((await user.permissions.query(query).fetchAll()).resources.length, 1);
  const all = { ...definition, permissionMode: PermissionMode.All };
  assert.equal((await user.permission(definition.id).replace(all)).resource.permissionMode, PermissionMode.All);
  const { resource: upserted, statusCode } = await user.permissions.upsert(definition);
  assert.deepEqual([upserted._rid, statusCode], [created._rid, 200]);
  await user.permission(definition.id).delete();
  await expectStatus(404, () => user.permission(definition.id).read());
});

// check: resource-tokens
test('a permission feed opens what it was made for and nothing else', () =>
  permitted({ permissionMode: PermissionMode.Read, resource: container.url }, async () => {
    const { resources: permissionFeed } = await user.permissions.readAll().fetchAll();
    const seen = seenWith({ permissionFeed });
    assert.equal((await seen.read()).resource.id, container.id);
    assert.equal((await seen.item('a', 'k').read()).resource.count, 1);
    assert.deepEqual(ids((await drain(seen.items.readAll())).items), ['ka', 'kb', 'za', 'zb']);
    assert.deepEqual(ids((await drain(seen.items.query('SELECT * FROM c WHERE c.id = "a"'))).items), ['ka', 'za']);
    const { items: counted } = await drain(seen.items.query('SELECT VALUE COUNT(1) FROM c'));
    assert.deepEqual(counted, [4]);
    await expectStatus(403, () => seen.items.create({ id: 'c', pk: 'k' }));
    await expectStatus(403, () => seen.item('a', 'k').delete());
    await expectStatus(403, () => seen.delete());
    const foreign = new CosmosClient({ endpoint: endpoints.http, resourceTokens: { [other.id]: permissionFeed[0]._token } });
    await expectStatus(403, () => foreign.database(database.id).container(other.id).read());
  }));

// check: resource-tokens-write
test('a container token with mode All writes items and leaves the container alone', () =>
  permitted({ permissionMode: PermissionMode.All, resource: container.url }, async (permission) => {
    const seen = seenWith({ resourceTokens: { [container.url]: permission._token } });
    await seen.items.create({ id: 'mine', pk: 'w', count: 1 });
    await seen.items.upsert({ id: 'mine', pk: 'w', count: 2 });
    assert.equal((await seen.item('mine', 'w').patch([{ op: 'incr', path: '/count', value: 1 }])).resource.count, 3);
    const { result } = await seen.items.batch([{ operationType: 'Delete', id: 'mine' }], 'w');
    assert.equal(result[0].statusCode, 204);
    await expectStatus(403, () => seen.scripts.userDefinedFunctions.create({ id: 'f', body: 'function () {}' }));
    await expectStatus(403, () => seen.delete());
  }));

// check: resource-tokens-key
test('a token limited to a partition key sees and writes that key alone', () =>
  permitted({ permissionMode: PermissionMode.All, resource: container.url, resourcePartitionKey: ['k'] }, async (permission) => {
    assert.deepEqual(permission.resourcePartitionKey, ['k']);
    const seen = seenWith({ resourceTokens: { [container.url]: permission._token } });
    assert.equal((await seen.item('a', 'k').read()).resource.count, 1);
    await expectStatus(403, () => seen.item('a', 'z').read());
    const scoped = seen.items.query('SELECT * FROM c ORDER BY c.id', { partitionKey: 'k' });
    assert.deepEqual(ids((await drain(scoped)).items), ['ka', 'kb']);
    await expectStatus(403, () => drain(seen.items.query('SELECT * FROM c', { partitionKey: 'z' })));
    await expectStatus(403, () => drain(seen.items.query('SELECT * FROM c')));
    await expectStatus(403, () => drain(seen.items.readAll()));
    await seen.items.create({ id: 'new', pk: 'k' });
    await seen.item('new', 'k').delete();
    await expectStatus(403, () => seen.items.create({ id: 'new', pk: 'z' }));
  }));

test('an item token is for the item', () =>
  permitted({ permissionMode: PermissionMode.All, resource: container.item('a', 'k').url }, async (permission) => {
    const tokens = { a: permission._token, [container.id]: permission._token };
    const seen = seenWith({ resourceTokens: tokens });
    assert.equal((await seen.item('a', 'k').replace({ id: 'a', pk: 'k', count: 5 })).resource.count, 5);
    await expectStatus(403, () => seen.item('a', 'k').replace({ id: 'renamed', pk: 'k' }));
    await expectStatus(403, () => seen.item('b', 'k').read());
    await expectStatus(403, () => drain(seen.items.query('SELECT * FROM c', { partitionKey: 'k' })));
  }));

test('a stored procedure runs for a token with mode All, in the key that it is limited to', async () => {
  const body = 'function (id) { var links = getContext().getCollection(); links.createDocument(links.getSelfLink(), { id: id, pk: "k" }, function (error) { if (error) throw error; getContext().getResponse().setBody(id); }); }';
  const { resource: procedure } = await container.scripts.storedProcedures.create({ id: unique('p'), body });
  const run = (token, pk) => seenWith({ resourceTokens: { [container.id]: token } })
    .scripts.storedProcedure(procedure.id).execute(pk, [unique('made')]);
  const definition = { resource: container.url, resourcePartitionKey: ['k'] };
  await permitted({ permissionMode: PermissionMode.Read, ...definition }, async ({ _token }) => {
    await expectStatus(403, () => run(_token, 'k'));
  });
  await permitted({ permissionMode: PermissionMode.All, ...definition }, async ({ _token }) => {
    assert.ok((await run(_token, 'k')).resource.startsWith('made'));
    await expectStatus(403, () => run(_token, 'z'));
  });
});

test('tokens last between ten minutes and a day, and no longer than their permission', async () => {
  const seen = await permitted({ permissionMode: PermissionMode.Read, resource: container.url }, async ({ id }) => {
    for (const resourceTokenExpirySeconds of [1, 599, 86_401]) {
      await expectStatus(400, () => user.permission(id).read({ resourceTokenExpirySeconds }));
    }
    const { resource } = await user.permission(id).read({ resourceTokenExpirySeconds: 600 });
    const reader = seenWith({ resourceTokens: { [container.url]: resource._token } });
    assert.equal((await reader.item('b', 'k').read()).statusCode, 200);
    return reader;
  });
  await expectStatus(401, () => seen.item('b', 'k').read());
});
