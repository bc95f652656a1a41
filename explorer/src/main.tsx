// The beginning: settings before the first paint, then the shell.

import { render } from "solid-js/web";
import { listen } from "./kit/router";
import { loadSettings } from "./state/settings";
import { start } from "./state/account";
import { Shell } from "./shell/shell";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/pages.css";

loadSettings();
listen();
const root = document.getElementById("app");
if (root) render(() => <Shell />, root);
void start();
