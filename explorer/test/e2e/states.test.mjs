// What pages show while something is missing: throttled, failed, stopped, cut short, the server away. And what many tabs cost.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  await fill(server);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fill({ client }) {
  await client.createDatabase("shop");
  await client.createContainer("shop", "orders", ["/customer"]);
  for (let n = 0; n < 20; n++)
    await client.upsert("shop", "orders", '["ada"]', `{"id":"${n}","customer":"ada","total":${n}}`);
}

const isDocs = (url) => url.pathname.endsWith("/colls/orders/docs");
const refusal = {
  status: 429,
  headers: { "x-ms-retry-after-ms": "50" },
  body: '{"code":"429","message":"Request rate is large"}',
};

test("throttled: a list waits as it is told, says so, and goes on", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  let isShort = true;
  await context.route(isDocs, (route) => (isShort ? route.fulfill(refusal) : route.continue()));
  await at("c/shop/orders/items");
  await ready();
  await page.getByText(/waits for throughput \(429\)/).waitFor();
  await accessible(page, "a list that waits for throughput");
  isShort = false;
  await page.getByText("all 20 items").waitFor();
  await close();
});

test("failed: what was there stays, dimmed, and is tried again on demand", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  await at("c/shop/orders/items");
  await ready();
  await page.getByText("all 20 items").waitFor();
  const failure = { status: 500, body: '{"code":"InternalServerError","message":"the disk is on fire"}' };
  let isBroken = true;
  await context.route(isDocs, (route) => (isBroken ? route.fulfill(failure) : route.continue()));
  await page.getByRole("button", { name: "Refresh" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("the disk is on fire").waitFor();
  await accessible(page, "a list that failed");
  isBroken = false;
  await alert.getByRole("button", { name: /again|Retry/ }).click();
  await alert.waitFor({ state: "detached" });
  await page.getByText("all 20 items").waitFor();
  await close();
});

test("9d: a query is stopped in the middle: its rows stay and are said not to be all", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  let asked = 0;
  const isQuery = (url) => url.pathname.endsWith("/colls/orders/query") || isDocs(url);
  // The first page comes, the second never does.
  await context.route(isQuery, (route) => {
    if (route.request().method() !== "POST") return route.continue();
    asked += 1;
    return asked === 1 ? route.continue() : undefined;
  });
  await at("c/shop/orders/query");
  await ready();
  await page.getByRole("combobox", { name: /^Page/ }).selectOption("10");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: "Rows 10" }).waitFor();
  await until(() => asked === 2, "the second page is asked for");
  await accessible(page, "a query that runs");
  const ended = page.waitForEvent("requestfailed");
  await page.keyboard.press("Escape");
  await ended;
  await page.getByText("Stopped: these rows are not all.").waitFor();
  await page.getByRole("tab", { name: "Rows 10" }).waitFor();
  await accessible(page, "a query that was stopped");
  await close();
});

const PAGES = {
  "": (page) => page.getByRole("grid", { name: "Containers" }),
  "c/shop/orders/items": (page) => page.getByText("all 20 items"),
  "c/shop/orders/query": (page) => page.getByText("Nothing has run"),
  "c/shop/orders/partitions": (page) => page.getByRole("heading", { name: "Partitions", exact: true }),
  "c/shop/orders/feed": (page) => page.getByText("No change yet"),
  "c/shop/orders/scripts": (page) => page.getByText("No script is open"),
  "c/shop/orders/analytics": (page) => page.getByRole("heading", { name: "No analytical store" }),
  "c/shop/orders/settings": (page) => page.getByText("Unique keys"),
  "db/shop": (page) => page.getByText("No users yet"),
  copies: (page) => page.getByRole("heading", { name: "No copies" }),
  operations: (page) => page.getByRole("heading", { name: "Shards" }),
};

