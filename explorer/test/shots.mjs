// Pictures of every page, light and dark, wide and narrow, full and empty, and of the tour: to be looked at by people.
//
//   SHARDLAKE_BINARY=… node test/shots.mjs DIRECTORY
//
// PAGES=home,tour chooses by name, ONLY=1440-light by width and scheme.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { prepare, traffic } from "./fixtures/traffic.mjs";
import { openPage, startBrowser, startServer } from "./e2e/harness.mjs";

const directory = process.argv[2] ?? "shots";
mkdirSync(directory, { recursive: true });
const server = await startServer(["--durability", "memory", "--limits-scale", "1/10"]);
const browser = await startBrowser();
const QUERY =
  "SELECT c.state, COUNT(1) AS n, SUM(c.total) AS total\nFROM c\nWHERE c.total > 5 AND ARRAY_CONTAINS(c.tags, 'a')\nGROUP BY c.state";

const PAGES = {
  home: [""],
  items: ["c/shop/orders/items", (page) => page.getByRole("row").nth(3).click()],
  "items-edit": ["c/shop/orders/items/%5B%22ada%22%5D/3", (page) => page.getByRole("button", { name: "Edit" }).click()],
  query: [`c/shop/orders/query#q=${encodeURIComponent(QUERY)}`, run],
  plan: [`c/shop/orders/query#q=${encodeURIComponent(QUERY)}`, (page) => run(page, "Plan")],
  cost: [
    `c/shop/orders/query#q=${encodeURIComponent("SELECT * FROM c WHERE c.total > 5")}`,
    (page) => run(page, "Partitions"),
  ],
  partitions: ["c/shop/orders/partitions", (page) => page.locator(".partitions-table").waitFor()],
  feed: ["c/shop/audited/feed#mode=all", changes],
  scripts: ["c/shop/orders/scripts", (page) => page.getByRole("button", { name: "New", exact: true }).click()],
  settings: ["c/shop/orders/settings#section=indexing"],
  database: ["db/shop"],
  copies: ["copies"],
  operations: ["operations"],
  "sign-in": ["", (page) => page.getByRole("button", { name: "Sign out" }).click()],
  palette: ["", (page) => page.keyboard.press("Control+k")],
};

/** Of a server that has nothing, or next to nothing. */
const EMPTY = {
  "home-empty": [""],
  "items-empty": ["c/empty/nothing/items"],
  "query-empty": ["c/empty/nothing/query"],
  "partitions-empty": ["c/empty/nothing/partitions"],
  "feed-empty": ["c/empty/nothing/feed"],
  "scripts-empty": ["c/empty/nothing/scripts"],
  "copies-empty": ["copies"],
};
const TOUR = {
  tour: ["c/saas/by-tenant/partitions#tour=1", (page) => page.getByRole("button", { name: "I have read it" }).waitFor()],
  "tour-end": [
    "c/saas/by-tenant-and-user/partitions#tour=1",
    (page) => page.getByRole("region", { name: "Guided tour" }).getByRole("row").nth(2).waitFor(),
  ],
};

async function run(page, tab) {
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("tab", { name: /Rows \d/ }).waitFor();
  if (tab) await page.getByRole("tab", { name: tab }).click();
}

async function changes(page) {
  await page.getByText("No change yet").waitFor();
  await page.waitForRequest((request) => (request.headers()["if-none-match"] ?? "*") !== "*");
  for (let n = 0; n < 12; n++)
    await server.client.upsert(
      "shop",
      "audited",
      '["k"]',
      `{"id":"${n % 4}","key":"k","total":${n},"state":"${n % 3 ? "open" : "paid"}"}`,
    );
  await page.getByRole("grid", { name: "Changes" }).getByRole("row").nth(1).click();
}

async function shoot(name, [path, prepared], width, colorScheme, of = server) {
  const narrow = width < 760;
  const settings = { viewport: { width, height: narrow ? 844 : 900 }, colorScheme };
  const { page, at, context, wrong } = await openPage(browser, of, { settings });
  await at(path);
  await page.getByRole("main").waitFor();
  await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => undefined);
  await prepared?.(page);
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 900)));
  await page.screenshot({ path: join(directory, `${name}-${width}-${colorScheme}.png`) });
  if (wrong.length > 0) console.log(name, wrong);
  await context.close();
}

const wanted = process.env.PAGES?.split(",");

async function shootAll(pages, of) {
  for (const name of Object.keys(pages).filter((name) => !wanted || wanted.includes(name))) {
    for (const width of [1440, 390])
      for (const scheme of ["light", "dark"]) {
        if (process.env.ONLY && !`${width}-${scheme}`.match(process.env.ONLY)) continue;
        await shoot(name, pages[name], width, scheme, of).catch((error) =>
          console.log(name, width, scheme, error.message.split("\n")[0]),
        );
      }
  }
}

const isWanted = (pages) => Object.keys(pages).some((name) => !wanted || wanted.includes(name));

async function withServer(pages, more, options, prepared = async () => undefined) {
  if (!isWanted(pages)) return;
  const other = await startServer(more, options);
  try {
    await prepared(other);
    await shootAll(pages, other);
  } finally {
    await other.stop();
  }
}

try {
  await withServer({ "home-empty": EMPTY["home-empty"] }, ["--durability", "memory"]);
  const { "home-empty": _home, ...others } = EMPTY;
  await withServer(others, ["--durability", "memory"], {}, async ({ client }) => {
    await client.createDatabase("empty");
    await client.createContainer("empty", "nothing", ["/key"]);
  });
  await withServer(TOUR, [], { command: ["demo", "hot-tenant", "--browser"], isStored: false });
  if (isWanted(PAGES)) await full();
} finally {
  await browser.close();
  await server.stop();
}

async function full() {
  await prepare(server.endpoint, { throughput: 2000 });
  await server.client.createContainer("shop", "audited", ["/key"], {
    more: { changeFeedPolicy: { retentionDuration: 60 } },
  });
  await traffic(server.client, AbortSignal.timeout(Number(process.env.SECONDS ?? "25") * 1000), 5);
  await shootAll(PAGES, server);
}
