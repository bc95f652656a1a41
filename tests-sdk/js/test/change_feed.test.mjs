// The SDK's own iterator over the change feed, in both of its modes: pages, starts, feed ranges, partition keys, continuations and splits,
// and what it tells of items whose time to live runs out.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, StatusCodes } from '@azure/cosmos';
import { clientOver, createContainer, expectStatus, unique, until } from '../support.mjs';

const client = clientOver('http');
let database;
before(async () => {
  ({ database } = await client.databases.create({ id: unique('feed') }));
});
after(() => database.delete());

const AllVersions = ChangeFeedMode.AllVersionsAndDeletes;
const keepsVersions = () => ({ changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(60)) });

/** Every change until there are no more for now, and where to go on. */
async function drain(container, options) {
  const iterator = container.items.getChangeFeedIterator(options);
  const changes = [];
  for (;;) {
    const page = await iterator.readNext();
    if (page.statusCode === StatusCodes.NotModified) return { changes, continuation: page.continuationToken };
    assert.equal(page.count, page.result.length);
    assert.ok(options.maxItemCount === undefined || page.count <= options.maxItemCount);
    changes.push(...page.result);
  }
}

const from = (changeFeedStartFrom, more = {}) => ({ changeFeedStartFrom, ...more });
const goingOn = (continuation, more) => from(ChangeFeedStartFrom.Continuation(continuation), more);
const ids = (changes) => changes.map((item) => item.id);

for (const [name, throughput] of [['one partition', 400], ['five partitions', 25_000]]) {
  // check: change-feed
  test(`the latest version of every item, page by page, and then what is new: ${name}`, async () => {
    const container = await createContainer(database, {}, { offerThroughput: throughput });
    const expected = new Set();
    for (let n = 0; n < 60; n += 1) {
      await container.items.create({ id: `${n}`, pk: `k${n % 20}`, n });
      expected.add(`${n}`);
    }
    await container.item('7', 'k7').replace({ id: '7', pk: 'k7', n: 700 });
    await container.item('8', 'k8').delete();
    expected.delete('8');
    for (const maxItemCount of [undefined, 1, 7]) {
      const { changes } = await drain(container, from(ChangeFeedStartFrom.Beginning(), { maxItemCount }));
      assert.deepEqual(new Set(ids(changes)), expected);
      assert.equal(changes.length, expected.size, 'each item comes once');
      assert.equal(changes.find((item) => item.id === '7').n, 700);
      // In order within each key.
      for (const pk of new Set(changes.map((item) => item.pk))) {
        const lsns = changes.filter((item) => item.pk === pk).map((item) => item._lsn);
        assert.deepEqual(lsns, lsns.toSorted((a, b) => a - b));
      }
    }
    const { continuation } = await drain(container, from(ChangeFeedStartFrom.Beginning()));
    assert.deepEqual((await drain(container, goingOn(continuation))).changes, []);
    await container.items.upsert({ id: '3', pk: 'k3', n: 300 });
    await container.items.create({ id: 'new', pk: 'k0' });
    assert.deepEqual(ids((await drain(container, goingOn(continuation))).changes).toSorted(), ['3', 'new']);
  });
}

// check: change-feed-starts, feed-ranges
test('now, a time, a partition key and a feed range are starts', async () => {
  const container = await createContainer(database, {}, { offerThroughput: 25_000 });
  const early = new Date();
  for (let n = 0; n < 30; n += 1) await container.items.create({ id: `${n}`, pk: `k${n % 6}` });
  const fromNow = container.items.getChangeFeedIterator(from(ChangeFeedStartFrom.Now()));
  assert.equal((await fromNow.readNext()).statusCode, StatusCodes.NotModified);
  await container.items.create({ id: 'late', pk: 'k1' });
  const late = [];
  for (let page = await fromNow.readNext(); page.statusCode !== StatusCodes.NotModified; page = await fromNow.readNext()) {
    late.push(...ids(page.result));
  }
  assert.deepEqual(late, ['late']);
  const hourBefore = new Date(early.getTime() - 3_600_000);
  assert.equal((await drain(container, from(ChangeFeedStartFrom.Time(hourBefore)))).changes.length, 31);
  const hourAfter = new Date(Date.now() + 3_600_000);
  assert.equal((await drain(container, from(ChangeFeedStartFrom.Time(hourAfter)))).changes.length, 0);
  const ofKey = (await drain(container, from(ChangeFeedStartFrom.Beginning('k1'), { maxItemCount: 2 }))).changes;
  assert.deepEqual(ids(ofKey), ['1', '7', '13', '19', '25', 'late']);
  const ranges = await container.getFeedRanges();
  assert.equal(ranges.length, 5);
  const parts = await Promise.all(ranges.map((range) => drain(container, from(ChangeFeedStartFrom.Beginning(range)))));
  assert.equal(parts.flatMap((part) => part.changes).length, 31);
  assert.equal(new Set(parts.flatMap((part) => ids(part.changes))).size, 31);
});

