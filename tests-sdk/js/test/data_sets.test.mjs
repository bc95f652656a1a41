// Data sets loaded and read back equal, over both schemes: our own, and published ones where they are.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { clientOver, createContainer, drain, own, withDatabase } from '../support.mjs';

const published = process.env.SHARDLAKE_DATA ?? '';
const absent = !fs.existsSync(published) && "the shared 'data' data is not there (set SHARDLAKE_DATA)";
const ours = process.env.SHARDLAKE_OWN_DATA;

const sets = [
  { name: 'own articles', directory: ours, file: 'stock.json', keyPath: 'category' },
  { name: 'own lakes', directory: ours, file: 'lakes.json', keyPath: 'Country' },
  { name: 'products in final form', directory: published, file: 'cosmicworks/v4-product.json', keyPath: 'categoryId', skip: absent },
  { name: 'product meta in final form', directory: published, file: 'cosmicworks/v4-productMeta.json', keyPath: 'type', skip: absent },
  { name: 'volcanoes', directory: published, file: 'volcanoes.json', keyPath: 'Country', skip: absent },
];

async function inBulk(container, items, keyPath) {
  const operations = items.map((item) => ({ operationType: 'Create', partitionKey: item[keyPath], resourceBody: item }));
  const results = await container.items.executeBulkOperations(operations);
  results.forEach((result) => assert.equal(result.response?.statusCode, 201, JSON.stringify(result.error)));
}

for (const scheme of ['http', 'https']) {
  for (const { name, directory, file, keyPath, skip = false } of sets) {
    test(`${name} over ${scheme}`, { skip }, () => withDatabase(clientOver(scheme), async (database) => {
      const items = JSON.parse(fs.readFileSync(path.join(directory, file), 'utf8').replace(/^\uFEFF/, ''));
      const container = await createContainer(database, { partitionKey: { paths: [`/${keyPath}`], version: 2 }, throughput: 12000 });
      // Bulk needs a key for every item; those without one go through the point operation, which extracts its absence.
      await inBulk(container, items.filter((item) => keyPath in item), keyPath);
      for (const item of items.filter((one) => !(keyPath in one))) await container.items.create(item);

      const written = new Map(items.map((item) => [item.id, JSON.stringify(item)]));
      const found = await drain(container.items.query(undefined, { maxItemCount: 100 }));
      assert.equal(found.items.length, items.length);
      for (const item of found.items) assert.equal(JSON.stringify(own(item)), written.get(item.id));
      for (const item of items.slice(0, 50)) {
        const { resource } = await container.item(item.id, item[keyPath]).read();
        assert.equal(JSON.stringify(own(resource)), JSON.stringify(item));
      }
    }));
  }
}
