// The shell: first run, signing in and out, links, keyboard, markup in names, other hosts, a server that goes away.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { request } from "node:http";
import { accessible, KEY, openPage, startBrowser, startServer, until } from "./harness.mjs";

let server, browser;
const MARKUP = "<img src=x onerror=alert(1)>";
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "orders", ["/customer"]);
  await server.client.createDatabase(MARKUP);
  await server.client.createContainer(MARKUP, MARKUP, [`/"${MARKUP}"`]);
  await server.client.upsert(
    MARKUP,
    MARKUP,
    JSON.stringify([MARKUP]),
    JSON.stringify({ id: MARKUP, [MARKUP]: MARKUP, [`"><script>alert(1)</script>`]: [MARKUP] }),
  );
  for (let n = 0; n < 20; n++)
    await server.client.upsert("shop", "orders", '["ada"]', `{"id":"${n}","customer":"ada","total":${n}}`);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("1: a browser at the server sees data at once and without a form", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  const started = performance.now();
  await at("");
  await ready();
  await page.getByText("well-known key").waitFor();
  await page.getByRole("treeitem", { name: /orders/ }).waitFor();
  console.log(`# first data after ${(performance.now() - started).toFixed(0)} ms`);
  assert.equal(await page.locator("form").count(), 0);
  await accessible(page, "home");
  await close();
});

test("2: a wrong key is told; a key is taken and cannot be found in storage; signing out reaches other tabs", async () => {
  const first = await openPage(browser, server);
  await first.at("");
  await first.ready();
  const second = await openPage(browser, server, { context: first.context });
  await second.at("");
  await second.ready();
  await first.page.getByRole("button", { name: "Sign out" }).click();
  await first.page.getByRole("heading", { name: "Sign in to this server" }).waitFor();
  await second.page.getByRole("heading", { name: "Sign in to this server" }).waitFor();
  const { page } = first;
  await accessible(page, "sign-in");
  await page.getByLabel(/Account key, connection string/).fill(Buffer.from("wrong key").toString("base64"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("Signing in failed").waitFor();
  await page
    .getByLabel(/Account key, connection string/)
    .fill(`AccountEndpoint=https://elsewhere.example:443/;AccountKey=${KEY};`);
  await page.getByText(/names https:\/\/elsewhere.example/).waitFor();
  await page.getByRole("button", { name: "Sign in" }).click();
  await first.ready();
  const stored = await page.evaluate(async () => {
    const dump = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie];
    for (const { name } of await indexedDB.databases()) {
      const database = await new Promise(
        (resolve) => (indexedDB.open(name).onsuccess = (event) => resolve(event.target.result)),
      );
      for (const store of database.objectStoreNames) {
        const all = await new Promise(
          (resolve) =>
            (database.transaction(store).objectStore(store).getAll().onsuccess = (event) =>
              resolve(event.target.result)),
        );
        dump.push(...all.map((value) => `${JSON.stringify(value)} ${value?.key?.extractable}`));
      }
    }
    return dump.join("\n");
  });
  assert.ok(!stored.includes(KEY.slice(0, 20)));
  assert.match(stored, /false/);
  // A newcomer of this machine who signed out has no other key.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Use the emulator's well-known key" }).click();
  await first.ready();
  await page.getByText("signed in: well-known key").waitFor();
  await first.fine();
  await second.close().catch(async () => assert.deepEqual(second.wrong, []));
});

test("23: links restore the state of their page in a new tab, and a link with a query does not run it", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("c/shop/orders/query#q=" + encodeURIComponent("SELECT VALUE 1"));
  await ready();
  await page.getByText("SELECT VALUE 1").waitFor();
  const posts = [];
  page.on("request", (request) => request.method() === "POST" && posts.push(request.url()));
  await page.getByText("Nothing has run").waitFor();
  assert.deepEqual(posts, []);
  await at("c/shop/orders/items#filter=" + encodeURIComponent("c.total > 15") + "&sort=c.total");
  await page.getByText("all 4 items").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Filter", exact: true }).inputValue(), "c.total > 15");
  // By the cell: the time of the last change has two digits of the hour.
  await page.getByRole("gridcell", { name: "17", exact: true }).first().click();
  await page.waitForURL(/items\/.*\/17#/);
  await page.goBack();
  await page.waitForURL(/items#/);
  await close();
});

test("25: the keyboard reaches palette, places, tables and back", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at("");
  await ready();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Places and actions" }).waitFor();
  await accessible(page, "the palette");
  await page.keyboard.type("orders");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/c\/shop\/orders\/items/);
  await page.getByText("all 20 items").waitFor();
  await page.getByRole("grid", { name: "Items" }).focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Edit" }).waitFor();
  await page.keyboard.press("e");
  await page.getByRole("button", { name: "Save", exact: true }).waitFor();
  // The editor comes with files of its own, and takes the focus when it is there.
  await page.waitForFunction(() => document.activeElement?.classList.contains("editor"));
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => !document.activeElement?.classList.contains("editor"));
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator("#main").focus();
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.waitForURL(/partitions/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(page, "the keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "detached" });
  await close();
});

test("25b: Ctrl K opens the palette from the first paint on", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await page.route("**/assets/*/after.js", async (route) => {
    await isReleased;
    await route.continue();
  });
  await at("");
  await ready();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Places and actions" }).waitFor();
  release();
  await page.keyboard.press("Escape");
  await page.getByRole("combobox", { name: "Places and actions" }).waitFor({ state: "detached" });
  await close();
});

