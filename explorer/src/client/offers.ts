// Throughput of a container, as the protocol keeps it: an offer, manual or autoscale.

import { send } from "./request";
import { feed } from "./names";

export interface Offer {
  rid: string;
  text: string;
  throughput: number;
  autoscaleMax: number | null;
  minimum: number;
  isPending: boolean;
}

interface OfferDocument {
  _rid: string;
  offerResourceId: string;
  content: {
    offerThroughput: number;
    offerAutopilotSettings?: { maxThroughput: number } | null;
    offerMinimumThroughputParameters?: { maxThroughputEverProvisioned: number };
    isOfferReplacePending?: boolean;
  };
}

/** The offer of a resource id, or nothing where the database's throughput is shared. */
export async function readOffer(rid: string): Promise<Offer | null> {
  const reply = await send({ method: "GET", ...feed("offers", []) });
  const { Offers } = JSON.parse(reply.text) as { Offers: OfferDocument[] };
  const found = Offers.find(({ offerResourceId }) => offerResourceId === rid);
  if (!found) return null;
  const { content } = found;
  const ever = content.offerMinimumThroughputParameters?.maxThroughputEverProvisioned ?? 0;
  return {
    rid: found._rid,
    text: JSON.stringify(found),
    throughput: content.offerThroughput,
    autoscaleMax: content.offerAutopilotSettings?.maxThroughput ?? null,
    minimum: Math.max(400, Math.ceil(ever / 100 / 100) * 100),
    isPending: content.isOfferReplacePending === true,
  };
}

/**
 * A change between manual and autoscale is a request of its own: its content has no settings, and the server chooses the number. Another number
 * is set afterwards.
 */
export async function replaceOffer(offer: Offer, wanted: { throughput: number; isAutoscale: boolean }): Promise<void> {
  let document = JSON.parse(offer.text) as OfferDocument;
  if (wanted.isAutoscale !== (offer.autoscaleMax !== null)) {
    const to = wanted.isAutoscale ? "autopilot" : "manual-throughput";
    const content = { offerThroughput: offer.throughput };
    document = await put(offer.rid, { ...document, content }, { [`x-ms-cosmos-migrate-offer-to-${to}`]: "true" });
    const number = document.content.offerAutopilotSettings?.maxThroughput ?? document.content.offerThroughput;
    if (number === wanted.throughput) return;
  }
  const content = wanted.isAutoscale
    ? { offerAutopilotSettings: { maxThroughput: wanted.throughput } }
    : { offerThroughput: wanted.throughput };
  await put(offer.rid, { ...document, content }, {});
}

async function put(rid: string, document: object, headers: Record<string, string>): Promise<OfferDocument> {
  const address = { path: `/offers/${encodeURIComponent(rid)}`, resourceType: "offers", link: rid.toLowerCase() };
  const reply = await send({ method: "PUT", ...address, headers, body: JSON.stringify(document) });
  return JSON.parse(reply.text) as OfferDocument;
}
