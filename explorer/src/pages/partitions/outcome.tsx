// What a remedy came to, beside what was predicted of it: measured over ten seconds that lie behind it.

import { createSignal, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import { readReport, type Report } from "../../client/reports";
import { percent } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { cameTo, isInForce, wasGivenUp } from "./came-to";
import { remedyName, type Remedy } from "./remedies";
import { measured } from "./tour-steps";

const WINDOW = "10s";
const WINDOW_MS = 10_000;

export interface Pressed {
  remedy: Remedy;
  /** As it was when the remedy was pressed. */
  before: Report;
}

export function Outcome(props: { pressed: Pressed; onClose: () => void }): JSX.Element {
  const { remedy, before } = props.pressed;
  const [after, setAfter] = createSignal<Report | null>(null);
  const [isForced, setForced] = createSignal(false);
  const [isGivenUp, setGivenUp] = createSignal(false);
  const words = () => {
    if (isForced()) return "It is in force; ten seconds of it are measured now.";
    return isGivenUp() ? "It was given up." : "It is under way.";
  };
  let since = Number.POSITIVE_INFINITY;
  onCleanup(
    poll(1_000, async () => {
      const report = await readReport(before.database, before.container, WINDOW);
      setGivenUp(!isForced() && wasGivenUp(before, report));
      if (!isForced() && isInForce(remedy, before, report)) {
        since = performance.now();
        setForced(true);
      }
      if (performance.now() - since > WINDOW_MS) setAfter(report);
    }),
  );
  return (
    <div class="note fine" role="status" aria-label="Outcome">
      <span class="good">
        <Icon name="good" />
      </span>
      <span>
        <b>{remedyName(remedy)}.</b>
        <Show when={"predicted" in remedy && remedy.predicted}>{(words) => <> Predicted: {words()}.</>}</Show>{" "}
        <Show when={after()} fallback={words()}>
          {(report) => (
            <>
              Came to: {cameTo(remedy, before, report())}. Refused: {percent(measured(before).refused)} before,{" "}
              {percent(measured(report()).refused)} in the last ten seconds.
            </>
          )}
        </Show>
      </span>
      <span class="spacer" />
      <button type="button" class="plain square" aria-label="Close the outcome" onClick={() => props.onClose()}>
        <Icon name="close" />
      </button>
    </div>
  );
}
