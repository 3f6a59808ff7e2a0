import { assertEquals, assertStrictEquals } from "@std/assert";
import { ObjectCache } from "../../lib/cache/cache.ts";
import {
  type EndpointSlice,
  type Kind,
  KINDS,
  type Node,
  type ObjectChange,
  type ObjectEvent,
} from "../../lib/model/cluster/objects.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { replacement } from "../support/pipeline.ts";
import { modelNode, modelService, modelSlice } from "../support/cluster.ts";

const service = (name: string) => modelService({ name });
const slice = (name: string, serviceName: string) => modelSlice({ name, serviceName });
const NODE = modelNode();

const keyOf = (object: { readonly namespace?: string; readonly name: string }) =>
  object.namespace === undefined ? object.name : `${object.namespace}/${object.name}`;

type Named = { readonly namespace?: string; readonly name: string };

/** Events of a kind. */
function events(kind: Kind) {
  const event = (rest: object) => ({ kind, ...rest }) as ObjectEvent;
  return {
    replace: (objects: readonly Named[], refused: Readonly<Record<string, string>> = {}) =>
      replacement(kind, [
        ...objects.map((object) =>
          ({ type: "upsert", kind, key: keyOf(object), object }) as ObjectChange
        ),
        ...Object.entries(refused).map(([key, reason]) =>
          ({ type: "refuse", kind, key, reason }) as const
        ),
      ]),
    upsert: (object: Named) => event({ type: "upsert", key: keyOf(object), object }),
    delete: (key: string) => event({ type: "delete", key }),
    refuse: (key: string, reason: string) => event({ type: "refuse", key, reason }),
  };
}

const services = events("Service");
const slices = events("EndpointSlice");
const nodes = events("Node");
const serviceCIDRs = events("ServiceCIDR");

/** A cache that has taken these events, with nothing dirty. */
function cacheOf(...taken: readonly ObjectEvent[]): ObjectCache {
  const cache = new ObjectCache();
  for (const event of taken) cache.apply(event);
  cache.takeDirty();
  return cache;
}

/** Returns the Services and the node that an event makes dirty. */
function dirtyAfter(cache: ObjectCache, event: ObjectEvent): { services: string[]; node: boolean } {
  cache.apply(event);
  const { services, node } = cache.takeDirty();
  return { services: [...services].sort(), node };
}

const nothing = { services: [], node: false };
const only = (...keys: readonly string[]) => ({ services: [...keys], node: false });

Deno.test("the cache is complete once every kind has delivered a full state, empty or not", () => {
  const cache = new ObjectCache();
  cache.apply(services.upsert(service("web")));
  for (const kind of KINDS) {
    assertEquals(cache.complete, false);
    cache.apply(events(kind).replace([]));
  }
  assertEquals(cache.complete, true);
});

Deno.test("a full state replaces what was there", () => {
  const cache = cacheOf(services.replace([service("a"), service("b")]));
  const changed = { ...service("b"), nodePort: 1 };
  assertEquals(
    dirtyAfter(cache, services.replace([changed, service("c")])),
    only("default/a", "default/b", "default/c"),
  );
  assertEquals([...cache.services.keys()].sort(), ["default/b", "default/c"]);
  assertStrictEquals(cache.services.get("default/b") as unknown, changed);
});

Deno.test("an object that comes as it was makes nothing dirty", () => {
  const [web, web1] = [service("web"), slice("web-1", "web")];
  const cache = cacheOf(services.replace([web]), slices.replace([web1]), nodes.replace([NODE]));
  for (const event of [services.replace([web]), slices.upsert(web1), nodes.upsert(NODE)]) {
    assertEquals(dirtyAfter(cache, structuredClone(event)), nothing);
  }
  assertStrictEquals(cache.services.get("default/web"), web);
});

Deno.test("a change of a Service or of one of its slices makes that Service dirty", () => {
  const cache = cacheOf();
  assertEquals(dirtyAfter(cache, services.upsert(service("web"))), only("default/web"));
  assertEquals(dirtyAfter(cache, slices.upsert(slice("web-1", "web"))), only("default/web"));
  assertEquals(dirtyAfter(cache, slices.delete("default/web-1")), only("default/web"));
  assertEquals(dirtyAfter(cache, services.delete("default/web")), only("default/web"));
  assertEquals(cache.services.size + cache.slices.size, 0);
});

Deno.test("a slice that goes over to another Service makes both dirty", () => {
  const cache = cacheOf(slices.replace([slice("x", "old")]));
  assertEquals(
    dirtyAfter(cache, slices.upsert(slice("x", "new"))),
    only("default/new", "default/old"),
  );
  assertEquals([...cache.slicesOf("default/old")], []);
  assertEquals([...cache.slicesOf("default/new")].map(({ name }) => name), ["x"]);
});

