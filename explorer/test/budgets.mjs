// Measures what the interface promises, in a real browser beside a real server, and says which promise is broken.
//
//   SHARDLAKE_BINARY=… node test/budgets.mjs
//
// ITEMS=1000000 is how many items are browsed; DIRECTORY keeps the loaded data for the next time, LOAD_ONLY=1 makes it, and
// PARTS=opening,idle measures these alone. Times are medians of five, each in a browser context that has nothing of the last
// one. Meant for a quiet machine; `test/e2e` checks three times the figures on any.

import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { openPage, startBrowser, startServer } from "./e2e/harness.mjs";

const ITEMS = Number(process.env.ITEMS ?? "1000000");
const DIRECTORY = process.env.DIRECTORY;
const PARTS = process.env.PARTS?.split(",");
const root = join(import.meta.dirname, "..");
const rows = [];
const note = (what, value, budget, unit) => {
  rows.push({ what, value, budget, unit, isKept: value <= budget });
  console.log(`${value <= budget ? "kept  " : "BROKEN"} ${what}: ${round(value)} ${unit}, budget ${budget}`);
};
const IDLE_MS = 12_000;
const round = (value) => Math.round(value * 100) / 100;
const median = (values) => [...values].sort((left, right) => left - right)[values.length >> 1];
const part = (values, share) =>
  [...values].sort((left, right) => left - right)[Math.floor((values.length - 1) * share)];

sizes();
if (DIRECTORY) mkdirSync(DIRECTORY, { recursive: true });
const isLoaded = DIRECTORY !== undefined && existsSync(join(DIRECTORY, `explorer-${ITEMS}`));
const server = await startServer(
  ["--durability", "async", "--throughput", "unlimited"],
  DIRECTORY ? { directory: DIRECTORY } : {},
);
const browser = await startBrowser();
try {
  if (!isLoaded) await load();
  if (!process.env.LOAD_ONLY) {
    for (const [name, measure] of Object.entries({ opening, typing, scrolling, heat, idle }))
      if (!PARTS || PARTS.includes(name)) await measure();
  }
} finally {
  await browser.close();
  if (DIRECTORY) await server.kill("SIGTERM");
  else await server.stop();
}
console.log(`\n${cpus().length} × ${cpus()[0]?.model}, Node ${process.versions.node}, ${server.ready.version ?? ""}`);
process.exitCode = rows.every(({ isKept }) => isKept) ? 0 : 1;

