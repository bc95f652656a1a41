// Tasks from end to end: by the keyboard, by the heat map, with a feed that is busy, with what fails repaired on the page.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { crowded, visits } from "../fixtures/shop.mjs";
import { prepare, traffic } from "../fixtures/traffic.mjs";
import { accessible, editorText, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory", "--limits-scale", "1/10"]);
  browser = await startBrowser();
  await prepare(server.endpoint, { throughput: 2000 });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const itemPath = (coll, key, id) => `c/shop/${coll}/items/${encodeURIComponent(key)}/${encodeURIComponent(id)}`;
const definitionOf = async (coll) =>
  JSON.parse((await server.client.send("GET", `/dbs/shop/colls/${coll}`, "colls", `dbs/shop/colls/${coll}`)).text);

/** Tab until what is wanted has the focus. */
async function reach(page, locator, words) {
  await locator.waitFor();
  for (let step = 0; step < 150; step++) {
    const root = locator.evaluate((element) => element === element.getRootNode().activeElement);
    if (await root) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`the Tab key never reaches ${words}`);
}

test("3d: by the keyboard alone a container is made and a file uploaded, with a reload in between", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("");
  await ready();
  const { keyboard } = page;
  await reach(page, page.getByRole("button", { name: "New container" }).first(), "New container");
  await keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  const fill = async (label, text) => {
    await reach(page, dialog.getByLabel(label, { exact: true }), label);
    await keyboard.press("ControlOrMeta+a");
    await keyboard.insertText(text);
  };
  await fill("Database (a new one is created)", "by keys");
  await fill("Container", "orders");
  await reach(page, dialog.getByLabel(/Partition key/), "the partition key");
  await keyboard.press("ControlOrMeta+a");
  await keyboard.insertText("/tenant /user");
  await keyboard.press("Enter");
  await page.getByText("No items yet").waitFor();
  const lines = Array.from(
    { length: 3000 },
    (_, n) => `{"id":"${n}","tenant":"t${n % 7}","user":"u${n % 50}","n":${n}}`,
  );
  const file = { name: "orders.jsonl", mimeType: "application/json", buffer: Buffer.from(lines.join("\n")) };
  const upload = async () => {
    await reach(page, page.getByRole("button", { name: "Upload", exact: true }), "Upload");
    await keyboard.press("Enter");
    const input = dialog.getByLabel(/^File with/);
    // The dialog that the browser opens here is the system's, and not the page's.
    await reach(page, input, "the file");
    await input.setInputFiles(file);
    await reach(page, dialog.getByRole("button", { name: "Upload", exact: true }), "the button that uploads");
    await keyboard.press("Enter");
  };
  // The first answer never comes: the page is loaded anew in the middle.
  let held = 0;
  await page.route(/\/colls\/orders\/docs$/, (route) => {
    if (route.request().headers()["x-ms-cosmos-is-batch-request"] !== "true" || held > 0) return route.continue();
    held += 1;
    return undefined;
  });
  await upload();
  await until(() => held === 1, "the first batch");
  await page.reload();
  await ready();
  await upload();
  await page.getByText(/done · 100 % of orders.jsonl · 3,000 stored/).waitFor();
  await keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  await page
    .getByText(/of 3,000|all 3,000/)
    .first()
    .waitFor();
  const { text } = await server.client.query("by keys", "orders", "SELECT VALUE COUNT(1) FROM c");
  assert.equal(
    JSON.parse(text).Documents.reduce((sum, part) => sum + part, 0),
    3000,
  );
  await close();
});

