// The dialog of an upload: file, mode, true progress, pause, and a file of what failed.

import { createSignal, For, Show, type JSX } from "solid-js";
import { Dialog } from "../../kit/dialog";
import { saveText } from "../../kit/save";
import { integer, percent, plural } from "../../kit/format";
import { isCsv } from "./file-texts";
import { createUpload } from "./upload";

interface UploadProps {
  db: string;
  coll: string;
  keyPaths: string[];
  onClose: () => void;
}

export function Upload(props: UploadProps): JSX.Element {
  const [file, setFile] = createSignal<File | null>(null);
  const [kind, setKind] = createSignal<"Create" | "Upsert">("Upsert");
  const [isTyped, setTyped] = createSignal(true);
  const [upload, setUpload] = createSignal<ReturnType<typeof createUpload> | null>(null);
  const begin = (event: SubmitEvent) => {
    event.preventDefault();
    const chosen = file();
    if (!chosen) return;
    const { db, coll, keyPaths } = props;
    const next = createUpload({ db, coll, keyPaths, kind: kind(), typed: isTyped() });
    setUpload(next);
    void next.run(chosen);
  };
  const close = () => {
    upload()?.stop();
    props.onClose();
  };
  return (
    <Dialog title={`Upload to ${props.coll}`} onClose={close}>
      <Show
        when={upload()}
        fallback={
          <form onSubmit={begin}>
            <div class="field">
              <label for="upload-file">
                File with one JSON item after another, a JSON array, or CSV with names in its first row
              </label>
              <input
                id="upload-file"
                type="file"
                accept=".json,.jsonl,.ndjson,.csv,application/json,text/csv"
                required
                onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)}
              />
            </div>
            <Show when={isCsv(file()?.name ?? "")}>
              <label>
                <input
                  type="checkbox"
                  checked={isTyped()}
                  onChange={(event) => setTyped(event.currentTarget.checked)}
                />{" "}
                cells that look like numbers, true, false, null, objects or arrays are such; else all are texts
              </label>
            </Show>
            <fieldset class="row">
              <legend class="hidden-label">Items that are there already</legend>
              <label>
                <input type="radio" name="kind" checked={kind() === "Upsert"} onChange={() => setKind("Upsert")} />{" "}
                replace items that are there
              </label>
              <label>
                <input type="radio" name="kind" checked={kind() === "Create"} onChange={() => setKind("Create")} />{" "}
                create only
              </label>
            </fieldset>
            <p class="dim">
              Sent in bulk at low priority: other requests go first, and refusals for want of throughput are waited out.
            </p>
            <div class="actions">
              <button type="button" onClick={close}>
                Cancel
              </button>
              <button type="submit" class="primary" disabled={!file()}>
                Upload
              </button>
            </div>
          </form>
        }
      >
        {(running) => <Progress upload={running()} name={file()?.name ?? ""} onClose={close} />}
      </Show>
    </Dialog>
  );
}

const STATUS_WORDS = { ready: "begins", running: "uploading", paused: "paused", stopped: "stopped", done: "done" };

function Progress(props: { upload: ReturnType<typeof createUpload>; name: string; onClose: () => void }): JSX.Element {
  const { upload } = props;
  const failedText = () =>
    upload
      .failures()
      .map(({ place, reason, text }) => JSON.stringify({ place, reason, text }))
      .join("\n");
  return (
    <div>
      <progress max="1" value={upload.share()} aria-label={`Upload of ${props.name}`} />
      <p role="status">
        {STATUS_WORDS[upload.status()]} · {percent(upload.share())} of {props.name} · {integer(upload.stored())} stored
        <Show when={upload.throttled() > 0}> · {plural(upload.throttled(), "operation")} waited for throughput</Show>
      </p>
      <Show when={upload.failures().length > 0}>
        <p class="bad">{plural(upload.failures().length, "item")} failed:</p>
        <ul class="reasons">
          <For each={upload.failures().slice(0, 5)}>
            {({ place, reason }) => (
              <li>
                item {place}: {reason}
              </li>
            )}
          </For>
        </ul>
        <button type="button" onClick={() => void saveText("failed.jsonl", failedText())}>
          Save the list
        </button>
      </Show>
      <div class="actions">
        <Show when={upload.status() === "running"}>
          <button type="button" onClick={() => upload.pause()}>
            Pause
          </button>
        </Show>
        <Show when={upload.status() === "paused"}>
          <button type="button" class="primary" onClick={() => upload.resume()}>
            Resume
          </button>
        </Show>
        <button type="button" onClick={() => props.onClose()}>
          {upload.status() === "done" || upload.status() === "stopped" ? "Close" : "Stop"}
        </button>
      </div>
    </div>
  );
}