// check: change-feed-motion, change-feed-all-versions-motion
test('continuations of all kinds go on through splits', async () => {
  const container = await createContainer(database, keepsVersions(), { offerThroughput: 400 });
  const start = (await drain(container, from(ChangeFeedStartFrom.Now(), { changeFeedMode: AllVersions }))).continuation;
  for (let n = 0; n < 40; n += 1) await container.items.create({ id: `${n}`, pk: `k${n % 10}`, v: 0 });
  const half = container.items.getChangeFeedIterator(from(ChangeFeedStartFrom.Beginning(), { maxItemCount: 10 }));
  const seen = ids((await half.readNext()).result);
  const [range] = await container.getFeedRanges();
  const ofRange = (await drain(container, from(ChangeFeedStartFrom.Beginning(range)))).continuation;
  const { resource: offer } = await container.readOffer();
  offer.content.offerThroughput = 25_000;
  await client.offer(offer.id).replace(offer);
  await until('the container is split', async () => (await container.readPartitionKeyRanges().fetchAll()).resources.length === 3);
  for (let n = 0; n < 40; n += 1) await container.items.upsert({ id: `${n}`, pk: `k${n % 10}`, v: 1 });
  for (let page = await half.readNext(); page.statusCode !== StatusCodes.NotModified; page = await half.readNext()) {
    seen.push(...page.result.map((item) => item.id));
  }
  // Ten were seen before they changed again.
  assert.deepEqual(new Set(seen).size, 40);
  assert.equal(seen.length, 50);
  assert.equal((await drain(container, goingOn(ofRange))).changes.length, 40);
  const { changes } = await drain(container, goingOn(start, { changeFeedMode: AllVersions }));
  assert.equal(changes.length, 80);
  for (let n = 0; n < 40; n += 1) {
    const versions = changes.filter((change) => change.current.id === `${n}`).map((change) => change.current.v);
    assert.deepEqual(versions, [0, 1], `item ${n}`);
  }
});

// check: change-feed-all-versions
test('all versions and deletes, with what was there before', async () => {
  const previousImageRetentionPolicy = { supportedFeatures: { allVersionsAndDeletes: { mode: 3 } } };
  const container = await createContainer(database, { ...keepsVersions(), previousImageRetentionPolicy });
  const mode = { changeFeedMode: AllVersions };
  const { continuation } = await drain(container, from(ChangeFeedStartFrom.Now(), mode));
  await container.items.create({ id: 'a', pk: 'k', v: 1 });
  await container.item('a', 'k').replace({ id: 'a', pk: 'k', v: 2 });
  await container.item('a', 'k').patch([{ op: 'incr', path: '/v', value: 1 }]);
  await container.item('a', 'k').delete();
  await container.items.create({ id: 'a', pk: 'k', v: 4 });
  const { changes } = await drain(container, goingOn(continuation, { ...mode, maxItemCount: 2 }));
  assert.deepEqual(changes.map((change) => change.metadata.operationType), ['create', 'replace', 'replace', 'delete', 'create']);
  assert.deepEqual(changes.map((change) => change.current?.v), [1, 2, 3, undefined, 4]);
  assert.deepEqual(changes.map((change) => change.previous?.v), [undefined, 1, 2, 3, undefined]);
  const lsns = changes.map((change) => change.metadata.lsn);
  assert.deepEqual(lsns, lsns.toSorted((a, b) => a - b));
  assert.equal(changes[3].metadata.previousImageLSN, lsns[2]);
  assert.equal(changes[3].metadata.timeToLiveExpired, false);
  const ofKey = await drain(container, goingOn(continuation, mode));
  assert.equal(ofKey.changes.length, 5);
});

// check: change-feed-policy
test('all versions need a policy, and do not begin at the beginning', async () => {
  const plain = await createContainer(database);
  const options = from(ChangeFeedStartFrom.Now(), { changeFeedMode: AllVersions });
  // The iterator hands its errors on without their bodies.
  await assert.rejects(plain.items.getChangeFeedIterator(options).readNext(), (error) => error.code === 400);
  const keeps = await createContainer(database, keepsVersions());
  const { resource } = await keeps.read();
  assert.equal(resource.changeFeedPolicy.retentionDuration, 60);
});

// check: time-to-live
test('what outlives its time to live is gone at once, and the feed of all versions tells it', async () => {
  const container = await createContainer(database, { defaultTtl: -1, ...keepsVersions() });
  const mode = { changeFeedMode: AllVersions };
  const { continuation } = await drain(container, from(ChangeFeedStartFrom.Now(), mode));
  await container.items.create({ id: 'short', pk: 'k', ttl: 1 });
  await container.items.create({ id: 'kept', pk: 'k' });
  await until('the item is gone', async () => (await container.item('short', 'k').read()).statusCode === 404);
  const { resources } = await container.items.query('SELECT VALUE COUNT(1) FROM c').fetchAll();
  assert.deepEqual(resources, [1]);
  assert.deepEqual(ids((await drain(container, from(ChangeFeedStartFrom.Beginning()))).changes), ['kept']);
  let changes;
  await until('the deletion is told', async () => {
    ({ changes } = await drain(container, goingOn(continuation, mode)));
    return changes.length === 3;
  });
  const end = changes.find((change) => change.metadata.operationType === 'delete');
  assert.equal(end.metadata.timeToLiveExpired, true);
  assert.equal(end.metadata.id ?? end.previous?.id, 'short');
});

test('another time to live of the container holds for the next request', async () => {
  const container = await createContainer(database);
  await container.items.create({ id: 'a', pk: 'k', ttl: 1 });
  await container.items.create({ id: 'b', pk: 'k', ttl: -1 });
  const { resource } = await container.read();
  // An item that was created later, with the same time to live, where it counts, has run out.
  const control = await createContainer(database, { defaultTtl: -1 });
  await control.items.create({ id: 'a', pk: 'k', ttl: 1 });
  await until('the control has run out', async () => (await control.item('a', 'k').read()).statusCode === 404);
  assert.equal((await container.item('a', 'k').read()).statusCode, 200);
  await container.replace({ ...resource, defaultTtl: 1000 });
  assert.equal((await container.item('a', 'k').read()).statusCode, 404);
  assert.equal((await container.item('b', 'k').read()).statusCode, 200);
  for (const ttl of [0, -2, '1', null, 1.5]) {
    await expectStatus(400, () => container.items.create({ id: 'c', pk: 'k', ttl }));
  }
});
