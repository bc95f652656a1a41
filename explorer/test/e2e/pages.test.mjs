// Query, partitions, feed, settings, copies: against a small server with a hot key.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { prepare, traffic } from "../fixtures/traffic.mjs";
import { accessible, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory", "--limits-scale", "1/10"]);
  browser = await startBrowser();
  await prepare(server.endpoint, { throughput: 2000 });
  await server.client.createContainer("shop", "audited", ["/key"], {
    more: { changeFeedPolicy: { retentionDuration: 60 } },
  });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const offered = async (feature) => {
  const { status, text } = await server.client.operator("GET", "server");
  return status === 200 && JSON.parse(text).features.includes(feature);
};

test("9: a query runs page after page, with parameters; an error is underlined at its place; history fills in", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/query");
  await ready();
  await page.getByText("Nothing has run").waitFor();
  await accessible(page, "a query that has not run");
  await writeEditor(page, "Query text", "SELECT c.id, c.total FROM c WHERE c.customer = @who ORDER BY c.total");
  await page.getByRole("textbox", { name: "@who" }).fill("ada");
  await page.getByRole("textbox", { name: "Query text" }).focus();
  await page.keyboard.press("Shift+Enter");
  await page.getByRole("tab", { name: "Rows 100" }).waitFor();
  await accessible(page, "rows of a query");
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  await page.getByRole("textbox", { name: "Rows as JSON" }).waitFor();
  await writeEditor(page, "Query text", "SELECT * FRM c");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page
    .getByRole("alert")
    .getByText(/Syntax error/)
    .waitFor();
  const underlined = await page
    .locator(".query-editor .editor")
    .evaluate((host) => host.shadowRoot?.querySelector(".cm-mistake")?.textContent);
  assert.equal(underlined, "FRM");
  await accessible(page, "a query with an error");
  await page.getByRole("button", { name: "History" }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /WHERE c.customer/ })
    .click();
  await page.getByRole("textbox", { name: "@who" }).waitFor();
  await close();
});

test("9b: a single value is shown large; several statements run by the cursor; many rows are cut and said to be", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/query#q=" + encodeURIComponent("SELECT VALUE COUNT(1) FROM c;\nSELECT c.id FROM c"));
  await ready();
  await page.getByText("Nothing has run").waitFor();
  const editor = page.getByRole("textbox", { name: "Query text" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+Home");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator(".one-value").getByText("300").waitFor();
  await editor.click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.getByLabel("At most").selectOption("100");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText(/Cut at 1\d\d rows/).waitFor();
  await close();
});

test("9e: what is selected runs alone; a query that is stopped stops on the server too", { timeout: 600_000 }, async () => {
  await server.client.createContainer("shop", "wide", ["/key"]);
  const list = Array.from({ length: 150 }, (_, n) => n);
  await server.client.upsert("shop", "wide", '["k"]', JSON.stringify({ id: "1", key: "k", list }));
  const HEAVY = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list WHERE x + y + z < 0";
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/wide/query#q=" + encodeURIComponent(`SELECT c.id FROM c;\n${HEAVY}`));
  await ready();
  const editor = page.getByRole("textbox", { name: "Query text" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.press("Shift+Enter");
  await page.getByRole("tab", { name: "Rows 1" }).waitFor();
  await page.getByRole("grid", { name: "Rows" }).getByRole("columnheader", { name: "id" }).waitFor();
  // The same query, not stopped, is the measure: the server works on it until its page is over.
  const worked = () => {
    const fields = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1].split(" ");
    return Number(fields[11]) + Number(fields[12]);
  };
  let begun = worked();
  await server.client.query("shop", "wide", HEAVY);
  const whole = worked() - begun;
  begun = worked();
  await page.keyboard.press("ControlOrMeta+End");
  const sent = page.waitForRequest((request) => request.method() === "POST");
  await page.keyboard.press("Shift+Enter");
  await sent;
  const ended = page.waitForEvent("requestfailed");
  await page.keyboard.press("Escape");
  await ended;
  await page.getByText("Stopped: these rows are not all.").waitFor();
  let before = worked();
  const isIdle = async () => {
    await new Promise((resolve) => setTimeout(resolve, 200));
    const now = worked();
    const grown = now - before;
    before = now;
    return grown <= 2;
  };
  await until(isIdle, "an idle server");
  assert.ok(worked() - begun < whole, `${worked() - begun} of ${whole} hundredths of a second`);
  await close();
});

test("9c: with the server's figures, the plan is drawn and the partitions' charges add up to the charge", async (context) => {
  if (!(await offered("query"))) return context.skip("the server does not offer query figures");
  const { page, at, ready, close } = await openPage(browser, server);
  await at(
    "c/shop/orders/query#q=" +
      encodeURIComponent("SELECT c.state, COUNT(1) AS n FROM c WHERE c.total > 5 GROUP BY c.state"),
  );
  await ready();
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("list", { name: /Plan/ }).waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: /Rows 2/ }).click();
  await page.getByRole("tab", { name: "Plan" }).click();
  await accessible(page, "a plan");
  await page.getByRole("tab", { name: "Partitions" }).click();
  await accessible(page, "figures of partitions");
  const charges = await page.locator("table.ranges tbody tr td:nth-child(3)").allTextContents();
  const total = /([\d.,]+) RU/.exec(
    (await page.getByRole("region", { name: "Results" }).getByRole("status").textContent()) ?? "",
  )?.[1];
  const sum = charges.reduce((all, text) => all + Number(text.replace(/[^\d.]/g, "")), 0);
  assert.ok(Math.abs(sum - Number(total)) < 0.02, `${charges} against ${total}`);
  await close();
});

