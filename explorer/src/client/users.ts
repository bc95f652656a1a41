// Users of a database, their permissions, and tokens for these.

import { send, type Reply } from "./request";
import { feed, resource } from "./names";

export interface Permission {
  id: string;
  permissionMode: string;
  resource: string;
  resourcePartitionKey?: unknown;
  _token: string;
}

export async function readUsers(db: string): Promise<string[]> {
  const reply = await send({ method: "GET", ...feed("users", ["dbs", db]) });
  return (JSON.parse(reply.text) as { Users: { id: string }[] }).Users.map(({ id }) => id);
}

export const createUser = (db: string, id: string): Promise<Reply> =>
  send({ method: "POST", ...feed("users", ["dbs", db]), body: JSON.stringify({ id }) });
export const deleteUser = (db: string, id: string): Promise<Reply> =>
  send({ method: "DELETE", ...resource(["dbs", db, "users", id]) });

export async function readPermissions(db: string, user: string): Promise<Permission[]> {
  const reply = await send({ method: "GET", ...feed("permissions", ["dbs", db, "users", user]) });
  return (JSON.parse(reply.text) as { Permissions: Permission[] }).Permissions;
}

export interface Wanted {
  id: string;
  permissionMode: string;
  resource: string;
  key: string | null;
  seconds: number;
}

export async function createPermission(db: string, user: string, wanted: Wanted): Promise<Permission> {
  const { id, permissionMode, resource: reached, key, seconds } = wanted;
  const parts = [
    `"id":${JSON.stringify(id)}`,
    `"permissionMode":${JSON.stringify(permissionMode)}`,
    `"resource":${JSON.stringify(reached)}`,
  ];
  if (key) parts.push(`"resourcePartitionKey":${key}`);
  const headers = { "x-ms-documentdb-expiry-seconds": String(seconds) };
  const reply = await send({
    method: "POST",
    ...feed("permissions", ["dbs", db, "users", user]),
    headers,
    body: `{${parts.join(",")}}`,
  });
  return JSON.parse(reply.text) as Permission;
}

export async function newToken(db: string, user: string, id: string, seconds: number): Promise<string> {
  const headers = { "x-ms-documentdb-expiry-seconds": String(seconds) };
  const reply = await send({ method: "GET", ...resource(["dbs", db, "users", user, "permissions", id]), headers });
  return (JSON.parse(reply.text) as Permission)._token;
}

export const deletePermission = (db: string, user: string, id: string): Promise<Reply> =>
  send({ method: "DELETE", ...resource(["dbs", db, "users", user, "permissions", id]) });
