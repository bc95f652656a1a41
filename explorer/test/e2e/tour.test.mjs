// The guided tour of the demo: a partition gets hot, the finding is read, the remedy pressed, and it cools.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { accessible, openPage, startBrowser, startServer } from "./harness.mjs";

let server, browser;
before(async () => {
  server = await startServer([], { command: ["demo", "hot-tenant", "--browser"], isStored: false });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("tour: a hot partition forms, is explained, treated from the page, and cools", { timeout: 600_000 }, async () => {
  assert.match(server.ready.tour, /\/_explorer\/c\/saas\/by-tenant\/partitions#tour=1$/);
  const { page, ready, close } = await openPage(browser, server);
  await page.goto(new URL(new URL(server.ready.tour).pathname + "#tour=1", server.endpoint).href);
  await ready();
  const tour = page.getByRole("region", { name: "Guided tour" });
  await tour.getByRole("heading", { name: "A partition gets hot" }).waitFor();
  await tour.getByRole("button", { name: "I have read it" }).waitFor();
  const finding = page.locator(".finding.act").first();
  await finding.getByText(/\["D"\]/).first().waitFor();
  await accessible(page, "the tour");
  await tour.getByRole("button", { name: "I have read it" }).click();
  await tour.getByRole("button", { name: "Divide the throughput" }).click();
  await page.getByRole("dialog").getByText(/Predicted:/).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Divide", exact: true }).click();
  await tour.getByText(/Refused in ten seconds/).waitFor();
  await tour.getByRole("heading", { name: "What prevents it" }).waitFor();
  await tour.locator("[aria-current=step]", { hasText: "What prevents it" }).waitFor();
  const words = await tour.getByText(/Refused in ten seconds/).innerText();
  const [before, now] = /now: (\S+) % → (\S+) %/.exec(words)?.slice(1).map(Number) ?? [];
  // The step is reached below 5 %. The words are rounded and live.
  assert.ok(before >= 5 && now < before, words);
  await tour.getByRole("link", { name: "see them side by side" }).click();
  const rows = tour.getByRole("row");
  await rows.nth(2).getByText("/tenantUser").waitFor();
  await accessible(page, "the end of the tour");
  await tour.getByRole("button", { name: "Leave the tour" }).click();
  await tour.waitFor({ state: "detached" });
  await close();
});
