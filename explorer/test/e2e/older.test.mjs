// A server older than the interface: none of the routes that were made for it. What they back is not there; the rest works.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

const NEW = /\/_shardlake\/v1\/(?:server|caller|pulse|log|copies)\b|\/colls\/[^/]+\/(?:heat|key|query|schema|scripts\/run|indexing\/preview)\b/;
let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "orders", ["/customer"]);
  for (let n = 0; n < 5; n++)
    await server.client.upsert("shop", "orders", '["ada"]', `{"id":"${n}","customer":"ada","total":${n}}`);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("22: of a server without the interface's own routes nothing is shown that does not work", { timeout: 600_000 }, async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  const missed = new Set();
  await context.route(
    (url) => NEW.test(url.pathname),
    (route) => {
      missed.add(new URL(route.request().url()).pathname);
      return route.fulfill({ status: 404, contentType: "application/json", body: '{"code":"NotFound","message":"no"}' });
    },
  );
  const plain = async (path, wanted) => {
    await at(path);
    await ready();
    await wanted();
    await until(async () => (await page.locator(".loading").count()) === 0, `the page ${path}`);
    assert.equal(await page.getByRole("alert").count(), 0, `${path}: ${await page.getByRole("alert").allInnerTexts()}`);
    await accessible(page, `${path} of an older server`);
  };
  await plain("", () => page.getByRole("grid", { name: "Containers" }).waitFor());
  assert.equal(await page.getByRole("link", { name: "Operations" }).count(), 0);
  await plain("c/shop/orders/items", () => page.getByText("all 5 items").waitFor());
  assert.equal(await page.getByRole("link", { name: "Analytics" }).count(), 0);
  await plain("c/shop/orders/partitions", () => page.getByRole("heading", { name: "Partitions", exact: true }).waitFor());
  assert.equal(await page.getByText("Heat over time").count(), 0);
  assert.equal(await page.getByText("Where is this key").count(), 0);
  await plain("c/shop/orders/query", () => page.getByText("Nothing has run").waitFor());
  assert.equal(await page.getByRole("button", { name: "Explain" }).count(), 0);
  await writeEditor(page, "Query text", "SELECT c.id FROM c WHERE c.total > 2");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: "Rows 2" }).waitFor();
  assert.equal(await page.getByRole("tab", { name: "Plan" }).count(), 0);
  assert.equal(await page.getByRole("tab", { name: "Partitions" }).count(), 0);
  await plain("c/shop/orders/feed", () => page.getByText(/No change yet/).waitFor());
  await plain("c/shop/orders/scripts", () => page.getByText("No script is open").waitFor());
  await page.getByRole("button", { name: "New", exact: true }).click();
  assert.equal(await page.getByRole("button", { name: "Dry run" }).count(), 0);
  await plain("c/shop/orders/settings#section=indexing", () =>
    page.getByRole("textbox", { name: "Indexing policy" }).waitFor(),
  );
  assert.equal(await page.getByRole("button", { name: "Preview" }).count(), 0);
  await plain("copies", () => page.getByRole("heading", { name: "No copies" }).waitFor());
  await page.getByRole("button", { name: "New projection" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "New index" }).count(), 0);
  await plain("db/shop", () => page.getByRole("heading", { level: 1 }).first().waitFor());
  assert.ok(
    ![...missed].some((path) => /heat|query|schema|scripts|preview|log|analytics/.test(path)),
    `what is not offered is not asked for: ${[...missed].join(" ")}`,
  );
  await close();
});
