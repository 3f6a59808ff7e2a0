/**
 * A backend whose kernel is a map of Services, for tests of what stands above the backends. The
 * contract suite holds it to what the real ones do.
 */
import type { Backend, KernelRules, Probed, RuleReader } from "../../lib/backend/backend.ts";
import type { Change } from "../../lib/model/kernel/differences.ts";
import {
  ApplyError,
  type ApplyFailure,
  type Dataplane,
  type Drift,
  type DriftOptions,
  type Script,
} from "../../lib/model/kernel/dataplane.ts";
import type {
  DesiredServicePort,
  DesiredState,
  StateChange,
} from "../../lib/model/kernel/desired.ts";
import type { ModeTraits } from "../../lib/model/kernel/traits.ts";

/** The one set of the fake kernel. */
const SET = "services";

/** A script of `FakeDataplane`: Services and their ports as JSON, `undefined` where one goes. */
export interface FakeScript extends Script {
  readonly services: ReadonlyMap<string, string | undefined>;
}

/** A kernel that keeps Services by name, and fails when it is told to. */
export class FakeDataplane implements Dataplane<FakeScript> {
  /** The contents of the kernel. */
  readonly kernel = new Map<string, string>();
  /** Scripts that were given to it, as `kind: services`; refused ones with the failure. */
  readonly log: string[] = [];
  /** Outcomes of the next scripts; beyond the list they succeed. */
  readonly failures: (ApplyFailure | undefined)[] = [];
  /** Called while a script is being applied. */
  during: (checkpoint: () => void) => void | Promise<void> = () => {};
  #isThere = false;
  #onDrift: (drift: Drift) => void = () => {};

  /** @param options `repairs`: it repairs by parts; otherwise everything is replaced */
  constructor(private readonly options: { readonly repairs: boolean }) {}

  /** Another program deletes a Service, or everything. */
  deleteByOther(name?: string): void {
    if (name === undefined) {
      this.kernel.clear();
      this.#isThere = false;
    } else {
      this.kernel.delete(name);
    }
    this.#onDrift({ missing: name ?? "everything", added: "", by: "" });
  }

  full(state: DesiredState): FakeScript {
    return script("full", valuesOf(state));
  }

  *changing(change: StateChange): Generator<undefined, FakeScript | undefined> {
    if (change.node) return undefined;
    yield;
    const services = [...change.services].map(([name, { after }]) =>
      [name, valueOf(after)] as const
    );
    return script("partial", new Map(services));
  }

  async apply({ kind, services }: FakeScript, checkpoint = () => {}): Promise<void> {
    const failure = this.failures.shift();
    const names = [...services.keys()].sort().join(" ");
    this.log.push(`${kind}: ${names}${failure === undefined ? "" : ` (${failure})`}`);
    await this.during(checkpoint);
    if (failure !== undefined) throw new ApplyError(failure, `no, ${failure}`);
    if (kind === "full") this.kernel.clear();
    this.#isThere = true;
    for (const [name, value] of services) {
      if (value === undefined) this.kernel.delete(name);
      else this.kernel.set(name, value);
    }
  }

