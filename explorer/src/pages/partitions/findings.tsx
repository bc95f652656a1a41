// What is wrong, with the numbers that show it, what helps, and buttons that do it.

import { For, Show, type JSX } from "solid-js";
import { isWrong, NOTHING_WRONG, type Finding } from "../../client/account";
import { type Report } from "../../client/reports";
import { bytes, integer, percent, rate } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { pathOf } from "../../kit/router";
import { findingWords, secondsWords, whenWords } from "../../parts/finding-words";
import { mayWrite } from "../../state/account";
import { plainRemedies, remedyOf, remedyTitle, type Remedy } from "./remedies";

export function Findings(props: { report: Report; onRemedy: (remedy: Remedy) => void }): JSX.Element {
  return (
    <section class="section" aria-label="Findings">
      <For each={props.report.findings}>
        {(finding) => <OneFinding finding={finding} report={props.report} onRemedy={props.onRemedy} />}
      </For>
    </section>
  );
}

function OneFinding(props: { finding: Finding; report: Report; onRemedy: (remedy: Remedy) => void }): JSX.Element {
  const isGood = () => !isWrong(props.finding);
  const isWell = () => props.finding.kind === NOTHING_WRONG;
  /** Reports come every two seconds, so that what was cured counts up with them. */
  const when = () => whenWords(props.finding, Date.now());
  const window = () => {
    const seconds = props.finding.windowSeconds;
    return seconds ? `in the last ${secondsWords(seconds * 1000)}` : "";
  };
  /** In the order of `NAMES`, so that what a partition uses stands beside what it may use; what has no name there comes first. */
  const evidence = () =>
    [...props.finding.evidence].sort((left, right) => ORDER.indexOf(left.name) - ORDER.indexOf(right.name));
  const partition = () => props.report.partitions.find(({ id }) => id === props.finding.partition);
  const remedies = () => {
    const { actions, kind } = props.finding;
    return actions ? actions.map(remedyOf).filter((remedy) => remedy !== null) : plainRemedies(partition(), kind);
  };
  return (
    <article class="finding" classList={{ good: isGood(), act: !isGood() }}>
      <span class={isGood() ? "good" : "warn"}>
        <Icon name={isGood() ? "good" : "warn"} />
      </span>
      <div>
        <h2>
          {findingWords(props.finding.kind)}
          <Show when={props.finding.partition}> · partition {props.finding.partition}</Show>
          <span class="dim">
            <Show when={when()}> · {when()}</Show>
            <Show when={window() && !when().startsWith("cured")}> · {window()}</Show>
          </span>
        </h2>
        <p>{isWell() ? props.finding.summary : sentence(props.finding.summary)}</p>
        <Show when={evidence().length > 0 && !isGood()}>
          <dl class="evidence">
            <For each={evidence()}>
              {({ name, value }) => (
                <div>
                  <dt>{nameWords(name)}</dt>
                  <dd class="mono">{valueWords(name, value)}</dd>
                </div>
              )}
            </For>
          </dl>
        </Show>
        <Show when={props.finding.remedy && !isGood()}>
          <p>
            <b>What helps:</b> {props.finding.remedy}
          </p>
        </Show>
        <Show when={!isGood()}>
          <div class="row">
            <Show when={mayWrite()}>
              <For each={remedies()}>
                {(remedy) => (
                  <button type="button" onClick={() => props.onRemedy(remedy)}>
                    <Icon name="split" /> {remedyTitle(remedy)}
                  </button>
                )}
              </For>
            </Show>
            <For each={(props.finding.actions ?? []).filter((action) => action.kind === "throughput")}>
              {() => (
                <a
                  class="button"
                  href={`${pathOf(["c", props.report.database, props.report.container, "settings"])}#section=throughput`}
                >
                  Throughput…
                </a>
              )}
            </For>
          </div>
        </Show>
      </div>
    </article>
  );
}

const sentence = (words: string) => words.slice(0, 1).toUpperCase() + words.slice(1);

/** What programs call by one word, people call by several; units stand with the value. */
const NAMES: Record<string, string> = {
  keyShare: "its share",
  keyRuPerSecond: "it uses",
  ruPerSecond: "partition uses",
  budgetRuPerSecond: "partition may use",
  timesFairShare: "times its fair part",
  throttledShare: "refused",
  writeShare: "writes",
  keyBytes: "size of the key",
  shareOfLogicalLimit: "of what a key may hold",
  bytes: "size of the partition",
};

const ORDER = Object.keys(NAMES);

const nameWords = (name: string) =>
  NAMES[name] ??
  name
    .replace(/RuPerSecond$/, "")
    .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
    .replace(/\bru\b/, "RU");

/** Shares are percentages; other numbers keep two digits at most. */
function valueWords(name: string, value: number | string): string {
  if (typeof value === "string") return value;
  if (/RuPerSecond$/i.test(name)) return `${rate(value)} RU/s`;
  if (/bytes$/i.test(name)) return bytes(value);
  if (/share$|^share/i.test(name) && name !== "timesFairShare") return percent(value);
  return value >= 100 ? integer(value) : String(Math.round(value * 100) / 100);
}
