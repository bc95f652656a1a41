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

export async function replaceOffer(offer: Offer, wanted: { throughput: number; isAutoscale: boolean }): Promise<void> {
  const document = JSON.parse(offer.text) as OfferDocument;
  const was = offer.autoscaleMax !== null;
  const headers: Record<string, string> = {};
  if (wanted.isAutoscale && !was) headers["x-ms-cosmos-migrate-offer-to-autopilot"] = "true";
  if (!wanted.isAutoscale && was) headers["x-ms-cosmos-migrate-offer-to-manual-throughput"] = "true";
  const content = wanted.isAutoscale
    ? { offerThroughput: -1, offerAutopilotSettings: { maxThroughput: wanted.throughput } }
    : { offerThroughput: wanted.throughput };
  const body = JSON.stringify({ ...document, content });
  const address = {
    path: `/offers/${encodeURIComponent(offer.rid)}`,
    resourceType: "offers",
    link: offer.rid.toLowerCase(),
  };
  await send({ method: "PUT", ...address, headers, body });
}
