/** Decodes an API object from JSON into the model, or returns the reason to refuse it. */
import type {
  Decoded,
  Decoder,
  EndpointPort,
  Kind,
  KindMap,
  ObjectEvent,
  ServicePort,
} from "../../model/cluster/objects.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { quote } from "../../model/values/text.ts";
import { fieldAt } from "../../model/values/record.ts";
import { decodeEndpointSlice } from "./endpoint_slice.ts";
import { decodeNode, decodeServiceCIDR } from "./node.ts";
import {
  type DecodeContext,
  type Intern,
  MalformedError,
  Omissions,
  Raw,
  type Share,
} from "./read.ts";
import { decodeService } from "./service.ts";

const DECODERS: {
  readonly [K in Kind]: (raw: Raw, context: DecodeContext) => KindMap[K] | undefined;
} = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

const NAMESPACED: ReadonlySet<Kind> = new Set<Kind>(["Service", "EndpointSlice"]);

/** The most values in a table. A full table starts again, so that churn cannot grow it. */
const MAX_SHARED = 50_000;

/** Returns a function that returns the first value of each text. */
function sharedValues<T>(): (text: string, value: T) => T {
  const values = new Map<string, T>();
  return (text, value) => {
    const known = values.get(text);
    if (known !== undefined) return known;
    if (values.size >= MAX_SHARED) values.clear();
    values.set(text, value);
    return value;
  };
}

/** Shares lists of equal ports. Names have no blanks or commas, so the text is unique. */
function sharedPorts<T extends EndpointPort>(): Share<T> {
  const lists = sharedValues<readonly T[]>();
  return (ports) => lists(ports.map((port) => Object.values(port).join(" ")).join(), ports);
}

export function createDecoder(): Decoder {
  const strings = sharedValues<string>();
  const intern: Intern = (text) => strings(text, text);
  const sharePorts = sharedPorts<ServicePort>();
  const shareEndpointPorts = sharedPorts<EndpointPort>();
  return <K extends Kind>(kind: K, value: unknown): Decoded<K> => {
    let key: string | undefined;
    const omissions = new Omissions();
    const raw = new Raw(value, { name: kind, omissions });
    try {
      const metadata = raw.at("metadata");
      const given = metadata.at("namespace");
      const namespace = !NAMESPACED.has(kind) ? "" : given.isAbsent ? "default" : given.name();
      const name = metadata.at("name").name();
      key = namespace === "" ? name : objectKey({ namespace, name });
      const decoded = DECODERS[kind](raw, {
        namespace: intern(namespace),
        name,
        intern,
        sharePorts,
        shareEndpointPorts,
      });
      if (decoded === undefined) return { type: "ignored", key };
      const omitted = omissions.lines;
      return { type: "object", key, object: omitted ? { ...decoded, omitted } : decoded };
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      return { type: "refused", key: key ?? quote(nameOf(value)), reason: error.message };
    }
  };
}

/** Returns the best name of a broken object. */
function nameOf(raw: unknown): unknown {
  if (fieldAt(raw, "metadata") === undefined) return "(no metadata)";
  const name = fieldAt(raw, "metadata", "name");
  return name === undefined ? "(no name)" : name;
}

/** Returns the event of one changed object. An ignored object counts as deleted. */
export function changeEvent<K extends Kind>(kind: K, decoded: Decoded<K>): ObjectEvent {
  const { key } = decoded;
  switch (decoded.type) {
    case "object":
      return { type: "upsert", kind, key, object: decoded.object } as ObjectEvent;
    case "refused":
      return { type: "refuse", kind, key, reason: decoded.reason };
    case "ignored":
      return { type: "delete", kind, key };
  }
}