test("7c: a conflict is merged by the keyboard alone; an item that was deleted meanwhile is said to be gone", async () => {
  await server.client.createContainer("shop", "edited", ["/key"]);
  const write = (text) => server.client.upsert("shop", "edited", '["k"]', text);
  await write('{"id":"1","key":"k","a":1,"b":2}');
  const { page, at, ready, close } = await openPage(browser, server);
  const { keyboard } = page;
  await at(itemPath("edited", '["k"]', "1"));
  await ready();
  const edit = async (from, to) => {
    await page.getByRole("button", { name: "Edit" }).waitFor();
    await page.locator("#main").focus();
    await keyboard.press("e");
    await page.getByRole("button", { name: "Cancel" }).waitFor();
    const editor = page.getByRole("textbox", { name: "Text of item 1" });
    await reach(page, editor, "the editor");
    const text = await editorText(page, "Text of item 1");
    await keyboard.press("ControlOrMeta+a");
    await keyboard.insertText(text.replace(from, to));
  };
  await edit('"b": 2', '"b": 20');
  await write('{"id":"1","key":"k","a":10,"b":3}');
  await keyboard.press("ControlOrMeta+s");
  const dialog = page.getByRole("dialog", { name: "Somebody else changed this item" });
  const theirs = dialog.getByRole("row", { name: /\/b/ }).getByLabel("theirs");
  await reach(page, theirs, "the choice");
  await keyboard.press("ArrowUp");
  assert.ok(await dialog.getByRole("row", { name: /\/b/ }).getByLabel("mine").isChecked());
  await reach(page, dialog.getByRole("button", { name: "Save merged" }), "Save merged");
  await keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Edit" }).waitFor();
  const { a, b } = JSON.parse((await server.client.read("shop", "edited", '["k"]', "1")).text);
  assert.deepEqual([a, b], [10, 20]);
  await edit('"b": 20', '"b": 21');
  const link = "dbs/shop/colls/edited/docs/1";
  const gone = await server.client.send("DELETE", `/${link}`, "docs", link, {
    headers: { "x-ms-documentdb-partitionkey": '["k"]' },
  });
  assert.equal(gone.status, 204);
  await keyboard.press("ControlOrMeta+s");
  await page
    .getByRole("alert")
    .getByText(/Saving the item failed|changed or deleted meanwhile/)
    .waitFor();
  assert.match(await editorText(page, "Text of item 1"), /"b": 21/, "what was typed is there");
  await accessible(page, "an item that was deleted meanwhile");
  await close();
});

test("11b: an index that would help is added from the query, and used", async () => {
  await server.client.createContainer("shop", "sparse", ["/key"], {
    more: { indexingPolicy: { includedPaths: [{ path: "/key/?" }], excludedPaths: [{ path: "/*" }] } },
  });
  for (let n = 0; n < 60; n++)
    await server.client.upsert("shop", "sparse", `["k${n}"]`, `{"id":"${n}","key":"k${n}","total":${n}}`);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/sparse/query#q=" + encodeURIComponent("SELECT * FROM c WHERE c.total = 5"));
  await ready();
  const indexes = async (used, possible) => {
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("tab", { name: "Rows 1" }).waitFor();
    await page.getByRole("tab", { name: "Indexes" }).click();
    const list = (title) => page.locator("h2", { hasText: title }).locator("+ ul");
    await list("Used").getByText(used).waitFor();
    await list("Would help").getByText(possible).waitFor();
  };
  await indexes(/none: every item/, "/total/?");
  await accessible(page, "indexes of a query");
  await page.getByRole("link", { name: /the indexing policy/ }).click();
  await page.getByRole("textbox", { name: "Indexing policy" }).waitFor();
  const policy = {
    indexingMode: "consistent",
    automatic: true,
    includedPaths: [{ path: "/key/?" }, { path: "/total/?" }],
    excludedPaths: [{ path: "/*" }, { path: '/"_etag"/?' }],
  };
  await writeEditor(page, "Indexing policy", JSON.stringify(policy));
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("A create costs").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  assert.ok((await definitionOf("sparse")).indexingPolicy.includedPaths.some(({ path }) => path === "/total/?"));
  await at("c/shop/sparse/query#q=" + encodeURIComponent("SELECT * FROM c WHERE c.total = 5"));
  await indexes("/total/?", "none");
  await close();
});

test("14b: a partition is split from its heat map while it is used; the map keeps what was before", { timeout: 600_000 }, async (context) => {
  const stop = new AbortController();
  context.after(() => stop.abort());
  const used = traffic(server.client, stop.signal);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/partitions");
  await ready();
  const map = page.getByRole("application", { name: /Heat of orders/ });
  await map.waitFor();
  await page.getByRole("heading", { name: /Single hot key/ }).waitFor();
  // The row of the hot key is as bright as the scale goes, and refusals are told.
  await page.getByRole("button", { name: "As table" }).click();
  const hottest = page.getByRole("table").filter({ hasText: "Key range" }).getByRole("row").nth(1);
  await until(async () => Number(/(\d+) %/.exec(await hottest.innerText())?.[1] ?? 0) >= 90, "a row at its budget");
  await page.getByRole("button", { name: "As table" }).click();
  const bright = () =>
    page.locator("canvas.heat-colours").evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at] > 200 && data[at + 1] > 150) count++;
      return count;
    });
  await until(async () => (await bright()) > 0, "bright cells");
  const rows = page.locator(".partitions-table tbody tr");
  const before = await rows.count();
  await map.focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  const button = page.getByRole("button", { name: /^Split partition \d+ here$/ });
  // A bound that partitions share already is none to split at.
  for (let step = 0; step < 40 && (await button.count()) === 0; step++) {
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
  }
  await button.click();
  const dialog = page.getByRole("dialog", { name: /Split partition/ });
  await dialog.getByRole("radio", { name: /^at the bound [0-9A-F]+/, checked: true }).waitFor();
  await accessible(page, "a split at a place of the map");
  await dialog.getByRole("button", { name: "Split" }).click();
  await page
    .getByText(/split \d+ → \d+, \d+: .*writers held/)
    .first()
    .waitFor();
  await until(async () => (await rows.count()) === before + 1, "one partition more");
  await until(async () => (await bright()) > 0, "what was before the split stays");
  const { text } = await server.client.operator("GET", "dbs/shop/colls/orders/heat?window=10m&rows=64&measure=share");
  const { events, epochs } = JSON.parse(text);
  assert.ok(events.some(({ kind }) => kind === "split"));
  assert.equal(epochs.at(-1).ranges.length, before + 1);
  stop.abort();
  await used;
  await close();
});

