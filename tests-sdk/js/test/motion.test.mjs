// Clients go on working while the partitions under them are split, merged and moved: no error reaches them, and queries neither miss
// nor repeat an item. Splits are made as applications make them, by raising the throughput; the rest is the operator's.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { clientOver, createContainer, operate, unique, until } from '../support.mjs';

const ITEMS = 300;
// No n is 0: the SDK's DISTINCT drops rows that JavaScript takes for false.
const numbered = (n) => ({ id: `i${n}`, pk: `k${n % 100}`, n, colour: `c${n % 7}`, tie: n % 5 });
const data = Array.from({ length: ITEMS }, (_, index) => numbered(index + 1));
const ascending = (a, b) => a - b;
const numbers = (rows) => rows.map((row) => row.n ?? row);

async function ranges(container) {
  const { resources } = await container.readPartitionKeyRanges().fetchAll();
  return resources.map((range) => range.id);
}

/** Sets the throughput and waits for the partitions that it brings. */
async function raise(container, throughput, partitions) {
  const { resource: offer } = await container.readOffer();
  offer.content.offerThroughput = throughput;
  await container.database.client.offer(offer.id).replace(offer);
  await until(`${partitions} partitions`, async () => (await ranges(container)).length === partitions);
}

const path = (container, rest) => `_shardlake/v1/dbs/${container.database.id}/colls/${container.id}/${rest}`;

/** Has the operator do something, and waits for the end of it. */
async function relocate(container, rest, body) {
  const before = await operate('GET', path(container, 'partitions'));
  await operate('POST', path(container, rest), body);
  let last;
  await until(`${rest} is over`, async () => {
    const report = await operate('GET', path(container, 'partitions'));
    last = report.lastRelocation;
    return report.generation > before.generation && !report.relocation;
  });
  assert.equal(last?.outcome, 'done', JSON.stringify(last));
}

// The throughput asks for no more partitions than there are, so nothing undoes what the operator does.
const MOTIONS = [
  ['raised to two partitions', (container) => raise(container, 11_000, 2)],
  ['raised to three partitions', (container) => raise(container, 25_000, 3)],
  ['split', async (container) => relocate(container, `partitions/${(await ranges(container))[0]}/split`)],
  ['merged', async (container) => relocate(container, 'partitions/merge', { ids: (await ranges(container)).slice(0, 2) })],
];

// A query, how its rows are told apart, and what they are.
const QUERIES = {
  plain: { query: 'SELECT c.n FROM c', rows: data.map((i) => i.n) },
  filtered: { query: 'SELECT c.n FROM c WHERE c.tie > 1', rows: data.filter((i) => i.tie > 1).map((i) => i.n) },
  'ORDER BY': { query: 'SELECT c.n FROM c ORDER BY c.n', rows: data.map((i) => i.n), inOrder: (n) => n },
  'ORDER BY … DESC': { query: 'SELECT c.n FROM c ORDER BY c.n DESC', rows: data.map((i) => i.n), inOrder: (n) => -n },
  'ORDER BY with equals': { query: 'SELECT c.n, c.tie FROM c ORDER BY c.tie', rows: data.map((i) => i.n), inOrder: (n) => n % 5 },
  DISTINCT: { query: 'SELECT DISTINCT VALUE c.n FROM c', rows: data.map((i) => i.n) },
  'ordered DISTINCT': { query: 'SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n', rows: data.map((i) => i.n), inOrder: (n) => n },
  'OFFSET LIMIT': { query: 'SELECT c.n FROM c ORDER BY c.n OFFSET 20 LIMIT 260', rows: data.map((i) => i.n).slice(20, 280), inOrder: (n) => n },
};

