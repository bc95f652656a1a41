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
      html.replaceAll(/(["'])(?:\.?\/)?assets\//g, "$1/_explorer/assets/__BUILD__/").replaceAll(" crossorigin", ""),
  },
});

export default defineConfig({
  base: "",
  plugins: [solid(), servedAssets()],
  build: {
    target: "es2022",
    sourcemap: false,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/main.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  test: { environment: "node", include: ["test/unit/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