test("14c: keys that share a hot partition are divided from its finding; what came of it stands beside the prediction", { timeout: 600_000 }, async () => {
  const { users } = await crowded(server.client, { throughput: 2000, share: 200 });
  const stop = new AbortController();
  const used = visits(server.client, users, stop.signal);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/sessions/partitions");
  await ready();
  const button = page.getByRole("button", { name: /^Split partition \d+ → \d+ % \/ \d+ %$/ });
  await button.waitFor();
  // Refusals are on the map, and the bar below it tells them of the moment.
  await page
    .locator(".moment-words")
    .getByText(/% refused/)
    .waitFor();
  const [, source, predicted] = /partition (\d+) → (.*)$/.exec((await button.innerText()).trim());
  await button.click();
  const dialog = page.getByRole("dialog", { name: `Split partition ${source}` });
  await dialog.getByText(`Predicted: ${predicted}`).waitFor();
  await accessible(page, "a split with what it would come to");
  await dialog.getByRole("button", { name: "Split", exact: true }).click();
  const outcome = page.getByRole("status", { name: "Outcome" });
  await outcome.getByText(`Predicted: ${predicted}.`).waitFor();
  await outcome.getByText(/Came to: \d+ % \/ \d+ % in partitions \d+ and \d+\. Refused: \d.* before, /).waitFor();
  await accessible(page, "what a split came to");
  const { text } = await server.client.operator("GET", "dbs/shop/colls/sessions/heat?window=10m&rows=64&measure=share");
  const { epochs } = JSON.parse(text);
  const owners = ({ ranges }) => ranges.map(({ id }) => id);
  assert.ok(owners(epochs[0]).includes(source), "what was before stays on the map");
  assert.ok(!owners(epochs.at(-1)).includes(source), "the line begins where it was split");
  await outcome.getByRole("button", { name: "Close the outcome" }).click();
  await outcome.waitFor({ state: "detached" });
  stop.abort();
  await used;
  await close();
});

test("17c: ten thousand changes in both modes: in order by key, none missing of those that are kept; a pause loses nothing", { timeout: 600_000 }, async () => {
  await server.client.createContainer("shop", "stream", ["/key"], {
    more: { changeFeedPolicy: { retentionDuration: 60 } },
  });
  const link = "dbs/shop/colls/stream";
  const send = async (operations) => {
    const headers = { "x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false" };
    const { status, text } = await server.client.send("POST", `/${link}/docs`, "docs", link, {
      body: JSON.stringify(operations),
      headers,
    });
    assert.ok(status < 300, text);
    assert.ok(JSON.parse(text).every(({ statusCode }) => statusCode < 300));
  };
  const create = (n) => ({
    operationType: "Create",
    partitionKey: `["k${n % 10}"]`,
    resourceBody: { id: `n${n}`, key: `k${n % 10}`, n },
  });
  const opened = [];
  for (const mode of ["latest", "all"]) {
    const feed = await openPage(browser, server);
    await feed.at(`c/shop/stream/feed#mode=${mode}`);
    await feed.ready();
    await feed.page.getByText("No change yet").waitFor();
    await feed.page.waitForRequest((request) => (request.headers()["if-none-match"] ?? "*") !== "*");
    opened.push(feed);
  }
  for (let from = 0; from < 10_000; from += 500)
    await send(Array.from({ length: 500 }, (_, at) => create(from + at)));
  for (const { page } of opened) {
    await page.getByText("2,000 kept · 8,000 dropped").waitFor();
    const numbers = await rowsOf(page);
    assert.equal(numbers.length, 2000);
    const last = new Map();
    for (const n of numbers) {
      assert.ok((last.get(n % 10) ?? Infinity) > n, `n${n} of key k${n % 10} stands below n${last.get(n % 10)}`);
      last.set(n % 10, n);
    }
    // The newest of each key without a gap: what is kept is kept whole.
    for (const key of last.keys()) {
      const ofKey = numbers.filter((n) => n % 10 === key);
      assert.equal(ofKey.length, (ofKey[0] - ofKey.at(-1)) / 10 + 1, `key k${key} has gaps`);
    }
  }
  const [{ page }] = opened;
  await page.getByRole("button", { name: /Following/ }).click();
  await page.getByRole("button", { name: "Paused" }).waitFor();
  await send(Array.from({ length: 5 }, (_, at) => create(10_000 + at)));
  await opened[1].page.getByText("2,000 kept · 8,005 dropped").waitFor();
  await page.getByText("2,000 kept · 8,000 dropped").waitFor();
  await page.getByRole("button", { name: "Paused" }).click();
  await page.getByText("2,000 kept · 8,005 dropped").waitFor();
  for (const { close } of opened) await close();
});

