// One item: read as it is stored, changed on purpose only, saved with the etag that was read.

import { createEffect, createSignal, onCleanup, onMount, Show, type JSX } from "solid-js";
import { createItem, deleteItem, readItem, replaceItem, textMember } from "../../client/endpoints";
import { asServerError } from "../../client/failure";
import { pretty } from "../../client/json";
import { check, type Remark } from "../../client/json-check";
import { keyOf } from "../../client/key";
import { drop, get, put } from "../../client/store";
import type { Editor } from "../../editor/setup";
import { Confirm } from "../../kit/dialog";
import { Icon } from "../../kit/icons";
import { Loading } from "../../kit/loading";
import { Failed } from "../../kit/pane";
import { guardLeaving, pathOf } from "../../kit/router";
import { TextEditor } from "../../parts/text-editor";
import { failureWords } from "../../state/words";
import { Conflict } from "./conflict";
import { ConfirmMove, DetailFoot, DraftNote } from "./detail-foot";
import { Remarks } from "./remarks";
import { SaveAsPatch } from "./save-as-patch";
import { withoutSystem } from "./system-members";
import { hasOpenDialog, isTypingNow } from "./typing";

export interface Opened {
  db: string;
  coll: string;
  key: string;
  id: string;
  self: string | undefined;
  isNew: boolean;
  text?: string;
}

export type Done = { kind: "saved"; text: string } | { kind: "deleted" };

interface DetailProps {
  mayWrite: boolean;
  item: Opened;
  keyPaths: string[];
  onClose: () => void;
  onDuplicate: (text: string) => void;
  onDone: (what: Done) => void;
}

const CHECK_AFTER_MS = 300;
const LOOK_EVERY_MS = 30_000;

