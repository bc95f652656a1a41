// Builds again in a copy elsewhere, with another home, time zone and locale, and compares with `dist` byte by byte.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

const root = join(import.meta.dirname, "..");
const copy = mkdtempSync(join(tmpdir(), "shardlake-explorer-build-"));
const files = (folder) =>
  readdirSync(folder).flatMap((name) =>
    statSync(join(folder, name)).isDirectory() ? files(join(folder, name)) : [join(folder, name)],
  );

let differences = [];
try {
  for (const name of ["src", "public", "index.html", "package.json", "vite.config.ts", "tsconfig.json"])
    cpSync(join(root, name), join(copy, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  const environment = { ...process.env, TZ: "Pacific/Chatham", LANG: "C", LC_ALL: "C", HOME: copy };
  execFileSync(process.execPath, [join(root, "node_modules/vite/bin/vite.js"), "build", "--logLevel", "error"], {
    cwd: copy,
    env: environment,
    stdio: "inherit",
  });
  const of = (base) =>
    new Map(files(join(base, "dist")).map((path) => [relative(join(base, "dist"), path), readFileSync(path)]));
  const [committed, built] = [of(root), of(copy)];
  const names = new Set([...committed.keys(), ...built.keys()]);
  differences = [...names].filter((name) => !committed.get(name)?.equals(built.get(name) ?? Buffer.alloc(0)));
} finally {
  rmSync(copy, { recursive: true, force: true });
}
if (differences.length > 0) {
  console.error(
    `dist is not what the sources build: ${differences.join(", ")}\nrun \`npm ci --ignore-scripts && npm run build\` in explorer/ and commit dist`,
  );
  process.exit(1);
}
console.log("dist is what the sources build, byte by byte");
