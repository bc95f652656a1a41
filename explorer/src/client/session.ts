// Who is signed in, and where that is remembered.
//
// A CryptoKey is kept in IndexedDB for twelve hours after its last use, so that a reload and other tabs work. A resource
// token is kept in memory only. Signing out deletes the key and tells all tabs.

import { drop, get, put } from "./store";

export type Credential = { kind: "key"; key: CryptoKey; isWellKnown: boolean } | { kind: "token"; token: string };

interface Kept {
  key: CryptoKey;
  isWellKnown: boolean;
  usedAt: number;
}

const KEPT_MS_MAX = 12 * 3600 * 1000;
const NAME = "credential";
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("shardlake-session");

let current: Credential | null = null;
let isKept = false;
let touchedAt = 0;
const listeners = new Set<() => void>();

export function credential(): Credential | null {
  return current;
}

/** Calls back when another tab has signed out. */
export function onSignedOut(listener: () => void): void {
  listeners.add(listener);
}

channel?.addEventListener("message", (event: MessageEvent<unknown>) => {
  if (event.data !== "signed-out" || !current) return;
  current = null;
  for (const listener of listeners) listener();
});

export async function recall(): Promise<Credential | null> {
  const kept = await get<Kept>("session", NAME);
  if (!kept) return null;
  if (Date.now() - kept.usedAt > KEPT_MS_MAX) {
    await drop("session", NAME);
    return null;
  }
  current = { kind: "key", key: kept.key, isWellKnown: kept.isWellKnown };
  isKept = true;
  return current;
}

export async function adopt(credential: Credential, options: { keep: boolean }): Promise<void> {
  current = credential;
  isKept = options.keep && credential.kind === "key";
  touchedAt = 0;
  await touch();
}

/** Notes the use of a kept key, once a minute at most. */
export async function touch(): Promise<void> {
  if (!isKept || current?.kind !== "key" || Date.now() - touchedAt < 60_000) return;
  touchedAt = Date.now();
  const kept: Kept = { key: current.key, isWellKnown: current.isWellKnown, usedAt: touchedAt };
  await put("session", NAME, kept);
}

/** Forgets a credential that the server has refused, here and in the store. */
export async function forget(): Promise<void> {
  current = null;
  isKept = false;
  await drop("session", NAME);
}

export async function signOut(): Promise<void> {
  await forget();
  channel?.postMessage("signed-out");
}
