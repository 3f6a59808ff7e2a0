/**
 * From what signpost keeps of an object to an API object that the decoder reads as the same.
 *
 * The encoder of each kind stands beside its decoder. A field that the model gains must be written there
 * to compile (see `complete`).
 *
 * @module
 */
import type { Kind, KindMap } from "../../model/cluster/objects.ts";
import { encodeEndpointSlice } from "./endpoint_slice.ts";
import { API_VERSION } from "./kinds.ts";
import { encodeNode, encodeServiceCIDR } from "./node.ts";
import { encodeService } from "./service.ts";
import type { Encoded } from "./write.ts";

type Encoders = { readonly [K in Kind]: (object: KindMap[K]) => Encoded };

const ENCODERS: Encoders = {
  Service: encodeService,
  EndpointSlice: encodeEndpointSlice,
  Node: encodeNode,
  ServiceCIDR: encodeServiceCIDR,
};

/** The API object; what was left out of it when it was decoded stays out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): Encoded {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS[kind](object) };
}
