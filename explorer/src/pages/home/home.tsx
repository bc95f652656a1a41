// Home: is it well, and where do I look?

import { createMemo, createSignal, createEffect, For, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import { newest, perSecond, periodWords, readPulse, type Pulse } from "../../client/pulse";
import { isWrong, NOTHING_WRONG, type ContainerRow } from "../../client/account";
import { readReport, type Report } from "../../client/reports";
import { bytes, clock, integer, milliseconds, percent, plural, rate, timeOf } from "../../kit/format";
import { short } from "../../kit/short";
import { go, pathOf, place, setState } from "../../kit/router";
import { Icon } from "../../kit/icons";
import { Failed } from "../../kit/pane";
import { findingWords, whenWords } from "../../parts/finding-words";
import { Spark, StackedArea } from "../../kit/spark";
import { Table, type Column } from "../../kit/table";
import { access, containers, noteFindings, offers } from "../../state/account";
import { health, refusedWritesWords } from "../../state/health";
import { failureWords } from "../../state/words";
import { FirstSteps } from "./first-steps";

const WINDOWS = ["10m", "6h", "4d", "28d"];
const LOOKED_AT_MAX = 10;

export default function Home(): JSX.Element {
  const [pulse, setPulse] = createSignal<Pulse | null>(null);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [reports, setReports] = createSignal<ReadonlyMap<string, Report>>(new Map());
  const window = () => (WINDOWS.includes(place().state["window"] ?? "") ? (place().state["window"] as string) : "10m");

  createEffect(() => {
    if (!offers("pulse")) return;
    const asked = window();
    const stop = poll(asked === "10m" ? 1_000 : 30_000, async () => {
      try {
        const next = await readPulse(asked);
        if (asked !== window()) return;
        setPulse(next);
        setFailure(null);
      } catch (error) {
        setFailure(error);
      }
    });
    onCleanup(stop);
  });
  createEffect(() => {
    if (access() === "token") return;
    const stop = poll(10_000, async () => void setReports(await lookAtBusiest(pulse())));
    onCleanup(stop);
  });

  return (
    <Show when={containers().length > 0} fallback={<FirstSteps />}>
      <h1 class="hidden-label">Home</h1>
      <Show when={failure()}>{(found) => <Failed failure={failureWords("Reading the pulse", found())} />}</Show>
      <Totals pulse={pulse()} />
      <Show when={pulse()}>
        {(now) => (
          <div class="home-split">
            <section class="card" aria-labelledby="by-kind">
              <div class="row">
                <h2 id="by-kind">Request units by kind</h2>
                <span class="spacer" />
                <WindowChoice window={window()} />
              </div>
              <ByKind pulse={now()} />
            </section>
            <Attention reports={[...reports().values()]} />
          </div>
        )}
      </Show>
      <Show when={!offers("pulse")}>
        <Attention reports={[...reports().values()]} />
      </Show>
      <ContainerTable reports={reports()} pulse={pulse()} />
    </Show>
  );
}

/** Findings of the containers that are busiest, else largest. */
async function lookAtBusiest(pulse: Pulse | null): Promise<ReadonlyMap<string, Report>> {
  const busy = new Map(
    (pulse?.containers ?? []).map((one) => [`${one.database}/${one.container}`, newest(one.ru) ?? 0]),
  );
  const order = (row: ContainerRow) => (busy.get(`${row.database}/${row.container}`) ?? 0) * 1e12 + row.items;
  const chosen = [...containers()].sort((left, right) => order(right) - order(left)).slice(0, LOOKED_AT_MAX);
  const found = new Map<string, Report>();
  for (const { database, container } of chosen) {
    const report = await readReport(database, container, "1m").catch(() => null);
    if (!report) continue;
    found.set(`${database}/${container}`, report);
    noteFindings(database, container, report.findings);
  }
  return found;
}

function WindowChoice(props: { window: string }): JSX.Element {
  return (
    <span class="segmented" role="group" aria-label="Window">
      <For each={WINDOWS}>
        {(window) => (
          <button type="button" aria-pressed={props.window === window} onClick={() => setState({ window })}>
            {window}
          </button>
        )}
      </For>
    </span>
  );
}

function Totals(props: { pulse: Pulse | null }): JSX.Element {
  const items = () => containers().reduce((sum, row) => sum + row.items, 0);
  const size = () => containers().reduce((sum, row) => sum + row.sizeBytes, 0);
  const total = createMemo(() => {
    const kinds = Object.values(props.pulse?.ru ?? {});
    const sums = (kinds[0] ?? []).map((_, at) => kinds.reduce((sum, values) => sum + (values[at] ?? 0), 0));
    return props.pulse ? perSecond(props.pulse, sums) : [];
  });
  const recent = (values: number[]) => values.slice(-60);
  const latest = (values: (number | null)[]) => {
    const found = newest(values);
    return found === null ? "–" : milliseconds(found);
  };
  const last = () => (props.pulse ? `, last ${periodWords(props.pulse)}` : "");
  const disk = () => health().disk?.usedBytes ?? newest(props.pulse?.diskBytes);
  const free = () => health().disk?.freeBytes ?? null;
  return (
    <section class="totals" aria-label="Totals">
      <Show when={props.pulse}>
        {(pulse) => (
          <>
            <Total name={`RU/s${last()}`} value={rate(newest(total()) ?? 0)} values={recent(total())} />
            <Total
              name={`429/s${last()}`}
              value={rate(newest(perSecond(pulse(), pulse().throttled)) ?? 0)}
              values={recent(perSecond(pulse(), pulse().throttled))}
            />
            <Total name="p50 / p99" value={`${latest(pulse().latencyP50Ms)} / ${latest(pulse().latencyP99Ms)}`} />
          </>
        )}
      </Show>
      <Total name="containers" value={integer(containers().length)} />
      <Total name="items" value={short(items())} />
      <Total name="data" value={bytes(size())} />
      <Show when={disk()}>
        {(used) => (
          <Total name="disk" value={free() === null ? bytes(used()) : `${bytes(used())}, ${bytes(free() ?? 0)} free`} />
        )}
      </Show>
    </section>
  );
}

function Total(props: { name: string; value: string; values?: number[] }): JSX.Element {
  return (
    <div class="total">
      <span class="dim">{props.name}</span>
      <b>{props.value}</b>
      <Show when={props.values}>
        {(values) => <Spark values={values()} label={`${props.name}, and the 59 before`} />}
      </Show>
    </div>
  );
}

const KIND_NAMES: Record<string, string> = {
  read: "read",
  create: "create",
  write: "write",
  query: "query",
  fanOut: "fan-out",
  feed: "feed",
};

function ByKind(props: { pulse: Pulse }): JSX.Element {
  const series = () =>
    Object.entries(KIND_NAMES).map(([member, name]) => ({
      name,
      values: perSecond(props.pulse, props.pulse.ru[member]),
    }));
  const time = (at: number) => {
    const value = props.pulse.times.at(at);
    return value === undefined ? "" : clock(timeOf(value));
  };
  return (
    <StackedArea
      label="Request units by kind"
      unit="RU/s"
      series={series()}
      from={time(0)}
      to={time(-1)}
      format={rate}
    />
  );
}

function Attention(props: { reports: Report[] }): JSX.Element {
  const found = () =>
    props.reports.flatMap((report) => [
      ...(report.relocation
        ? [
            {
              report,
              icon: "split" as const,
              words: `${report.relocation.kind} ${report.relocation.sources.join(", ")}: ${report.relocation.step}`,
              kind: "progress",
            },
          ]
        : []),
      ...report.findings
        .filter(({ kind }) => kind !== NOTHING_WRONG)
        .map((finding) => {
          const isNow = isWrong(finding);
          const when = whenWords(finding, Date.now());
          return {
            report,
            icon: isNow ? ("warn" as const) : ("good" as const),
            words: when ? `${finding.summary} (${when})` : finding.summary,
            kind: isNow ? finding.kind : "cured",
          };
        }),
    ]);
  const colour = (kind: string) => ({ progress: "", cured: "good" })[kind] ?? "warn";
  return (
    <section class="card" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <Show when={refusedWritesWords()}>
        {(words) => (
          <p class="after bad">
            <Icon name="warn" /> {words()}
          </p>
        )}
      </Show>
      <Show
        when={found().length > 0 || refusedWritesWords()}
        fallback={
          <p class="dim after">
            <span class="good">
              <Icon name="good" />
            </span>{" "}
            Nothing in the last minute, in the {Math.min(containers().length, LOOKED_AT_MAX)} busiest containers.
          </p>
        }
      >
        <ul class="findings">
          <For each={found()}>
            {(entry) => (
              <li>
                <span class={colour(entry.kind)}>
                  <Icon name={entry.icon} />
                </span>
                <span>
                  <a href={pathOf(["c", entry.report.database, entry.report.container, "partitions"])}>
                    {entry.report.database} / {entry.report.container}
                  </a>{" "}
                  {entry.words}
                </span>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </section>
  );
}

const COLUMNS: Column[] = [
  { name: "Container", width: "minmax(180px, 2fr)" },
  { name: "Items", width: "100px", isNumber: true },
  { name: "Size", width: "100px", isNumber: true },
  { name: "Partitions", width: "90px", isNumber: true },
  { name: "RU/s used", width: "150px", isNumber: true, title: "of the last minute, and what the container has" },
  {
    name: "Busiest",
    width: "100px",
    isNumber: true,
    title: "share of its budget that the busiest partition used in its busiest second of the last minute",
  },
  { name: "429", width: "80px", isNumber: true, title: "share of operations refused in the last minute" },
  { name: "Findings", width: "minmax(160px, 1fr)" },
];

function ContainerTable(props: { reports: ReadonlyMap<string, Report>; pulse: Pulse | null }): JSX.Element {
  const [cursor, setCursor] = createSignal(0);
  const rows = createMemo(() =>
    [...containers()].sort((left, right) =>
      `${left.database}/${left.container}` < `${right.database}/${right.container}` ? -1 : 1,
    ),
  );
  const open = (row: number) => {
    const at = rows()[row];
    if (at) go(["c", at.database, at.container, "partitions"]);
  };
  const cell = (row: number, column: number): JSX.Element => {
    const at = rows()[row];
    if (!at) return "";
    const report = props.reports.get(`${at.database}/${at.container}`);
    return [
      () => (
        <a href={pathOf(["c", at.database, at.container, "items"])} tabindex="-1">
          {at.database} / {at.container}
        </a>
      ),
      () => integer(at.items),
      () => bytes(at.sizeBytes),
      () => integer(at.partitions),
      () => (report ? usedWords(report) : "–"),
      () => busiest(report),
      () => refused(report),
      () => <FindingWords report={report} />,
    ][column]?.();
  };
  return (
    <section class="column" aria-label="All containers">
      <Table
        label="Containers"
        columns={COLUMNS}
        count={rows().length}
        cell={cell}
        cursor={cursor()}
        onCursor={setCursor}
        onOpen={open}
      />
      <div class="foot">
        <span>{plural(rows().length, "container")} · load of the last minute</span>
      </div>
    </section>
  );
}

function usedWords(report: Report): string {
  const used = report.partitions.reduce((sum, partition) => sum + partition.load.ruPerSecond, 0);
  const most = report.throughput.ruPerSecond;
  return most ? `${rate(used)} / ${integer(most)}` : rate(used);
}

function busiest(report: Report | undefined): string {
  const shares = (report?.partitions ?? []).map(({ load }) => load.normalizedRu).filter((share) => share !== null);
  return shares.length > 0 ? percent(Math.max(...shares)) : "–";
}

function refused(report: Report | undefined): string {
  const loads = report?.partitions.map(({ load }) => load) ?? [];
  const throttled = loads.reduce((sum, load) => sum + load.throttled, 0);
  if (throttled === 0) return "–";
  const all = loads.reduce((sum, load) => sum + load.operationsPerSecond * load.windowSeconds, 0) + throttled;
  return percent(throttled / all);
}

function FindingWords(props: { report: Report | undefined }): JSX.Element {
  const real = () => props.report?.findings.filter(isWrong) ?? [];
  return (
    <Show when={real()[0]} fallback={<span class="none">–</span>}>
      {(finding) => (
        <span class="warn" title={finding().summary}>
          <Icon name="warn" /> {findingWords(finding().kind)}
        </span>
      )}
    </Show>
  );
}
