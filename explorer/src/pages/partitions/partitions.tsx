// Partitions: where the heat is, why, and what cures it.

import { createEffect, createMemo, createSignal, For, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import { readReport, type Report } from "../../client/reports";
import { bytes, clock, integer, plural } from "../../kit/format";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { place, setState } from "../../kit/router";
import { noteFindings, offers } from "../../state/account";
import { failureWords } from "../../state/words";
import { PartitionTable } from "./bars";
import { Findings } from "./findings";
import { HeatPane } from "./heat-pane";
import { Hot } from "./hot";
import { KeyLookup } from "./key-lookup";
import { Outcome, type Pressed } from "./outcome";
import { RelocationStrip } from "./relocation";
import type { Remedy } from "./remedies";
import { RemedyDialog } from "./remedy-dialog";
import { Tour, TOUR_WINDOW } from "./tour";

const WINDOWS = ["10m", "6h", "4d", "28d"];

export default function Partitions(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const [report, setReport] = createSignal<Report | null>(null);
  const [readAt, setReadAt] = createSignal<Date | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [remedy, setRemedy] = createSignal<Remedy | null>(null);
  const [pressed, setPressed] = createSignal<Pressed | null>(null);
  const [isMoving, setMoving] = createSignal(false);
  const window = () => (WINDOWS.includes(place().state["window"] ?? "") ? (place().state["window"] as string) : "10m");

  const isTour = () => Boolean(place().state["tour"]);
  const loadWindow = () => (isTour() ? TOUR_WINDOW : window());

  const read = async () => {
    const asked = loadWindow();
    try {
      const next = await readReport(db, coll, asked);
      if (asked !== loadWindow()) return;
      setReport(next);
      setReadAt(new Date());
      setMoving(next.relocation !== null);
      noteFindings(db, coll, next.findings);
      setFailure(null);
    } catch (error) {
      setFailure(error);
    }
  };
  createEffect(() => {
    loadWindow();
    onCleanup(poll(isMoving() ? 250 : 2_000, read));
  });

  return (
    <>
      <Head report={report()} window={window()} readAt={readAt()} />
      <Show when={failure()}>
        {(error) => <Failed failure={failureWords("Reading the partitions", error())} onRetry={() => void read()} />}
      </Show>
      <Show when={report()} fallback={<Loading words="Reading the partitions" />}>
        {(now) => (
          <div class="partitions" classList={{ stale: failure() !== null }}>
            <Show when={isTour()}>
              <Tour report={now()} onRemedy={setRemedy} />
            </Show>
            <RelocationStrip report={now()} onChanged={() => void read()} />
            <Show when={!isTour() && pressed()} keyed>
              {(done) => <Outcome pressed={done} onClose={() => setPressed(null)} />}
            </Show>
            <Show when={offers("heat")}>
              <HeatPane
                db={db}
                coll={coll}
                window={window()}
                report={now()}
                onSplitAt={(partition, at) => setRemedy({ kind: "split", partition, at })}
              />
            </Show>
            <Findings report={now()} onRemedy={setRemedy} />
            <PartitionTable report={now()} onRemedy={setRemedy} />
            <Show when={offers("key")}>
              <KeyLookup db={db} coll={coll} paths={now().partitionKey} />
            </Show>
            <Hot report={now()} />
          </div>
        )}
      </Show>
      <Show when={remedy()} keyed>
        {(wanted) => (
          <RemedyDialog
            remedy={wanted}
            report={report() as Report}
            onClose={() => setRemedy(null)}
            onDone={() => {
              setRemedy(null);
              setPressed({ remedy: wanted, before: report() as Report });
              setMoving(true);
              void read();
            }}
          />
        )}
      </Show>
    </>
  );
}

function Head(props: { report: Report | null; window: string; readAt: Date | null }): JSX.Element {
  const words = createMemo(() => {
    const { report } = props;
    if (!report) return "";
    const { throughput, partitions } = report;
    const rate =
      throughput.ruPerSecond === null ? throughput.mode : `${integer(throughput.ruPerSecond)} RU/s ${throughput.mode}`;
    const manner = throughput.sharedByDatabase ? ", shared by the database" : "";
    return `${report.partitionKey.join(" ")} · ${plural(partitions.length, "partition")} · ${rate}${manner}, ${throughput.enforced ? "enforced" : "not enforced"} · ${bytes(report.sizeBytes)}`;
  });
  return (
    <div class="toolbar">
      <h1 class="page-title">{props.report?.container ?? "Partitions"}</h1>
      <span class="dim">{words()}</span>
      <span class="spacer" />
      <span class="segmented" role="group" aria-label="Window">
        <For each={WINDOWS}>
          {(window) => (
            <button type="button" aria-pressed={props.window === window} onClick={() => setState({ window })}>
              {window}
            </button>
          )}
        </For>
      </span>
      <span class="dim live">{props.readAt ? `as of ${clock(props.readAt)}` : ""}</span>
    </div>
  );
}