export function Detail(props: DetailProps): JSX.Element {
  const { item } = props;
  const [base, setBase] = createSignal(item.text ?? "");
  const [etag, setEtag] = createSignal("");
  const [text, setText] = createSignal(item.isNew ? (item.text ?? "") : "");
  const [isEditing, setEditing] = createSignal(item.isNew);
  const [isDirty, setDirty] = createSignal(false);
  const [isBusy, setBusy] = createSignal(!item.isNew);
  const [failure, setFailure] = createSignal<{ what: string; error: unknown } | null>(null);
  const [remarks, setRemarks] = createSignal<Remark[]>([]);
  const [charge, setCharge] = createSignal(0);
  const [theirs, setTheirs] = createSignal<{ text: string; etag: string } | null>(null);
  const [isNewer, setNewer] = createSignal(false);
  const [isDeleting, setDeleting] = createSignal(false);
  const [isMoving, setMoving] = createSignal(false);
  const [patched, setPatched] = createSignal<string | null>(null);
  const [draft, setDraft] = createSignal<string | null>(null);
  let editor = null as Editor | null;
  let checking: ReturnType<typeof setTimeout> | undefined;
  /** What was typed and is not kept as a draft yet. */
  let typed: (() => string) | null = null;
  const draftName = () => `${location.origin} ${JSON.stringify([item.db, item.coll, item.key, item.id])}`;

  /** Also before there is an editor, and where the editor has another text than was last told to it. */
  const show = (next: string) => {
    setText(next);
    editor?.setText(next);
  };
  const load = async () => {
    setBusy(true);
    try {
      const reply = await readItem(item);
      setBase(reply.text);
      setText(pretty(reply.text));
      setEtag(reply.header("etag") ?? textMember(reply.text, "_etag") ?? "");
      setCharge(reply.charge);
      setDirty(false);
      setNewer(false);
      setFailure(null);
    } catch (error) {
      setFailure({ what: `Reading item ${item.id}`, error });
    }
    setBusy(false);
  };
  onMount(async () => {
    if (!item.isNew) await load();
    const kept = await get<string>("drafts", draftName());
    if (kept && kept !== text() && props.mayWrite) setDraft(kept);
    else if (item.isNew) setDirty(true);
  });

  const onChange = (read: () => string) => {
    if (!isEditing()) return;
    setDirty(true);
    typed = read;
    clearTimeout(checking);
    checking = setTimeout(() => {
      setRemarks(check(read()));
      keepDraft();
    }, CHECK_AFTER_MS);
  };
  const keepDraft = () => {
    if (typed && isDirty() && isEditing()) void put("drafts", draftName(), typed());
    typed = null;
  };
  const leaveQuietly = () =>
    !isEditing() || !isDirty() || confirm("The item has changes that are not saved. Leave them? A draft is kept.");
  guardLeaving(leaveQuietly);
  onCleanup(() => {
    clearTimeout(checking);
    // The browser's own buttons do not ask, so that nothing typed may be lost by them.
    keepDraft();
    guardLeaving(null);
  });

  // While a draft is open, somebody else's change is noticed early.
  createEffect(() => {
    if (!isEditing() || item.isNew) return;
    const look = async () => {
      if (document.visibilityState === "hidden" || etag() === "") return;
      const reply = await readItem(item, { "if-none-match": etag() }).catch(() => null);
      if (reply?.status === 200) setNewer(true);
    };
    const timer = setInterval(() => void look(), LOOK_EVERY_MS);
    const onFocus = () => void look();
    addEventListener("focus", onFocus);
    onCleanup(() => {
      clearInterval(timer);
      removeEventListener("focus", onFocus);
    });
  });

  const settle = async (saved: string, newEtag: string) => {
    await drop("drafts", draftName());
    setDirty(false);
    setEditing(false);
    setBase(saved);
    setText(pretty(saved));
    setEtag(newEtag);
    setTheirs(null);
    setNewer(false);
    props.onDone({ kind: "saved", text: saved });
  };

  const save = async (body: string = editor?.text() ?? text(), condition: string = etag()) => {
    if (isBusy()) return;
    const found = check(body);
    setRemarks(found);
    const mistake = found.find(({ isError }) => isError);
    if (mistake) return editor?.goTo(mistake.at);
    const key = keyOf(body, props.keyPaths);
    if (!item.isNew && key !== item.key && !isMoving()) return void setMoving(true);
    setBusy(true);
    setFailure(null);
    try {
      const reply =
        item.isNew || isMoving()
          ? await createItem(item.db, item.coll, key, withoutSystem(body))
          : await replaceItem(item, body, condition);
      if (isMoving()) await deleteItem(item, condition);
      setCharge(reply.charge);
      setMoving(false);
      await settle(reply.text, reply.header("etag") ?? "");
    } catch (error) {
      if (asServerError(error).status === 412) await meet();
      else setFailure({ what: item.isNew ? "Creating the item" : "Saving the item", error });
    }
    setBusy(false);
  };
  /** Somebody was faster: both versions are shown, or that it is gone. */
  const meet = async () => {
    try {
      const now = await readItem(item);
      setTheirs({ text: now.text, etag: now.header("etag") ?? "" });
    } catch (error) {
      setFailure({ what: "The item was changed or deleted meanwhile; reading it", error });
    }
  };
  const remove = async () => {
    setDeleting(false);
    try {
      await deleteItem(item, etag());
      await drop("drafts", draftName());
      setDirty(false);
      props.onDone({ kind: "deleted" });
    } catch (error) {
      setFailure({ what: "Deleting the item", error });
    }
  };
  const beginPatch = () => {
    const edited = editor?.text() ?? text();
    const found = check(edited);
    setRemarks(found);
    const mistake = found.find(({ isError }) => isError);
    if (mistake) editor?.goTo(mistake.at);
    else setPatched(edited);
  };
  const beginEdit = () => {
    setEditing(true);
    editor?.view.focus();
  };
  const cancel = () => {
    if (!leaveQuietly()) return;
    setDirty(false);
    if (item.isNew) return props.onClose();
    setEditing(false);
    show(pretty(base()));
    setRemarks([]);
    void drop("drafts", draftName());
  };
  const duplicate = () => props.onDuplicate(pretty(withoutSystem(base())));

  const onKey = (event: KeyboardEvent) => {
    if (hasOpenDialog()) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      if (isEditing()) void save();
      return;
    }
    if (isTypingNow(event) || event.ctrlKey || event.metaKey || event.altKey || !props.mayWrite || item.isNew) return;
    if (event.key === "e" && !isEditing()) beginEdit();
    else if (event.key === "d" && !isEditing()) duplicate();
    else return;
    event.preventDefault();
  };
  addEventListener("keydown", onKey);
  onCleanup(() => removeEventListener("keydown", onKey));

  return (
    <section class="side" aria-label={item.isNew ? "New item" : `Item ${item.id}`}>
      <div class="toolbar">
        <b class="item-title mono" title={`${item.key} ${item.id}`}>
          {item.isNew ? "New item" : item.id}
        </b>
        <Show when={!item.isNew}>
          <a
            class="dim mono item-key"
            href={`${pathOf(["c", item.db, item.coll, "items"])}#key=${encodeURIComponent(item.key)}`}
            title="items of this key"
          >
            {item.key}
          </a>
        </Show>
        <span class="spacer" />
        <Show when={props.mayWrite && !isEditing() && base() !== ""}>
          <button type="button" onClick={beginEdit} title="Edit (e)">
            <Icon name="edit" /> Edit
          </button>
          <button
            type="button"
            class="plain square"
            onClick={duplicate}
            aria-label="Duplicate item"
            title="Duplicate (d)"
          >
            <Icon name="copy" />
          </button>
          <button
            type="button"
            class="plain square"
            aria-label="Delete item"
            title="Delete"
            onClick={() => setDeleting(true)}
          >
            <Icon name="trash" />
          </button>
        </Show>
        <Show when={isEditing()}>
          <button
            type="button"
            class="primary"
            disabled={isBusy() || !isDirty()}
            onClick={() => void save()}
            title="Save (Ctrl S)"
          >
            Save
          </button>
          <Show when={!item.isNew}>
            <button
              type="button"
              disabled={isBusy() || !isDirty()}
              onClick={beginPatch}
              title="Send the difference and not the item"
            >
              As patch…
            </button>
          </Show>
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        </Show>
        <button type="button" class="plain square" aria-label="Close item" onClick={() => props.onClose()}>
          <Icon name="close" />
        </button>
      </div>
      <Show when={draft()}>
        {(kept) => (
          <DraftNote
            onRestore={() => {
              setEditing(true);
              show(kept());
              setDirty(true);
              setDraft(null);
            }}
            onDrop={() => {
              void drop("drafts", draftName());
              setDraft(null);
            }}
          />
        )}
      </Show>
      <Show when={isNewer()}>
        <div class="note" role="status">
          Somebody changed this item since you read it. Saving opens a merge.
        </div>
      </Show>
      <Show when={failure()}>{(found) => <Failed failure={failureWords(found().what, found().error)} />}</Show>
      <Show when={isBusy()}>
        <Loading words="Waiting for the server" />
      </Show>
      <Show when={text() !== ""}>
        <TextEditor
          text={text()}
          label={item.isNew ? "Text of the new item" : `Text of item ${item.id}`}
          language="json"
          isReadOnly={!isEditing()}
          onChange={onChange}
          onReady={(ready) => {
            editor = ready;
            if (isEditing()) ready.view.focus();
          }}
          marks={remarks().map(({ at, end, isError }) => ({ from: at, to: end, isError }))}
        />
      </Show>
      <Remarks
        remarks={remarks()}
        onGo={(at) => editor?.goTo(at)}
        lineOf={(at) => editor?.view.state.doc.lineAt(Math.min(at, editor.view.state.doc.length)).number ?? 1}
      />
      <DetailFoot
        etag={etag()}
        sizeBytes={base() && !item.isNew ? new Blob([base()]).size : null}
        charge={charge()}
        isUnsaved={isDirty() && isEditing()}
      />
      <Show when={isDeleting()}>
        <Confirm
          title="Delete this item?"
          action="Delete"
          onConfirm={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p>
            Item <b class="mono">{item.id}</b> of key <span class="mono">{item.key}</span> in {item.coll} goes for good,
            if nobody has changed it since you read it.
          </p>
        </Confirm>
      </Show>
      <Show when={patched()}>
        {(edited) => (
          <SaveAsPatch
            item={item}
            stored={base()}
            edited={edited()}
            etag={etag()}
            onSaved={(reply) => {
              setPatched(null);
              setCharge(reply.charge);
              void settle(reply.text, reply.header("etag") ?? "");
            }}
            onFailed={(error) => {
              setPatched(null);
              if (asServerError(error).status === 412) void meet();
              else setFailure({ what: "Patching the item", error });
            }}
            onClose={() => setPatched(null)}
          />
        )}
      </Show>
      <Show when={isMoving() && !isBusy()}>
        <ConfirmMove
          from={item.key}
          to={keyOf(editor?.text() ?? "{}", props.keyPaths)}
          onConfirm={() => void save()}
          onClose={() => setMoving(false)}
        />
      </Show>
      <Show when={theirs()}>
        {(now) => (
          <Conflict
            base={base()}
            mine={editor?.text() ?? text()}
            theirs={now().text}
            onSave={(merged) => {
              const { etag: condition } = now();
              setTheirs(null);
              void save(merged, condition);
            }}
            onTake={() => {
              const { text: taken, etag: newest } = now();
              setTheirs(null);
              void settle(taken, newest);
            }}
            onClose={() => setTheirs(null)}
          />
        )}
      </Show>
    </section>
  );
}
