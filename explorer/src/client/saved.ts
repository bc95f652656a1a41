// Saved queries as a file that people move between browsers: read with suspicion.

export interface SavedQuery {
  name: string;
  text: string;
}

export function readSaved(text: string): SavedQuery[] {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error("this file is no JSON");
  }
  const isQuery = (one: unknown): one is SavedQuery =>
    typeof one === "object" &&
    one !== null &&
    typeof (one as SavedQuery).name === "string" &&
    typeof (one as SavedQuery).text === "string" &&
    (one as SavedQuery).name.trim() !== "";
  if (!Array.isArray(found) || !found.every(isQuery)) {
    throw new Error("this file has no list of queries, each with a name and a text");
  }
  return found.map(({ name, text: query }) => ({ name: name.slice(0, 120), text: query }));
}