test("21b: each page says that the server is away, and goes on", { timeout: 600_000 }, async () => {
  const own = await startServer(["--durability", "sync"]);
  await fill(own);
  const { page, at, ready, close } = await openPage(browser, own);
  let now = own;
  for (const [path, wanted] of Object.entries(PAGES)) {
    await at(path);
    await ready();
    await wanted(page).first().waitFor();
    await now.kill();
    await page.getByText(/The server does not answer\. It/).waitFor();
    await accessible(page, `${path} without a server`);
    now = await startServer(["--durability", "sync"], {
      directory: own.directory,
      port: own.port,
      proxyPort: own.proxyPort,
    });
    await page.getByText(/The server does not answer\. It/).waitFor({ state: "detached" });
    await wanted(page).first().waitFor();
  }
  await close();
  await now.stop();
});

test(
  "a full disk: the first line of every page says that writes are refused, and Home is not well",
  { timeout: 600_000 },
  async () => {
    const { page, at, ready, context, close } = await openPage(browser, server);
    let isFull = true;
    await context.route(/_shardlake\/v1\/server$/, async (route) => {
      const response = await route.fetch();
      const told = await response.json();
      if (isFull) told.shards[0].isWritable = false;
      await route.fulfill({ response, json: told });
    });
    const band = page.getByRole("alert").getByText(/^Every write is refused: .* Reads go on\./);
    for (const [path, wanted] of Object.entries(PAGES)) {
      await at(path);
      await ready();
      await band.waitFor();
      await wanted(page).first().waitFor();
    }
    await at("");
    await ready();
    const attention = page.getByRole("region", { name: "Needs attention" });
    await attention.getByText(/Every write is refused/).waitFor();
    assert.equal(await attention.getByText("Nothing in the last minute").count(), 0);
    await accessible(page, "Home while writes are refused");
    isFull = false;
    await band.waitFor({ state: "detached" });
    await attention.getByText("Nothing in the last minute").waitFor();
    await close();
  },
);

test("21c: a page or an editor whose files do not come says so, and comes with the page when it is loaded anew", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  let isAway = true;
  await context.route(/assets\/.*\/(?:feed|setup)\.js$/, (route) => (isAway ? route.abort() : route.continue()));
  await at("c/shop/orders/items");
  await ready();
  await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(1).click();
  await page.getByRole("alert").getByText("The editor did not load").waitFor();
  await page.getByRole("link", { name: "Feed" }).click();
  const alert = page.getByRole("main").getByRole("alert");
  await alert.getByText("The page Feed did not load").waitFor();
  await accessible(page, "a page whose files did not come");
  const reload = alert.getByRole("button", { name: "Reload" });
  // A page is not left for a server that does not answer.
  let isGone = true;
  await context.route(/\/orders\/feed$/, (route) => (isGone ? route.abort() : route.continue()));
  await reload.click();
  await alert.getByText("The server does not answer yet.").waitFor();
  [isAway, isGone] = [false, false];
  await reload.click();
  await page.getByText("No change yet").waitFor();
  await close();
});

test("24b: six tabs work at once over plain HTTP, two of them on a feed", { timeout: 600_000 }, async () => {
  const first = await openPage(browser, server);
  await first.at("");
  await first.ready();
  const tabs = [];
  for (const tab of ["feed", "feed", "partitions", "items", "query", "settings"]) {
    const opened = await openPage(browser, server, { context: first.context });
    await opened.at(`c/shop/orders/${tab}`);
    await opened.ready();
    tabs.push({ tab, ...opened });
  }
  for (const { tab, page } of tabs) {
    await PAGES[`c/shop/orders/${tab}`](page).first().waitFor();
  }
  const feeds = tabs.filter(({ tab }) => tab === "feed");
  const query = tabs.find(({ tab }) => tab === "query").page;
  await query.bringToFront();
  await writeEditor(query, "Query text", "SELECT VALUE COUNT(1) FROM c");
  await query.getByRole("button", { name: "Run", exact: true }).click();
  await query.locator(".one-value").getByText("20").waitFor();
  await server.client.upsert("shop", "orders", '["bo"]', '{"id":"new","customer":"bo"}');
  for (const { page } of feeds) {
    await page.bringToFront();
    await page.getByRole("grid", { name: "Changes" }).getByText("new", { exact: true }).waitFor();
  }
  for (const { fine } of tabs) await fine();
  await first.close();
});

