import { assertEquals } from "@std/assert";
import { LocalhostNodePorts } from "../../lib/localhost/listeners.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  Destination,
  StateChange,
} from "../../lib/model/kernel/desired.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { desiredNode } from "../../lib/policy/node.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { traitsOf } from "../support/modes.ts";
import { servicePort } from "../support/cluster.ts";

const LOCAL: Destination = { address: "10.0.0.1", port: 80, local: true, hairpin: true };
const REMOTE: Destination = { address: "10.0.0.2", port: 80, local: false, hairpin: false };

function node(nodePortAddresses: readonly string[], mode: "nftables" | "iptables" = "nftables") {
  return desiredNode({
    configuration: { ...DEFAULTS, nodePortAddresses },
    traits: traitsOf(mode),
    node: undefined,
    serviceCIDRs: [],
  });
}

function port(more: Partial<DesiredServicePort> = {}): DesiredServicePort {
  return servicePort({ nodePort: 30080, clusterEndpoints: [LOCAL, REMOTE], ...more });
}

/** A desired state that a test changes, and what follows it. */
class Stage {
  readonly services = new Map<string, readonly DesiredServicePort[]>();
  readonly ports: LocalhostNodePorts;

  constructor(public node: DesiredNode) {
    this.ports = new LocalhostNodePorts(this);
    this.#follow({ node: undefined, services: new Map() }, { full: true });
  }

  put(
    services: Readonly<Record<string, readonly DesiredServicePort[]>>,
    { done = true }: { readonly done?: boolean } = {},
  ): string[] {
    const changes = Object.entries(services).map(([name, after]) => {
      const before = this.services.get(name) ?? [];
      this.services.set(name, after);
      return [name, { before, after }] as const;
    });
    this.#follow({ node: undefined, services: new Map(changes) }, { done });
    return this.seen();
  }

  become(after: DesiredNode): string[] {
    const before = this.node;
    this.node = after;
    this.#follow({ node: { before, after }, services: new Map() });
    return this.seen();
  }

  seen(): string[] {
    return [...this.ports.wanted.values()].map(({ servicePort, family, port, endpoints }) =>
      `${servicePort} ${family} ${port} ${endpoints.map(({ address }) => address)}`
    );
  }

  #follow(change: StateChange, { done = true, full = false } = {}): void {
    atOnce(this.ports.following({ change, applied: done ? "partial" : undefined, isFull: full }));
  }
}

const SERVED = node(["localhost"]);
const ALL = "shop/web:http 4 30080 10.0.0.1,10.0.0.2";

for (
  const [name, { of = SERVED, is, wanted }] of Object.entries<{
    readonly of?: DesiredNode;
    readonly is?: Partial<DesiredServicePort>;
    readonly wanted: readonly string[];
  }>({
    "a TCP node port gets a listener if loopback is named": { wanted: [ALL] },
    "a range inside of loopback names it": { of: node(["127.0.0.1/32"]), wanted: [ALL] },
    "a range with more than loopback does not name it": { of: node(["0.0.0.0/0"]), wanted: [] },
    "the word all beside localhost does not hide it": {
      of: node(["all", "localhost"]),
      wanted: [ALL],
    },
    "the other family's loopback does not count": { of: node(["::1/128"]), wanted: [] },
    "without nodePortAddresses there is no listener": { of: node([]), wanted: [] },
    "iptables mode has no listener": { of: node(["localhost"], "iptables"), wanted: [] },
    "UDP has no listener": { is: { protocol: "udp" }, wanted: [] },
    "a Service without a node port has no listener": { is: { nodePort: 0 }, wanted: [] },
    "without endpoints there is no listener": { is: { clusterEndpoints: [] }, wanted: [] },
    "the Local policy uses endpoints of this node": {
      is: { externalTrafficPolicy: "Local", localEndpoints: [LOCAL] },
      wanted: ["shop/web:http 4 30080 10.0.0.1"],
    },
    "the Local policy without a local endpoint has no listener": {
      is: { externalTrafficPolicy: "Local" },
      wanted: [],
    },
  })
) {
  Deno.test(`localhost node ports: ${name}`, () => {
    assertEquals(new Stage(of).put({ "shop/web": [port(is)] }), wanted);
  });
}

Deno.test("a listener follows its Service and goes with it", () => {
  const stage = new Stage(SERVED);
  stage.put({ "shop/web": [port()] });
  assertEquals(stage.put({ "shop/web": [port({ clusterEndpoints: [LOCAL] })] }), [
    "shop/web:http 4 30080 10.0.0.1",
  ]);
  assertEquals(stage.put({ "shop/web": [] }), []);
});

Deno.test("a node port goes from one Service to another in one step", () => {
  const stage = new Stage(SERVED);
  stage.put({ "shop/a": [port()], "shop/b": [] });
  assertEquals(stage.put({ "shop/b": [port({ name: "shop/b:http" })], "shop/a": [] }), [
    "shop/b:http 4 30080 10.0.0.1,10.0.0.2",
  ]);
});

Deno.test("a UDP node port of the same number leaves the listener alone", () => {
  const stage = new Stage(SERVED);
  stage.put({ "shop/web": [port()], "shop/dns": [port({ protocol: "udp" })] });
  assertEquals(stage.put({ "shop/dns": [] }), [ALL]);
});

Deno.test("a change without a node port on loopback leaves the same map", () => {
  const stage = new Stage(SERVED);
  stage.put({ "shop/web": [port()] });
  const { wanted } = stage.ports;
  stage.put({ "shop/other": [port({ nodePort: 0 })] });
  assertEquals(stage.ports.wanted === wanted, true);
});

Deno.test("what the kernel refused changes no listener until it has it", () => {
  const stage = new Stage(SERVED);
  assertEquals(stage.put({ "shop/web": [port()] }, { done: false }), []);
  assertEquals(stage.put({}), [ALL]);
});

Deno.test("listeners come and go when loopback is named or not", () => {
  const stage = new Stage(node([]));
  stage.put({ "shop/web": [port()] });
  assertEquals(stage.become(SERVED), [ALL]);
  assertEquals(stage.become(node([])), []);
});
