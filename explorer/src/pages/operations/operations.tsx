// Operations: what the server is, its shards, and its log.

import { createEffect, createMemo, createSignal, For, on, onCleanup, Show, type JSX } from "solid-js";
import { readLog, type LogLine } from "../../client/log";
import { poll } from "../../client/poll";
import { bytes, clock, integer, timeOf, day } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Failed } from "../../kit/pane";
import { place, setState } from "../../kit/router";
import { access, offers, server } from "../../state/account";
import { health } from "../../state/health";
import { failureWords } from "../../state/words";

const LEVELS = ["error", "warn", "info", "debug"];
const SHOWN_MAX = 2_000;

export default function Operations(): JSX.Element {
  return (
    <>
      <div class="toolbar">
        <h1 class="page-title">Operations</h1>
      </div>
      <div class="home-split">
        <Server />
        <Shards />
      </div>
      <Show when={offers("log") && access() === "full"}>
        <Log />
      </Show>
    </>
  );
}

function Server(): JSX.Element {
  const told = (name: string): string => {
    const value = server()?.[name];
    return value === null || value === undefined ? "–" : String(value);
  };
  const started = () => {
    const value = server()?.startedAt;
    if (value === undefined) return "–";
    const time = timeOf(value);
    return `${day(time)} ${clock(time)}`;
  };
  return (
    <section class="card" aria-labelledby="server">
      <h2 id="server">Server</h2>
      <dl class="facts after">
        <dt>Version</dt>
        <dd>
          {told("version")} · {told("build")}
        </dd>
        <dt>Started</dt>
        <dd>{started()}</dd>
        <dt>Durability</dt>
        <dd>{told("durability")}</dd>
        <dt>Consistency</dt>
        <dd>{told("consistency")}</dd>
        <dt>Capacity</dt>
        <dd>
          {told("capacityMode")},{" "}
          {server()?.["throughputEnforced"] === false ? "throughput not enforced" : "throughput enforced"}, limits ×{" "}
          {told("limitsScale")}
        </dd>
        <dt>Certificate</dt>
        <dd>{told("certificateDaysLeft")} days left</dd>
        <dt>Metrics</dt>
        <dd>
          <a class="button" href="/metrics" target="_blank" rel="noreferrer">
            /metrics
          </a>
        </dd>
      </dl>
    </section>
  );
}

function Shards(): JSX.Element {
  return (
    <section class="card" aria-labelledby="shards">
      <h2 id="shards">Shards</h2>
      <div class="scroll-x">
        <table class="plain after">
          <Heads names={["Shard", { number: "Partitions" }, { number: "Data" }, { number: "On disk" }, "Writes"]} />
          <tbody>
            <For each={health().shards ?? []}>
              {(shard) => (
                <tr>
                  <th scope="row">{shard.number}</th>
                  <td class="number">{integer(shard.partitions)}</td>
                  <td class="number">{bytes(shard.sizeBytes)}</td>
                  <td class="number">{shard.diskBytes === undefined ? "–" : bytes(shard.diskBytes)}</td>
                  <td class={shard.isWritable === false ? "bad" : "good"}>
                    {shard.isWritable === false ? "refused" : "accepted"}
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </div>
      <Show when={health().disk}>
        {(disk) => (
          <p class="pad dim">
            {bytes(disk().usedBytes)} on disk
            <Show when={disk().freeBytes !== null}>, {bytes(disk().freeBytes ?? 0)} free</Show>
          </p>
        )}
      </Show>
    </section>
  );
}

function Log(): JSX.Element {
  const [lines, setLines] = createSignal<LogLine[]>([]);
  const [dropped, setDropped] = createSignal(0);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [words, setWords] = createSignal("");
  const level = createMemo(() =>
    LEVELS.includes(place().state["level"] ?? "") ? (place().state["level"] as string) : "info",
  );
  let since: number | null = null;
  createEffect(
    on(level, (asked) => {
      since = null;
      setLines([]);
      onCleanup(
        poll(2_000, async () => {
          try {
            const page = await readLog(asked, since);
            if (asked !== level()) return;
            since = page.sequence;
            setDropped(page.dropped);
            setFailure(null);
            if (page.lines.length > 0) setLines([...page.lines.reverse(), ...lines()].slice(0, SHOWN_MAX));
          } catch (error) {
            setFailure(error);
          }
        }),
      );
    }),
  );
  const shown = () =>
    lines()
      .filter(({ message, target, fields }) =>
        `${target} ${message} ${JSON.stringify(fields)}`.toLowerCase().includes(words().toLowerCase()),
      )
      .slice(0, 500);
  return (
    <section class="column" aria-labelledby="log">
      <div class="toolbar">
        <h2 id="log">Log</h2>
        <label>
          Level{" "}
          <select value={level()} onChange={(event) => setState({ level: event.currentTarget.value })}>
            <For each={LEVELS}>{(name) => <option>{name}</option>}</For>
          </select>
        </label>
        <label>
          Filter{" "}
          <input data-filter type="search" value={words()} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <span class="dim">
          {integer(lines().length)} lines, newest first
          {dropped() > 0 ? ` · ${integer(dropped())} older ones are gone` : ""}
        </span>
      </div>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Reading the log", error())} />}</Show>
      <div class="log mono" role="region" aria-label="Log lines" tabindex="0">
        <For each={shown()} fallback={<p class="dim pad">No line of this level.</p>}>
          {(line) => (
            <div class="log-line">
              <span class="dim">{clock(timeOf(line.time))}</span>
              <span
                class={
                  line.level.toLowerCase() === "error" ? "bad" : line.level.toLowerCase() === "warn" ? "warn" : "dim"
                }
              >
                {line.level.toUpperCase()}
              </span>
              <span>
                {line.message} <span class="dim">{fieldWords(line)}</span>
              </span>
            </div>
          )}
        </For>
      </div>
    </section>
  );
}

function fieldWords(line: LogLine): string {
  const fields = Object.entries(line.fields ?? {}).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return [line.target, ...fields].join(" ");
}
