// Many items: browsed from anywhere, relocated while pages look on, changed and deleted by a filter, uploaded as CSV.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible, editorText, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

// A million for measuring (`SHARDLAKE_ITEMS=1000000`); what is asserted is the same.
const ITEMS = Number(process.env.SHARDLAKE_ITEMS ?? "24000");
const BATCH = 1000;
let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory", "--throughput", "unlimited"]);
  browser = await startBrowser();
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "many", ["/key"]);
  await fill("many", ITEMS);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fill(coll, count) {
  for (let from = 0; from < count; from += BATCH) {
    const operations = Array.from({ length: Math.min(BATCH, count - from) }, (_, at) => {
      const n = from + at;
      const item = { id: `i${n}`, key: `k${n}`, n, state: n % 10 ? "open" : "paid", note: "x".repeat(60) };
      return { operationType: "Upsert", partitionKey: JSON.stringify([item.key]), resourceBody: item };
    });
    const { status, text } = await server.client.send(
      "POST",
      `/dbs/shop/colls/${coll}/docs`,
      "docs",
      `dbs/shop/colls/${coll}`,
      {
        body: JSON.stringify(operations),
        headers: {
          "x-ms-cosmos-is-batch-request": "true",
          "x-ms-cosmos-batch-atomic": "false",
          "x-ms-cosmos-batch-continue-on-error": "true",
          prefer: "return=minimal",
        },
      },
    );
    assert.ok(status < 300, text);
  }
}

const countOf = async (coll, where) => {
  const { text } = await server.client.query("shop", coll, `SELECT VALUE COUNT(1) FROM c WHERE ${where}`);
  return JSON.parse(text).Documents.reduce((sum, part) => sum + part, 0);
};

test("4: many items are browsed from anywhere, and few of them are held", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/many/items");
  await ready();
  const grid = page.getByRole("grid", { name: "Items" });
  const row = grid.getByRole("row").nth(1);
  await row.waitFor();
  const opened = await page.evaluate(() => performance.now());
  console.log(`# first rows of ${ITEMS} items ${opened.toFixed(0)} ms after the page was opened`);
  const first = await row.innerText();
  const seek = page.getByLabel("Where in the hash space the list begins");
  await seek.fill("500");
  await page.getByText("from 50 % of the keys on").waitFor();
  await until(async () => (await row.innerText()) !== first, "the middle");
  const middle = await row.innerText();
  await seek.fill("999");
  await until(async () => ![first, middle].includes(await row.innerText()), "the end");
  await page.getByText(/^all [\d,]+ items/).waitFor();
  await accessible(page, "the end of many items");
  await seek.fill("0");
  await until(async () => (await row.innerText()) === first, "the beginning again");
  for (let turn = 0; turn < 12; turn++) {
    await grid.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForLoadState("networkidle");
  }
  const held = await page.evaluate(() => document.querySelectorAll(".table-row").length);
  assert.ok(held < 120, `${held} rows exist`);
  const isAtTop = () => grid.evaluate((element) => element.scrollTop === 0);
  assert.equal(await isAtTop(), false);
  await page.getByRole("button", { name: "n", exact: true }).click();
  await page.waitForURL(/sort=c\.n/);
  await page.getByRole("columnheader", { name: "n ↑" }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "n ↑" }).getAttribute("aria-sort"), "ascending");
  await page.getByRole("button", { name: "n ↑" }).click();
  await page.getByRole("columnheader", { name: "n ↓" }).waitFor();
  await until(async () => (await row.innerText()).includes(`i${ITEMS - 1}`), "the largest first");
  await grid.evaluate((element) => element.scrollTo(0, 800));
  await page.getByRole("button", { name: "n ↓" }).click();
  await until(isAtTop, "the top after sorting");
  await close();
});

test("4b: ten thousand rows are scrolled through, and few of them exist", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/many/query#q=" + encodeURIComponent("SELECT * FROM c"));
  await ready();
  await page.getByRole("combobox", { name: /^Page/ }).selectOption("1000");
  await page.getByLabel("At most").selectOption("10000");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Cut at 10,000 rows").waitFor();
  const frames = await page.getByRole("grid", { name: "Rows" }).evaluate(async (element) => {
    const times = [];
    let before = performance.now();
    for (let step = 0; step < 120; step++) {
      element.scrollTop += 400;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      times.push(now - before);
      before = now;
    }
    return times.sort((left, right) => left - right);
  });
  console.log(`# frames while scrolling 10,000 rows: median ${frames[60].toFixed(0)}, most ${frames[119].toFixed(0)} ms`);
  const grid = page.getByRole("grid", { name: "Rows" });
  assert.ok((await grid.locator(".table-row").count()) < 120);
  await grid.focus();
  await page.keyboard.press("End");
  await grid.getByRole("gridcell", { name: "10000", exact: true }).waitFor();
  await close();
});

