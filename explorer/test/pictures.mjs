// The pictures of the manual, each of a small shop that is used while they are taken.
//
//   SHARDLAKE_BINARY=… node test/pictures.mjs ../docs/pictures
//
// PICTURES=home,split chooses by name. Sizes are those of pages that are 1,200 px wide, at four fifths.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openPage, startBrowser, startServer, until, writeEditor, editorText } from "./e2e/harness.mjs";
import { crowded, customers, openShop, use } from "./fixtures/shop.mjs";

const directory = process.argv[2] ?? "pictures";
const wanted = process.env.PICTURES?.split(",");
mkdirSync(directory, { recursive: true });
const server = await startServer(["--durability", "memory", "--limits-scale", "1/10"]);
const browser = await startBrowser();
const { client } = server;
const PLAN =
  "SELECT c.city, COUNT(1) AS orders, SUM(c.total) AS total\nFROM c\nWHERE c.state = 'open' AND c.total > 100\nGROUP BY c.city";
const SCRIPT = `// Marks a customer's open orders as paid.
function settle(limit) {
  const orders = getContext().getCollection();
  const query = { query: "SELECT TOP @limit * FROM c WHERE c.state = 'open'",
                  parameters: [{ name: "@limit", value: limit }] };
  const accepted = orders.queryDocuments(orders.getSelfLink(), query, (error, found) => {
    if (error) throw error;
    for (const order of found) {
      order.state = "paid";
      orders.replaceDocument(order._self, order);
      console.log(order.id, "is paid:", order.total);
    }
    getContext().getResponse().setBody({ settled: found.length });
  });
  if (!accepted) throw new Error("near the limit of the run: call again");
}`;
const encoded = encodeURIComponent;
const button = (page, name) => page.getByRole("button", { name, exact: true });

/** Height in CSS pixels, scheme, place, and what is done there. */
const PICTURES = {
  home: [600, "dark", ""],
  "hot-key": [750, "light", "c/shop/orders/partitions", finding],
  remedy: [640, "light", "c/shop/orders/partitions", remedy],
  telephone: [844, "dark", "c/shop/orders/partitions", finding],
  split: [640, "dark", "c/shop/sessions/partitions", (page) => page.getByText(/split \d+ → .*writers held/).waitFor()],
  items: [600, "light", `c/shop/orders/items#filter=${encoded("c.total > 100")}`, openItem],
  conflict: [480, "light", `c/shop/customers/items/${encoded('["petra"]')}/petra`, conflict],
  "query-plan": [620, "light", `c/shop/orders/query#q=${encoded(PLAN)}`, (page) => run(page, "Plan")],
  "query-cost": [
    560,
    "dark",
    `c/shop/orders/query#q=${encoded("SELECT * FROM c WHERE c.total > 100")}`,
    (page) => run(page, "Partitions"),
  ],
  feed: [600, "dark", "c/shop/customers/feed#mode=all", changes],
  scripts: [740, "light", "c/shop/orders/scripts", script],
  indexing: [775, "dark", "c/shop/orders/settings#section=indexing", indexing],
};

async function finding(page) {
  await page.locator(".finding.act").first().waitFor();
}

async function remedy(page) {
  await finding(page);
  await button(page, "Divide the throughput").first().click();
  await page
    .getByRole("dialog")
    .getByText(/Predicted:/)
    .waitFor();
}

async function openItem(page) {
  await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(4).click();
  await button(page, "Edit").waitFor();
}

async function conflict(page) {
  await button(page, "Edit").click();
  const label = "Text of item petra";
  await until(async () => (await editorText(page, label)).includes("points"), "the item");
  const read = await editorText(page, label);
  const other = { ...JSON.parse(read), points: 940, city: "Oslo" };
  await client.upsert("shop", "customers", '["petra"]', JSON.stringify(other));
  await writeEditor(
    page,
    label,
    read.replace(/"points": \d+/, '"points": 912').replace(/"level": "\w+"/, '"level": "gold"'),
  );
  await button(page, "Save").click();
  await page.getByRole("dialog").waitFor();
}

