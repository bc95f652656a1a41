// The change feed, followed as it happens: a ring of the newest changes, with what differs by path.

import { createEffect, createMemo, createSignal, For, on, onCleanup, Show, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { readDefinition } from "../../client/endpoints";
import { isAborted } from "../../client/failure";
import { readFeed } from "../../client/feed";
import { pretty } from "../../client/json";
import { readKey } from "../../client/key";
import { integer, ru } from "../../kit/format";
import { Heads } from "../../kit/heads";
import { Empty, Failed } from "../../kit/pane";
import { pathOf, place, setState } from "../../kit/router";
import { Table, type Column } from "../../kit/table";
import { TextEditor } from "../../parts/text-editor";
import { failureWords } from "../../state/words";
import { changeOf, type Change } from "./change";

const RING = 2_000;
const WAIT_MS = 10_000;
const RETRY_MS = 2_000;
const COLUMNS: Column[] = [
  { name: "LSN", width: "80px", isNumber: true },
  { name: "Time", width: "90px" },
  { name: "Operation", width: "90px" },
  { name: "Key", width: "minmax(80px, 1fr)" },
  { name: "Id", width: "minmax(80px, 1fr)" },
  { name: "What changed", width: "minmax(220px, 3fr)" },
];

export default function FeedPage(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const definition = asked(() => readDefinition(db, coll).catch(() => undefined));
  const [changes, setChanges] = createSignal<Change[]>([]);
  const [dropped, setDropped] = createSignal(0);
  const [charge, setCharge] = createSignal(0);
  const [etag, setEtag] = createSignal("");
  const [isFollowing, setFollowing] = createSignal(true);
  const [failure, setFailure] = createSignal<unknown>(null);
  const [cursor, setCursor] = createSignal(-1);
  const [words, setWords] = createSignal("");
  const state = createMemo(() => place().state);
  const mode = () => (state()["mode"] === "all" ? "all" : "latest");
  const keepsAll = () => (definition.value()?.value.changeFeedPolicy?.retentionDuration ?? 0) > 0;
  const keyPaths = () => definition.value()?.value.partitionKey.paths ?? [];

  /** What is followed; the filter of what is shown, which lies in the address too, is no part of it. */
  const subject = createMemo(() => JSON.stringify([mode(), state()["from"] ?? "now", state()["key"] ?? ""]));
  const isReady = createMemo(() => isFollowing() && !definition.isLoading());
  createEffect(
    on([subject, isReady], ([about, ready]) => {
      if (!ready) return;
      const [from, key] = [state()["from"] ?? "now", state()["key"] ?? ""];
      const stop = new AbortController();
      onCleanup(() => stop.abort());
      const isFresh = etag() === "" || askedFor !== about;
      askedFor = about;
      if (isFresh) {
        setChanges([]);
        setDropped(0);
        setEtag(from === "beginning" && mode() === "latest" ? "" : "*");
      }
      void follow(readKey(key), stop.signal);
    }),
  );
  let askedFor = "";

  const follow = async (key: string | null, signal: AbortSignal) => {
    while (!signal.aborted) {
      try {
        if (document.visibilityState === "hidden") await visible();
        const page = await readFeed(db, coll, { mode: mode(), etag: etag() || null, key, waitMs: WAIT_MS, signal });
        if (signal.aborted) return;
        setFailure(null);
        setCharge(charge() + page.charge);
        setEtag(page.etag);
        if (page.changes.length > 0) take(page.changes.map((text) => changeOf(text, mode(), keyPaths())));
      } catch (error) {
        if (signal.aborted || isAborted(error)) return;
        setFailure(error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  };
  const take = (fresh: Change[]) => {
    const all = [...fresh.reverse(), ...changes()];
    setDropped(dropped() + Math.max(0, all.length - RING));
    setChanges(all.slice(0, RING));
    if (cursor() >= 0) setCursor(Math.min(cursor() + fresh.length, RING - 1));
  };
  const shown = createMemo(() => {
    const wanted = words().toLowerCase();
    return wanted === "" ? changes() : changes().filter(({ text }) => text.toLowerCase().includes(wanted));
  });
  const cell = (row: number, column: number): JSX.Element => {
    const change = shown()[row];
    if (!change) return "";
    return [
      change.lsn,
      change.time,
      <span class={change.operation === "delete" ? "bad" : ""}>{change.operation}</span>,
      change.key,
      change.id,
      <span title={change.words}>{change.words}</span>,
    ][column];
  };
  const chosen = () => shown()[cursor()];

  return (
    <>
      <h1 class="hidden-label">Change feed of {coll}</h1>
      <div class="toolbar">
        <button type="button" aria-pressed={isFollowing()} onClick={() => setFollowing(!isFollowing())}>
          {isFollowing() ? "● Following" : "Paused"}
        </button>
        <label>
          Mode
          <select onChange={(event) => setState({ mode: event.currentTarget.value })}>
            <option value="latest" selected={mode() === "latest"}>
              latest versions
            </option>
            <Show when={keepsAll()}>
              <option value="all" selected={mode() === "all"}>
                all versions and deletes
              </option>
            </Show>
          </select>
        </label>
        <label>
          From
          <select value={state()["from"] ?? "now"} onChange={(event) => setState({ from: event.currentTarget.value })}>
            <option value="now">now</option>
            <Show when={mode() === "latest"}>
              <option value="beginning">the beginning</option>
            </Show>
          </select>
        </label>
        <label>
          Key
          <input
            class="mono key-input"
            spellcheck={false}
            placeholder="any"
            value={state()["key"] ?? ""}
            onChange={(event) => setState({ key: event.currentTarget.value })}
          />
        </label>
        <label>
          Shown{" "}
          <input
            data-filter
            type="search"
            placeholder="filter of the browser"
            value={words()}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
        </label>
        <span class="spacer" />
        <Show when={etag()}>
          <button
            type="button"
            class="plain act"
            title={etag()}
            onClick={() => void navigator.clipboard.writeText(etag())}
          >
            Copy position
          </button>
        </Show>
      </div>
      <Show when={failure()}>{(error) => <Failed failure={failureWords("Following the changes", error())} />}</Show>
      <div class="split" classList={{ single: !chosen() }}>
        <div class="column">
          <Show
            when={shown().length > 0}
            fallback={
              <Empty title="No change yet">
                <p>{isFollowing() ? "Changes appear here as they happen." : "Following is paused."}</p>
                <Show when={definition.value() && !keepsAll()}>
                  <p class="dim">
                    Deletions and former versions are told where the container keeps all versions. This one does not.
                  </p>
                </Show>
              </Empty>
            }
          >
            <Table
              label="Changes"
              columns={COLUMNS}
              count={shown().length}
              cell={cell}
              cursor={cursor()}
              onCursor={setCursor}
            />
          </Show>
          <div class="foot" role="status">
            <span>
              {integer(changes().length)} kept · {integer(dropped())} dropped
            </span>
            <span>{ru(charge())}</span>
            <span class="dim">newest first; order is per key</span>
          </div>
        </div>
        <Show when={chosen()} keyed>
          {(change) => <ChangeDetail change={change} db={db} coll={coll} onClose={() => setCursor(-1)} />}
        </Show>
      </div>
    </>
  );
}

function ChangeDetail(props: { change: Change; db: string; coll: string; onClose: () => void }): JSX.Element {
  return (
    <section class="side" aria-label="Change">
      <div class="toolbar">
        <a
          class="mono item-title"
          href={pathOf(["c", props.db, props.coll, "items", props.change.key, props.change.id])}
        >
          {props.change.id}
        </a>
        <span class="spacer" />
        <button type="button" onClick={() => props.onClose()}>
          Close
        </button>
      </div>
      <Show when={props.change.differences.length > 0}>
        <div class="scroll-x">
          <table class="plain">
            <Heads names={["Path", "Before", "After"]} />
            <tbody>
              <For each={props.change.differences}>
                {(one) => (
                  <tr>
                    <td class="mono">{one.path}</td>
                    <td class="mono">{one.base ?? "missing"}</td>
                    <td class="mono">{one.theirs ?? "missing"}</td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      </Show>
      <TextEditor text={pretty(props.change.text)} label="Text of the change" language="json" isReadOnly />
    </section>
  );
}

function visible(): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.visibilityState === "hidden") return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}
