// For development against a server without `/_explorer/`: serves `dist` with the headers of the real thing, and hands on
// everything else to the server that SHARDLAKE_ENDPOINT names. The tests use the real binary, not this.

import { createServer, request } from "node:http";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const upstream = new URL(process.env.SHARDLAKE_ENDPOINT ?? "http://127.0.0.1:8081/");
const dist = join(import.meta.dirname, "..", "dist");
const TYPES = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", html: "text/html; charset=utf-8" };
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async function serveFile(path, response) {
  const asset = /^\/_explorer\/assets\/[^/]+\/([\w.-]+)$/.exec(path)?.[1];
  const name = asset ? `assets/${asset}` : "index.html";
  const bytes = await readFile(join(dist, name)).catch(() => null);
  if (!bytes) return response.writeHead(404).end();
  response.writeHead(200, {
    "content-type": TYPES[name.split(".").pop()],
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
  });
  response.end(name === "index.html" ? bytes.toString().replaceAll("__BUILD__", "0") : bytes);
}

createServer((incoming, response) => {
  const { pathname } = new URL(incoming.url, "http://x/");
  if (pathname === "/_explorer" || pathname.startsWith("/_explorer/")) return void serveFile(pathname, response);
  const { method, headers, url: path } = incoming;
  const outgoing = request({ host: upstream.hostname, port: upstream.port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  outgoing.on("error", () => response.destroy());
  response.on("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}).listen(Number(process.env.PORT ?? 0), "127.0.0.1", function () {
  console.log(`http://127.0.0.1:${this.address().port}/_explorer/`);
});