test("13b: what a filter finds is patched and deleted: counted, typed, stopped half-way", { timeout: 600_000 }, async () => {
  await server.client.createContainer("shop", "filtered", ["/key"]);
  await fill("filtered", 3000);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/filtered/items#filter=" + encodeURIComponent('c.state = "paid"'));
  await ready();
  await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(1).waitFor();
  await page.getByRole("button", { name: "All…" }).click();
  await page.getByLabel("Path 1").fill("/checked");
  await page.getByLabel("Value 1").fill("9007199254740993");
  await accessible(page, "a patch by filter");
  await page.getByRole("button", { name: "Count them first" }).click();
  const dialog = page.getByRole("dialog", { name: "Patch 300 items?" });
  await dialog.waitFor();
  assert.equal(await dialog.getByRole("button", { name: "Patch", exact: true }).isDisabled(), true);
  await dialog.getByRole("textbox").fill("300");
  await dialog.getByRole("button", { name: "Patch", exact: true }).click();
  await page.getByText("300 of 300 patched · done").waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).last().click();
  assert.equal(await countOf("filtered", "c.checked = 9007199254740993"), 300);
  // Deletion is refused for want of throughput at first, as the server would, and stopped when some are gone.
  let sent = 0;
  await page.route(/\/colls\/filtered\/docs$/, async (route) => {
    if (route.request().headers()["x-ms-cosmos-is-batch-request"] !== "true") return route.continue();
    sent += 1;
    if (sent === 1) return route.fulfill({ status: 429, headers: { "x-ms-retry-after-ms": "20" }, body: "{}" });
    if (sent < 4) return route.continue();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    return route.continue();
  });
  await at("c/shop/filtered/items#filter=" + encodeURIComponent("c.n >= 1000"));
  await page.getByRole("button", { name: "All…" }).click();
  await page.getByLabel("delete them").check();
  await page.getByRole("button", { name: "Count them first" }).click();
  await page.getByRole("dialog", { name: "Delete 2,000 items?" }).getByRole("textbox").fill("2000");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText(/waited for throughput \(429\)/).waitFor();
  const words = await page.getByText(/stopped: about [\d,]+ are as they were/).innerText();
  const left = Number(/about ([\d,]+)/.exec(words)[1].replace(",", ""));
  assert.equal(await countOf("filtered", "c.n >= 1000"), left, words);
  assert.ok(left > 0 && left < 2000, words);
  await accessible(page, "a deletion that was stopped");
  await close();
});

test("3c: a CSV file is uploaded with its numbers as they are", async () => {
  await server.client.createContainer("shop", "csv", ["/key"]);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/csv/items");
  await ready();
  await page.getByRole("button", { name: "Upload a file" }).click();
  const csv = 'id,key,n,text\r\n1,a,9007199254740993,"x, ""y""\r\nz"\r\n2,b,1.0,<b>\r\n,c,,no id\r\n';
  await page.getByLabel(/^File with/).setInputFiles({ name: "items.csv", mimeType: "text/csv", buffer: Buffer.from(csv) });
  await page.getByText(/cells that look like numbers/).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Upload", exact: true }).click();
  await page.getByText(/done · 100 % of items.csv · 3 stored/).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).last().click();
  await page.getByText("all 3 items").waitFor();
  const { text } = await server.client.read("shop", "csv", '["a"]', "1");
  assert.match(text, /"n":9007199254740993,"text":"x, \\"y\\"\\r\\nz"/);
  assert.match((await server.client.read("shop", "csv", '["b"]', "2")).text, /"n":1\.0|"n":1,/);
  await close();
});

test("7b: an edit is saved as a patch of what differs", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/many/items/%5B%22k5%22%5D/i5");
  await ready();
  await page.getByRole("button", { name: "Edit" }).click();
  const text = await editorText(page, "Text of item i5");
  await writeEditor(page, "Text of item i5", text.replace('"state": "open"', '"state": "sent", "big": 9007199254740993'));
  let patched = null;
  page.on("request", (request) => {
    if (request.method() === "PATCH") patched = request.postData();
  });
  await page.getByRole("button", { name: "As patch…" }).click();
  await page.getByRole("dialog", { name: "Save as a patch" }).waitFor();
  await accessible(page, "a patch");
  await page.getByRole("button", { name: "Send the patch" }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  assert.equal(JSON.parse(patched).operations.length, 2);
  assert.match((await server.client.read("shop", "many", '["k5"]', "i5")).text, /"big":9007199254740993/);
  await close();
});

