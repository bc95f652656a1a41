// The analytical store of a container: enabled, followed, paused, verified, rebuilt, closed and opened again on its page.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { accessible, openPage, startBrowser, startServer } from "./harness.mjs";

let server, browser, isOffered;
before(async () => {
  server = await startServer(["--durability", "memory"]);
  browser = await startBrowser();
  const { text } = await server.client.operator("GET", "server");
  isOffered = JSON.parse(text).features.includes("analytics") && !(await isRefused());
  await server.client.createDatabase("shop");
  await server.client.createContainer("shop", "customer", ["/city"]);
  for (let n = 0; n < 30; n++)
    await upsert({ id: `c${n}`, city: n % 2 ? "Oslo" : "Turku", points: n, "First Name": "A" });
  // Not of the type that the first values have.
  await upsert({ id: "text", city: "Graz", points: "many" });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const upsert = (item) => server.client.upsert("shop", "customer", JSON.stringify([item.city]), JSON.stringify(item));
const table = async () => JSON.parse((await server.client.operator("GET", "dbs/shop/colls/customer/analytics")).text);

/** Whether the build has no tables: it refuses the policy by name. */
async function isRefused() {
  await server.client.createDatabase("probe");
  const { status } = await server.client.createContainer("probe", "c", ["/pk"], { more: { analyticalStorageTtl: -1 } });
  return status === 501;
}

const SKIPPED = "the server is built without the feature 'analytics'";

test(
  "23: a table is enabled, read, paused, verified, rebuilt, closed and opened again",
  { timeout: 600_000 },
  async (context) => {
    if (!isOffered) return context.skip(SKIPPED);
    const { page, at, ready, close } = await openPage(browser, server);
    const button = (name) => page.getByRole("button", { name, exact: true });
    const state = (words) => page.getByRole("status").getByText(words).waitFor();
    await at("c/shop/customer/items");
    await ready();
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Analytics" }).click();
    await page.getByRole("heading", { name: "No analytical store" }).waitFor();
    await accessible(page, "a container without an analytical store");
    await button("Enable").click();
    await state("Following: the table has every change.");

    const facts = page.getByRole("region", { name: "Table", exact: true });
    await facts.getByText("31", { exact: true }).waitFor();
    const { location, figures } = await table();
    assert.ok(existsSync(join(location, "_delta_log")), location);
    await facts.getByText(location, { exact: true }).waitFor();
    await page.getByRole("row", { name: "points long" }).waitFor();
    await page.getByRole("row", { name: "First_x0020_Name string First Name" }).waitFor();
    const rest = page.getByRole("region", { name: "Values without a column" });
    await rest.getByRole("row", { name: "another type than the column's 1" }).waitFor();
    await rest.getByText("/points").waitFor();
    const readers = page.getByRole("region", { name: "Read it" });
    for (const words of [
      `delta_scan('${location}')`,
      `pl.scan_delta("${location}").group_by("city")`,
      `DeltaTable("${location}")`,
      `.load("${location}")`,
    ])
      await readers.getByText(words).waitFor();
    await accessible(page, "a table that follows");

    await button("Pause").click();
    await state(/Paused: 0 changes behind/);
    await upsert({ id: "later", city: "Graz", points: 5 });
    await state(/Paused: 1 change behind/);
    await accessible(page, "a paused table");
    await button("Resume").click();
    await facts.getByText("32", { exact: true }).waitFor();

    await button("Verify").click();
    await facts.getByText("Verified").waitFor();
    await button("Compact").click();
    await facts.getByText("Compacted").waitFor();
    assert.ok(
      (await table()).orders.every(({ isRight }) => isRight),
      "each row is its item",
    );

    await button("Rebuild…").click();
    await accessible(page, "the question before a rebuild");
    await page.getByRole("dialog").getByRole("button", { name: "Rebuild", exact: true }).click();
    await facts.getByText(`of generation ${figures.generation + 1}`).waitFor();
    await state("Following: the table has every change.");

    await settings(page, facts, accessible);

    await button("Close…").click();
    await page.getByRole("dialog").getByRole("button", { name: "Close the table" }).click();
    await state(/Closed: the files stay readable/);
    await accessible(page, "a closed table");
    for (const name of ["Pause", "Verify", "Rebuild…", "Save the settings"])
      assert.equal(await button(name).count(), 0, name);
    await button("Enable").click();
    await state("Following: the table has every change.");

    await page.getByRole("button", { name: "Writing is allowed: lock it" }).click();
    for (const name of ["Pause", "Compact", "Verify", "Rebuild…", "Close…"])
      await button(name).waitFor({ state: "detached" });
    await close();
  },
);

/** The forms of the page: how long rows stay, and the store's own settings with the server's errors. */
async function settings(page, facts, accessible) {
  const stay = page.getByRole("form", { name: "Rows stay" });
  const saveTime = stay.getByRole("button", { name: "Save the time" });
  assert.equal(await saveTime.isDisabled(), true, "unchanged");
  await stay.getByLabel("for a time").check();
  await stay.getByLabel("Seconds after the last write of their item").fill("86400");
  await saveTime.click();
  await facts.getByText("until 86,400 seconds after the last write of their item").waitFor();
  const { text } = await server.client.send("GET", "/dbs/shop/colls/customer", "colls", "dbs/shop/colls/customer");
  assert.equal(JSON.parse(text).analyticalStorageTtl, 86_400);
  await stay.getByLabel("until their item is deleted").check();
  await saveTime.click();
  await facts.getByText("until their item is deleted", { exact: true }).waitFor();

  const own = page.getByRole("form", { name: "Columns, order and lag" });
  const save = own.getByRole("button", { name: "Save the settings" });
  const alert = page.getByRole("alert");
  const lag = own.getByLabel(/Seconds between two versions/);
  assert.equal(await save.isDisabled(), true, "unchanged");
  await lag.fill("4000");
  await save.click();
  await alert.getByText("Saving the settings failed").waitFor();
  await alert
    .getByText(/lagSeconds of the analytical store: 4000 is not from 1 to 3600/)
    .first()
    .waitFor();
  await accessible(page, "a refused setting");
  await lag.fill("2");
  const excluded = own.getByLabel(/Paths that are not copied/);
  await excluded.fill("/points\n/city");
  await save.click();
  await alert
    .getByText(/exclude of the analytical store: '\/city' is the id or holds the partition key/)
    .first()
    .waitFor();
  await excluded.fill("/points");
  await own.getByLabel(/Order of rows/).fill("/city");
  await own.getByLabel("Schema", { exact: true }).selectOption("fullFidelity");
  await save.click();
  await alert
    .getByText(/another schema makes a new table: send "rebuild": true with it/)
    .first()
    .waitFor();
  const { figures } = await table();
  await own.getByLabel(/rebuild the table/).check();
  await save.click();
  await facts.getByText("full fidelity").waitFor();
  await facts.getByText(`of generation ${figures.generation + 1}`).waitFor();
  await page.getByRole("row", { name: /^points / }).waitFor({ state: "detached" });
  assert.deepEqual((await table()).settings, {
    schema: "fullFidelity",
    clusterBy: ["/city"],
    lagSeconds: 2,
    exclude: ["/points"],
  });
  assert.equal(await alert.count(), 0, "the last save was accepted");
  assert.equal(await save.isDisabled(), true, "saved");
}

test("23b: a server that follows no tables refuses the policy, and the page shows the reason", async (context) => {
  if (!isOffered) return context.skip(SKIPPED);
  const off = await startServer(["--durability", "memory", "--analytics", "off"]);
  try {
    await off.client.createDatabase("shop");
    await off.client.createContainer("shop", "customer", ["/city"]);
    const { page, at, ready, close } = await openPage(browser, off);
    await at("c/shop/customer/analytics");
    await ready();
    await page.getByRole("button", { name: "Enable", exact: true }).click();
    const alert = page.getByRole("alert");
    await alert.getByText("Enabling the analytical store failed").waitFor();
    await alert
      .getByText(/--analytics off/)
      .first()
      .waitFor();
    await accessible(page, "a refused policy");
    await close();
  } finally {
    await off.stop();
  }
});
