// Budgets as the SDK sees them: its retries come through, and where they do not last 429 is told. The suite's server refuses nothing
// for its throughput, so this file brings its own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import test, { after } from 'node:test';
import { CosmosClient } from '@azure/cosmos';
import { createContainer, expectStatus, unique } from '../support.mjs';

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'shardlake-js-'));
const flags = ['serve', '--data-dir', directory, '--listen', '127.0.0.1:0'];
// What begins with SHARDLAKE_ is a setting to a server, and an unknown one an error.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SHARDLAKE_')));
const server = spawn(process.env.SHARDLAKE_BINARY, flags, { env, stdio: ['ignore', 'pipe', 'ignore'] });
const [ready] = await once(readline.createInterface(server.stdout), 'line');
const { endpoints, key } = JSON.parse(ready);
after(async () => {
  const ended = new Promise((resolve) => server.on('exit', resolve));
  server.kill('SIGTERM');
  await ended;
  fs.rmSync(directory, { recursive: true });
});

async function withContainer(retryOptions, work) {
  const client = new CosmosClient({ endpoint: endpoints[0], key, connectionPolicy: { retryOptions } });
  const { database } = await client.databases.create({ id: unique('throttled') });
  const container = await createContainer(database, {}, { offerThroughput: 400 });
  await work(container);
  await database.delete();
}

// About 6 RU each; 400 RU/s have 400 at once. So many that a busy machine needs more than its budget, too.
const writes = (container, count) => Array.from({ length: count }, (_, n) => container.items.create({ id: `i${n}`, pk: `k${n}` }));

// check: throttling-retries
test('retries come through', () =>
  withContainer({ maxRetryAttemptsOnThrottledRequests: 30, maxWaitTimeInSeconds: 30 }, async (container) => {
    const written = await Promise.all(writes(container, 500));
    assert.ok(written.some(({ headers }) => Number(headers['x-ms-throttle-retry-count']) > 0), 'some had to be repeated');
    assert.deepEqual((await container.items.query('SELECT VALUE COUNT(1) FROM c').fetchAll()).resources, [500]);
  }));

// check: throttling
test('who will not wait long enough is told 429, and how long that is', () =>
  withContainer({ maxWaitTimeInSeconds: 1 }, async (container) => {
    const outcomes = await Promise.allSettled(writes(container, 900));
    const refused = outcomes.filter(({ status }) => status === 'rejected').map(({ reason }) => reason);
    assert.ok(refused.length > 0 && refused.length < 900, `${refused.length} were refused`);
    const error = await expectStatus(429, () => Promise.reject(refused[0]), 3200);
    assert.ok(Number(error.headers['x-ms-retry-after-ms']) >= 1, 'it is told how long to wait');
  }));