Deno.test("the slices of a Service are those of its namespace and name", () => {
  const cache = cacheOf(slices.replace([
    slice("web-1", "web"),
    slice("web-2", "web"),
    slice("other-1", "other"),
    { ...slice("web-1", "web"), namespace: "shop" } as EndpointSlice,
  ]));
  assertEquals([...cache.slicesOf("default/web")].map(({ name }) => name), ["web-1", "web-2"]);
  assertEquals([...cache.slicesOf("shop/web")].length, 1);
  assertEquals([...cache.slicesOf("default/unknown")], []);
  assertEquals(cache.slices.size, 4);
});

Deno.test("a change of the Node or of ServiceCIDRs makes no Service dirty", () => {
  const cache = cacheOf(services.replace([service("web")]));
  assertEquals(dirtyAfter(cache, nodes.upsert(NODE)), { services: [], node: true });
  assertEquals(cache.node, NODE);
  const cidr = { name: "kubernetes", cidrs: ["10.96.0.0/12"] };
  assertEquals(dirtyAfter(cache, serviceCIDRs.upsert(cidr)), { services: [], node: true });
  assertEquals([...cache.serviceCIDRs.values()] as unknown[], [cidr]);
});

const KNOWN: Node = {
  ...NODE,
  uid: "u1",
  addresses: ["192.0.2.10", "2001:db8::10"],
  podCIDRs: ["10.244.1.0/24"],
  zone: "zone-a",
};

Deno.test("TestNodeManagerOnNodeDelete: the facts of a deleted Node are kept", () => {
  for (const gone of [nodes.delete("node-1"), nodes.replace([])]) {
    const cache = cacheOf(nodes.replace([KNOWN]));
    assertEquals(dirtyAfter(cache, gone), nothing);
    assertEquals(cache.node, KNOWN);
  }
});

Deno.test("a Node that is registered again has what was known of it until it tells its own", () => {
  const cache = cacheOf(nodes.replace([KNOWN]));
  cache.apply(nodes.delete("node-1"));
  const registering: Node = { ...NODE, uid: "u2", deleting: true };
  cache.apply(nodes.upsert(registering));
  assertEquals(cache.node, { ...KNOWN, uid: "u2", deleting: true });
  const moved = { ...KNOWN, addresses: ["192.0.2.20"], zone: "zone-b" };
  cache.apply(nodes.upsert(moved));
  assertEquals(cache.node, moved);
  const unlabelled: Node = { ...moved, zone: "", podCIDRs: [] };
  cache.apply(nodes.upsert(unlabelled));
  assertEquals(cache.node, { ...moved, zone: "" });
});

Deno.test("what the state file knew of the Node holds until its object says more", () => {
  const cache = cacheOf();
  atOnce(cache.restoring([nodes.replace([KNOWN])]));
  cache.apply(nodes.replace([]));
  assertEquals(cache.node, KNOWN);
  const own = { ...NODE, addresses: ["192.0.2.20"] };
  cache.apply(nodes.upsert(own));
  assertEquals(cache.node, { ...own, podCIDRs: KNOWN.podCIDRs });
});

Deno.test("objects are of one state before the first list and after the last first one", () => {
  const cache = new ObjectCache();
  assertEquals(cache.consistent, false);
  atOnce(cache.restoring([services.replace([service("a"), service("b")])]));
  assertEquals([cache.consistent, cache.complete], [true, false]);
  assertEquals([...cache.takeDirty().services], ["default/a", "default/b"]);
  const same = cache.services.get("default/a");
  if (!same) throw new Error("no Service");
  cache.apply(services.replace([same]));
  assertEquals(cache.consistent, false);
  for (const event of [slices.replace([]), nodes.replace([]), serviceCIDRs.replace([])]) {
    cache.apply(event);
  }
  assertEquals([cache.consistent, cache.complete], [true, true]);
  assertEquals([...cache.takeDirty().services], ["default/b"]);
});

Deno.test("changes add up until they are taken, once for each Service", () => {
  const cache = cacheOf();
  assertEquals(cache.isDirty, false);
  for (const name of ["a", "b", "a", "a"]) cache.apply(services.upsert(service(name)));
  cache.apply(services.delete("default/a"));
  assertEquals(cache.isDirty, true);
  const taken = cache.takeDirty();
  assertEquals([...taken.services].sort(), ["default/a", "default/b"]);
  assertEquals(cache.isDirty, false);
  cache.apply(services.upsert(service("c")));
  assertEquals(taken.services.has("default/c"), false);
});

