// The Testcontainers module for Node.js against emulator mode, with a process in the container's place: the module names the variables, the
// log line and the connection string, and the SDK uses the latter. SHARDLAKE_BINARY is the program.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { CosmosClient } from '@azure/cosmos';
import { AzureCosmosDbEmulatorContainer } from '@testcontainers/azure-cosmosdb-emulator';
import { GenericContainer } from 'testcontainers';

/** Lines of standard output until one begins with `words`, as the module's wait strategy reads them. */
async function waitForLine(process, words) {
  let output = '';
  for await (const piece of process.stdout) {
    output += piece;
    const line = output.split('\n').find((found) => found.startsWith(words));
    if (line && output.endsWith('\n')) return line;
  }
  throw new Error(`the program ended: ${output}`);
}

/** Starts the program with the variables of a container. */
async function startProcess(container, directory) {
  const child = spawn(process.env.SHARDLAKE_BINARY, ['serve', '--emulator'], {
    env: {
      EXPLORER_PORT: '0',
      HEALTH_PORT: '0',
      DATA_PATH: path.join(directory, 'data'),
      SHARDLAKE_DURABILITY: 'memory',
      ...container.environment,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const line = await waitForLine(child, 'Now listening on: ');
  return { child, port: Number(new URL(line.slice('Now listening on: '.length)).port) };
}

test('the module starts it, and its connection string works', async (context) => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'emulator-'));
  context.after(() => fs.rmSync(directory, { recursive: true }));
  let started;
  context.mock.method(GenericContainer.prototype, 'start', async function () {
    started = await startProcess(this, directory);
    return { getHost: () => 'localhost', stop: async () => started.child.kill() };
  });
  const container = new AzureCosmosDbEmulatorContainer('image');
  // The program takes a free port; one that the module chose could be gone by then.
  container.portGenerator = { generatePort: async () => 0 };
  const running = await container.start();
  context.after(() => running.stop());
  running.port = started.port;
  const client = new CosmosClient(running.getConnectionUri());
  const { database } = await client.databases.createIfNotExists({ id: 'db' });
  const { container: items } = await database.containers.createIfNotExists({ id: 'c', partitionKey: { paths: ['/pk'] } });
  await items.items.create({ id: '1', pk: 'a', text: 'é' });
  const { resources } = await items.items.query("SELECT VALUE c.text FROM c WHERE c.id = '1'").fetchAll();
  assert.deepEqual(resources, ['é']);
});