async function run(page, tab) {
  await button(page, "Run").click();
  await page.getByRole("tab", { name: /Rows \d/ }).waitFor();
  await page.getByRole("button", { name: "Pin this run to compare with" }).waitFor();
  await page.getByRole("tab", { name: tab }).click();
}

async function changes(page) {
  await page.getByText("No change yet").waitFor();
  await page.waitForRequest((request) => (request.headers()["if-none-match"] ?? "*") !== "*");
  const cities = ["Lisbon", "Turku", "Oslo"];
  for (const [at, person] of customers().slice(0, 12).entries()) {
    const changed = { ...person, points: person.points + 25 * at, city: cities[at % 3] };
    await client.upsert("shop", "customers", JSON.stringify([person.id]), JSON.stringify(changed));
  }
  const link = "dbs/shop/colls/customers/docs/ulla";
  await client.send("DELETE", `/${link}`, "docs", link, { headers: { "x-ms-documentdb-partitionkey": '["ulla"]' } });
  const grid = page.getByRole("grid", { name: "Changes" });
  await grid.getByText("delete").waitFor();
  await grid.getByRole("row").nth(3).click();
}

async function script(page) {
  await button(page, "New").click();
  await page.getByRole("textbox", { name: "Id" }).fill("settle");
  await writeEditor(page, "Text of the script", SCRIPT);
  await button(page, "Save").click();
  await button(page, "settle").waitFor();
  await page.getByRole("textbox", { name: "Key" }).fill("greta");
  await page.getByRole("textbox", { name: "Arguments" }).fill("[3]");
  await button(page, "Dry run").click();
  await page.getByText("Rolled back: nothing was written.").waitFor();
}

async function indexing(page) {
  const queries = [
    "SELECT * FROM c WHERE c.total > 1900",
    "SELECT c.id FROM c WHERE c.state = 'paid'",
    "SELECT * FROM c ORDER BY c.note",
  ];
  for (const query of queries) {
    await page.goto(new URL(`/_explorer/c/shop/orders/query#q=${encoded(query)}`, server.endpoint).href);
    await page.reload();
    await button(page, "Run").click();
    await page.getByRole("button", { name: "Pin this run to compare with" }).waitFor();
  }
  // Without loading the page anew, which could come before the history is written.
  await page.getByRole("link", { name: "Settings" }).click();
  await button(page, "Indexing").click();
  const policy = {
    indexingMode: "consistent",
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: '/"_etag"/?' }, { path: "/note/?" }, { path: "/total/?" }],
  };
  await writeEditor(page, "Indexing policy", JSON.stringify(policy, null, 2));
  await button(page, "Preview").click();
  await page.getByRole("row", { name: /c\.total > 1900/ }).waitFor();
}

async function take(name, [height, colorScheme, path, prepared]) {
  const isTelephone = name === "telephone";
  const settings = {
    viewport: { width: isTelephone ? 390 : 1200, height },
    deviceScaleFactor: isTelephone ? 1 : 0.8,
    colorScheme,
  };
  const { page, at, context, wrong } = await openPage(browser, server, { settings });
  await at(path);
  await page.getByRole("main").waitFor();
  await prepared?.(page);
  await page.mouse.move(0, 0);
  // What comes a second later belongs to the picture: charts, and figures of the load.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await page.screenshot({ path: join(directory, `${name}.png`) });
  if (wrong.length > 0) console.log(name, wrong);
  await context.close();
}

const stop = new AbortController();
try {
  await openShop(client);
  const { users, partition } = await crowded(client, { throughput: 1800 });
  const used = use(client, users, stop.signal);
  const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  await wait(Number(process.env.SECONDS ?? "30"));
  await client.operator("POST", `dbs/shop/colls/sessions/partitions/${partition}/split`, { at: "load" });
  await wait(Number(process.env.SECONDS ?? "30"));
  for (const [name, picture] of Object.entries(PICTURES)) {
    if (wanted && !wanted.includes(name)) continue;
    await take(name, picture).catch((error) => console.log(name, error.message.split("\n")[0]));
  }
  stop.abort();
  await used;
} finally {
  stop.abort();
  await browser.close();
  await server.stop();
}
