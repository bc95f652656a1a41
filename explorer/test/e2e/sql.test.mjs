// SQL over analytical tables on its page. Tables and answers of the SQL engine are given here as the documentation describes them, so
// that a server without them is enough; queries over items are the server's own.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  const { client } = server;
  await client.createDatabase("shop");
  await client.createContainer("shop", "customer", ["/city"]);
  for (let n = 0; n < 30; n++) {
    const item = { id: `c${n}`, city: n % 3 ? "Oslo" : "Turku", points: n };
    await client.upsert("shop", "customer", JSON.stringify([item.city]), JSON.stringify(item));
  }
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const column = (name, type) => ({ name, type });
const columns = [column("id", "string"), column("city", "string"), column("points", "long")];
const TABLES = { tables: [{ database: "shop", container: "customer", state: "following", figures: { columns } }] };
const withTables = (tab) =>
  tab.route(
    (url) => url.pathname === "/_shardlake/v1/analytics",
    (route) => route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(TABLES) }),
  );
const isSql = (url) => url.pathname === "/_shardlake/v1/analytics/sql";
const ANSWER = {
  columns: [
    { name: "city", type: "Utf8" },
    { name: "n", type: "Int64" },
  ],
  rows: [
    ["Oslo", 20],
    ["Turku", 10],
  ],
  snapshot: { "shop/customer": { version: 7 } },
  statistics: { elapsedMs: 41, bytesRead: 1_200_000 },
};

test("24: a question over tables has rows, a plot and no charge; over items it has a charge", { timeout: 600_000 }, async () => {
  const { page, at, ready, context: tab, close } = await openPage(browser, server);
  await withTables(tab);
  const asked = [];
  await tab.route(isSql, (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ status: 200, contentType: "application/json", body: JSON.stringify(ANSWER) });
  });
  await at("");
  await ready();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "SQL" }).click();
  await page.getByText("Nothing has run").waitFor();
  await page.getByText("1 table", { exact: true }).waitFor();
  await accessible(page, "the page before a query");

  await writeEditor(page, "SQL text", "SELECT city, count(*) AS n FROM customer WHERE points < $most GROUP BY city");
  await page.getByLabel("$most").fill("30");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const results = page.getByRole("region", { name: "Rows of tables" });
  await results.getByText(/^0 RU, 41 ms, 1\.\d MB read$|^0 RU, 41 ms, 1\.\d MiB read$/).waitFor();
  await results.getByText("2 rows; shop/customer at version 7").waitFor();
  await results.getByRole("row", { name: "1 Oslo 20" }).waitFor();
  await results.getByRole("img", { name: "n by 2 rows: from 0 to 20" }).waitFor();
  assert.equal(await results.locator(".plot rect").count(), 2);
  await results.getByRole("button", { name: "line" }).click();
  assert.equal(await results.locator(".plot path").count(), 1);
  assert.deepEqual(asked, [
    {
      query: "SELECT city, count(*) AS n FROM customer WHERE points < $most GROUP BY city",
      database: "shop",
      parameters: { most: 30 },
    },
  ]);
  await accessible(page, "rows with a plot");

  await writeEditor(page, "SQL text", "SELECT city, count(*) AS n FROM customer GROUP BY city");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const same = page.getByRole("region", { name: "The same question over items" });
  const items = same.getByRole("textbox", { name: "NoSQL query" });
  await until(async () => (await items.inputValue()) === "SELECT c.city, COUNT(1) AS n FROM c GROUP BY c.city", "a suggestion");
  await same.getByRole("button", { name: "Run over items" }).click();
  await same.getByText(/^[1-9][\d.]* RU, .*, 2 rows/).waitFor();
  await items.fill("SELECT VALUE c.nothing.at.all FROM");
  await same.getByRole("button", { name: "Run over items" }).click();
  await same.getByRole("alert").getByText("The query over items failed").waitFor();
  await accessible(page, "a refused query over items");
  await close();
});

test("24b: tables, columns and members are completed", { timeout: 600_000 }, async () => {
  const { page, at, ready, context: tab, close } = await openPage(browser, server);
  await withTables(tab);
  await at("sql#q=" + encodeURIComponent("SELECT c. FROM shop.customer AS c"));
  await ready();
  await page.getByText("1 table", { exact: true }).waitFor();
  const editor = page.getByRole("textbox", { name: "SQL text" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+Home");
  for (let n = 0; n < "SELECT c.".length; n++) await page.keyboard.press("ArrowRight");
  await page.keyboard.type("po");
  await page.getByRole("option", { name: /^points/ }).click();
  await until(async () => (await editor.innerText()).includes("SELECT c.points FROM shop.customer"), "the completed name");
  await close();
});

test("24c: a server without the SQL engine says so, and a mistake is marked at its place", { timeout: 600_000 }, async () => {
  const { page, at, ready, context: tab, close } = await openPage(browser, server);
  await withTables(tab);
  let refusal = [501, "SQL over the analytical store is not in this build (feature analytics-sql): use the full build"];
  await tab.route(isSql, (route) => {
    const [status, message] = refusal;
    return route.fulfill({ status, contentType: "application/json", body: JSON.stringify({ code: "x", message }) });
  });
  await at("sql");
  await ready();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const alert = page.getByRole("alert");
  await alert.getByText(/is not in this build \(feature analytics-sql\)/).waitFor();
  await accessible(page, "a server without the SQL engine");
  refusal = [400, "line 1, column 8: there is no column 'x'"];
  await writeEditor(page, "SQL text", "SELECT x FROM customer");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await alert.getByText(/there is no column 'x'/).waitFor();
  await until(async () => (await page.locator(".cm-mistake").innerText()) === "x", "the marked place");
  await close();
});