Deno.test("what is deleted without having been there changes nothing", () => {
  const cache = cacheOf(services.replace([]));
  assertEquals(dirtyAfter(cache, services.delete("default/web")), nothing);
  assertEquals(dirtyAfter(cache, slices.delete("default/web-1")), nothing);
});

const refused = (key: string, reason: string) => ({ kind: "Service" as const, key, reason });

Deno.test("an object that is refused keeps its last good state", () => {
  const web = service("web");
  const cache = cacheOf(services.replace([web]));
  assertEquals(cache.apply(services.refuse("default/web", "bad")), [refused("default/web", "bad")]);
  assertStrictEquals(cache.services.get("default/web"), web);
  assertEquals(cache.isDirty, false);
});

Deno.test("an object that is refused in a full state keeps its last good state", () => {
  const cache = cacheOf(services.replace([service("web"), service("other")]));
  const full = services.replace([], { "default/web": "bad", "default/new": "worse" });
  assertEquals(cache.apply(full), [refused("default/web", "bad"), refused("default/new", "worse")]);
  assertEquals([...cache.services.keys()], ["default/web"]);
  assertEquals([...cache.takeDirty().services], ["default/other"]);
});

Deno.test("a refusal is reported once for each reason", () => {
  const cache = cacheOf(services.replace([service("web")]));
  const refuse = (reason: string) => cache.apply(services.refuse("default/web", reason)).length;
  assertEquals([refuse("bad"), refuse("bad"), refuse("worse"), refuse("worse")], [1, 0, 1, 0]);
  assertEquals(cache.apply(services.replace([], { "default/web": "worse" })), []);
  assertEquals([...cache.refused], [refused("default/web", "worse")]);
});

Deno.test("an object without memory is known until it is taken", () => {
  const change = { type: "refuse", kind: "Service", key: "default/web", reason: "full" } as const;
  const cache = cacheOf(services.replace([]), services.refuse("default/other", "bad"));
  assertEquals(cache.excess, undefined);
  cache.apply({ ...change, isExcess: true, isLogged: true });
  assertEquals(cache.excess, { ...refused("default/web", "full"), isExcess: true });
  cache.apply(services.upsert(service("web")));
  assertEquals(cache.excess, undefined);
});

Deno.test("a refusal is over when the object is good again, deleted, or no longer listed", () => {
  for (
    const event of [
      services.upsert(service("web")),
      services.delete("default/web"),
      services.replace([service("other")]),
      services.replace([service("web")]),
    ]
  ) {
    const cache = cacheOf(services.replace([]), services.refuse("default/web", "bad"));
    cache.apply(event);
    assertEquals([...cache.refused], [], event.type);
    assertEquals(cache.apply(services.refuse("default/web", "bad")).length, 1, event.type);
  }
});

Deno.test("objects of one name and different kinds have refusals of their own", () => {
  const cache = cacheOf(services.refuse("default/web", "bad"));
  assertEquals(cache.apply(slices.refuse("default/web", "bad")).length, 1);
  cache.apply(slices.replace([]));
  assertEquals([...cache.refused], [refused("default/web", "bad")]);
});

Deno.test("a refused object that is deleted takes its last good state with it", () => {
  const cache = cacheOf(services.replace([service("web")]), services.refuse("default/web", "bad"));
  assertEquals(dirtyAfter(cache, services.delete("default/web")), only("default/web"));
  assertEquals(cache.services.size, 0);
});

const omitting = (name: string, ...omitted: readonly string[]) => ({ ...service(name), omitted });

Deno.test("an omission is reported once, until it changes", () => {
  const cache = new ObjectCache();
  const omission = (reason: string) => ({ kind: "Service" as const, key: "default/web", reason });
  cache.apply(services.replace([omitting("web", "a is bad", "b is bad"), service("other")]));
  assertEquals(cache.takeOmissions(), [omission("a is bad; b is bad")]);
  assertEquals(cache.takeOmissions(), []);
  cache.apply(services.upsert(omitting("web", "a is bad", "b is bad")));
  assertEquals(cache.takeOmissions(), []);
  cache.apply(services.upsert(omitting("web", "a is worse")));
  assertEquals(cache.takeOmissions(), [omission("a is worse")]);
});

Deno.test("an omission ends with a better state of its object", () => {
  for (const event of [services.upsert(service("web")), services.delete("default/web")]) {
    const cache = cacheOf(services.replace([omitting("web", "a is bad")]));
    assertEquals(cache.takeOmissions().length, 1);
    cache.apply(event);
    assertEquals(cache.takeOmissions(), []);
    cache.apply(services.upsert(omitting("web", "a is bad")));
    assertEquals(cache.takeOmissions().length, 1);
  }
});