/** The numbers of all changes, from the newest, as they are shown. */
async function rowsOf(page) {
  const ids = await page.getByRole("grid", { name: "Changes" }).evaluate(async (grid) => {
    const found = new Map();
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    for (grid.scrollTop = 0; ; grid.scrollTop += 400) {
      await frame();
      await frame();
      for (const row of grid.querySelectorAll(".table-row"))
        found.set(Number(row.getAttribute("aria-rowindex")), row.children[4].textContent);
      if (grid.scrollTop + grid.clientHeight >= grid.scrollHeight - 1) break;
    }
    return [...found].sort(([left], [right]) => left - right).map(([, id]) => id);
  });
  return ids.map((id) => Number(id.slice(1)));
}

test("18b: what a projection could not apply is found from the page, repaired, and put away", { timeout: 600_000 }, async () => {
  const { client } = server;
  await client.createContainer("shop", "names", ["/id"]);
  await client.createContainer("shop", "copies", ["/key"]);
  await client.upsert("shop", "copies", '["k"]', '{"id":"1","key":"k","nameId":"a","holder":"no object"}');
  await client.upsert("shop", "names", '["a"]', '{"id":"a","name":"Ada"}');
  const { page, at, ready, close } = await openPage(browser, server);
  await at("copies");
  await ready();
  await page.getByRole("button", { name: "New projection" }).click();
  await page.getByLabel("Id").fill("holders");
  const rule = {
    source: { database: "shop", container: "names" },
    target: { database: "shop", container: "copies" },
    match: [{ source: "/id", target: "/nameId" }],
    set: [{ from: "/name", to: "/holder/name" }],
    deadLetters: "letters",
    start: "beginning",
  };
  await writeEditor(page, "Rule", JSON.stringify(rule, null, 2));
  await page.getByRole("button", { name: "Save" }).click();
  const row = page.getByRole("row", { name: /holders/ });
  await row.getByRole("link", { name: "1", exact: true }).click();
  await page.waitForURL(/\/c\/shop\/letters\/items/);
  const letters = page.getByRole("grid", { name: "Items" });
  await letters.getByRole("row").nth(1).click();
  await page.getByRole("textbox", { name: /^Text of item/ }).waitFor();
  const letter = JSON.parse(await editorText(page, await labelOf(page)));
  assert.deepEqual([letter.projection, letter.target.id], ["holders", "1"]);
  // The target is repaired on its own page; the projection tries it again.
  await at(itemPath("copies", '["k"]', "1"));
  await page.getByRole("button", { name: "Edit" }).click();
  const text = await editorText(page, "Text of item 1");
  await writeEditor(page, "Text of item 1", text.replace('"no object"', "{}"));
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  await until(
    async () => JSON.parse((await client.read("shop", "copies", '["k"]', "1")).text).holder.name === "Ada",
    "the copy",
  );
  await at("c/shop/letters/items");
  await letters.getByRole("row").nth(1).click();
  await page.getByRole("button", { name: "Delete item" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).last().click();
  await page.getByText("No items yet").waitFor();
  await close();
});

const labelOf = (page) => page.getByRole("textbox", { name: /^Text of item/ }).getAttribute("aria-label");

test("20c: throughput that scales by use is set, and told as such", async () => {
  await server.client.createContainer("shop", "scaled", ["/key"], { throughput: 400 });
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/scaled/settings#section=throughput");
  await ready();
  await page.getByLabel("autoscale").check();
  await page.getByLabel(/Maximum RU\/s/).fill("2000");
  await page.getByText(/Scales between 200 and 2,000 RU\/s/).waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const { text } = await server.client.send("GET", "/offers", "offers", "");
  assert.ok(
    JSON.parse(text).Offers.some(({ content }) => content.offerAutopilotSettings?.maxThroughput === 2000),
    text,
  );
  await page.reload();
  await ready();
  assert.ok(await page.getByLabel("autoscale").isChecked());
  await accessible(page, "throughput that scales");
  await close();
});
