// Queries through the SDK's own pipeline over five partitions, with every result compared to a naive evaluation here.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { clientOver, createContainer, expectStatus, unique } from '../support.mjs';

const ITEMS = 240;
const TYPES = ['undefined', 'null', 'boolean', 'number', 'string'];
// No price is 0: the SDK's ordered DISTINCT drops rows that JavaScript takes for false.
const data = Array.from({ length: ITEMS }, (_, n) => {
  const item = { id: `i${n}`, pk: `k${n % 24}`, n, colour: ['red', 'green', 'blue'][n % 3], price: 1 + ((n * 37) % 101), tags: [`t${n % 4}`, `u${n % 2}`] };
  // Values of every type, and none.
  const mixed = [undefined, null, n % 2 === 0, n, `s${n % 10}`][n % 5];
  if (mixed !== undefined) item.mixed = mixed;
  return item;
});

const rank = (value) => (value === null ? 'null' : typeof value);
function compare(a, b) {
  const [left, right] = [TYPES.indexOf(rank(a)), TYPES.indexOf(rank(b))];
  if (left !== right) return left - right;
  return a < b ? -1 : a > b ? 1 : 0;
}
const by = (key, sign = 1) => [...data].sort((a, b) => sign * compare(key(a), key(b)));
const asSet = (rows) => rows.map((row) => JSON.stringify(row)).sort();

