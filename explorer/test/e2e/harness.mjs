// A real server on a free port, a real browser, and a page that tolerates no error: what every browser test stands on.
//
// SHARDLAKE_BINARY names the server's binary. SHARDLAKE_PROXY=1 puts test/proxy.mjs in front of one that has no
// `/_explorer/` of its own; then only the content policy is tested, not the server's own headers.
// SHARDLAKE_SLOW_PAGES=20 gives pages a twentieth of a processor: tests that expect a page to be quick fail then.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { client, KEY } from "../fixtures/client.mjs";

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const BINARY = process.env.SHARDLAKE_BINARY;
const SLOW_PAGES = Number(process.env.SHARDLAKE_SLOW_PAGES ?? 1);
const CHROMIUM = process.env.SHARDLAKE_CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
// The server would take these for misspelt settings, and warn.
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SHARDLAKE_")));
export { KEY };

/** Starts a server; `more` are further arguments. */
export async function startServer(more = [], options = {}) {
  if (!BINARY) throw new Error("SHARDLAKE_BINARY must name the server's binary");
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), "shardlake-explorer-"));
  const listen = `127.0.0.1:${options.port ?? 0}`;
  const server = spawn(
    BINARY,
    [
      ...(options.command ?? ["serve"]),
      ...(options.isStored === false ? [] : ["--data-dir", directory]),
      "--listen",
      listen,
      ...more,
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: ENVIRONMENT },
  );
  server.stderr.resume();
  const line = await firstLine(server);
  const ready = JSON.parse(line);
  const direct = ready.endpoints.find((endpoint) => endpoint.startsWith("http://"));
  const proxy = process.env.SHARDLAKE_PROXY ? await startProxy(direct, options.proxyPort) : null;
  const endpoint = proxy?.endpoint ?? direct;
  return {
    endpoint,
    ready,
    directory,
    pid: server.pid,
    port: Number(new URL(direct).port),
    proxyPort: proxy ? Number(new URL(endpoint).port) : undefined,
    client: client(direct),
    async kill(signal = "SIGKILL") {
      proxy?.process.kill();
      if (server.exitCode === null && server.signalCode === null) {
        server.kill(signal);
        await once(server, "exit");
      }
    },
    async stop() {
      await this.kill("SIGKILL");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

async function firstLine(process) {
  const lines = createInterface({ input: process.stdout });
  const line = await Promise.race([
    once(lines, "line").then(([text]) => text),
    once(process, "exit").then(([code]) => Promise.reject(new Error(`the server ended with ${code}`))),
  ]);
  process.stdout.resume();
  return line;
}

async function startProxy(endpoint, port = 0) {
  const process_ = spawn(process.execPath, [join(import.meta.dirname, "..", "proxy.mjs")], {
    env: { ...process.env, SHARDLAKE_ENDPOINT: endpoint, PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const line = await firstLine(process_);
  return { process: process_, endpoint: new URL("/", line).href };
}

export async function startBrowser() {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
  return browser;
}

/** A page in a context of its own that collects everything that must not be. */
export async function openPage(browser, server, options = {}) {
  const context =
    options.context ??
    (await browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true, ...options.settings }));
  context.setDefaultTimeout(PATIENCE_MS);
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(
        `policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}:${event.columnNumber} ${event.sample} ${event.target?.outerHTML?.slice(0, 300)}`,
      ),
    );
    addEventListener("unhandledrejection", (event) => console.error(`unhandled: ${event.reason}`));
  });
  const page = await context.newPage();
  if (SLOW_PAGES > 1) {
    const session = await context.newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: SLOW_PAGES });
  }
  const wrong = [];
  page.on("console", (message) => {
    // The browser notes every answer of 400 and above; whether one may be is each test's business.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(`page error: ${error.stack}`));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== "blob:" && origin !== new URL(server.endpoint).origin) wrong.push(`request to ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.url().includes("/_explorer/assets/") && response.status() >= 400)
      wrong.push(`${response.status()} for ${response.url()}`);
  });
  page.on("dialog", (dialog) => void dialog.accept());
  return {
    page,
    context,
    wrong,
    at: (path) => page.goto(new URL(`/_explorer/${path}`, server.endpoint).href),
    ready: () => page.getByRole("navigation", { name: "Containers" }).waitFor(),
    async fine() {
      assert.deepEqual(wrong, []);
    },
    async close() {
      assert.deepEqual(wrong, []);
      await context.close();
    },
  };
}

/** No finding of axe with WCAG 2.2 A and AA, on what is shown now. */
export async function accessible(page, words) {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
      rules: { region: { enabled: false } },
    });
    return violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map(({ target, failureSummary }) => `${target.join(" ")} ${failureSummary}`)
          .join(" | ")}`,
    );
  });
  assert.deepEqual(found, [], words);
}

/** The text of the editor of a name, whole. */
export async function editorText(page, label) {
  return page
    .getByRole("textbox", { name: label })
    .evaluate(
      (content) =>
        content.cmView?.view?.state.doc.toString() ?? content.cmTile?.view?.state.doc.toString() ?? content.innerText,
    );
}

/** Replaces the text of the editor of a name as a person does: select all, paste. */
export async function writeEditor(page, label, text) {
  const editor = page.getByRole("textbox", { name: label });
  await editor.click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}

/** Minutes, so that a hang fails and a busy machine does not. */
const PATIENCE_MS = 240_000;

/** Waits until `ask` answers true. */
export async function until(ask, words) {
  for (let attempt = 0; attempt < PATIENCE_MS / 50; attempt++) {
    if (await ask()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`never came: ${words}`);
}

export const HOSTILE = [
  "%",
  '"',
  "'",
  "<img src=x onerror=alert(1)>",
  "a&b",
  "a+b",
  " a ",
  "💡",
  "\u202eevil",
  "x".repeat(255),
  ".",
  "..",
  "%2F",
  "null",
  "true",
  "0",
  "~x",
  "`${1}`",
];
