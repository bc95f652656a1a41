// A split, merge or move in progress, with its end in sight; and how the last one ended.

import { createSignal, Show, type JSX } from "solid-js";
import type { Relocation } from "../../client/account";
import { abortRelocation, type Report } from "../../client/reports";
import { integer, milliseconds, percent } from "../../kit/format";
import { Icon } from "../../kit/icons";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { Failed } from "../../kit/pane";

export function RelocationStrip(props: { report: Report; onChanged: () => void }): JSX.Element {
  const [failure, setFailure] = createSignal<unknown>(null);
  const abort = async () => {
    setFailure(null);
    await abortRelocation(props.report.database, props.report.container).catch(setFailure);
    props.onChanged();
  };
  return (
    <>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Giving up", error())} />}</Show>
      <Show when={props.report.relocation} fallback={<Last report={props.report} />}>
        {(now) => (
          <div class="note" role="status">
            <Icon name="split" />
            <b>{words(now())}</b>
            <progress max={Math.max(1, now().items)} value={now().itemsCopied} aria-label="Items copied" />
            <span>
              {now().step} · {integer(now().itemsCopied)} of {integer(now().items)} items ·{" "}
              {percent(now().items > 0 ? now().itemsCopied / now().items : 0)} · {integer(now().lag)} changes behind
            </span>
            <Show when={mayWrite()}>
              <button type="button" onClick={() => void abort()}>
                Give up
              </button>
            </Show>
          </div>
        )}
      </Show>
    </>
  );
}

const words = (now: Relocation) =>
  `${now.kind} ${now.sources.join(", ")} → ${now.targets.map(({ id }) => id).join(", ")}`;

function Last(props: { report: Report }): JSX.Element {
  return (
    <Show when={props.report.lastRelocation}>
      {(last) => (
        <div class="note fine">
          <Show
            when={last().outcome === "done"}
            fallback={<span>The last relocation was given up: {last().reason}</span>}
          >
            <span class="good">
              <Icon name="good" />
            </span>
            <span>
              {last().kind} {last().sources?.join(", ")} → {last().targets?.join(", ")}: {integer(last().items ?? 0)}{" "}
              items in {milliseconds(last().durationMs ?? 0)}, writers held {milliseconds(last().pauseMs ?? 0)}
            </span>
          </Show>
        </div>
      )}
    </Show>
  );
}
