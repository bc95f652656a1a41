// IndexedDB as three small maps: the session, drafts of edited items, and the history of queries.
//
// A browser that refuses IndexedDB (private windows of some) makes this forgetful and nothing else.

export type Area = "session" | "drafts" | "history";
const AREAS: Area[] = ["session", "drafts", "history"];

let opening: Promise<IDBDatabase | null> | null = null;

function open(): Promise<IDBDatabase | null> {
  opening ??= new Promise((resolve) => {
    if (typeof indexedDB === "undefined") return resolve(null);
    const request = indexedDB.open("shardlake-explorer", 1);
    request.onupgradeneeded = () => {
      for (const area of AREAS) request.result.createObjectStore(area);
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
    request.onblocked = () => resolve(null);
  });
  return opening;
}

async function run<T>(
  area: Area,
  mode: IDBTransactionMode,
  ask: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T | undefined> {
  const database = await open();
  if (!database) return undefined;
  return new Promise((resolve) => {
    const request = ask(database.transaction(area, mode).objectStore(area));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(undefined);
  });
}

export async function get<T>(area: Area, name: string): Promise<T | undefined> {
  return run<T>(area, "readonly", (store) => store.get(name) as IDBRequest<T>);
}

export async function put(area: Area, name: string, value: unknown): Promise<void> {
  await run(area, "readwrite", (store) => store.put(value, name));
}

export async function drop(area: Area, name: string): Promise<void> {
  await run(area, "readwrite", (store) => store.delete(name));
}

export async function clear(area: Area): Promise<void> {
  await run(area, "readwrite", (store) => store.clear());
}
