// Where things are: paths for the request line, and links for the signature.
//
// A resource is addressed by names; an item whose id a browser would swallow in a path (`.` and `..`) by its resource ids.

export interface Address {
  path: string;
  resourceType: string;
  link: string;
}

const encode = encodeURIComponent;

export function feed(kind: string, parent: string[]): Address {
  const link = parent.join("/");
  const path = [...parent.map(encode), kind].join("/");
  return { path: `/${path}`, resourceType: kind, link };
}

export function resource(segments: string[]): Address {
  const resourceType = segments[segments.length - 2] ?? "";
  return { path: `/${segments.map(encode).join("/")}`, resourceType, link: segments.join("/") };
}

export const container = (db: string, coll: string): string[] => ["dbs", db, "colls", coll];

/** An item by its id, or by its `_self` where the id would not survive a browser. */
export function item(db: string, coll: string, id: string, self: string | undefined): Address {
  const isSwallowed = id === "." || id === "..";
  if (!isSwallowed || !self) return resource([...container(db, coll), "docs", id]);
  const segments = self.split("/").filter((segment) => segment !== "");
  const rid = segments[segments.length - 1] ?? "";
  return { path: `/${segments.map(encode).join("/")}`, resourceType: "docs", link: rid.toLowerCase() };
}

/** A path of the operator's interface; `query` comes with its question mark. */
export function operator(rest: string, query = ""): Address {
  const link = `_shardlake/v1/${rest}`;
  return { path: `/${link}${query}`, resourceType: "shardlake", link };
}

export function operatorOf(db: string, coll: string, rest: string, query = ""): Address {
  return operator(`dbs/${encode(db)}/colls/${encode(coll)}/${rest}`, query);
}