test("14: a hot key is seen, explained, and its partition split from the page", { timeout: 600_000 }, async (context) => {
  const stop = new AbortController();
  context.after(() => stop.abort());
  const used = traffic(server.client, stop.signal);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/partitions");
  await ready();
  await page.getByRole("heading", { name: /Single hot key/ }).waitFor();
  await page
    .getByRole("table")
    .filter({ hasText: "Load and budget" })
    .getByRole("link", { name: '["ada"]' })
    .first()
    .waitFor();
  if (await offered("heat")) {
    const map = page.getByRole("application", { name: /Heat of orders/ });
    await map.waitFor();
    await map.focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowUp");
    await page
      .locator(".heat-words")
      .getByText(/partition/)
      .waitFor();
    await page.getByRole("button", { name: "As table" }).click();
    await page.getByRole("table").filter({ hasText: "Key range" }).waitFor();
    await page.getByRole("button", { name: "As table" }).click();
  }
  await accessible(page, "partitions with a finding");
  const before = await page.locator(".partitions-table tbody tr").count();
  await page.locator(".partitions-table tbody tr").first().getByRole("button", { name: "Split" }).click();
  const dialog = page.getByRole("dialog", { name: /Split partition/ });
  await dialog.getByLabel(/in the middle of the hashes/).check();
  await accessible(page, "the dialog of a split");
  await dialog.getByRole("button", { name: "Split" }).click();
  await page
    .getByText(/split \d+ → \d+, \d+: .*writers held/)
    .first()
    .waitFor();
  await until(
    async () => (await page.locator(".partitions-table tbody tr").count()) === before + 1,
    "one partition more",
  );
  stop.abort();
  await used;
  await close();
});

test("16: shares by sliders keep the sum, and are in force", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/partitions");
  await ready();
  await page.getByRole("button", { name: "Shares…" }).click();
  const dialog = page.getByRole("dialog", { name: "Divide the throughput" });
  const first = dialog.getByRole("slider").first();
  await first.focus();
  for (let press = 0; press < 40; press++) await page.keyboard.press("ArrowRight");
  const shares = (await dialog.locator("output").allTextContents()).map((text) =>
    Number(text.split(" ")[0].replace(",", "")),
  );
  assert.equal(
    shares.reduce((sum, share) => sum + share, 0),
    2000,
  );
  await dialog.getByRole("button", { name: "Divide" }).click();
  await dialog.waitFor({ state: "detached" });
  const { text } = await server.client.operator("GET", "dbs/shop/colls/orders/partitions");
  const budgets = JSON.parse(text).partitions.map(({ budget }) => budget.ruPerSecond);
  assert.ok(budgets.includes(shares[0]), `${budgets} has ${shares[0]}`);
  await close();
});

test("17: changes are followed as they happen, with what differs; deletions too where versions are kept", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/audited/feed#mode=all");
  await ready();
  await page.getByText("No change yet").waitFor();
  await accessible(page, "an empty feed");
  const answered = page.waitForRequest(
    (request) => request.url().endsWith("/docs") && request.headers()["if-none-match"] !== "*",
  );
  await answered;
  await server.client.upsert("shop", "audited", '["k"]', '{"id":"1","key":"k","total":42.5}');
  await server.client.upsert("shop", "audited", '["k"]', '{"id":"1","key":"k","total":45}');
  const grid = page.getByRole("grid", { name: "Changes" });
  await grid.getByText(/total 42.5 → 45/).waitFor();
  for (let n = 0; n < 300; n++) await server.client.upsert("shop", "audited", '["k"]', `{"id":"n${n}","key":"k"}`);
  await page.getByText("302 kept · 0 dropped").waitFor();
  await grid.getByRole("row").nth(1).click();
  await page.getByRole("region", { name: "Change" }).waitFor();
  await accessible(page, "a change");
  await close();
});

