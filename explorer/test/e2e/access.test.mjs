// Who may do what on the page: read-only keys, resource tokens, scripts, users and permissions, operations.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client } from "../fixtures/client.mjs";
import { accessible, openPage, startBrowser, startServer, until, writeEditor } from "./harness.mjs";

let server, browser, own;
const key = (letter) => Buffer.from(letter.repeat(64)).toString("base64");
const KEYS = { primary: key("p"), secondary: key("s"), primaryReadonly: key("r"), secondaryReadonly: key("t") };
before(async () => {
  const file = join(mkdtempSync(join(tmpdir(), "shardlake-keys-")), "keys.json");
  writeFileSync(file, JSON.stringify(KEYS), { mode: 0o600 });
  server = await startServer(["--durability", "memory", "--key-file", file]);
  browser = await startBrowser();
  own = client(server.endpoint, KEYS.primary);
  await own.createDatabase("shop");
  await own.createContainer("shop", "orders", ["/customer"]);
  await own.upsert("shop", "orders", '["ada"]', '{"id":"1","customer":"ada","total":1}');
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function signedIn(text) {
  const opened = await openPage(browser, server);
  await opened.at("");
  await opened.page.getByLabel(/Account key, connection string/).fill(text);
  await opened.page.getByRole("button", { name: "Sign in" }).click();
  await opened.page.getByRole("button", { name: "Sign out" }).waitFor();
  return opened;
}
const has = async (feature) => {
  const { status, text } = await own.operator("GET", "server");
  return status === 200 && JSON.parse(text).features.includes(feature);
};

test("2b: with a read-only key no control that writes is there", async (context) => {
  if (!(await has("caller"))) return context.skip("the server does not tell who asks");
  const { page, at, close } = await signedIn(KEYS.primaryReadonly);
  await page.getByText("signed in: read-only key").waitFor();
  assert.equal(await page.getByRole("button", { name: "New container" }).count(), 0);
  await at("c/shop/orders/items/%5B%22ada%22%5D/1");
  await page.getByRole("textbox", { name: "Text of item 1" }).waitFor();
  for (const name of ["Edit", "New", "Upload", "Delete item", "Duplicate item"])
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  await at("c/shop/orders/settings#section=ttl");
  await page.getByLabel(/off: items stay/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Save" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
  await accessible(page, "read-only settings");
  await at("copies");
  await page.getByRole("heading", { name: "No copies" }).waitFor();
  for (const name of ["New index", "New projection"])
    assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  if (await has("analytics")) {
    await at("c/shop/orders/analytics");
    await page.getByText("the store cannot be enabled here").waitFor();
    assert.equal(await page.getByRole("button", { name: "Enable" }).count(), 0);
  }
  await close();
});

test("20b: a user, a permission and a token are made; the token reaches its container and nothing else", async () => {
  const { page, at, close } = await signedIn(KEYS.primary);
  await at("db/shop");
  await page.getByLabel("New user").fill("ann");
  await page.getByRole("button", { name: "Add" }).click();
  await page.getByRole("link", { name: "ann" }).click();
  await page.getByLabel("Id", { exact: true }).fill("orders");
  await page.getByLabel("Mode").selectOption("Read");
  await accessible(page, "a database with users");
  await page.getByRole("button", { name: "Add" }).last().click();
  const token = await page.getByRole("dialog").getByLabel("Token").inputValue();
  assert.match(token, /type=resource|type%3[dD]resource/);
  await accessible(page, "a token");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await page.getByRole("row", { name: /reading and querying all items/ }).waitFor();
  await close();
  const guest = await signedIn(token);
  await guest.page.getByText("Signed in with a resource token").waitFor();
  assert.equal(await guest.page.getByRole("link", { name: "Copies" }).count(), 0);
  const link = guest.page.url();
  await guest.page.evaluate(() => history.pushState(null, "", "/_explorer/c/shop/orders/items"));
  await guest.page.evaluate(() => dispatchEvent(new PopStateEvent("popstate")));
  await guest.page.getByText("all 1 item").waitFor();
  assert.ok(link.endsWith("/_explorer/"));
  await guest.close();
});

test("19: a procedure is written, tried without a trace, and its failure names the line", async (context) => {
  if (!(await has("scriptsRun"))) return context.skip("the server does not offer test runs");
  const { page, at, close } = await signedIn(KEYS.primary);
  await at("c/shop/orders/scripts");
  await page.getByText("No script is open").waitFor();
  await accessible(page, "no script");
  await page.getByRole("button", { name: "New", exact: true }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("add");
  const body =
    'function (id) {\n  console.log("adding", id);\n  const collection = getContext().getCollection();\n  collection.createDocument(collection.getSelfLink(), { id, customer: "ada" });\n  getContext().getResponse().setBody("made " + id);\n}';
  await writeEditor(page, "Text of the script", body);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "add", exact: true }).waitFor();
  await page.getByRole("textbox", { name: "Key" }).fill("ada");
  await page.getByRole("textbox", { name: "Arguments" }).fill('["by script"]');
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("Rolled back: nothing was written.").waitFor();
  await page.getByText("adding by script").waitFor();
  await accessible(page, "a test run");
  assert.equal((await own.read("shop", "orders", '["ada"]', "by script")).status, 404);
  await page.getByLabel("keep what it writes").check();
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Done and kept.").waitFor();
  assert.equal((await own.read("shop", "orders", '["ada"]', "by script")).status, 200);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("alert").getByText("The run failed").waitFor();
  await writeEditor(
    page,
    "Text of the script",
    'function () {\n  console.log("so far");\n  throw new Error("no further");\n}',
  );
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.locator("pre").getByText("so far").waitFor();
  await page.getByRole("button", { name: "Show line 3" }).click();
  await accessible(page, "a script that failed");
  await close();
});

test("19b: a function is called, and a trigger after a write is tried with its write", async (context) => {
  if (!(await has("scriptsRun"))) return context.skip("the server does not offer test runs");
  const { page, at, close } = await signedIn(KEYS.primary);
  await at("c/shop/orders/scripts/udfs");
  await page.getByText("No functions yet.").waitFor();
  await page.getByRole("button", { name: "New", exact: true }).click();
  await writeEditor(page, "Text of the script", "function (a, b) { return { sum: a + b }; }");
  assert.equal(await page.getByRole("textbox", { name: "Key" }).count(), 0, "a function has no key");
  await page.getByRole("textbox", { name: "Arguments" }).fill("[40, 2]");
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByText('{"sum":42}').waitFor();
  await accessible(page, "a function that was called");
  await at("c/shop/orders/scripts/triggers");
  await page.getByRole("button", { name: "New", exact: true }).click();
  const body =
    'function () {\n  const response = getContext().getResponse();\n  console.log("wrote", response.getBody().id);\n  response.setBody({ seen: response.getBody().total });\n}';
  await writeEditor(page, "Text of the script", body);
  await page.getByRole("combobox", { name: "When" }).selectOption("Post");
  await page.getByRole("textbox", { name: "Key" }).fill("ada");
  await page.getByRole("combobox", { name: "After" }).selectOption("Upsert");
  await page.getByRole("textbox", { name: "Item" }).fill('{"id":"tried","customer":"ada","total":9007199254740993}');
  await page.getByRole("button", { name: "Dry run" }).click();
  await page.getByText("Rolled back: nothing was written.").waitFor();
  await page.getByText("wrote tried").waitFor();
  const result = page.getByRole("status").filter({ hasText: "Rolled back" });
  await result.getByRole("listitem").getByText("tried").waitFor();
  await accessible(page, "a trigger that was tried");
  assert.equal((await own.read("shop", "orders", '["ada"]', "tried")).status, 404);
  await close();
});

test("operations show the server and its log", async (context) => {
  if (!(await has("log"))) return context.skip("the server does not offer its log");
  const { page, at, close } = await signedIn(KEYS.primary);
  await at("operations");
  await page.getByRole("heading", { name: "Shards" }).waitFor();
  await until(async () => (await page.locator(".log-line").count()) > 0, "lines of the log");
  await accessible(page, "operations");
  await close();
});

test("2c: a clock that is off is told, with both times", async () => {
  const { page, at, wrong, context } = await openPage(browser, server);
  await page.clock.setFixedTime(new Date(Date.now() - 7_200_000));
  await at("");
  await page.getByLabel(/Account key, connection string/).fill(KEYS.primary);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText(/Set this machine's clock: here it is .* GMT, at the server .* \d\d:\d\d:\d\d/).waitFor();
  await accessible(page, "a clock that is off");
  assert.deepEqual(wrong, []);
  await context.close();
});

/** A token of a user of its own, for one resource. */
async function tokenFor(user, permission) {
  const made = await own.send("POST", "/dbs/shop/users", "users", "dbs/shop", { body: JSON.stringify({ id: user }) });
  assert.ok(made.status < 300, made.text);
  const path = `/dbs/shop/users/${user}/permissions`;
  const body = JSON.stringify({ id: "p", permissionMode: "Read", ...permission });
  const granted = await own.send("POST", path, "permissions", `dbs/shop/users/${user}`, { body });
  assert.ok(granted.status < 300, granted.text);
  return JSON.parse(granted.text)._token;
}

/** Tokens are kept in memory alone, so the page must not be loaded again. */
const goTo = (page, path) =>
  page.evaluate((to) => {
    history.pushState(null, "", `/_explorer/${to}`);
    dispatchEvent(new PopStateEvent("popstate"));
  }, path);

test("2d: a token for one key, or for one item, reaches that and nothing else", async () => {
  await own.upsert("shop", "orders", '["bo"]', '{"id":"2","customer":"bo","total":2}');
  const keyToken = await tokenFor("of-key", {
    resource: "dbs/shop/colls/orders",
    resourcePartitionKey: ["ada"],
  });
  const one = await signedIn(keyToken);
  await one.page.getByText("Signed in with a resource token").waitFor();
  await goTo(one.page, "c/shop/orders/items#key=ada");
  await one.page.getByText(/^all \d+ items/).waitFor();
  await goTo(one.page, "c/shop/orders/items#key=bo");
  await one.page.getByRole("alert").first().waitFor();
  for (const name of ["New", "Upload", "All…"])
    assert.equal(
      await one.page.getByRole("button", { name, exact: true }).count(),
      0,
      `${name} with a token that reads`,
    );
  await accessible(one.page, "what a token does not reach");
  await one.close();
  const itemToken = await tokenFor("of-item", {
    resource: "dbs/shop/colls/orders/docs/1",
    resourcePartitionKey: ["ada"],
  });
  const two = await signedIn(itemToken);
  await two.page.getByText("Signed in with a resource token").waitFor();
  await goTo(two.page, `c/shop/orders/items/${encodeURIComponent('["ada"]')}/1`);
  await two.page.getByRole("textbox", { name: "Text of item 1" }).waitFor();
  await two.close();
});

test("2e: a server that comes back with other keys is told, and what was typed is there after signing in again", async (context) => {
  const file = join(mkdtempSync(join(tmpdir(), "shardlake-keys-")), "keys.json");
  const other = Object.fromEntries(Object.entries(KEYS).map(([name, text], at) => [name, at === 0 ? key("q") : text]));
  writeFileSync(file, JSON.stringify(KEYS), { mode: 0o600 });
  const first = await startServer(["--key-file", file]);
  context.after(() => first.stop());
  const mine = client(first.endpoint, KEYS.primary);
  await mine.createDatabase("shop");
  await mine.createContainer("shop", "orders", ["/customer"]);
  await mine.upsert("shop", "orders", '["ada"]', '{"id":"1","customer":"ada","total":1}');
  const { page, at, close } = await openPage(browser, first);
  const signIn = async (text) => {
    await page.getByLabel(/Account key, connection string/).fill(text);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: "Sign out" }).waitFor();
  };
  await at("");
  await signIn(KEYS.primary);
  await at("c/shop/orders/items/%5B%22ada%22%5D/1");
  await page.getByRole("button", { name: "Edit" }).click();
  await writeEditor(page, "Text of item 1", '{"id":"1","customer":"ada","total":2}');
  await first.kill();
  await page.getByText(/The server does not answer\. It/).waitFor();
  writeFileSync(file, JSON.stringify(other), { mode: 0o600 });
  const again = await startServer(["--key-file", file], {
    directory: first.directory,
    port: first.port,
    proxyPort: first.proxyPort,
  });
  context.after(() => again.stop());
  await page.getByText("The server no longer takes this key.").waitFor();
  await accessible(page, "a key that is no longer taken");
  await page.getByRole("button", { name: "Sign in again" }).click();
  await signIn(other.primary);
  await page.getByRole("button", { name: "Restore" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Edit" }).waitFor();
  const { text } = await client(again.endpoint, other.primary).read("shop", "orders", '["ada"]', "1");
  assert.equal(JSON.parse(text).total, 2);
  await close();
});
