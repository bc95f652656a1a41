// The icons of the pages, by name. The frame has its own, `shell/icons.ts`, since it is drawn first.

import type { JSX } from "solid-js";
import { Drawing } from "./drawing";

const PATHS = {
  database:
    "M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2zm0 0v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2",
  container: "M2.5 5 8 2l5.5 3v6L8 14l-5.5-3zM2.5 5 8 8l5.5-3M8 8v6",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  refresh: "M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3",
  warn: "M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 12v.1",
  bad: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v4M8 11v.1",
  good: "M3 8.5 6.5 12 13 4.5",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.5V11M8 5v.1",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  trash: "M3 4.5h10M6 4.5V2.5h4v2M4.5 4.5l.5 9h6l.5-9",
  edit: "M3 13l.6-3L11 2.6 13.4 5 6 12.4zM9.5 4 12 6.5",
  run: "M4.5 3v10l8-5z",
  stop: "M4 4h8v8H4z",
  download: "M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10",
  upload: "M8 10.5v-8M4.5 5.5 8 2l3.5 3.5M3 13.5h10",
  key: "M5.5 6a3 3 0 1 0 0 4.5L8 8.5h6M12 8.5v2.5M5.5 8.2v.1",
  split: "M8 14V9L3.5 5M8 9l4.5-4M3.5 8V4.5H7M12.5 8V4.5H9",
  link: "M6.5 9.5l3-3M7 4.5 8.5 3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3 3 0 0 1 3 8.5L4.5 7",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon(props: { name: IconName }): JSX.Element {
  return <Drawing path={PATHS[props.name]} />;
}
