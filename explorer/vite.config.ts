// The build: fixed file names, relative addresses between chunks, nothing that differs from one machine to the next.
//
// The server serves `dist/assets` below a path that holds the build's id, and writes that id where index.html says `__BUILD__`.

import { defineConfig, type Plugin } from "vite";
import solid from "vite-plugin-solid";

const servedAssets = (): Plugin => ({
  name: "served-assets",
  transformIndexHtml: {
    order: "post",
    handler: (html) =>
      html
        .replace("    <script", '    <link rel="modulepreload" href="assets/shell.js">\n    <script')
        .replaceAll(/(["'])(?:\.?\/)?assets\//g, "$1/_explorer/assets/__BUILD__/")
        .replaceAll(" crossorigin", ""),
  },
});

/** Styles are one file, and what a chunk imports comes from the same machine: nothing is to be fetched before it is asked for. */
const plainImports = (): Plugin => ({
  name: "plain-imports",
  enforce: "pre",
  load: (id) => (id === "\0vite/preload-helper.js" ? "export const __vitePreload = (load) => load();" : null),
});

/** What is there before anything shows, one file. */
const SHELL = {
  name: "shell",
  test: new RegExp(
    [
      "solid-js",
      "/src/client/(?:account|failure|names|poll|request|session|sign|store)\\.",
      "/src/kit/(?:drawing|later|loading|router|short)\\.",
      "/src/shell/(?:header|icons|places|shell|tree)\\.",
      "/src/state/(?:account|settings)\\.",
    ].join("|"),
  ),
};

/** What most pages need besides, one file. */
const COMMON = {
  name: "common",
  test: new RegExp(
    [
      "/src/client/(?:analytics|endpoints|hint|json|key|patient|query)\\.",
      "/src/kit/(?:asked|dialog|format|heads|icons|pane|table)\\.",
      "/src/parts/(?:cell|finding-words)\\.",
      "/src/state/(?:health|words)\\.",
    ].join("|"),
  ),
};

export default defineConfig({
  base: "",
  plugins: [solid(), plainImports(), servedAssets()],
  build: {
    target: "es2022",
    sourcemap: false,
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/main.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
        codeSplitting: { groups: [SHELL, COMMON] },
      },
    },
  },
  test: { environment: "node", include: ["test/unit/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
