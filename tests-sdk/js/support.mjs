// What every file of the suite needs: clients over both schemes, a database of its own, expectations about errors.
//
// SHARDLAKE_HTTP, SHARDLAKE_HTTPS and SHARDLAKE_KEY name the server; SHARDLAKE_CA_FILE is the certificate of its authority. Names end in
// random letters, so that the suite can run against a server that holds other data.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import { CosmosClient } from '@azure/cosmos';

const required = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

export const key = required('SHARDLAKE_KEY');
export const endpoints = { http: required('SHARDLAKE_HTTP'), https: required('SHARDLAKE_HTTPS') };

/** The certificate of the server's own authority, as a PEM file. */
export const authorityFile = () => required('SHARDLAKE_CA_FILE');

export function clientOver(scheme, options = {}) {
  const agent = scheme === 'https' ? new https.Agent({ keepAlive: true, ca: fs.readFileSync(authorityFile()) }) : undefined;
  return new CosmosClient({ endpoint: endpoints[scheme], key, ...(agent ? { agent } : {}), ...options });
}

export const unique = (name) => `${name}-${Math.random().toString(36).slice(2, 10)}`;

/** Creates a database, hands it over, deletes it whatever happens. */
export async function withDatabase(client, work) {
  const { database } = await client.databases.create({ id: unique('js') });
  try {
    return await work(database);
  } finally {
    await database.delete();
  }
}

export async function createContainer(database, definition = {}, options = {}) {
  const body = { id: unique('container'), partitionKey: { paths: ['/pk'], version: 2 }, ...definition };
  const { container } = await database.containers.create(body, options);
  return container;
}

/** Runs `work`, expects it to fail with `status`, checks the shape every error has, returns the error. */
export async function expectStatus(status, work, subStatus) {
  const error = await work().then(
    (response) => assert.fail(`expected ${status}, got ${response?.statusCode ?? 'success'}`),
    (caught) => caught,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.equal(error.code, status, `expected ${status}, got ${error.code}: ${error.message}`);
  assert.equal(typeof error.body?.message, 'string', 'an error has a message in its body');
  assert.equal(typeof error.body?.code, 'string', 'an error has a name in its body');
  assert.ok(error.headers['x-ms-activity-id'], 'an error names its activity');
  if (subStatus !== undefined) assert.equal(error.substatus ?? 0, subStatus);
  return error;
}

const SYSTEM = new Set(['_rid', '_self', '_etag', '_attachments', '_ts']);

/** An item as its writer sent it. */
export function own(item) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !SYSTEM.has(name)));
}

/** All pages of an iterator, with the number of pages. */
export async function drain(iterator) {
  const items = [];
  let pages = 0;
  while (iterator.hasMoreResults()) {
    const { resources } = await iterator.fetchNext();
    pages += 1;
    items.push(...(resources ?? []));
  }
  return { items, pages };
}

/** What the operator's interface answers. Its requests are signed as all others are; the link is the path. */
export async function operate(method, path, body) {
  const date = new Date().toUTCString();
  const payload = `${method.toLowerCase()}\nshardlake\n${path}\n${date.toLowerCase()}\n\n`;
  const signature = crypto.createHmac('sha256', Buffer.from(key, 'base64')).update(payload).digest('base64');
  const authorization = encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
  const headers = { authorization, 'x-ms-date': date, 'content-type': 'application/json' };
  const response = await fetch(new URL(path, endpoints.http), { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** Asks until the answer is true. The end turns a hang into a failure; it is no verdict on speed. */
export async function until(what, ask) {
  for (const end = Date.now() + 600_000; Date.now() < end;) {
    if (await ask()) return;
    await new Promise((wake) => setTimeout(wake, 20));
  }
  assert.fail(`still not: ${what}`);
}