  repair(applied: DesiredState): Promise<FakeScript | undefined> {
    if (!this.options.repairs || !this.#isThere) return Promise.resolve(undefined);
    const wanted = valuesOf(applied);
    const differing = [...new Set([...wanted.keys(), ...this.kernel.keys()])]
      .filter((name) => wanted.get(name) !== this.kernel.get(name));
    const services = new Map(differing.map((name) => [name, wanted.get(name)]));
    return Promise.resolve(script("partial", services));
  }

  async watchDrift({ onDrift, signal }: DriftOptions): Promise<void> {
    this.#onDrift = onDrift;
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    if (!signal.aborted) await promise;
    this.#onDrift = () => {};
  }

  /** The rules are there. */
  get isThere(): boolean {
    return this.#isThere;
  }
}

const TRAITS: ModeTraits = {
  name: "nftables",
  primaryNodePorts: true,
  localhostNodePorts: "listeners",
  guardsClusterIPs: true,
  refuses: new Map(),
  parts: "Services",
};

const PROBED: Probed = {
  version: "1.0",
  missing: new Map(),
  refusedFeatures: new Map(),
  findings: [],
  choice: "",
};

/** A backend of this kernel. */
export function fakeBackend(dataplane = new FakeDataplane({ repairs: false })): Backend {
  return {
    traits: TRAITS,
    probe: () => Promise.resolve(PROBED),
    dataplane,
    rules: fakeRules(dataplane),
    metrics: { failures: [], readings: [] },
    connections: { areOurs: false, read: () => Promise.resolve([]) },
    foreignRules: {
      isServed: () => Promise.resolve(dataplane.isThere),
      rival: undefined,
      findProxy: () => Promise.resolve([]),
      look: () => Promise.resolve(false),
      run: () => Promise.resolve(),
      ipvs: undefined,
    },
  };
}

function fakeRules(dataplane: FakeDataplane): RuleReader {
  const ofService = ({ servicePort }: { readonly servicePort: DesiredServicePort }) =>
    `${SET}: ${serviceOf(servicePort)}`;
  return {
    read: () => Promise.resolve(rulesOf(new Map(dataplane.kernel), !dataplane.isThere)),
    readRuleset: () => Promise.resolve({ chains: [], routes: [] }),
    describe: () => ({
      delivers: ofService,
      shortCircuit: ofService,
      refuses: ofService,
      firewall: () => "",
      rejectsLocalhost: () => "",
      guardsLocalhost: () => "",
      undefinedPort: () => "",
      unallocatedAddress: () => "",
    }),
    changesFrom: () => ({ change }) =>
      [...change.services].flatMap(([name, { before, after }]) =>
        changesOf(name, { before: valueOf(before), after: valueOf(after) })
      ),
  };
}

function rulesOf(held: ReadonlyMap<string, string>, isEmpty: boolean): KernelRules {
  const differencesOf = (wanted: ReadonlyMap<string, string>, names: Iterable<string>) =>
    [...names].flatMap((key) => {
      const [desired = "", there = ""] = [wanted.get(key), held.get(key)];
      if (desired === there) return [];
      const type = there === "" ? "missing" : desired === "" ? "extra" : "wrong";
      return [{ type, in: SET, key, desired, held: there, service: key } as const];
    });
  return {
    isEmpty,
    entries: (ports) => {
      const value = valueOf(ports) ?? "";
      return [...new Set(ports.map(serviceOf))].map((key) => {
        const there = held.get(key) ?? "";
        const state = there === value ? "same" : there === "" ? "missing" : "wrong";
        return { in: SET, key, desired: value, held: there, state };
      });
    },
    stickyClients: () => [],
    compare: (state) => {
      const wanted = valuesOf(state);
      const names = new Set([...wanted.keys(), ...held.keys()]);
      return { differences: differencesOf(wanted, names), compared: wanted.size };
    },
  };
}

function script(kind: Script["kind"], services: FakeScript["services"]): FakeScript {
  const text = [...services.keys()].join();
  return { kind, text, bytes: text.length, operations: services.size, services };
}

/** A Service without ports has no rules. */
function valueOf(ports: readonly DesiredServicePort[]): string | undefined {
  return ports.length > 0 ? JSON.stringify(ports) : undefined;
}

function valuesOf({ services }: DesiredState): Map<string, string> {
  return new Map(
    [...services].flatMap(([name, ports]) => {
      const value = valueOf(ports);
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}

function serviceOf({ name }: DesiredServicePort): string {
  return name.split(":")[0] ?? "";
}

function changesOf(
  key: string,
  { before, after }: { readonly before: string | undefined; readonly after: string | undefined },
): Change[] {
  if (before === after) return [];
  const change = (change: Change["change"], data: string | undefined): Change[] =>
    data === undefined ? [] : [{ change, type: "element", in: SET, key, data, service: key }];
  return [...change("delete", before), ...change("add", after)];
}
