/** Decodes an API object from JSON into the model, or returns the reason to refuse it. */
import type {
  Decoder,
  EndpointPort,
  Kind,
  KindMap,
  ObjectChange,
} from "../../model/cluster/objects.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { show } from "../../model/values/text.ts";
import { fieldAt } from "../../model/values/record.ts";
import { decodeEndpointSlice } from "./endpoint_slice.ts";
import { decodeNode, decodeServiceCIDR } from "./node.ts";
import { type DecodeContext, MalformedError, Omissions, Raw } from "./read.ts";
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
function sharedValues<V>(): <T extends V>(text: string, value: T) => T {
  const values = new Map<string, V>();
  return <T extends V>(text: string, value: T) => {
    const known = values.get(text);
    if (known !== undefined) return known as T;
    if (values.size >= MAX_SHARED) values.clear();
    values.set(text, value);
    return value;
  };
}

export function createDecoder(): Decoder {
  const strings = sharedValues<string>();
  const intern = (text: string) => strings(text, text);
  const lists = sharedValues<readonly EndpointPort[]>();
  // Names have no blanks or commas, so the text is unique.
  const sharePorts: DecodeContext["sharePorts"] = (ports) =>
    lists(ports.map((port) => Object.values(port).join(" ")).join(), ports);
  const decode = (kind: Kind, value: unknown): ObjectChange => {
    let key: string | undefined;
    const omissions = new Omissions();
    const raw = new Raw(value, { name: kind, omissions });
    try {
      const metadata = raw.at("metadata");
      const given = metadata.at("namespace");
      const namespace = !NAMESPACED.has(kind) ? "" : given.isAbsent ? "default" : given.name();
      const name = metadata.at("name").name();
      key = namespace === "" ? name : objectKey({ namespace, name });
      const names = { namespace: intern(namespace), name };
      const decoded = DECODERS[kind](raw, { ...names, intern, sharePorts });
      if (decoded === undefined) return { type: "delete", kind, key };
      const omitted = omissions.lines;
      const object = omitted ? { ...decoded, omitted } : decoded;
      return { type: "upsert", kind, key, object } as ObjectChange;
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      key ??= show(fieldAt(value, "metadata", "name") ?? "(no name)");
      // The entries that were left out before it may be why nothing is left.
      const reason = [error.message, ...omissions.lines ?? []].join("; ");
      return { type: "refuse", kind, key, reason };
    }
  };
  return decode as Decoder;
}
