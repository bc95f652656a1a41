// More than anybody planned for, and less: ten thousand containers, a thousand partitions, and places that are not there any more.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, editorText, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "orders", ["/customer"], { throughput: 1000 });
  await server.client.upsert("shop", "orders", '["ada"]', '{"id":"1","customer":"ada","total":1}');
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const json = (value) => ({ status: 200, contentType: "application/json", body: JSON.stringify(value) });

test("ten thousand containers are listed, filtered and found, and few rows of them exist", { timeout: 600_000 }, async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  const containers = Array.from({ length: 10_000 }, (_, n) => ({
    database: `db-${n % 40}`,
    container: `coll-${n}`,
    rid: "",
    generation: 1,
    partitions: 1,
    items: n,
    sizeBytes: n * 1000,
    relocation: null,
  }));
  const databases = Array.from({ length: 40 }, (_, n) => ({ id: `db-${n}` }));
  await context.route(/_shardlake\/v1\/partitions$/, (route) => route.fulfill(json({ containers })));
  await context.route(/\/dbs$/, (route) => route.fulfill(json({ Databases: databases })));
  await at("");
  await ready();
  const tree = page.getByRole("tree", { name: "Databases and containers" });
  await tree.getByRole("treeitem", { name: "db-0", exact: true }).waitFor();
  const grid = page.getByRole("grid", { name: "Containers" });
  await grid.getByRole("row").nth(2).waitFor();
  assert.equal(await grid.getAttribute("aria-rowcount"), "10001");
  assert.ok((await grid.getByRole("row").count()) < 120);
  assert.ok((await tree.getByRole("treeitem").count()) < 120);
  // The same rows stay while the list is read again: what is being clicked is not made anew.
  await tree.getByRole("treeitem").first().evaluate((row) => (row.isMarked = true));
  await page.waitForResponse(/_shardlake\/v1\/partitions$/);
  assert.ok(await tree.getByRole("treeitem").first().evaluate((row) => row.isMarked === true));
  await page.getByRole("searchbox", { name: "Filter containers" }).fill("coll-9999");
  await tree.getByRole("treeitem", { name: /coll-9999/ }).waitFor();
  assert.equal(await tree.getByRole("treeitem").count(), 2);
  await accessible(page, "a filtered tree");
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Go to or do" }).waitFor();
  await page.keyboard.insertText("coll-4321");
  await page.getByRole("option", { name: /db-1 \/ coll-4321/ }).waitFor();
  await close();
});

test("a thousand partitions: two hundred are shown, and each is found", { timeout: 600_000 }, async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  await context.route(/colls\/orders\/partitions\?/, async (route) => {
    const report = await (await route.fetch()).json();
    const [first] = report.partitions;
    const bound = (n) => (n === 0 ? "" : n === 1000 ? "FF" : (n * 16).toString(16).toUpperCase().padStart(8, "0"));
    const partitions = Array.from({ length: 1000 }, (_, n) => ({
      ...first,
      id: String(n),
      minInclusive: bound(n),
      maxExclusive: bound(n + 1),
    }));
    return route.fulfill(json({ ...report, partitions }));
  });
  await at("c/shop/orders/partitions");
  await ready();
  await page.getByText("200 of 1000 are shown").waitFor();
  const rows = page.locator(".partitions-table tbody tr");
  assert.equal(await rows.count(), 200);
  await accessible(page, "a thousand partitions");
  await page.getByRole("textbox", { name: "partition" }).fill("999");
  await until(async () => (await rows.count()) === 1, "the one that was asked for");
  await rows.getByRole("button", { name: "Split" }).click();
  await page.getByRole("dialog", { name: "Split partition 999" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Shares…" }).click();
  await page.getByRole("dialog").getByRole("slider").nth(999).waitFor();
  await close();
});

const GONE = {
  "c/shop/gone/items": /Opening gone failed/,
  "c/shop/gone/query": /Nothing has run/,
  "c/shop/gone/partitions": /Reading the partitions failed/,
  "c/shop/gone/feed": /failed/,
  "c/shop/gone/scripts": /Reading the scripts failed/,
  "c/shop/gone/settings": /Reading gone failed/,
  "c/none/gone/items": /Opening gone failed/,
  "db/none": /failed/,
  'c/shop/orders/items/["ada"]/none': /Reading item none failed/,
  "c/shop/orders/items/no key/1": /Reading item 1 failed/,
  "c/shop/orders/scripts/sprocs/none": /No script is open/,
  "c/shop/orders/nonsense": /all 1 item/,
  "nonsense/and/more": /Needs attention/,
};

test("links to what is gone say so, and everything else is still at hand", { timeout: 600_000 }, async () => {
  const { page, at, ready, fine, close } = await openPage(browser, server);
  for (const [path, words] of Object.entries(GONE)) {
    await at(path.split("/").map(encodeURIComponent).join("/"));
    await ready();
    await page.getByRole("main").getByText(words).first().waitFor();
    await accessible(page, path);
    await page.getByRole("link", { name: "Shardlake, home" }).click();
    await page.getByRole("grid", { name: "Containers" }).waitFor();
    await fine();
  }
  await close();
});

test("back and forward go through items; what was typed is kept as a draft", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/items");
  await ready();
  await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(1).click();
  const label = "Text of item 1";
  await until(async () => (await editorText(page, label).catch(() => "")).includes("ada"), "the item");
  await page.goBack();
  await page.getByRole("region", { name: "Item 1" }).waitFor({ state: "detached" });
  await page.goForward();
  await until(async () => (await editorText(page, label).catch(() => "")).includes("ada"), "the item again");
  await page.getByRole("button", { name: "Edit" }).click();
  await writeEditor(page, label, '{"id":"1","customer":"ada","total":77}');
  await page.goBack();
  await page.getByRole("region", { name: "Item 1" }).waitFor({ state: "detached" });
  await page.goForward();
  await page.getByRole("button", { name: /Restore|Continue/ }).click();
  await until(async () => (await editorText(page, label)).includes("77"), "the draft");
  await close();
});

test("a container that nobody has used: where no key is known yet, each page says what to do", { timeout: 600_000 }, async () => {
  await server.client.createContainer("shop", "fresh", ["/tenant", "/user"]);
  const { page, at, ready, close } = await openPage(browser, server);
  const wanted = {
    // First, since the other pages read items.
    partitions: /No load in this window/,
    items: /No items yet/,
    query: /Nothing has run/,
    feed: /No change yet/,
    scripts: /No script is open/,
    settings: /\/tenant/,
  };
  for (const [tab, words] of Object.entries(wanted)) {
    await at(`c/shop/fresh/${tab}`);
    await ready();
    await page.getByRole("main").getByText(words).first().waitFor();
    await accessible(page, `${tab} of a container that nobody has used`);
  }
  await close();
});
