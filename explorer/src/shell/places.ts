// Which pages there are. A page whose data the server does not offer has no entry anywhere.

import { access, offers, server } from "../state/account";

export interface PlaceEntry {
  id: string;
  name: string;
  letter: string;
}

export function mainPlaces(): PlaceEntry[] {
  const places: PlaceEntry[] = [{ id: "home", name: "Home", letter: "h" }];
  if (access() === "token") return places;
  places.push({ id: "copies", name: "Copies", letter: "j" });
  if (offers("analytics")) places.push({ id: "sql", name: "SQL", letter: "l" });
  if (server()) places.push({ id: "operations", name: "Operations", letter: "o" });
  return places;
}

export function containerTabs(): PlaceEntry[] {
  const tabs: PlaceEntry[] = [
    { id: "items", name: "Items", letter: "i" },
    { id: "query", name: "Query", letter: "q" },
    { id: "partitions", name: "Partitions", letter: "p" },
    { id: "feed", name: "Feed", letter: "f" },
    { id: "scripts", name: "Scripts", letter: "s" },
    { id: "settings", name: "Settings", letter: "t" },
  ];
  if (access() === "token") return tabs.filter((tab) => !["partitions", "settings"].includes(tab.id));
  if (offers("analytics")) tabs.splice(-1, 0, { id: "analytics", name: "Analytics", letter: "a" });
  return tabs;
}
