// Settings of an analytical store as texts of a form, and back.

import type { TableSettings } from "../../client/analytics";

export interface SettingTexts {
  schema: "wellDefined" | "fullFidelity";
  /** A path on each line. */
  clusterBy: string;
  exclude: string;
  lagSeconds: string;
}

export const lines = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

export function textsOf(settings: TableSettings): SettingTexts {
  return {
    schema: settings.schema ?? "wellDefined",
    clusterBy: (settings.clusterBy ?? []).join("\n"),
    exclude: (settings.exclude ?? []).join("\n"),
    lagSeconds: settings.lagSeconds?.toString() ?? "",
  };
}

/** The settings to send. A lag that is no number is sent as its text: the server names the problem. */
export function bodyOf(texts: SettingTexts): TableSettings {
  const lag = texts.lagSeconds.trim();
  return {
    schema: texts.schema,
    clusterBy: lines(texts.clusterBy),
    exclude: lines(texts.exclude),
    ...(lag === "" ? {} : { lagSeconds: /^\d+$/.test(lag) ? Number(lag) : lag }),
  };
}
