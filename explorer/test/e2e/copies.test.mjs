// Copies: an index is made, followed, paused, rebuilt and deleted on the page; chains and losses are drawn; containers name their copies.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, editorText, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "customer", ["/city"]);
  for (let n = 0; n < 30; n++)
    await upsert({ id: `c${n}`, city: n % 2 ? "Oslo" : "Turku", email: `${n}@x`, tags: [n] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const upsert = (item) => server.client.upsert("shop", "customer", JSON.stringify([item.city]), JSON.stringify(item));
const createIndex = (id, source, key, definition) =>
  server.client.createContainer("shop", id, [key], {
    more: { globalSecondaryIndexDefinition: { sourceCollectionId: source, definition } },
  });
const deleteContainer = (id) => server.client.send("DELETE", `/dbs/shop/colls/${id}`, "colls", `dbs/shop/colls/${id}`);
const listed = async () => JSON.parse((await server.client.operator("GET", "copies")).text).copies;

/** Answers of the list of indexes pass through `change`. */
const changed = (context, change) =>
  context.route(
    (url) => url.pathname === "/_shardlake/v1/copies",
    async (route) => {
      const response = await route.fetch();
      const { copies } = await response.json();
      await route.fulfill({ response, json: { copies: copies.map(change) } });
    },
  );

/** The order of a row's button, confirmed; returns the words of its consequence. */
async function give(page, row, name, typed) {
  await row.getByRole("button", { name, exact: true }).click();
  const dialog = page.getByRole("dialog");
  const words = await dialog.getByRole("paragraph").first().innerText();
  await accessible(page, `the question before ${name}`);
  if (typed) await dialog.getByRole("textbox").fill(typed);
  await dialog.getByRole("button", { name: `${name} the index` }).click();
  await dialog.waitFor({ state: "detached" });
  return words;
}

test(
  "28: an index is made, refused first, followed, paused, resumed, rebuilt and deleted",
  { timeout: 600_000 },
  async () => {
    const { page, at, ready, close } = await openPage(browser, server);
    await at("");
    await ready();
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "No copies" }).waitFor();
    assert.equal(await page.getByRole("img").count(), 0, "nothing is drawn");
    await accessible(page, "a server without copies");
    await page.getByRole("button", { name: "New index" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Source").selectOption("shop / customer");
    await dialog.getByLabel("Name of the index").fill("byEmail");
    await dialog.getByLabel(/Partition key/).fill("/email");
    await dialog.getByLabel("RU/s", { exact: false }).fill("1000");
    await dialog.getByLabel(/autoscale/).check();
    await writeEditor(page, "Definition", "SELECT c.email FROM c ORDER BY c.email");
    await accessible(page, "a new index");
    const create = dialog.getByRole("button", { name: "Create" });
    await create.click();
    await dialog.getByRole("alert").getByText("Creating the index failed").waitFor();
    await dialog
      .getByRole("alert")
      .getByText(/ORDER BY/)
      .first()
      .waitFor();
    const mark = () =>
      dialog.locator(".editor").evaluate((host) => host.shadowRoot.querySelector(".cm-mistake")?.textContent);
    assert.equal(await mark(), "ORDER BY c.email");
    await accessible(page, "a refused definition");
    assert.equal(await editorText(page, "Definition"), "SELECT c.email FROM c ORDER BY c.email", "the text stays");
    await writeEditor(page, "Definition", "SELECT c.email FROM c");
    await create.click();
    await dialog.waitFor({ state: "detached" });

    const row = page.getByRole("row", { name: /^shop\/byEmail/ });
    await row.getByText("Active").waitFor();
    await row.getByRole("cell", { name: "30", exact: true }).waitFor();
    await row.getByText("SELECT c.email FROM c").waitFor();
    await page.getByText("1 copy follows its source.").waitFor();
    await page.getByRole("img", { name: /Graph of 2 containers/ }).waitFor();
    await accessible(page, "an index that follows");
    const { text: offers } = await server.client.send("GET", "/offers", "offers", "");
    assert.match(offers, /"maxThroughput":1000/, "autoscale as it was typed");
    await page.getByRole("navigation", { name: "Containers" }).getByText("byEmail").waitFor();

    assert.match(await give(page, row, "Pause"), /24 hours/);
    await row.getByText("Paused").waitFor();
    await upsert({ id: "later", city: "Graz", email: "later@x" });
    await row.getByText(/^1 change, /).waitFor();
    await page.getByText(/^1 copy does not follow its source; byEmail: Paused\. byEmail is 1 change, /).waitFor();
    await accessible(page, "a paused index");
    assert.match(await give(page, row, "Resume"), /1 change waits/);
    await row.getByRole("cell", { name: "31", exact: true }).waitFor();
    await row.getByText("0 changes, 0 s").waitFor();
    const [{ generation }] = await listed();
    assert.match(await give(page, row, "Rebuild"), /can be read meanwhile/);
    await until(async () => (await listed())[0].generation === generation + 1, "another generation");
    await row.getByText("Active").waitFor();

    await row.getByRole("link", { name: "byEmail" }).click();
    await page.waitForURL(/\/c\/shop\/byEmail\/items/);
    await page.getByText("all 31 items").waitFor();
    await at("copies");
    assert.match(await give(page, row, "Delete", "byEmail"), /its 31 rows are deleted/);
    await page.getByRole("heading", { name: "No copies" }).waitFor();
    assert.deepEqual(await listed(), []);
    await close();
  },
);

test(
  "28b: chains and losses are drawn, refused items are listed with their reasons",
  { timeout: 600_000 },
  async () => {
    for (const [id, source, key, definition] of [
      ["byEmail", "customer", "/email", "SELECT c.email, c.city FROM c"],
      ["byCity", "byEmail", "/city", "SELECT c.city, c.email FROM c"],
      ["byTag", "customer", "/tag", "SELECT t AS tag FROM c JOIN t IN c.tags"],
    ]) {
      const { status, text } = await createIndex(id, source, key, definition);
      assert.equal(status, 201, text);
    }
    await server.client.createContainer("shop", "people", ["/key"]);
    const rule = {
      source: { database: "shop", container: "byEmail" },
      target: { database: "shop", container: "people" },
      match: [{ source: "/email", target: "/email" }],
      set: [{ from: "/city", to: "/city" }],
    };
    const put = await server.client.operator("PUT", "projections/cities", rule);
    assert.ok(put.status < 300, put.text);
    await upsert({ id: "many", city: "Graz", email: "many@x", tags: Array.from({ length: 101 }, (_, n) => n) });
    for (const colorScheme of ["light", "dark"]) {
      const { page, at, ready, close } = await openPage(browser, server, {
        settings: { viewport: { width: 1440, height: 900 }, colorScheme },
      });
      await at("copies");
      await ready();
      const graph = page.getByRole("img", { name: /Graph of 5 containers/ });
      await graph.waitFor();
      const row = page.getByRole("row", { name: /^shop\/byTag/ });
      await row.getByText("Incomplete").waitFor();
      const boxOf = (name) => graph.locator("g.box", { hasText: name }).boundingBox();
      const [customer, byEmail, byCity, people] = await Promise.all(
        ["customer", "byEmail", "byCity", "people"].map(boxOf),
      );
      assert.ok(customer.x < byEmail.x && byEmail.x < byCity.x && byCity.x === people.x, "columns by distance");
      await graph.locator("g.arrow.bad", { hasText: "1 refused" }).waitFor({ state: "attached" });
      await graph.locator("g.arrow.projection", { hasText: "projection cities" }).waitFor({ state: "attached" });
      await page.getByText("1 item could not be written.").waitFor();
      await accessible(page, `a graph, ${colorScheme}`);
      await row.getByRole("button", { name: "1 refused items of byTag" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("row", { name: /\["Graz"\] many .*100/ }).waitFor();
      await accessible(page, "refused items");
      await dialog.getByRole("link", { name: "many" }).click();
      await page.waitForURL(/\/c\/shop\/customer\/items\/.*\/many$/);
      await page.getByRole("textbox", { name: "Text of item many" }).waitFor();
      await close();
    }
    const { page, at, ready, close } = await openPage(browser, server);
    await at("copies");
    await ready();
    const source = page.getByRole("row", { name: /^shop\/byEmail/ });
    assert.match(await give(page, source, "Delete", "byEmail"), /delete byCity first/);
    await page.getByRole("alert").getByText("Delete of byEmail failed").waitFor();
    await page
      .getByRole("alert")
      .getByText(/byCity/)
      .first()
      .waitFor();
    assert.equal((await listed()).length, 3);
    await page.getByRole("button", { name: "Writing is allowed: lock it" }).click();
    for (const name of ["New index", "New projection", "Pause", "Rebuild", "Delete"])
      await until(async () => (await page.getByRole("button", { name, exact: true }).count()) === 0, `no ${name}`);
    await close();
  },
);

test(
  "28c: the items of an index are read-only, and settings name what feeds and is fed",
  { timeout: 600_000 },
  async () => {
    const { page, at, ready, close } = await openPage(browser, server);
    await at("c/shop/byEmail/items");
    await ready();
    await page.getByText("An index of 'customer': write there.").waitFor();
    await page.getByText(/^all \d+ items/).waitFor();
    for (const name of ["New", "Upload", "All…"])
      assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
    await accessible(page, "items of an index");
    await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(1).click();
    await page.getByRole("textbox", { name: /^Text of item/ }).waitFor();
    for (const name of ["Edit", "Duplicate item", "Delete item"])
      assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    await page.keyboard.press("Delete");
    assert.equal(await page.getByRole("dialog").count(), 0);
    await page.getByText("An index of").getByRole("link", { name: "customer" }).click();
    await page.getByRole("button", { name: "New", exact: true }).waitFor();

    await at("c/shop/byEmail/settings");
    const fact = (name) => page.locator("dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");
    await fact("Feeds").waitFor();
    assert.equal(await fact("Feeds").innerText(), "byCity (index), people (projection cities)");
    assert.equal(await fact("Is fed by").innerText(), "customer (index)");
    await accessible(page, "settings of an index");
    await fact("Feeds").getByRole("link", { name: "people" }).click();
    await page.waitForURL(/\/c\/shop\/people\/items/);
    await close();
  },
);

test("28d: a build shows its progress, and a status that is not known is shown as it is", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  let change = (copy) => ({ ...copy, status: "InitialBuildAfterCreate", percent: 42 });
  await changed(context, (copy) => (copy.container === "byCity" ? change(copy) : copy));
  await at("copies");
  await ready();
  const row = page.getByRole("row", { name: /^shop\/byCity/ });
  await row.getByText("Building, 42 %").waitFor();
  assert.equal(await row.getByRole("progressbar", { name: "Build of byCity" }).getAttribute("value"), "42");
  await accessible(page, "an index that is built");
  const message = "storage did not answer";
  change = (copy) => ({ ...copy, status: "Reconciling", percent: null, lastError: { message, time: 1_795_270_000 } });
  await row.getByText("Reconciling").waitFor();
  await row.getByText(/last error, 20\d\d-.*: storage did not answer/).waitFor();
  await close();
});

test("28e: the focus stays where it is while the lists are read again", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  let lag = 0;
  await changed(context, (copy) => ({ ...copy, lag: { changes: lag, seconds: 1 } }));
  await at("copies");
  await ready();
  const row = page.getByRole("row", { name: /^shop\/byCity/ });
  await row.getByRole("button", { name: "Rebuild" }).focus();
  for (lag of [1000, 2000]) await row.getByText(`${lag / 1000},000 changes, 1 s`).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Rebuild");
  await close();
});

test("28f: on a telephone the tables alone have all facts", async () => {
  const settings = { viewport: { width: 390, height: 844 }, colorScheme: "dark" };
  const { page, at, ready, close } = await openPage(browser, server, { settings });
  await at("copies");
  await page.getByRole("row", { name: /^shop\/byCity/ }).waitFor();
  assert.equal(await page.getByRole("img", { name: /Graph/ }).count(), 0);
  await accessible(page, "copies at 390");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `scrolls by ${wide}`);
  await page.getByRole("button", { name: "New index" }).click();
  await accessible(page, "a new index at 390");
  await close();
  for (const id of ["byCity", "byEmail", "byTag"]) assert.equal((await deleteContainer(id)).status, 204);
});

test("28g: an index of any name is paused and deleted from the page", async () => {
  const name = "a b%2F&'<b>💡";
  const { status, text } = await server.client.createContainer("shop", name, ["/email"], {
    more: { globalSecondaryIndexDefinition: { sourceCollectionId: "customer", definition: "SELECT * FROM c" } },
  });
  assert.equal(status, 201, text);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("copies");
  await ready();
  const row = page.getByRole("row").filter({ hasText: `shop/${name}` });
  await row.getByText("Active").waitFor();
  await give(page, row, "Pause");
  await row.getByText("Paused").waitFor();
  await give(page, row, "Delete", name);
  await row.waitFor({ state: "detached" });
  await close();
});
