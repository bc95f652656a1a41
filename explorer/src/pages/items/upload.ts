// Uploading a file of items: in bulk, at low priority, waiting as 429 says, with a pause and a list of what failed.
//
// The file is read as a stream, line by line or element by element, so it may be larger than memory. Items go as the
// texts they are.

import { createSignal } from "solid-js";
import { bulk, textMember } from "../../client/endpoints";
import { asServerError } from "../../client/failure";
import { check } from "../../client/json-check";
import { keyOf } from "../../client/key";
import { csvTexts, isCsv, jsonTexts, type FileText } from "./file-texts";

const BATCH_ITEMS = 200;
const BATCH_CHARACTERS = 1_000_000;
const FAILURES_MAX = 10_000;
const AWAY_WAIT_MS = 2_000;

export interface FailedItem {
  /** The item's place in the file, from 1. */
  place: number;
  reason: string;
  text: string;
}

type Numbered = { place: number; text: string };

export interface UploadOptions {
  db: string;
  coll: string;
  keyPaths: string[];
  kind: "Create" | "Upsert";
  /** Of a CSV file: cells that look like JSON are JSON. */
  typed: boolean;
}

export function createUpload(options: UploadOptions) {
  const [read, setRead] = createSignal(0);
  const [stored, setStored] = createSignal(0);
  const [share, setShare] = createSignal(0);
  const [throttled, setThrottled] = createSignal(0);
  const [failures, setFailures] = createSignal<FailedItem[]>([]);
  const [status, setStatus] = createSignal<"ready" | "running" | "paused" | "stopped" | "done">("ready");
  let resume: (() => void) | null = null;

  const fail = (item: Numbered, reason: string) => {
    if (failures().length < FAILURES_MAX) setFailures([...failures(), { ...item, reason }]);
  };
  /** Resolves when uploading may go on; false when it was stopped. */
  const mayGoOn = async (): Promise<boolean> => {
    while (status() === "paused") await new Promise<void>((resolve) => (resume = resolve));
    return status() === "running";
  };
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  const sendBatch = async (batch: Numbered[]): Promise<void> => {
    let waiting = batch;
    while (waiting.length > 0 && (await mayGoOn())) {
      const operations = waiting.map(({ text }) => ({
        kind: options.kind,
        key: keyOf(text, options.keyPaths),
        item: text,
      }));
      const results = await bulk(options.db, options.coll, operations).catch((error: unknown) => asServerError(error));
      if (!Array.isArray(results)) {
        if (!results.isAway && results.status !== 429) return waiting.forEach((item) => fail(item, results.message));
        await wait(results.retryAfterMs || AWAY_WAIT_MS);
        continue;
      }
      const again: Numbered[] = [];
      let waitMs = 0;
      let storedNow = 0;
      results.forEach((result, at) => {
        const item = waiting[at];
        if (!item) return;
        if (result.status < 300) storedNow += 1;
        else if (result.status === 429 || result.status === 424) {
          again.push(item);
          waitMs = Math.max(waitMs, result.retryAfterMs, 20);
        } else fail(item, result.message || reasonOf(result.status));
      });
      setStored(stored() + storedNow);
      if (again.length > 0) {
        setThrottled(throttled() + again.length);
        await wait(waitMs);
      }
      waiting = again;
    }
  };

  return {
    read,
    stored,
    share,
    throttled,
    failures,
    status,
    pause: () => setStatus("paused"),
    resume: () => {
      setStatus("running");
      resume?.();
    },
    stop: () => {
      setStatus("stopped");
      resume?.();
    },
    async run(file: File): Promise<void> {
      setStatus("running");
      let batch: Numbered[] = [];
      let size = 0;
      const flush = async () => {
        if (batch.length > 0) await sendBatch(batch);
        batch = [];
        size = 0;
      };
      const texts = isCsv(file.name) ? csvTexts(file, { typed: options.typed }) : jsonTexts(file);
      for (;;) {
        const next = await texts.next().catch((error: unknown) => error);
        if (next instanceof Error) {
          fail({ place: read() + 1, text: "" }, `the file cannot be read on: ${next.message}`);
          break;
        }
        const { value, done } = next as IteratorResult<FileText, undefined>;
        if (done || !(await mayGoOn())) break;
        const { text, share: place } = value;
        const item = { place: read() + 1, text };
        setRead(read() + 1);
        const mistake = check(text).find(({ isError }) => isError);
        if (mistake || text[0] !== "{") fail(item, mistake?.words ?? "it is no JSON object");
        else {
          const withId = textMember(text, "id") === undefined ? addId(text) : text;
          if (size + withId.length > BATCH_CHARACTERS || batch.length >= BATCH_ITEMS) await flush();
          batch.push({ ...item, text: withId });
          size += withId.length;
        }
        setShare(place);
      }
      await flush();
      if (status() !== "stopped") {
        setShare(1);
        setStatus("done");
      }
    },
  };
}

function reasonOf(status: number): string {
  return status === 409 ? "an item of this id and key is there already" : `status ${status}`;
}

function addId(text: string): string {
  const rest = text.slice(1).trimStart();
  return `{"id":"${crypto.randomUUID()}"${rest.startsWith("}") ? "" : ","}${rest}`;
}