/** Compressed bytes of what each screen needs before it runs. */
function sizes() {
  const dist = join(root, "dist", "assets");
  const text = (name) => readFileSync(join(dist, name), "utf8");
  const size = (names) => names.reduce((sum, name) => sum + gzipSync(text(name), { level: 9 }).length, 0) / 1000;
  const needed = (names) => {
    const found = new Set(names);
    for (const chunk of found)
      for (const [, next] of text(chunk).matchAll(/(?:from|import)\s*["`]\.\/([\w.-]+\.js)["`]/g)) found.add(next);
    return [...found];
  };
  const main = needed(["main.js"]);
  note("all files, gzip", size(readdirSync(dist)), 380, "kB");
  note("first screen: script and styles before anything shows, gzip", size([...main, "style.css"]), 40, "kB");
  note("of it script: Solid, signing, header, tree", size(main), 15, "kB");
  note("Home, gzip", size([...new Set([...main, ...needed(["home.js"])]), "style.css"]), 75, "kB");
  const query = needed(["query.js", "setup.js", "nosql.js"]);
  note("Query with its editor, gzip", size([...new Set([...main, ...query]), "style.css"]), 220, "kB");
}

async function load() {
  const { client } = server;
  await client.createDatabase("shop");
  await client.createContainer("shop", "many", ["/key"]);
  await client.createContainer("shop", "big", ["/key"]);
  const started = performance.now();
  let next = 0;
  const worker = async () => {
    while (next < ITEMS) {
      const from = next;
      next += 1000;
      const operations = Array.from({ length: Math.min(1000, ITEMS - from) }, (_, at) => {
        const n = from + at;
        const item = { id: `i${n}`, key: `k${n}`, n, state: n % 10 ? "open" : "paid", note: "x".repeat(60) };
        return { operationType: "Upsert", partitionKey: JSON.stringify([item.key]), resourceBody: item };
      });
      const headers = {
        "x-ms-cosmos-is-batch-request": "true",
        "x-ms-cosmos-batch-atomic": "false",
        "x-ms-cosmos-batch-continue-on-error": "true",
        prefer: "return=minimal",
      };
      const link = "dbs/shop/colls/many";
      const { status, text } = await client.send("POST", `/${link}/docs`, "docs", link, {
        body: JSON.stringify(operations),
        headers,
      });
      if (status >= 300) throw new Error(text);
    }
  };
  await Promise.all([worker(), worker()]);
  console.log(`loaded ${ITEMS} items in ${round((performance.now() - started) / 1000)} s`);
  const list = Array.from({ length: 5_000 }, (_, n) => ({ n, text: `value ${n} ${"z".repeat(340)}` }));
  const big = JSON.stringify({ id: "big", key: "g", list });
  const { status } = await client.upsert("shop", "big", '["g"]', big);
  if (status >= 300) throw new Error(`the large item: ${status}`);
  console.log(`the large item has ${big.length} bytes`);
  if (DIRECTORY) writeFileSync(join(DIRECTORY, `explorer-${ITEMS}`), "");
}

/** From the start of the navigation to what is to be seen, in a context without cache. */
async function opening() {
  const until = async (path, selector) => {
    const times = [];
    const paints = [];
    for (let turn = 0; turn < 5; turn++) {
      const { page, at, close } = await openPage(browser, server);
      await page.addInitScript((wanted) => {
        const look = () => {
          if (document.querySelector(wanted)) globalThis.seenAt = performance.now();
          else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      }, selector);
      await at(path);
      // What is there is painted a moment later.
      await page.waitForFunction(
        () => globalThis.seenAt !== undefined && performance.getEntriesByName("first-contentful-paint").length > 0,
      );
      times.push(await page.evaluate(() => globalThis.seenAt));
      paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
      await close();
    }
    return { time: median(times), paint: median(paints) };
  };
  const home = await until("", '[aria-label="Containers"] .table-row, .tree-row.container');
  note("first paint, cold", home.paint, 250, "ms");
  note("Home with data, cold", home.time, 500, "ms");
  const items = await until("c/shop/many/items", '[aria-label="Items"] .table-row');
  note(`first rows of ${ITEMS.toLocaleString("en-US")} items after the page was opened`, items.time, 500, "ms");
}

/**
 * Keys as the browser gets them, each to the frame behind it. The next one is pressed when that frame is done, so that none waits for another;
 * and after each tenth there is a pause, in which the text is checked and kept as a draft.
 */
async function typing() {
  const { page, at, ready, close } = await openPage(browser, server);
  await at(`c/shop/big/items/${encodeURIComponent('["g"]')}/big`);
  await ready();
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: "Text of item big" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+Home");
  await page.keyboard.press("End");
  await page.evaluate(() => {
    globalThis.took = [];
    addEventListener(
      "keydown",
      ({ timeStamp }) =>
        requestAnimationFrame(() => setTimeout(() => globalThis.took.push(performance.now() - timeStamp))),
      { capture: true },
    );
  });
  for (let press = 1; press <= 60; press++) {
    await page.keyboard.press("x");
    await page.waitForFunction((count) => globalThis.took.length >= count, press);
    if (press % 10 === 0) await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 299)));
  }
  const took = await page.evaluate(() => globalThis.took);
  note("a key in a 1.9 MB item, to its frame: median", median(took), 50, "ms");
  note("a key in a 1.9 MB item, to its frame: p95", part(took, 0.95), 50, "ms");
  await page.getByRole("button", { name: "Cancel" }).click();
  await close();
}

async function scrolling() {
  const { page, at, ready, close } = await openPage(browser, server);
  await at(`c/shop/many/query#q=${encodeURIComponent("SELECT * FROM c")}`);
  await ready();
  await page.getByRole("combobox", { name: /^Page/ }).selectOption("1000");
  await page.getByLabel("At most").selectOption("10000");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Cut at 10,000 rows").waitFor({ timeout: 120_000 });
  const grid = page.getByRole("grid", { name: "Rows" });
  const frames = await grid.evaluate(async (element) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const times = [];
    let before = await frame();
    for (let step = 0; step < 300; step++) {
      element.scrollTop += 260;
      const now = await frame();
      times.push(now - before);
      before = now;
    }
    return times;
  });
  note("scrolling 10,000 rows, ten at a time: longest of 300 frames", Math.max(...frames), 50, "ms");
  const dropped = frames.filter((time) => time > 25).length;
  note("scrolling 10,000 rows: frames that took the time of two", dropped, 0, "frames");
  await close();
}

/** The drawing alone, to the last pixel; and a whole live update as the page makes it. */
async function heat() {
  const entry = join(root, "src", "kit", "heat.ts");
  const built = await build({
    root,
    configFile: false,
    logLevel: "silent",
    build: { write: false, lib: { entry, formats: ["iife"], name: "heat", fileName: "heat" } },
  });
  const page = await browser.newPage();
  await page.goto("about:blank");
  await page.addScriptTag({ content: [built].flat()[0].output[0].code });
  const drawn = await page.evaluate(() => {
    const [columns, rows] = [1440, 256];
    const canvas = document.body.appendChild(document.createElement("canvas"));
    [canvas.width, canvas.height] = [1440, 260];
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const cells = Float32Array.from({ length: columns * rows }, (_, at) => (at % 97 === 0 ? NaN : Math.random() ** 3));
    const times = [];
    for (let turn = 0; turn < 40; turn++) {
      cells[turn] = Math.random();
      const started = performance.now();
      globalThis.heat.draw(context, { columns, rows, cells, scale: 1 }, canvas.width, canvas.height);
      context.getImageData(0, 0, 1, 1);
      times.push(performance.now() - started);
    }
    return times;
  });
  await page.close();
  note("heat map of 1,440 × 256 drawn to its last pixel: median", median(drawn), 16, "ms");
  note("heat map of 1,440 × 256 drawn to its last pixel: p95", part(drawn, 0.95), 16, "ms");
}

/** Processor time of the server while nobody asks but an open page. */
async function idle() {
  const ticks = () => {
    const fields = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1].split(" ");
    return Number(fields[11]) + Number(fields[12]);
  };
  const share = async () => {
    const [before, started] = [ticks(), performance.now()];
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    // A tick is a hundredth of a second.
    return (ticks() - before) / ((performance.now() - started) / 1000);
  };
  const alone = await share();
  console.log(`        an idle server that nobody looks at: ${round(alone)} % of a core`);
  for (const [name, path] of [
    ["Home", ""],
    ["Partitions", "c/shop/many/partitions"],
  ]) {
    const { at, ready, close } = await openPage(browser, server);
    await at(path);
    await ready();
    note(`processor that an open ${name} costs an idle server`, Math.max(0, (await share()) - alone), 1, "% of a core");
    await close();
  }
}
