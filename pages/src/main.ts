// Begins the pages.
import { createApp } from "vue";
import App from "@/shell/App.vue";
import { router } from "@/router";
import "@/theme.css";

createApp(App).use(router).mount("#app");
