/** A sync loop with everything around it made of memory: the clock, the kernel, the log. */
import { ObjectCache } from "../../lib/cache/cache.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import type { OwnPort } from "../../lib/policy/claims.ts";
import { Desired } from "../../lib/policy/state.ts";
import type { MinSyncPeriod } from "../../lib/model/configuration.ts";
import { type Kind, KINDS, type ReplaceEvent } from "../../lib/model/cluster/objects.ts";
import type { SyncObserver, SyncOutcome } from "../../lib/sync/reports.ts";
import { SyncLoop } from "../../lib/sync/sync.ts";
import { configuration } from "../support/configuration.ts";
import { type ApiObject, NODE_NAME, replacement } from "../support/pipeline.ts";
import { FakeDataplane } from "../support/fake_backend.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";
import { traitsOf } from "../support/modes.ts";
import { service as buildService } from "../support/cluster.ts";

/** Returns an observer that writes each call as a line. */
function recordingObserver(lines: string[]): SyncObserver {
  return {
    synced: (script, seconds) => lines.push(`synced ${script.kind} in ${seconds}`),
    drifted: () => lines.push("drifted"),
    failed: (kind, error) => lines.push(`failed ${kind}: ${error.failure}`),
    refused: ({ kind, key }, what) => lines.push(`refused ${what} ${kind} ${key}`),
    conflicts: (_, all) => {
      for (const { claim, holder, loser } of all) {
        lines.push(`conflict ${claim} ${holder} ${loser}`);
      }
    },
    unsupported: ({ service, feature }) => lines.push(`unsupported ${service} ${feature}`),
  };
}

/** How the loop of a fixture differs from kube-proxy's defaults. */
export interface FixtureOptions {
  readonly minSyncPeriod?: MinSyncPeriod;
  readonly fullSyncPeriod?: number;
  /** The cost that one partial sync writes; without it there is no bound. */
  readonly share?: number;
  /** The dataplane repairs by parts; otherwise everything is replaced. */
  readonly repairs?: boolean;
}

/** A loop that runs until it is disposed. */
export class SyncFixture implements AsyncDisposable {
  readonly cache = new ObjectCache();
  /** Ports that no Service may have. */
  ownPorts: readonly OwnPort[] = [];
  readonly desired = new Desired({
    ownPorts: () => this.ownPorts,
    configuration: configuration(),
    traits: traitsOf("nftables"),
    nodeName: NODE_NAME,
    refusedFeatures: new Map([["source-ranges", "nft refuses it"]]),
  });
  readonly dataplane: FakeDataplane;
  readonly clock = new ManualClock();
  readonly logger = new MemoryLogger();
  /** The calls of the observer. */
  readonly told: string[] = [];
  /** How often the observer was told that a sync begins. */
  starts = 0;
  /** The outcomes that `afterSync` got. */
  readonly outcomes: SyncOutcome[] = [];
  /** The calls of the second step, after the first was over. */
  readonly followed: boolean[] = [];
  /** Ends the first step of `afterSync`. */
  finish: () => Promise<void> = () => Promise.resolve();
  readonly loop: SyncLoop;
  readonly #decode = createDecoder();
  /** Ends the loop. */
  readonly stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: FixtureOptions = {}) {
    this.dataplane = new FakeDataplane({ ...options, repairs: options.repairs ?? false });
    this.loop = new SyncLoop({
      cache: this.cache,
      desired: this.desired,
      dataplane: this.dataplane,
      clock: this.clock,
      logger: this.logger,
      observer: { ...recordingObserver(this.told), started: () => this.starts++ },
      minSyncPeriod: options.minSyncPeriod ?? 1_000,
      share: options.share,
      fullSyncPeriod: options.fullSyncPeriod ?? 3_600_000,
      signal: this.stop.signal,
    });
  }

  /** Starts the loop. */
  start(): Promise<void> {
    this.#running = this.loop.run([
      (outcome) => {
        this.outcomes.push(outcome);
        return this.finish();
      },
      ({ applied }) => void this.followed.push(applied !== undefined),
    ]);
    return settle();
  }

  /** Starts a loop that has synced these objects once. */
  static async synced(
    objects: readonly ApiObject[],
    options: FixtureOptions = {},
  ): Promise<SyncFixture> {
    const fixture = new SyncFixture(options);
    fixture.deliver(objects);
    await fixture.start();
    await fixture.pass(0);
    const { minSyncPeriod = 1_000 } = options;
    // A little more than a second: an adaptive pause has forgotten the first sync then.
    await fixture.pass(minSyncPeriod === "adaptive" ? 1_001 : minSyncPeriod);
    return fixture;
  }

  /** Lets time pass, and the loop do what it does then. */
  async pass(milliseconds: number): Promise<void> {
    await this.clock.advance(milliseconds);
    for (let turn = 0; turn < 3; turn++) await this.clock.advance(0);
  }

  /** Makes these the only objects, as a first list does. */
  deliver(objects: readonly ApiObject[], kinds: readonly Kind[] = KINDS): void {
    for (const kind of kinds) this.loop.handle(this.replacement(kind, objects));
  }

  /** The event that makes these the only objects of a kind. */
  replacement(kind: Kind, all: readonly ApiObject[]): ReplaceEvent {
    const decoded = all.filter((each) => each.kind === kind)
      .map((each) => this.#decode(kind, each));
    return replacement(kind, decoded);
  }

  /** One object comes, or comes again. */
  upsert(object: ApiObject): void {
    const kind = object.kind as Kind;
    this.loop.handle(this.#decode(kind, object));
  }

  /** One object goes. */
  remove(kind: Kind, key: string): void {
    this.loop.handle({ type: "delete", kind, key });
  }

  /** Returns the desired contents of the kernel, in the words of `FakeDataplane`. */
  get wanted(): ReadonlyMap<string, string> {
    return new Map(
      [...this.dataplane.full(this.desired).services].flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value] as const]
      ),
    );
  }

  /** Ends the loop and waits for its end. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.stop.abort();
    let isRunning = true;
    const ended = this.#running.finally(() => isRunning = false);
    // A turn may be under way. After a failed assertion, a step may never end.
    for (let turn = 0; isRunning && turn < 10_000; turn++) await this.clock.advance(0);
    await ended;
  }
}

/** A Service of one port with a cluster IP of its own. */
export function service(number: number, spec: Readonly<Record<string, unknown>> = {}): ApiObject {
  return buildService({
    name: `s${number}`,
    metadata: { creationTimestamp: `2026-01-0${number}T00:00:00Z` },
    clusterIP: `10.96.0.${number}`,
    ...spec,
  });
}

/** The objects of a state from before the start. */
export function stored(objects: readonly ApiObject[]): ReplaceEvent[] {
  const fixture = new SyncFixture();
  return KINDS.map((kind) => fixture.replacement(kind, objects));
}
