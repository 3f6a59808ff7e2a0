/**
 * Encodes an object of the model as an API object that decodes to the same value.
 *
 * Each kind's encoder is next to its decoder. A new field of the model must be encoded to compile
 * (see `complete`).
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

/** Returns the API object. Parts that the decoder left out stay out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): Encoded {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS[kind](object) };
}
