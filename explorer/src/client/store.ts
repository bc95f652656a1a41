// IndexedDB as four small maps: the session, drafts of edited items, the history of queries, and saved queries.
//
// A browser that refuses IndexedDB (private windows of some) makes this forgetful and nothing else.

export type Area = "session" | "drafts" | "history" | "saved";
const AREAS: Area[] = ["session", "drafts", "history", "saved"];

let opening: Promise<IDBDatabase | null> | null = null;

function open(): Promise<IDBDatabase | null> {
  opening ??= new Promise((resolve) => {
    if (typeof indexedDB === "undefined") return resolve(null);
    const request = indexedDB.open("shardlake-explorer", 2);
    request.onupgradeneeded = () => {
      for (const area of AREAS) {
        if (!request.result.objectStoreNames.contains(area)) request.result.createObjectStore(area);
      }
    };
    request.onsuccess = () => {
      // A tab with a later version must not wait for this one.
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
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
