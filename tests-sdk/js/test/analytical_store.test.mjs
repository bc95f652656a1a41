// The policy of the analytical store through the SDK; the table's state and rows as the operator sees them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { clientOver, createContainer, expectStatus, operate, unique, until, withDatabase } from '../support.mjs';

const client = clientOver('http');

/** Runs `work` with a container that has a table. A server without tables refuses the policy by name, and the test is skipped. */
const withTable = (context, work) =>
  withDatabase(client, async (database) => {
    try {
      const container = await createContainer(database, { analyticalStorageTtl: -1 });
      return await work(container, database);
    } catch (error) {
      if (error.code !== 501 || !error.body?.message.includes('not in this build')) throw error;
      return context.skip("the server is built without the feature 'analytics'");
    }
  });

const report = (container) => operate('GET', `_shardlake/v1/dbs/${container.database.id}/colls/${container.id}/analytics`);

/** The report of a table that has every change. */
async function followed(container) {
  let now;
  await until('the table has every change', async () => {
    now = await report(container);
    assert.notEqual(now.state, 'failed', now.reason);
    return now.state === 'following' && now.lag.changes === 0 && now.figures.version !== null;
  });
  return now;
}

async function write(container, from, to) {
  for (let n = from; n < to; n += 1) await container.items.upsert({ id: `i${n}`, pk: `k${n % 5}`, n, name: `item ${n}` });
}

/** The definition with changed members; the SDK sends it as it is. */
async function replace(container, change) {
  const { resource } = await container.read();
  const { statusCode } = await container.replace({ ...resource, ...change });
  assert.equal(statusCode, 200);
  return (await container.read()).resource;
}

// check: analytical-store
test('a table follows its container, and has a column for each property', (context) =>
  withTable(context, async (container) => {
    assert.equal((await container.read()).resource.analyticalStorageTtl, -1);
    await write(container, 0, 20);
    await write(container, 5, 8);
    await container.item('i2', 'k2').delete();
    const { figures, counts } = await followed(container);
    assert.equal(figures.rows, 19);
    const columns = Object.fromEntries(figures.columns.map(({ name, type }) => [name, type]));
    assert.deepEqual([columns.pk, columns.n, columns.name], ['string', 'long', 'string']);
    assert.deepEqual(counts.restValues, {});
  }));

// check: analytical-store
test('a replace without the policy keeps it, 0 closes the table, and -1 opens it again', (context) =>
  withTable(context, async (container) => {
    await write(container, 0, 10);
    const { figures } = await followed(container);
    assert.equal((await replace(container, { analyticalStorageTtl: undefined, defaultTtl: 3600 })).analyticalStorageTtl, -1);

    assert.equal((await replace(container, { analyticalStorageTtl: 0 })).analyticalStorageTtl, 0);
    assert.equal((await report(container)).state, 'closed');
    await write(container, 10, 15);
    await container.item('i0', 'k0').delete();
    assert.equal((await replace(container, { analyticalStorageTtl: undefined })).analyticalStorageTtl, 0);
    assert.equal((await report(container)).figures.rows, figures.rows, 'a closed table stays as it is');

    assert.equal((await replace(container, { analyticalStorageTtl: -1 })).analyticalStorageTtl, -1);
    const again = await followed(container);
    assert.deepEqual([again.figures.rows, again.figures.generation], [14, figures.generation]);
  }));

// check: analytical-store
test('a container gets its table later, for a number of seconds', (context) =>
  withTable(context, async (_, database) => {
    const container = await createContainer(database);
    await assert.rejects(report(container), /AnalyticsNotEnabled/);
    await write(container, 0, 12);
    assert.equal((await replace(container, { analyticalStorageTtl: 86_400 })).analyticalStorageTtl, 86_400);
    const { ttl, figures } = await followed(container);
    assert.deepEqual([ttl, figures.rows], [86_400, 12]);
  }));

// check: analytical-store
test('other values are refused by name', () =>
  withDatabase(client, async (database) => {
    for (const analyticalStorageTtl of [-2, 2_147_483_648, 'soon']) {
      const definition = { id: unique('bad'), partitionKey: { paths: ['/pk'] }, analyticalStorageTtl };
      const { body } = await expectStatus(400, () => database.containers.create(definition));
      assert.match(body.message, /analyticalStorageTtl/);
    }
  }));