for (const scheme of ['http', 'https']) {
  const client = clientOver(scheme);
  let database;
  let container;

  before(async () => {
    ({ database } = await client.databases.create({ id: unique('queries') }));
    container = await createContainer(database, { throughput: 30000 });
    for (let start = 0; start < ITEMS; start += 40) {
      await Promise.all(data.slice(start, start + 40).map((item) => container.items.create(item)));
    }
  });
  after(() => database?.delete());

  const all = async (query, options) => (await container.items.query(query, options).fetchAll()).resources;
  const over = (name, work) => test(`${name} (${scheme})`, work);

  over('the container has five partitions', async () => {
    const { resources } = await container.readPartitionKeyRanges().fetchAll();
    assert.equal(resources.length, 5);
  });

  // check: queries
  over('filters with parameters, within one partition key and over all', async () => {
    const spec = { query: 'SELECT VALUE c.n FROM c WHERE c.price > @low AND c.colour IN (@a, @b)', parameters: [{ name: '@low', value: 60 }, { name: '@a', value: 'red' }, { name: '@b', value: 'blue' }] };
    const wanted = data.filter((i) => i.price > 60 && i.colour !== 'green');
    assert.deepEqual(asSet(await all(spec)), asSet(wanted.map((i) => i.n)));
    assert.deepEqual(asSet(await all(spec, { partitionKey: 'k3' })), asSet(wanted.filter((i) => i.pk === 'k3').map((i) => i.n)));
  });

  // check: order-by
  over('ORDER BY, both ways, with every type and missing properties', async () => {
    assert.deepEqual(await all('SELECT VALUE c.n FROM c ORDER BY c.n'), by((i) => i.n).map((i) => i.n));
    assert.deepEqual(await all('SELECT VALUE c.n FROM c ORDER BY c.n DESC'), by((i) => i.n, -1).map((i) => i.n));
    for (const [direction, sign] of [['ASC', 1], ['DESC', -1]]) {
      // The SDK's own merge refuses to compare types; within one partition nothing is merged.
      const rows = await all(`SELECT c.mixed FROM c WHERE IS_STRING(c.mixed) ORDER BY c.mixed ${direction}`);
      assert.deepEqual(rows.map((row) => row.mixed), by((i) => i.mixed, sign).filter((i) => typeof i.mixed === 'string').map((i) => i.mixed));
      const within = await all(`SELECT c.mixed FROM c ORDER BY c.mixed ${direction}`, { partitionKey: 'k2' });
      assert.deepEqual(within.map((row) => row.mixed), by((i) => i.mixed, sign).filter((i) => i.pk === 'k2').map((i) => i.mixed));
    }
  });

  // check: top-offset-limit
  over('ORDER BY with a filter, TOP, and OFFSET LIMIT', async () => {
    const sorted = by((i) => i.price * 1000 + i.n).filter((i) => i.colour === 'green');
    const prices = sorted.map((i) => i.price);
    assert.deepEqual(await all("SELECT VALUE c.price FROM c WHERE c.colour = 'green' ORDER BY c.price"), prices);
    assert.deepEqual(await all("SELECT TOP 7 VALUE c.price FROM c WHERE c.colour = 'green' ORDER BY c.price"), prices.slice(0, 7));
    assert.deepEqual(await all("SELECT VALUE c.price FROM c WHERE c.colour = 'green' ORDER BY c.price OFFSET 5 LIMIT 12"), prices.slice(5, 17));
    assert.equal((await all('SELECT TOP 9 * FROM c')).length, 9);
    assert.equal((await all('SELECT * FROM c OFFSET 230 LIMIT 50')).length, 10);
    assert.equal((await all('SELECT TOP 0 * FROM c')).length, 0);
  });

  // check: distinct
  over('DISTINCT, with and without ORDER BY', async () => {
    assert.deepEqual(asSet(await all('SELECT DISTINCT VALUE c.colour FROM c')), asSet(['red', 'green', 'blue']));
    assert.deepEqual(await all('SELECT DISTINCT VALUE c.price FROM c ORDER BY c.price'), [...new Set(by((i) => i.price).map((i) => i.price))]);
    assert.deepEqual(asSet(await all('SELECT DISTINCT c.colour, c.tags FROM c')), [...new Set(asSet(data.map((i) => ({ colour: i.colour, tags: i.tags }))))].sort());
  });

  // check: aggregates
  over('aggregates as values', async () => {
    const prices = data.map((i) => i.price);
    const sum = prices.reduce((a, b) => a + b, 0);
    for (const [query, wanted] of [
      ['SELECT VALUE COUNT(1) FROM c', ITEMS],
      ['SELECT VALUE COUNT(c.mixed) FROM c', data.filter((i) => i.mixed !== undefined).length],
      ["SELECT VALUE COUNT(1) FROM c WHERE c.colour = 'red'", data.filter((i) => i.colour === 'red').length],
      ['SELECT VALUE SUM(c.price) FROM c', sum],
      ['SELECT VALUE AVG(c.price) FROM c', sum / ITEMS],
      ['SELECT VALUE MIN(c.price) FROM c', Math.min(...prices)],
      ['SELECT VALUE MAX(c.price) FROM c', Math.max(...prices)],
      ['SELECT VALUE COUNT(1) FROM c WHERE c.n < 0', 0],
    ]) {
      assert.deepEqual(await all(query), [wanted], query);
    }
    // One value that is no number, and there is no sum.
    assert.equal((await all('SELECT VALUE SUM(c.mixed) FROM c')).filter((row) => row !== undefined).length, 0);
  });

  // check: group-by
  over('several aggregates by name, and by group', async () => {
    const [row] = await all('SELECT COUNT(1) AS n, MIN(c.price) AS low, MAX(c.price) AS high FROM c');
    assert.deepEqual(row, { n: ITEMS, low: Math.min(...data.map((i) => i.price)), high: Math.max(...data.map((i) => i.price)) });
    const groups = ['red', 'green', 'blue'].map((colour) => {
      const members = data.filter((i) => i.colour === colour);
      return { colour, n: members.length, total: members.reduce((a, i) => a + i.price, 0) };
    });
    assert.deepEqual(asSet(await all('SELECT c.colour, COUNT(1) AS n, SUM(c.price) AS total FROM c GROUP BY c.colour')), asSet(groups));
    assert.deepEqual(asSet(await all('SELECT VALUE COUNT(1) FROM c GROUP BY c.colour')), asSet(groups.map((g) => g.n)));
  });

  // check: joins
  over('JOIN, EXISTS and ARRAY over the arrays of an item', async () => {
    const pairs = data.flatMap((i) => i.tags.map((tag) => ({ id: i.id, tag }))).filter((p) => p.tag === 't1' || p.tag === 'u0');
    assert.deepEqual(asSet(await all("SELECT c.id, t AS tag FROM c JOIN t IN c.tags WHERE t IN ('t1', 'u0')")), asSet(pairs));
    assert.deepEqual(asSet(await all("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't3')")), asSet(data.filter((i) => i.tags.includes('t3')).map((i) => i.id)));
    assert.deepEqual(asSet(await all("SELECT VALUE ARRAY(SELECT VALUE UPPER(t) FROM t IN c.tags) FROM c WHERE c.pk = 'k1'")), asSet(data.filter((i) => i.pk === 'k1').map((i) => i.tags.map((t) => t.toUpperCase()))));
  });

  // check: query-pages
  over('pages keep to their size and go on in another client', async () => {
    const query = 'SELECT VALUE c.n FROM c';
    for (const options of [{ maxItemCount: 7 }, { maxItemCount: 4, partitionKey: 'k5' }]) {
      const rows = [];
      let continuationToken;
      for (let page = 0; page < 200; page += 1) {
        const fresh = clientOver(scheme).database(database.id).container(container.id);
        const reply = await fresh.items.query(query, { ...options, continuationToken, forceQueryPlan: false }).fetchNext();
        assert.ok((reply.resources ?? []).length <= options.maxItemCount);
        rows.push(...(reply.resources ?? []));
        continuationToken = reply.continuationToken;
        if (!continuationToken) break;
        assert.ok(continuationToken.length < 4096);
        if (!options.partitionKey) break;
      }
      const wanted = data.filter((i) => !options.partitionKey || i.pk === options.partitionKey).map((i) => i.n);
      if (options.partitionKey) assert.deepEqual(asSet(rows), asSet(wanted));
    }
    const iterator = container.items.query('SELECT VALUE c.n FROM c ORDER BY c.n', { maxItemCount: 13 });
    const rows = [];
    while (iterator.hasMoreResults()) rows.push(...((await iterator.fetchNext()).resources ?? []));
    assert.deepEqual(rows, data.map((i) => i.n));
  });

  // check: query-metrics
  over('metrics and charges come with the rows', async () => {
    const reply = await container.items.query('SELECT * FROM c WHERE c.n = 7', { partitionKey: 'k7', populateQueryMetrics: true }).fetchAll();
    assert.equal(reply.resources.length, 1);
    assert.ok(reply.requestCharge > 2 && reply.requestCharge < 10, `${reply.requestCharge}`);
  });

  // check: query-errors
  over('mistakes are told with their place', async () => {
    const error = await expectStatus(400, () => container.items.query('SELECT * FROM c WHERE c.a == 1', { partitionKey: 'k1' }).fetchAll());
    assert.match(error.body.message, /Syntax error, incorrect syntax near '='/);
    await expectStatus(400, () => container.items.query('SELECT * FROM c WHERE nothing.a = 1', { partitionKey: 'k1' }).fetchAll());
    await expectStatus(400, () => container.items.query('SELECT * FROM c ORDER BY c.n, c.price', { partitionKey: 'k1' }).fetchAll());
  });
}
