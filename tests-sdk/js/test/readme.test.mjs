// The program of docs/connect.md, pasted into a plain `.js` file as a newcomer would do it, against this server.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { clientOver, endpoints } from '../support.mjs';

// check: documented-snippets
test('the snippet of the page runs in a .js file', async () => {
  const page = await fs.readFile(path.join(process.env.SHARDLAKE_DOCS, 'connect.md'), 'utf8');
  const snippet = page.match(/^```js\n(.*?)^```$/ms)[1];
  assert.ok(snippet.includes('http://127.0.0.1:8081/'));
  // Beside the installed packages, with a package.json as npm makes it.
  const directory = await fs.mkdtemp(path.resolve('readme-'));
  try {
    await fs.writeFile(path.join(directory, 'package.json'), '{}');
    await fs.writeFile(path.join(directory, 'try.js'), snippet.replace('http://127.0.0.1:8081/', endpoints.http));
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['try.js'], { cwd: directory });
    assert.match(stdout, /id: '2'/);
    assert.match(stdout, /total: 7/);
    assert.equal(stderr, '');
  } finally {
    await fs.rm(directory, { recursive: true });
    await clientOver('http').database('shop').delete();
  }
});