test("15: a split is given up and done from the page, while a query and a feed go on", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  const feed = await openPage(browser, server);
  await feed.at("c/shop/many/feed");
  await feed.ready();
  await feed.page.waitForRequest((request) => (request.headers()["if-none-match"] ?? "*") !== "*");
  await at("c/shop/many/partitions");
  await ready();
  const begin = async () => {
    await page.getByRole("button", { name: "Split", exact: true }).first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Split", exact: true }).click();
  };
  // What the page shows of a split is slow enough to be seen only where there are many items; what it orders is tested anyway.
  await begin();
  const giveUp = page.getByRole("button", { name: "Give up" });
  const wasSeen = await giveUp.click({ timeout: 5_000 }).then(
    () => true,
    () => false,
  );
  await page.getByText(/given up|split \d+ → \d+, \d+:/).waitFor();
  console.log(`# the split was ${wasSeen ? "given up while it was under way" : "done before it could be given up"}`);
  const query = await openPage(browser, server, { context: page.context() });
  await query.at("c/shop/many/query#q=" + encodeURIComponent("SELECT c.id FROM c"));
  await query.ready();
  await query.page.getByLabel("At most").selectOption("50000");
  await query.page.getByRole("button", { name: "Run", exact: true }).click();
  await begin();
  await page.getByText(/split \d+ → \d+, \d+:/).waitFor();
  const whole = new RegExp(`^Rows ${ITEMS.toLocaleString("en-US")}$`);
  if (ITEMS <= 50_000) await query.page.getByRole("tab", { name: whole }).waitFor();
  assert.equal(await query.page.getByRole("alert").count(), 0, "a query goes on over a split");
  for (let n = 0; n < 20; n++)
    await server.client.upsert("shop", "many", `["k${n}"]`, `{"id":"later${n}","key":"k${n}"}`);
  const changes = feed.page.getByRole("grid", { name: "Changes" });
  await until(async () => Number(await changes.getAttribute("aria-rowcount").catch(() => 0)) >= 21, "all changes");
  assert.equal(await feed.page.getByRole("alert").count(), 0, "a feed goes on over a split");
  await accessible(page, "after a split");
  await feed.close();
  await close();
});

test("10: the bars of partitions add up to the charge, and say where it is dear", { timeout: 600_000 }, async (context) => {
  const { status, text } = await server.client.operator("GET", "server");
  if (status !== 200 || !JSON.parse(text).features.includes("query")) return context.skip("no such route");
  await server.client.createContainer("shop", "skewed", ["/key"], { throughput: 30_000 });
  for (let n = 0; n < 400; n++)
    await server.client.upsert("shop", "skewed", '["one"]', JSON.stringify({ id: `${n}`, key: "one", n }));
  for (let n = 0; n < 40; n++)
    await server.client.upsert("shop", "skewed", `["k${n}"]`, JSON.stringify({ id: "x", key: `k${n}`, n }));
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/skewed/query#q=" + encodeURIComponent("SELECT * FROM c WHERE c.n >= 0"));
  await ready();
  await page.getByLabel("At most").selectOption("10000");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: "Rows 440" }).waitFor();
  const charge = Number(/([\d.,]+) RU/.exec(await page.getByText(/ RU · .* pages? · /).innerText())[1].replace(",", ""));
  await page.getByRole("tab", { name: "Partitions" }).click();
  const cells = await page.locator("table.ranges tbody tr td:nth-child(3)").allInnerTexts();
  const parts = cells.map((cell) => Number(cell.replace(" RU", "").replace(",", "")));
  assert.ok(parts.length >= 3, `${parts.length} partitions`);
  const sum = parts.reduce((total, part) => total + part, 0);
  assert.ok(Math.abs(sum - charge) < 0.005 * parts.length, `${parts.join(" + ")} = ${sum}, not ${charge}`);
  await page.getByText(/Partition \d+ has \d+ % of the cost, [\d.]+ times its even part/).waitFor();
  // Two runs beside each other, and a query that is kept.
  await page.getByRole("button", { name: "Pin this run to compare with" }).click();
  await writeEditor(page, "Query text", "SELECT c.id FROM c WHERE c.n < 10");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const runs = page.getByRole("table", { name: "Two runs" });
  await runs.getByRole("row", { name: /latest .*−\d+ %/ }).waitFor();
  await accessible(page, "two runs");
  await page.getByRole("button", { name: "Saved" }).click();
  await page.getByLabel("Name").fill("small ones");
  await page.getByRole("button", { name: "Save what is in the editor" }).click();
  await page.getByRole("button", { name: "small ones", exact: true }).waitFor();
  await accessible(page, "saved queries");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Write to a file" }).click(),
  ]);
  const written = JSON.parse(readFileSync(await download.path(), "utf8"));
  assert.deepEqual(written, [{ name: "small ones", text: "SELECT c.id FROM c WHERE c.n < 10" }]);
  await close();
});