test("26: markup in every name and value is text", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await at(`c/${encodeURIComponent(MARKUP)}/${encodeURIComponent(MARKUP)}/items`);
  await ready();
  await page.getByText("all 1 item").waitFor();
  await page.getByRole("grid", { name: "Items" }).getByRole("row").nth(1).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  for (const tab of ["partitions", "query", "feed", "settings"]) {
    await at(`c/${encodeURIComponent(MARKUP)}/${encodeURIComponent(MARKUP)}/${tab}`);
    await ready();
    await page.getByRole("heading", { level: 1 }).first().waitFor({ state: "attached" });
  }
  assert.equal(await page.locator("img").count(), 0);
  await close();
});

test(
  "26b: containers of any name are opened from the tree and by their links, on every page",
  { timeout: 600_000 },
  async () => {
    const names = ["%", "%2F", "a b", "~x", '"', "'", "a&b=c", "💡", "\u202eevil", "null", "x".repeat(200)];
    await server.client.createDatabase("names");
    for (const name of names) {
      assert.equal((await server.client.createContainer("names", name, ["/k"])).status, 201, name);
      assert.equal((await server.client.upsert("names", name, '["k"]', '{"id":"1","k":"k"}')).status, 201, name);
    }
    const { page, at, ready, close } = await openPage(browser, server);
    await at("");
    await ready();
    for (const name of names) {
      const rows = page.locator(".tree-row.container .name");
      await until(async () => (await rows.allTextContents()).includes(name), `${name} in the tree`);
      await rows.nth((await rows.allTextContents()).indexOf(name)).click();
      // The tree keeps the page that is open, which was the last one's settings.
      await page.waitForURL((url) => url.pathname.includes("/c/names/"));
      await page.getByRole("heading", { level: 1 }).filter({ hasText: name }).first().waitFor();
      await page.getByRole("link", { name: "Items", exact: true }).click();
      await page.getByText("all 1 item").waitFor();
      await page.reload();
      await page.getByText("all 1 item").waitFor();
      for (const [tab, wanted] of [
        ["Query", "Nothing has run"],
        ["Partitions", "Heat over time and key range"],
        ["Feed", "No change yet"],
        ["Scripts", "No script is open"],
        ["Settings", "Unique keys"],
      ]) {
        await page.getByRole("link", { name: tab, exact: true }).click();
        await page.getByText(wanted).first().waitFor();
        assert.equal(await page.getByRole("alert").count(), 0, `${name} ${tab}`);
      }
    }
    await close();
  },
);

test("27: another host's name is refused, and no page of another origin can read", async () => {
  const ask = (host, headers = {}) =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(server.endpoint);
      const asked = request(
        { hostname, port, path: "/_explorer/", headers: { host, accept: "text/html", ...headers } },
        (answer) => {
          answer.resume();
          resolve(answer);
        },
      );
      asked.on("error", reject);
      asked.end();
    });
  const good = await ask(new URL(server.endpoint).host);
  assert.equal(good.statusCode, 200);
  assert.equal(good.headers["access-control-allow-origin"], undefined);
  assert.equal(good.headers["set-cookie"], undefined);
  assert.match(good.headers["content-security-policy"], /default-src 'none'.*frame-ancestors 'none'/);
  if (process.env.SHARDLAKE_PROXY) return;
  assert.equal((await ask("evil.example")).statusCode, 403);
  assert.equal(good.headers["referrer-policy"], "no-referrer");
  assert.equal(good.headers["x-content-type-options"], "nosniff");
});

test("21: the page goes on after the server was killed", { timeout: 600_000 }, async () => {
  const own = await startServer(["--durability", "sync"]);
  await own.client.createDatabase("shop");
  await own.client.createContainer("shop", "orders", ["/customer"]);
  await own.client.upsert("shop", "orders", '["ada"]', '{"id":"1","customer":"ada"}');
  const { page, at, ready, close } = await openPage(browser, own);
  await at("c/shop/orders/items/%5B%22ada%22%5D/1");
  await ready();
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: "Text of item 1" });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("  ");
  await own.kill();
  await page.getByText(/The server does not answer/).waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saving the item failed").waitFor();
  const again = await startServer(["--durability", "sync"], {
    directory: own.directory,
    port: own.port,
    proxyPort: own.proxyPort,
  });
  await page.getByText(/The server does not answer\. It/).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  await close();
  await again.stop();
});

test("dark, narrow and large: no finding of axe, nothing scrolls sideways", async () => {
  for (const settings of [
    { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
    { viewport: { width: 320, height: 640 } },
    { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 },
  ]) {
    const { page, at, close } = await openPage(browser, server, { settings });
    for (const path of [
      "",
      "c/shop/orders/items",
      "c/shop/orders/query",
      "c/shop/orders/partitions",
      "c/shop/orders/feed",
      "c/shop/orders/settings",
      "copies",
    ]) {
      await at(path);
      await page.locator("h1").first().waitFor({ state: "attached" });
      await until(async () => (await page.locator(".loading").count()) === 0, "the page");
      await accessible(page, `${path} ${JSON.stringify(settings)}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} scrolls by ${wide} at ${settings.viewport.width}`);
    }
    await close();
  }
});

test("24: a hidden tab sends nothing, and asks again when it is seen", async () => {
  const { page, at, ready, close } = await openPage(browser, server);
  await page.clock.install();
  await at("c/shop/orders/partitions");
  await ready();
  await page.getByRole("heading", { name: "Partitions", exact: true }).waitFor();
  const show = (state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  await show("hidden");
  // What had begun before goes to its end.
  await page.clock.runFor(2_000);
  let sent = 0;
  page.on("request", () => sent++);
  await page.clock.runFor(120_000);
  assert.equal(sent, 0);
  const asked = page.waitForRequest(/_shardlake/);
  await show("visible");
  await page.clock.runFor(2_000);
  await asked;
  await close();
});
