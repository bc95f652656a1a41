// What the whole interface knows: who is signed in, what the server can do, which containers there are.

import { createSignal } from "solid-js";
import { asServerError, type ServerError } from "../client/failure";
import { onSpent, type Spent } from "../client/request";
import {
  listDatabases,
  readCaller,
  readContainers,
  readServer,
  type ContainerRow,
  type Finding,
  type ServerInfo,
} from "../client/account";
import { adopt, credential, forget, onSignedOut, recall, signOut, type Credential } from "../client/session";
import { importKey, WELL_KNOWN_KEY } from "../client/sign";

export type Phase = "starting" | "signed-out" | "ready";
export type Access = "full" | "readOnly" | "token";

export const [phase, setPhase] = createSignal<Phase>("starting");
export const [access, setAccess] = createSignal<Access>("full");
/** The resource token that signs only reads. */
export const [isReadToken, setReadToken] = createSignal(false);
export const [server, setServer] = createSignal<ServerInfo | null>(null);
export const [databases, setDatabases] = createSignal<string[]>([]);
export const [containers, setContainers] = createSignal<ContainerRow[]>([]);
export const [isUnlocked, setUnlocked] = createSignal(true);
export const [isAway, setAway] = createSignal(false);
/** The server refuses what it took before: it was started with other keys, or a token has run out. */
export const [isRefused, setRefused] = createSignal(false);
export const [spent, setSpent] = createSignal<Spent>({ requests: 0, ru: 0 });
export const [startProblem, setStartProblem] = createSignal<ServerError | null>(null);
/** By `database/container`, as far as somebody has looked. */
export const [findings, setFindings] = createSignal<ReadonlyMap<string, Finding[]>>(new Map());

/** Writing controls exist only while this holds. */
export const mayWrite = () => access() !== "readOnly" && !isReadToken() && isUnlocked();

export const offers = (feature: string): boolean => server()?.features.includes(feature) === true;

export const isLoopback = (): boolean =>
  /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(location.hostname);

export function signedInWords(): string {
  const who = credential();
  if (who?.kind === "token") return "resource token";
  if (access() === "readOnly") return "read-only key";
  return who?.isWellKnown ? "well-known key" : "read-write key";
}

export function noteFindings(db: string, coll: string, found: Finding[]): void {
  const next = new Map(findings());
  next.set(`${db}/${coll}`, found);
  setFindings(next);
}

onSpent((now) => setSpent({ ...now }));
onSignedOut(() => setPhase("signed-out"));

/** Signs in with what is remembered, else on this machine with the well-known key, else asks. */
export async function start(): Promise<void> {
  setStartProblem(null);
  if (await recall()) {
    if (await enter()) return;
  }
  if (phase() === "starting" && isLoopback()) {
    const key = await importKey(WELL_KNOWN_KEY);
    if (await signIn({ kind: "key", key, isWellKnown: true }, { keep: true }, { isQuiet: true })) return;
  }
  setPhase("signed-out");
}

export async function signIn(
  who: Credential,
  options: { keep: boolean },
  manner: { isQuiet: boolean } = { isQuiet: false },
): Promise<boolean> {
  await adopt(who, options);
  return enter(manner);
}

/** True when the server takes the credential, and everything that pages rest on is there. */
async function enter(manner: { isQuiet: boolean } = { isQuiet: false }): Promise<boolean> {
  try {
    const hasTree = credential()?.kind !== "token";
    const [caller, info] = await Promise.all([readCaller(), readServer(), hasTree ? readTree() : undefined]);
    setAccess(caller?.access ?? (credential()?.kind === "token" ? "token" : "full"));
    setReadToken(caller?.access === "token" && /^read$/i.test(caller.mode ?? ""));
    setServer(info);
    setUnlocked(isLoopback() && !info?.label);
    setPhase("ready");
    return true;
  } catch (failure) {
    const error = asServerError(failure);
    if (!manner.isQuiet || error.status !== 401) setStartProblem(error);
    if (error.status === 401 || error.status === 403) await forget();
    return false;
  }
}

export async function leave(): Promise<void> {
  await signOut();
  setRefused(false);
  setContainers([]);
  setPhase("signed-out");
}

/** Reads the list of containers; a server that is away keeps the old one on the screen. */
export async function refreshTree(): Promise<void> {
  if (access() !== "token") await readTree();
}

async function readTree(): Promise<void> {
  try {
    const [rows, names] = await Promise.all([readContainers(), listDatabases()]);
    setContainers(unchanged(containers(), rows));
    setDatabases(unchanged(databases(), names));
    setAway(false);
    setRefused(false);
  } catch (failure) {
    const { isAway: isGone, status } = asServerError(failure);
    setAway(isGone && phase() === "ready");
    setRefused(status === 401);
    if (!isAway()) throw failure;
  }
}

/** The list that is shown, where the new one says the same: then nothing on the screen is made anew. */
function unchanged<T>(shown: T[], next: T[]): T[] {
  return JSON.stringify(shown) === JSON.stringify(next) ? shown : next;
}
