// The same server over TLS: with its authority trusted, with verification off, and the reverse: refused when unknown.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import https from 'node:https';
import test from 'node:test';
import { promisify } from 'node:util';
import { authorityFile, clientOver, createContainer, endpoints, key, own, unique, withDatabase } from '../support.mjs';

async function writeAndRead(client) {
  await withDatabase(client, async (database) => {
    const container = await createContainer(database);
    const item = { id: unique('tls'), pk: 'a', text: 'é' };
    await container.items.create(item);
    assert.deepEqual(own((await container.item(item.id, 'a').read()).resource), item);
  });
}

test('with the authority of the data directory', () => writeAndRead(clientOver('https')));

// check: tls-unverified
test('with verification switched off', () =>
  writeAndRead(clientOver('https', { agent: new https.Agent({ rejectUnauthorized: false }) })));

test('with NODE_EXTRA_CA_CERTS, as an application would', async () => {
  const script = `
    import { CosmosClient } from '@azure/cosmos';
    const client = new CosmosClient({ endpoint: ${JSON.stringify(endpoints.https)}, key: ${JSON.stringify(key)} });
    const { resource } = await client.getDatabaseAccount();
    console.log(resource.consistencyPolicy);`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, NODE_EXTRA_CA_CERTS: authorityFile() },
  });
  assert.equal(stdout.trim(), 'Session');
});

// check: unknown-authority
test('an unknown authority is not trusted', async () => {
  const request = new Promise((resolve, reject) => https.get(endpoints.https, resolve).on('error', reject));
  await assert.rejects(request, /certificate|issuer|self-signed/i);
});

// check: plain-http
test('both schemes see the same data', async () => {
  const { database } = await clientOver('http').databases.create({ id: unique('both') });
  assert.equal((await clientOver('https').database(database.id).read()).resource.id, database.id);
  await clientOver('https').database(database.id).delete();
});
