// The analytical store of a container: its state, its table, and the programs that read it.

import { createEffect, createMemo, createSignal, For, onCleanup, Show, type JSX } from "solid-js";
import { orderTable, readTable, setTable, type TableOrder, type TableReport } from "../../client/analytics";
import { readDefinition, replaceDefinition } from "../../client/endpoints";
import { withMember } from "../../client/definition";
import { poll } from "../../client/poll";
import { Confirm } from "../../kit/dialog";
import { bytes, clock, day, integer, plural, timeOf } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Loading } from "../../kit/loading";
import { Empty, Failed } from "../../kit/pane";
import { mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { Settings } from "./settings-form";
import { groupedColumn, snippets, type Snippet } from "./snippets";
import { restReasons, shareWords, stateWords } from "./table-words";

const POLICY = "analyticalStorageTtl";

type Work = (doing: () => Promise<unknown>, title: string) => Promise<void>;

export default function Analytics(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const [report, setReport] = createSignal<TableReport | null>();
  const [failure, setFailure] = createSignal<{ title: string; error: unknown } | null>(null);
  const [isWorking, setWorking] = createSignal(false);
  const READING = "Reading the analytical store";
  const read = async () => {
    try {
      setReport(await readTable(db, coll));
      if (failure()?.title === READING) setFailure(null);
    } catch (error) {
      setFailure({ title: READING, error });
    }
  };
  createEffect(() => onCleanup(poll(2_000, read)));
  const work: Work = async (doing, title) => {
    setWorking(true);
    setFailure(null);
    try {
      await doing();
    } catch (error) {
      setFailure({ title, error });
    }
    await read();
    setWorking(false);
  };
  const setPolicy = (value: string, title: string) =>
    work(async () => {
      const { text, etag } = await readDefinition(db, coll);
      await replaceDefinition(db, coll, withMember(text, POLICY, value), etag);
    }, title);
  const enable = () => setPolicy("-1", "Enabling the analytical store");
  return (
    <>
      <h1 class="hidden-label">Analytical store of {coll}</h1>
      <Show when={failure()}>
        {(now) => <Failed failure={failureWords(now().title, now().error)} onRetry={() => void read()} />}
      </Show>
      <Show
        when={report() !== undefined}
        fallback={
          <Show when={!failure()}>
            <Loading words="Reading the analytical store" />
          </Show>
        }
      >
        <Show when={report()} fallback={<Off isWorking={isWorking()} onEnable={() => void enable()} />}>
          {(now) => (
            <>
              <Orders
                report={now()}
                coll={coll}
                isWorking={isWorking()}
                onOrder={(order, title) => void work(() => orderTable(db, coll, order), title)}
                onEnable={() => void enable()}
                onClose={() => void setPolicy("0", "Closing the table")}
              />
              <Figures report={now()} />
              <Show when={mayWrite() && now().state !== "closed"}>
                <Settings
                  report={now()}
                  isWorking={isWorking()}
                  onPolicy={(ttl) => void setPolicy(String(ttl), "Saving the time")}
                  onSettings={(settings, rebuild) =>
                    void work(() => setTable(db, coll, settings, rebuild), "Saving the settings")
                  }
                />
              </Show>
              <Columns report={now()} />
              <Rest report={now()} />
              <Show when={now().location}>{(folder) => <Readers report={now()} folder={folder()} />}</Show>
            </>
          )}
        </Show>
      </Show>
    </>
  );
}

function Off(props: { isWorking: boolean; onEnable: () => void }): JSX.Element {
  return (
    <Empty title="No analytical store">
      <p>
        A container with <code>{POLICY}</code> gets a table of columns: Parquet files that DuckDB, Polars, delta-rs and
        Spark read. The table follows every change by itself, and costs disk space but no request units.
      </p>
      <Show when={mayWrite()} fallback={<p>Writing is locked or not allowed: the store cannot be enabled here.</p>}>
        <button type="button" class="primary" disabled={props.isWorking} onClick={() => props.onEnable()}>
          Enable
        </button>
      </Show>
    </Empty>
  );
}

const CONFIRMED = {
  rebuild: {
    action: "Rebuild",
    words:
      "The table is made anew from the items. Rows of items that have expired stay, as history. Readers see the old table until the new one is complete.",
  },
  close: {
    action: "Close the table",
    words:
      "The table follows no changes. Its files stay readable for 7 days, then they are deleted. If the store is enabled again by then, the table continues.",
  },
};

function Orders(props: {
  report: TableReport;
  coll: string;
  isWorking: boolean;
  onOrder: (order: TableOrder, title: string) => void;
  onEnable: () => void;
  onClose: () => void;
}): JSX.Element {
  const [asking, setAsking] = createSignal<keyof typeof CONFIRMED | null>(null);
  const state = createMemo(() => stateWords(props.report));
  const isClosed = () => props.report.state === "closed";
  const isPaused = () => props.report.state === "paused";
  const confirmed = (action: keyof typeof CONFIRMED) => {
    setAsking(null);
    if (action === "close") props.onClose();
    else props.onOrder("rebuild", "Rebuilding the table");
  };
  return (
    <div class="toolbar">
      <p class="page-title" role="status">
        <b class={state().tone}>{state().title}</b>: {state().words}
      </p>
      <span class="spacer" />
      <Show when={mayWrite()}>
        <Show
          when={!isClosed()}
          fallback={
            <button type="button" class="primary" disabled={props.isWorking} onClick={() => props.onEnable()}>
              Enable
            </button>
          }
        >
          <button
            type="button"
            disabled={props.isWorking}
            onClick={() => (isPaused() ? props.onOrder("resume", "Resuming") : props.onOrder("pause", "Pausing"))}
          >
            {isPaused() ? "Resume" : "Pause"}
          </button>
          <button type="button" disabled={props.isWorking} onClick={() => props.onOrder("compact", "Compacting")}>
            Compact
          </button>
          <button type="button" disabled={props.isWorking} onClick={() => props.onOrder("verify", "Verifying")}>
            Verify
          </button>
          <button type="button" disabled={props.isWorking} onClick={() => setAsking("rebuild")}>
            Rebuild…
          </button>
          <button type="button" disabled={props.isWorking} onClick={() => setAsking("close")}>
            Close…
          </button>
        </Show>
      </Show>
      <Show when={asking()} keyed>
        {(action) => (
          <Confirm
            title={`${CONFIRMED[action].action} of ${props.coll}?`}
            action={CONFIRMED[action].action}
            onConfirm={() => confirmed(action)}
            onClose={() => setAsking(null)}
          >
            <p>{CONFIRMED[action].words}</p>
          </Confirm>
        )}
      </Show>
    </div>
  );
}

const timeWords = (seconds: number): string => {
  const time = timeOf(seconds);
  return `${day(time)} ${clock(time)}`;
};

function Figures(props: { report: TableReport }): JSX.Element {
  const figures = () => props.report.figures;
  const stay = () =>
    props.report.ttl > 0
      ? `until ${plural(props.report.ttl, "second")} after the last write of their item`
      : "until their item is deleted";
  return (
    <section class="card" aria-labelledby="table">
      <h2 id="table">Table</h2>
      <dl class="facts after">
        <dt>Rows</dt>
        <dd>
          {integer(figures().rows)}
          {figures().rowsDeleted > 0 ? `, and ${integer(figures().rowsDeleted)} deleted ones in the files` : ""}
        </dd>
        <dt>Size</dt>
        <dd>
          {bytes(figures().sizeBytes)} in {plural(figures().files, "file")}
          {shareWords(figures().sizeBytes, figures().jsonBytes)}
        </dd>
        <dt>Lag</dt>
        <dd>
          {plural(props.report.lag.changes, "change")}, {plural(props.report.lag.seconds, "second")}
        </dd>
        <Show when={props.report.completeTo}>
          {(time) => (
            <>
              <dt>Complete to</dt>
              <dd>{timeWords(time())}</dd>
            </>
          )}
        </Show>
        <dt>Version</dt>
        <dd>
          {figures().version === null
            ? "none yet"
            : `${integer(figures().version ?? 0)} of generation ${integer(figures().generation)}`}
        </dd>
        <dt>Schema</dt>
        <dd>{props.report.settings.schema === "fullFidelity" ? "full fidelity" : "well-defined"}</dd>
        <dt>Rows stay</dt>
        <dd>{stay()}</dd>
        <Show when={props.report.location}>
          {(folder) => (
            <>
              <dt>Folder</dt>
              <dd class="mono">{folder()}</dd>
            </>
          )}
        </Show>
        <Show when={props.report.counts.lostHistory > 0}>
          <dt>Lost history</dt>
          <dd class="warn">{plural(props.report.counts.lostHistory, "item")} expired before they were copied</dd>
        </Show>
        <Show when={props.report.lastError}>
          {(error) => (
            <>
              <dt>Last error</dt>
              <dd class="warn">
                {timeWords(error().time)}: {error().message}
              </dd>
            </>
          )}
        </Show>
        <For each={[...props.report.orders].reverse()}>
          {(order) => (
            <>
              <dt>{order.order === "verify" ? "Verified" : "Compacted"}</dt>
              <dd classList={{ bad: !order.isRight }}>
                {timeWords(order.time)}: {order.outcome}
              </dd>
            </>
          )}
        </For>
      </dl>
    </section>
  );
}

function Columns(props: { report: TableReport }): JSX.Element {
  const columns = () => props.report.figures.columns;
  return (
    <section class="card" aria-labelledby="columns">
      <h2 id="columns">{plural(columns().length, "property column")}</h2>
      <div class="scroll-x" role="region" aria-label="Columns of the table" tabindex="0">
        <table class="plain fit after">
          <Heads names={["Column", "Type", "Property"]} />
          <tbody>
            <For each={columns()} fallback={<NoColumns />}>
              {(column) => (
                <tr>
                  <th scope="row" class="mono">
                    {column.name}
                  </th>
                  <td class="mono">
                    {column.type}
                    {props.report.figures.pendingWidenings.includes(column.name) ? " (becomes double)" : ""}
                  </td>
                  <td class="mono">{column.property ?? ""}</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </section>
  );
}

const NoColumns = (): JSX.Element => (
  <tr>
    <td colspan="3" class="dim">
      The first copy makes the columns.
    </td>
  </tr>
);

function Rest(props: { report: TableReport }): JSX.Element {
  const reasons = () => restReasons(props.report.counts.restValues);
  return (
    <section class="card" aria-labelledby="rest">
      <h2 id="rest">Values without a column</h2>
      <Show
        when={reasons().length > 0}
        fallback={<p class="dim after">None since the server started: columns hold all values.</p>}
      >
        <p class="after">
          They are whole in the column <code>_rest</code>, as JSON by path. Counted since the server started.
        </p>
        <table class="plain fit">
          <Heads names={["Reason", { number: "Values" }]} />
          <tbody>
            <For each={reasons()}>
              {({ words, values }) => (
                <tr>
                  <th scope="row">{words}</th>
                  <td class="number">{integer(values)}</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
        <p class="after">
          First met at{" "}
          <For each={props.report.counts.restPaths}>
            {(path, at) => (
              <>
                {at() > 0 ? ", " : ""}
                <code>{path}</code>
              </>
            )}
          </For>
        </p>
      </Show>
    </section>
  );
}

function Readers(props: { report: TableReport; folder: string }): JSX.Element {
  const column = createMemo(() => groupedColumn(props.report.figures.columns));
  const all = createMemo(() => snippets(props.folder, column()));
  return (
    <section class="card" aria-labelledby="readers">
      <h2 id="readers">Read it</h2>
      <p class="dim after">
        Programs on the server's machine, with the rights of the server's user, read the folder in Python:
      </p>
      <For each={all()}>{(snippet) => <OneReader snippet={snippet} />}</For>
    </section>
  );
}

function OneReader(props: { snippet: Snippet }): JSX.Element {
  const [isCopied, setCopied] = createSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(props.snippet.text);
    setCopied(true);
  };
  return (
    <div class="after">
      <div class="row">
        <h3>{props.snippet.reader}</h3>
        <button type="button" class="plain" aria-label={`Copy ${props.snippet.reader}`} onClick={() => void copy()}>
          {isCopied() ? "Copied" : "Copy"}
        </button>
      </div>
      <pre class="block">{props.snippet.text}</pre>
    </div>
  );
}
