// The guided tour of `shardlake demo hot-tenant`: watch a partition get hot, read why, press the remedy, watch it cool, and
// see what would have prevented it. It says what is to be seen on the page below, and goes on when that has happened.
//
// The demo has two containers with the same items and the same traffic, under two keys (`crates/server/src/demo/hot_tenant`).

import { createMemo, createSignal, For, onCleanup, Show, type JSX } from "solid-js";
import { poll } from "../../client/poll";
import { isWrong } from "../../client/account";
import { readReport, type Report } from "../../client/reports";
import { percent, rate } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Icon } from "../../kit/icons";
import { pathOf, setState } from "../../kit/router";
import { mayWrite } from "../../state/account";
import { remedyOf, remedyTitle, type Remedy } from "./remedies";
import { dividedBy, measured, stepOf, worse, type Figures } from "./tour-steps";

/** Of every figure of the tour. */
export const TOUR_WINDOW = "10s";
const FIRST = "by-tenant";
const OTHER = "by-tenant-and-user";

interface TourProps {
  report: Report;
  onRemedy: (remedy: Remedy) => void;
}

export function Tour(props: TourProps): JSX.Element {
  return (
    <section class="tour" aria-label="Guided tour">
      <Show
        when={props.report.container === OTHER}
        fallback={<Steps report={props.report} onRemedy={props.onRemedy} />}
      >
        <Comparison report={props.report} />
      </Show>
      <button type="button" class="plain act leave" onClick={() => setState({ tour: "" })}>
        Leave the tour
      </button>
    </section>
  );
}

function Steps(props: TourProps): JSX.Element {
  const [after, setAfter] = createSignal<Figures | null>(null);
  const [before, setBefore] = createSignal<Figures | null>(null);
  const [isRead, setRead] = createSignal(false);
  const finding = () => props.report.findings.find((one) => isWrong(one) && one.partition);
  const first = dividedBy(props.report);
  const isEven = new Set(props.report.partitions.map(({ budget }) => Math.round(budget?.ruPerSecond ?? 0))).size === 1;
  const isTreated = createMemo(() => !isEven || dividedBy(props.report) !== first);
  const remedy = () =>
    (finding()?.actions ?? []).map(remedyOf).find((known): known is Remedy => known !== null) ?? null;

  onCleanup(
    poll(2_000, async () => {
      // What was asked for before the remedy says nothing of what it did.
      const isAfter = isTreated();
      const report = await readReport(props.report.database, props.report.container, TOUR_WINDOW).catch(() => null);
      if (!report) return;
      if (isAfter) setAfter(measured(report));
      else setBefore((known) => worse(known, measured(report)));
    }),
  );
  const step = createMemo(
    (known: number) =>
      Math.max(
        known,
        stepOf({
          isFound: Boolean(finding()),
          isRead: isRead(),
          isTreated: isTreated(),
          before: before(),
          after: after(),
        }),
      ),
    0,
  );
  const entries = (): { title: string; body: JSX.Element }[] => [
    {
      title: "A partition gets hot",
      body: (
        <>
          Six tenants share this container, and <span class="mono">/tenant</span> is its key. Tenant D asks for more
          than its partition may hand out, while the others stand idle. Each row of the map is a part of the keys: wait
          until one turns bright, with white dots for requests refused with 429.
        </>
      ),
    },
    {
      title: "Read the finding",
      body: (
        <>
          Below the map the server says what is wrong, with the figures that show it, and what helps. A hash cannot
          divide a single key, so a split would move the heat and not lessen it.
          <div class="tour-act">
            <button type="button" onClick={() => setRead(true)}>
              I have read it
            </button>
          </div>
        </>
      ),
    },
    {
      title: "Press the remedy",
      body: (
        <Show when={mayWrite()} fallback="Unlock writing first: the lock is in the header.">
          <Show when={remedy()} fallback="The server works out what helps.">
            {(known) => (
              <>
                The partitions that stand idle can lend their request units.
                <div class="tour-act">
                  <button type="button" class="primary" onClick={() => props.onRemedy(known())}>
                    {remedyTitle(known())}
                  </button>
                </div>
              </>
            )}
          </Show>
        </Show>
      ),
    },
    {
      title: "Watch it cool",
      body: (
        <>
          <Change before={before()} after={after()} />
          <Show when={step() > 3}>
            {" "}
            It holds as long as D asks for no more than one partition may have, {rate(1000)} RU/s here.
          </Show>
        </>
      ),
    },
    {
      title: "What prevents it",
      body: (
        <>
          Another key. The same items and the same traffic, keyed by tenant and user:{" "}
          <a href={`${pathOf(["c", props.report.database, OTHER, "partitions"])}#tour=1`}>see them side by side</a>
        </>
      ),
    },
  ];
  return (
    <ol class="tour-steps" role="list">
      <For each={entries()}>
        {(entry, at) => (
          <li
            classList={{ done: at() < step(), here: at() === step() }}
            aria-current={at() === step() ? "step" : undefined}
          >
            <h2>
              <span class="tour-number" aria-hidden="true">
                <Show when={at() < step()} fallback={at() + 1}>
                  <Icon name="good" />
                </Show>
              </span>
              {entry.title}
            </h2>
            <Show when={at() === step() || (at() === 3 && step() === 4)}>
              <div role="status">{entry.body}</div>
            </Show>
          </li>
        )}
      </For>
    </ol>
  );
}

function Change(props: { before: Figures | null; after: Figures | null }): JSX.Element {
  const Pair = (pair: { of: (figures: Figures) => string }): JSX.Element => (
    <b>
      <Show when={props.before}>{(before) => <>{pair.of(before())} → </>}</Show>
      {props.after ? pair.of(props.after) : "…"}
    </b>
  );
  return (
    <>
      Refused in ten seconds, at its worst before and now: <Pair of={({ refused }) => percent(refused)} />. Busiest
      partition then and now: <Pair of={({ busiest }) => `${percent(busiest)} of its budget`} />.
    </>
  );
}

function Comparison(props: { report: Report }): JSX.Element {
  const [both, setBoth] = createSignal<{ name: string; key: string; figures: Figures }[]>([]);
  onCleanup(
    poll(2_000, async () => {
      const { database } = props.report;
      const reports = await Promise.all(
        [FIRST, OTHER].map((name) => readReport(database, name, TOUR_WINDOW).catch(() => null)),
      );
      setBoth(
        reports
          .filter((report) => report !== null)
          .map((report) => ({
            name: report.container,
            key: report.partitionKey.join(" "),
            figures: measured(report),
          })),
      );
    }),
  );
  return (
    <div class="tour-end">
      <h2>What prevents it: a key with many values</h2>
      <p>
        The same items and the same traffic, keyed by <span class="mono">/tenantUser</span>: D's users lie in all
        partitions, no row of the map is hot, and nobody is refused, with the same throughput.
      </p>
      <div class="scroll-x">
        <table class="plain">
          <Heads names={["Container", "Key", { number: "Refused" }, { number: "Busiest partition" }]} />
          <tbody>
            <For each={both()}>
              {({ name, key, figures }) => (
                <tr>
                  <th scope="row">
                    <a href={`${pathOf(["c", props.report.database, name, "partitions"])}#tour=1`}>{name}</a>
                  </th>
                  <td class="mono">{key}</td>
                  <td class="number">{percent(figures.refused)}</td>
                  <td class="number">{percent(figures.busiest)} of its budget</td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
    </div>
  );
}
