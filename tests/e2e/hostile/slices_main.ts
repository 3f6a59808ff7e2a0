/**
 * An API server whose EndpointSlices are too many for the memory of any node, as a process of its own.
 *
 * Arguments: its port, how many slices, and how many endpoints each has. All other kinds are small. A line is
 * printed when all slices were sent.
 */
import { clusterObjects } from "../cluster.ts";
import { ADDRESSES, type Manifest, service } from "../cluster.ts";

/** Slices of one namespace. */
const SHARE = 1_000;
/** Milliseconds. */
const BOOKMARK = 10_000;

const ENCODER = new TextEncoder();

function frame(type: string, object: Manifest): Uint8Array {
  return ENCODER.encode(`${JSON.stringify({ type, object })}\n`);
}

function bookmark(kind: string): Uint8Array {
  const annotations = { "k8s.io/initial-events-end": "true" };
  return frame("BOOKMARK", { kind, metadata: { resourceVersion: "9999999", annotations } });
}

/** Returns the frames of slices. Encoding each would take longer than to read it. */
function* slices(count: number, endpoints: number): Generator<Uint8Array> {
  const addresses = Array.from({ length: endpoints }, (_, i) => `10.9.${i >> 8}.${i & 255}`);
  const list = JSON.stringify(addresses.map((address) => ({ addresses: [address] })));
  for (let i = 0; i < count; i++) {
    const namespace = `tenant-${Math.floor(i / SHARE)}`;
    const labels = `{"kubernetes.io/service-name":"web"}`;
    yield ENCODER.encode(
      `{"type":"ADDED","object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":` +
        `{"namespace":"${namespace}","name":"s${i}","resourceVersion":"${
          i + 1
        }","labels":${labels}},` +
        `"addressType":"IPv4","ports":[{"port":8080,"protocol":"TCP"}],"endpoints":${list}}}\n`,
    );
  }
}

async function* watch(kind: string, frames: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* frames;
  if (kind === "EndpointSlice") Deno.stdout.writeSync(ENCODER.encode("sent\n"));
  for (;;) {
    yield bookmark(kind);
    await new Promise((resolve) => setTimeout(resolve, BOOKMARK));
  }
}

const KINDS: Readonly<Record<string, string>> = {
  services: "Service",
  endpointslices: "EndpointSlice",
  nodes: "Node",
  servicecidrs: "ServiceCIDR",
};

if (import.meta.main) {
  const [port = 0, count = 0, endpoints = 0] = Deno.args.map(Number);
  const objects = [...clusterObjects(ADDRESSES[4]), service(ADDRESSES[4])];
  Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const kind = KINDS[pathname.split("/").at(-1) ?? ""];
    if (request.method !== "GET" || kind === undefined) return new Response("{}", { status: 404 });
    if (!searchParams.has("watch")) return new Response("{}", { status: 500 });
    const isFirst = searchParams.has("sendInitialEvents");
    const small = objects.filter((object) => object.kind === kind)
      .map((object) => frame("ADDED", withVersion(object)));
    const frames = kind === "EndpointSlice" ? slices(count, endpoints) : small;
    const body = ReadableStream.from(watch(kind, isFirst ? frames : []));
    return new Response(body, { headers: { "content-type": "application/json" } });
  });
}

function withVersion(object: Manifest): Manifest {
  return { ...object, metadata: { ...object.metadata as Manifest, resourceVersion: "1" } };
}