for (const scheme of ['http', 'https']) {
  const client = clientOver(scheme);
  let database;

  before(async () => {
    ({ database } = await client.databases.create({ id: unique('motion') }));
  });
  after(() => database?.delete());

  async function filled() {
    const container = await createContainer(database, { throughput: 400 });
    for (let start = 0; start < ITEMS; start += 100) {
      const create = (item) => ({ operationType: 'Create', resourceBody: item });
      await container.items.bulk(data.slice(start, start + 100).map(create));
    }
    return container;
  }

  for (const [name, { query, rows, inOrder }] of Object.entries(QUERIES)) {
    // check: motion-open-queries
    test(`${name}: pages before, between and after splits and a merge (${scheme})`, async () => {
      const container = await filled();
      const iterator = container.items.query(query, { maxItemCount: 7, forceQueryPlan: true });
      const motions = [...MOTIONS];
      const found = [];
      for (let page = 0; iterator.hasMoreResults(); page += 1) {
        assert.ok(page < 2 * ITEMS, 'the query ends');
        const { resources } = await iterator.fetchNext();
        found.push(...numbers(resources ?? []));
        if (page % 3 === 2) await motions.shift()?.[1](container);
      }
      assert.equal(motions.length, 0, 'everything happened while the query was read');
      assert.deepEqual([...found].sort(ascending), [...rows].sort(ascending));
      if (inOrder) assert.deepEqual(found.map(inOrder), found.map(inOrder).sort(ascending));
    });
  }
  // check: motion-aggregates
  test(`aggregates and groups between splits and a merge, point reads and writes all through them (${scheme})`, async () => {
    const container = await filled();
    const only = (query) => container.items.query(query).fetchAll();
    let written = ITEMS;
    for (const [, move] of MOTIONS) {
      let moving = true;
      const whileMoving = async (work) => {
        do await work();
        while (moving);
      };
      const motion = move(container).finally(() => {
        moving = false;
      });
      const writing = whileMoving(async () => {
        written += 1;
        await container.items.create({ id: `w${written}`, pk: `k${written % 100}`, n: 0, tie: 9 });
      });
      const reading = whileMoving(async () => {
        const item = data[Math.floor(Math.random() * ITEMS)];
        assert.equal((await container.item(item.id, item.pk).read()).resource?.n, item.n);
      });
      await Promise.all([motion, writing, reading]);
      assert.deepEqual((await only('SELECT VALUE COUNT(1) FROM c')).resources, [written]);
      assert.deepEqual((await only('SELECT VALUE SUM(c.n) FROM c')).resources, [(ITEMS * (ITEMS + 1)) / 2]);
      const groups = (await only('SELECT c.tie, COUNT(1) AS count FROM c WHERE c.tie < 9 GROUP BY c.tie')).resources;
      assert.deepEqual(groups.map((group) => group.count), [0, 1, 2, 3, 4].map(() => ITEMS / 5));
    }
  });
  test(`a container that another client made again under its name is queried as before (${scheme})`, async () => {
    const other = clientOver(scheme);
    const container = await createContainer(database, { throughput: 400 });
    const query = async () => (await container.items.query('SELECT VALUE c.n FROM c ORDER BY c.n').fetchAll()).resources;
    await container.items.create(data[0]);
    assert.deepEqual(await query(), [data[0].n]);
    await other.database(database.id).container(container.id).delete();
    await createContainer(other.database(database.id), { id: container.id, throughput: 30_000 });
    for (const item of data.slice(1, 20)) await other.database(database.id).container(container.id).items.create(item);
    // The SDK sends the session token of the earlier container for good.
    for (let i = 0; i < 2; i += 1) assert.deepEqual(await query(), data.slice(1, 20).map((item) => item.n));
  });
  // check: motion-bulk
  test(`bulk writes all through splits and a merge (${scheme})`, async () => {
    const container = await filled();
    let moving = true;
    const motion = (async () => {
      for (const [, move] of MOTIONS) await move(container);
    })().finally(() => {
      moving = false;
    });
    let written = 0;
    do {
      const items = Array.from({ length: 20 }, () => ({ id: `b${written}`, pk: `k${written % 100}`, n: (written += 1) }));
      const results = await container.items.executeBulkOperations(items.map((item) => ({ operationType: 'Create', partitionKey: item.pk, resourceBody: item })));
      assert.deepEqual(results.map((one) => one.response?.statusCode), items.map(() => 201));
    } while (moving);
    await motion;
    assert.deepEqual((await container.items.query("SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.id, 'b')").fetchAll()).resources, [written]);
  });
}
