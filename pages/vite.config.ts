// Builds the pages into the Python package, which serves them: no Node where fairlead runs.
import { fileURLToPath } from "node:url";
import vue from "@vitejs/plugin-vue";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [vue()],
  resolve: { alias: { "@": here("./src") } },
  build: {
    outDir: here("../src/fairlead/show/web/pages/built"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  server: { proxy: { "/api": process.env.API ?? "http://127.0.0.1:8572" } },
});
