// Items: browse, filter, open, change, upload, export. The address is the place; filter, key and sort are its state.

import { createEffect, createMemo, createSignal, on, onCleanup, Show, untrack, type JSX } from "solid-js";
import { asked } from "../../kit/asked";
import { readDefinition, textMember } from "../../client/endpoints";
import { keyOf, readKey } from "../../client/key";
import { readReport } from "../../client/reports";
import { integer, ru } from "../../kit/format";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { go, guardLeaving, pathOf, place, setState } from "../../kit/router";
import { access, containers, mayWrite } from "../../state/account";
import { failureWords } from "../../state/words";
import { columnsOf } from "./columns";
import { ByFilter } from "./by-filter";
import { DeleteMany } from "./delete-many";
import { Detail, type Opened } from "./detail";
import { Export } from "./export";
import { createListing, queryText } from "./listing";
import { Foot, ItemTable } from "./item-table";
import { Nothing, Toolbar } from "./item-toolbar";
import { SeekBar } from "./seek";
import { boundAt, fractionOf } from "./seek-place";
import { Upload } from "./upload-dialog";
import { hasOpenDialog, isTypingNow } from "./typing";

export default function Items(props: { segments: string[] }): JSX.Element {
  const [, db = "", coll = ""] = props.segments;
  const listing = createListing(db, coll);
  const definition = asked(() => readDefinition(db, coll));
  const partitions = asked(async () => {
    if (access() === "token") return [];
    return (await readReport(db, coll, "1m").catch(() => null))?.partitions ?? [];
  });
  const bounds = () => (partitions.value() ?? []).map(({ minInclusive }) => fractionOf(minInclusive)).slice(1);
  const [cursor, setCursor] = createSignal(-1);
  const [selected, setSelected] = createSignal<ReadonlySet<number>>(new Set());
  const [opened, setOpened] = createSignal<Opened | null>(null);
  const [dialog, setDialog] = createSignal<"upload" | "export" | "delete" | "filter" | null>(null);
  const state = createMemo(() => place().state);
  const keyPaths = () => definition.value()?.value.partitionKey.paths ?? [];
  /** Set where the container is an index: its items are the server's. */
  const source = () => definition.value()?.value.globalSecondaryIndexDefinition?.sourceCollectionId;
  const mayChange = () => mayWrite() && source() === undefined;
  const maySeek = () =>
    definition.value()?.value.partitionKey.version !== 1 &&
    !state()["key"] &&
    !state()["partition"] &&
    !state()["sort"];
  const wanted = createMemo(
    () => ({
      text: queryText(state()["filter"] ?? "", state()["sort"] ?? ""),
      scope: {
        key: readKey(state()["key"] ?? ""),
        range: state()["partition"] ?? null,
        from: maySeek() ? boundAt(Number(state()["at"] ?? "0")) : null,
      },
    }),
    undefined,
    { equals: (left, right) => JSON.stringify(left) === JSON.stringify(right) },
  );

  createEffect(
    on(wanted, (next) => {
      setCursor(-1);
      setSelected(new Set<number>());
      void listing.ask(next);
    }),
  );
  // The address names the open item.
  createEffect(() => {
    const [kind, , , tab, key, id] = place().segments;
    if (kind !== "c" || tab !== "items") return;
    if (key === undefined || id === undefined) return void setOpened((now) => (now?.isNew ? now : null));
    const now = untrack(opened);
    if (now && !now.isNew && now.key === key && now.id === id) return;
    const row = untrack(() => listing.rows()[cursor()]);
    const self = row && textMember(row, "id") === id ? textMember(row, "_self") : undefined;
    setOpened({ db, coll, key, id, self, isNew: false });
  });
  onCleanup(() => {
    listing.stop();
    guardLeaving(null);
  });

  const open = (row: number) => {
    const text = listing.rows()[row];
    const id = text === undefined ? undefined : textMember(text, "id");
    if (text === undefined || id === undefined) return;
    setCursor(row);
    go(["c", db, coll, "items", keyOf(text, keyPaths()), id], place().state);
  };
  const close = () => {
    setOpened(null);
    go(["c", db, coll, "items"], place().state);
  };
  const create = (text?: string) => {
    const template = text ?? newItemText(keyPaths());
    setOpened({ db, coll, key: "", id: "", self: undefined, isNew: true, text: template });
  };
  const select = (row: number, how: "toggle" | "extend") => {
    const next = new Set(selected());
    if (how === "extend" && cursor() >= 0) {
      for (let at = Math.min(cursor(), row); at <= Math.max(cursor(), row); at++) next.add(at);
    } else if (!next.delete(row)) next.add(row);
    setSelected(next);
  };
  const rowKeys = (event: KeyboardEvent) => {
    if (isTypingNow(event) || hasOpenDialog() || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = listing.rows()[cursor()];
    if (event.key === "n" && mayChange()) create();
    else if (event.key === "r") void listing.again();
    else if (event.key === "Delete" && mayChange() && (selected().size > 0 || row)) setDialog("delete");
    else if (event.key === "Escape" && opened()) close();
    else return;
    event.preventDefault();
  };
  addEventListener("keydown", rowKeys);
  onCleanup(() => removeEventListener("keydown", rowKeys));

  const columns = createMemo(() => columnsOf(listing.rows(), keyPaths()));
  const total = () => containers().find((row) => row.database === db && row.container === coll)?.items;
  const chosenRows = () => {
    const picked = selected().size > 0 ? [...selected()] : cursor() >= 0 ? [cursor()] : [];
    return picked.sort((left, right) => left - right);
  };

  return (
    <>
      <h1 class="hidden-label">Items of {coll}</h1>
      <Toolbar
        mayWrite={mayChange()}
        partitions={(partitions.value() ?? []).map(({ id }) => id)}
        onNew={() => create()}
        onUpload={() => setDialog("upload")}
        onExport={() => setDialog("export")}
        onAll={() => setDialog("filter")}
        onRefresh={() => void listing.again()}
      />
      <Show when={source()}>
        {(name) => (
          <div class="note fine">
            <span>
              An index of '<a href={pathOf(["c", db, name(), "items"])}>{name()}</a>': write there.
            </span>
          </div>
        )}
      </Show>
      <Show when={definition.error()}>
        {(error) => (
          <Failed failure={failureWords(`Opening ${coll}`, error())} onRetry={() => void definition.again()} />
        )}
      </Show>
      <Show when={listing.failure()}>
        {(error) => <Failed failure={failureWords("Reading items", error())} onRetry={() => void listing.again()} />}
      </Show>
      <Show when={listing.isLoading()}>
        <Loading
          words={`${integer(listing.rows().length)} items · ${ru(listing.charge())}${listing.waits() > 0 ? " · waits for throughput (429)" : ""}`}
          onStop={() => listing.stop()}
        />
      </Show>
      <div class="split" classList={{ single: opened() === null }}>
        <div class="column" classList={{ stale: listing.failure() !== null }}>
          <Show
            when={listing.rows().length > 0}
            fallback={
              <Nothing
                mayWrite={mayChange()}
                isSettled={!listing.isLoading() && listing.failure() === null}
                onNew={() => create()}
                onUpload={() => setDialog("upload")}
              />
            }
          >
            <ItemTable
              columns={columns()}
              sort={state()["sort"] ?? ""}
              onSort={(sort) => setState({ sort, at: "" })}
              rows={listing.rows()}
              wanted={wanted()}
              cursor={cursor()}
              selected={selected()}
              onCursor={setCursor}
              onOpen={open}
              onSelect={select}
              onNear={(last) => last > listing.rows().length - 30 && void listing.more()}
            />
          </Show>
          <Show when={maySeek() && (listing.rows().length > 0 || state()["at"])}>
            <SeekBar
              at={Number(state()["at"] ?? "0")}
              bounds={bounds()}
              onSeek={(at) => setState({ at: at === 0 ? "" : String(at) })}
            />
          </Show>
          <Foot
            mayWrite={mayChange()}
            count={listing.rows().length}
            total={state()["filter"] || state()["key"] || state()["partition"] || state()["at"] ? undefined : total()}
            isComplete={listing.isComplete()}
            isCut={listing.isCut()}
            selected={selected().size}
            charge={listing.charge()}
            query={wanted().text}
            onDelete={() => setDialog("delete")}
          />
        </div>
        <Show when={opened()} keyed>
          {(item) => (
            <Detail
              mayWrite={mayChange()}
              item={item}
              keyPaths={keyPaths()}
              onClose={close}
              onDuplicate={create}
              onDone={(what) => {
                if (what.kind === "saved") {
                  const at = listing
                    .rows()
                    .findIndex((row) => textMember(row, "_rid") === textMember(what.text, "_rid"));
                  if (at >= 0) listing.put(at, what.text);
                  else void listing.again();
                  go(
                    ["c", db, coll, "items", keyOf(what.text, keyPaths()), textMember(what.text, "id") ?? ""],
                    place().state,
                    { replace: true },
                  );
                } else {
                  void listing.again();
                  close();
                }
              }}
            />
          )}
        </Show>
      </div>
      <Show when={dialog() === "upload"}>
        <Upload
          db={db}
          coll={coll}
          keyPaths={keyPaths()}
          onClose={() => {
            setDialog(null);
            void listing.again();
          }}
        />
      </Show>
      <Show when={dialog() === "export"}>
        <Export
          db={db}
          coll={coll}
          wanted={wanted()}
          rows={selected().size > 0 ? chosenRows().map((at) => listing.rows()[at] ?? "") : null}
          onClose={() => setDialog(null)}
        />
      </Show>
      <Show when={dialog() === "filter" && mayChange()}>
        <ByFilter
          db={db}
          coll={coll}
          keyPaths={keyPaths()}
          filter={state()["filter"] ?? ""}
          scope={{ key: wanted().scope.key ?? null, range: wanted().scope.range ?? null }}
          onClose={(hasChanged) => {
            setDialog(null);
            if (hasChanged) void listing.again();
          }}
        />
      </Show>
      <Show when={dialog() === "delete" && mayChange()}>
        <DeleteMany
          db={db}
          coll={coll}
          keyPaths={keyPaths()}
          rows={chosenRows().map((at) => ({ at, text: listing.rows()[at] ?? "" }))}
          onGone={(gone) => {
            listing.drop(gone);
            setSelected(new Set<number>());
            setCursor(-1);
            close();
          }}
          onClose={() => setDialog(null)}
        />
      </Show>
    </>
  );
}

function newItemText(keyPaths: string[]): string {
  const names = keyPaths.filter((path) => path !== "/id" && path.lastIndexOf("/") === 0).map((path) => path.slice(1));
  const lines = [`  "id": "${crypto.randomUUID()}"`, ...names.map((name) => `  ${JSON.stringify(name)}: ""`)];
  return `{\n${lines.join(",\n")}\n}`;
}