test("20: time to live and throughput are set with the etag that was read", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/audited/settings");
  await ready();
  await page.getByText("Unique keys").waitFor();
  await accessible(page, "settings");
  await page.getByRole("button", { name: "Time to live" }).click();
  await page.getByLabel(/default for items/).check();
  await page.getByLabel("Seconds after the last change").fill("864000");
  await page.getByRole("button", { name: "Count what would be gone now" }).click();
  await page.getByText("0 items").waitFor();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const { text } = await server.client.send("GET", "/dbs/shop/colls/audited", "colls", "dbs/shop/colls/audited");
  const definition = JSON.parse(text);
  assert.equal(definition.defaultTtl, 864000);
  assert.equal(definition.changeFeedPolicy.retentionDuration, 60, "what was not changed is sent as it was");
  await page.getByRole("button", { name: "Throughput" }).click();
  await page.getByLabel("RU/s (in steps of 100)").fill("900");
  await page.getByRole("button", { name: "Save" }).click();
  await until(
    async () => (await server.client.send("GET", "/offers", "offers", "")).text.includes('"offerThroughput":900'),
    "the offer",
  );
  await page.getByRole("button", { name: "Indexing" }).click();
  await accessible(page, "the indexing policy");
  await close();
});

test("18: a projection is made, paused, resumed and deleted", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  // The address that the page had before.
  await at("projections");
  await ready();
  await page.getByRole("heading", { name: "No copies" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/_explorer/copies");
  await page.getByRole("button", { name: "New projection" }).click();
  await page.getByLabel("Id").fill("names");
  const rule = {
    source: { database: "shop", container: "orders" },
    target: { database: "shop", container: "audited" },
    match: [{ source: "/id", target: "/orderId" }],
    set: [{ from: "/total", to: "/total" }],
    start: "beginning",
  };
  await writeEditor(page, "Rule", JSON.stringify(rule, null, 2));
  await page.getByRole("button", { name: "Save" }).click();
  const row = page.getByRole("row", { name: /names/ });
  await row.getByText("running").waitFor();
  await accessible(page, "projections");
  await row.getByRole("button", { name: "Pause" }).click();
  await row.getByText("paused").waitFor();
  await row.getByRole("button", { name: "Resume" }).click();
  await row.getByText("running").waitFor();
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete the rule" }).click();
  await page.getByRole("heading", { name: "No copies" }).waitFor();
  await close();
});

test("11: another indexing policy is previewed, saved, and its difference told", async (context) => {
  if (!(await offered("indexingPreview"))) return context.skip("the server does not offer previews");
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/settings#section=indexing");
  await ready();
  await page.getByRole("textbox", { name: "Indexing policy" }).waitFor();
  const policy = {
    indexingMode: "consistent",
    automatic: true,
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: '/"_etag"/?' }, { path: "/note/?" }],
  };
  await writeEditor(page, "Indexing policy", JSON.stringify(policy));
  await page
    .getByText(/excludedPaths/)
    .last()
    .waitFor();
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("A create costs").waitFor();
  await page.getByText(/No query of this container ran/).waitFor();
  await accessible(page, "a preview");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const { text } = await server.client.send("GET", "/dbs/shop/colls/orders", "colls", "dbs/shop/colls/orders");
  assert.ok(JSON.parse(text).indexingPolicy.excludedPaths.some(({ path }) => path === "/note/?"));
  // A query that ran here is judged under the next policy before that is saved.
  await at("c/shop/orders/query#q=" + encodeURIComponent("SELECT * FROM c WHERE c.total < 5"));
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("button", { name: "Pin this run to compare with" }).waitFor();
  // Without loading the page anew, which could come before the history is written.
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Indexing" }).click();
  await page.getByRole("textbox", { name: "Indexing policy" }).waitFor();
  const worse = { ...policy, excludedPaths: [...policy.excludedPaths, { path: "/total/?" }] };
  await writeEditor(page, "Indexing policy", JSON.stringify(worse));
  await page.getByRole("button", { name: "Preview" }).click();
  const fate = page.getByRole("row", { name: /c\.total < 5/ });
  await fate.getByRole("cell", { name: "scan of all items" }).waitFor();
  await fate.getByRole("cell", { name: "index", exact: true }).waitFor();
  const [measured, now, then] = (await fate.locator("td.number").allTextContents()).map(Number);
  assert.ok(measured > 0 && Math.abs(now - measured) <= 0.1 * measured, `predicted ${now} of ${measured}`);
  assert.ok(then > now, `${now} → ${then}`);
  await accessible(page, "what becomes of a query");
  await close();
});