test("17b: of more changes than are kept, the oldest go and are counted", { timeout: 600_000 }, async () => {
  await server.client.createContainer("shop", "busy", ["/key"]);
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/busy/feed");
  await ready();
  await page.getByText("No change yet").waitFor();
  await page.waitForRequest((request) => (request.headers()["if-none-match"] ?? "*") !== "*");
  const link = "dbs/shop/colls/busy";
  for (let from = 0; from < 2500; from += 500) {
    const operations = Array.from({ length: 500 }, (_, n) => ({
      operationType: "Create",
      partitionKey: '["k"]',
      resourceBody: { id: `n${from + n}`, key: "k" },
    }));
    const headers = { "x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "false" };
    const { status, text } = await server.client.send("POST", `/${link}/docs`, "docs", link, {
      body: JSON.stringify(operations),
      headers,
    });
    assert.ok(status < 300, text);
  }
  await page.getByText("2,000 kept · 500 dropped").waitFor();
  // The newest stands first.
  await page
    .getByRole("grid", { name: "Changes" })
    .getByRole("row")
    .nth(1)
    .getByText(/^n2\d\d\d$/)
    .waitFor();
  await close();
});

test("23b: each page's state is in its address, and is there again in a new tab", async () => {
  const { page, at, ready, context, close } = await openPage(browser, server);
  const again = async (change, wanted) => {
    await change();
    await page.waitForURL(/#/);
    const next = await openPage(browser, server, { context });
    await next.page.goto(page.url());
    await next.ready();
    await wanted(next.page);
    await next.fine();
    await next.page.close();
  };
  await at("c/shop/orders/partitions");
  await ready();
  await again(
    () => page.getByRole("button", { name: "6h" }).click(),
    (next) => next.getByRole("button", { name: "6h", pressed: true }).waitFor(),
  );
  await at("c/shop/orders/settings");
  await again(
    () => page.getByRole("button", { name: "Time to live" }).click(),
    (next) =>
      next
        .getByRole("button", { name: "Count what would be gone now" })
        .or(next.getByText(/default for items/))
        .first()
        .waitFor(),
  );
  await at("c/shop/orders/feed");
  await again(
    () => page.getByRole("combobox", { name: "From" }).selectOption({ index: 1 }),
    (next) => next.getByRole("grid", { name: "Changes" }).getByRole("row").nth(1).waitFor(),
  );
  await close();
});

test("25b: a query, an edit and a split by the keyboard alone", { timeout: 600_000 }, async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/query");
  await ready();
  const press = (key) => page.keyboard.press(key);
  /** Tab until what is wanted has the focus. */
  const reach = async (locator, words) => {
    await locator.waitFor();
    for (let step = 0; step < 120; step++) {
      if (await locator.evaluate((element) => element === document.activeElement)) return;
      await press("Tab");
    }
    assert.fail(`the Tab key never reaches ${words}`);
  };
  await page.keyboard.press("Tab");
  await reach(page.getByRole("button", { name: "Run", exact: true }), "Run");
  await press("Enter");
  await page.getByRole("tab", { name: /Rows 2\d/ }).waitFor();
  await reach(page.getByRole("grid", { name: "Rows" }), "the rows");
  await press("Home");
  await press("Enter");
  await page.waitForURL(/\/items\//);
  await page.getByRole("button", { name: "Edit" }).waitFor();
  await press("e");
  const editor = page.getByRole("textbox", { name: /^Text of item/ });
  await editor.waitFor();
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  await page.locator("body").focus();
  await press("Escape");
  await at("c/shop/orders/partitions");
  await ready();
  await reach(page.getByRole("button", { name: "Split", exact: true }).first(), "Split");
  await press("Enter");
  const dialog = page.getByRole("dialog", { name: /Split partition/ });
  const middle = dialog.getByLabel(/in the middle of the hashes/);
  await middle.waitFor();
  await reach(dialog.getByRole("radio", { checked: true }), "the choice of a bound");
  for (let step = 0; step < 5 && !(await middle.isChecked()); step++) await press("ArrowDown");
  assert.ok(await middle.isChecked());
  await reach(dialog.getByRole("button", { name: "Split" }), "the button that splits");
  await press("Enter");
  await until(async () => (await page.locator(".partitions-table tbody tr").count()) === 2, "two partitions");
  await close();
});
