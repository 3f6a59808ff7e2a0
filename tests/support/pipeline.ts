/** The pure pipeline for tests: API objects in, desired state and scripts out. */
import { ObjectCache } from "../../lib/cache/cache.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import type { DesiredOptions } from "../../lib/policy/node.ts";
import { Desired, type Step } from "../../lib/policy/state.ts";
import type { Script, ScriptWriter } from "../../lib/model/kernel/dataplane.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import type { RefusedFeatures } from "../../lib/model/kernel/traits.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import {
  type Kind,
  KINDS,
  type ObjectChange,
  type Refusal,
  type ReplaceEvent,
} from "../../lib/model/cluster/objects.ts";
import type { ApiObject } from "./api_store.ts";
import { configuration } from "./configuration.ts";
import { type Mode, traitsOf } from "./modes.ts";

export type { ApiObject };

/** The node that tests are on, where they do not say. */
export const NODE_NAME = "node-1";

/** Settings of a pipeline. */
export interface PipelineOptions
  extends Pick<DesiredOptions, "ownAddresses" | "ownPorts" | "listeningSockets"> {
  readonly mode?: Mode;
  readonly nodeName?: string;
  readonly ipFamilies?: readonly Family[];
  readonly refusedFeatures?: RefusedFeatures;
  readonly configuration?: Partial<Configuration>;
}

/** The event that makes these the only objects of a kind. */
export function replacement(kind: Kind, changes: readonly ObjectChange[]): ReplaceEvent {
  const byKey = new Map(changes.map((each) => [each.key, each]));
  return { type: "replace", kind, changes: byKey } as ReplaceEvent;
}

type Changing = Parameters<ScriptWriter["changing"]>;

/** Objects to desired state, state after state. */
export class Pipeline {
  readonly #decode = createDecoder();
  readonly cache = new ObjectCache();
  readonly desired: Desired;

  constructor(options: PipelineOptions = {}) {
    this.desired = new Desired({
      ...options,
      configuration: configuration(options.configuration),
      traits: traitsOf(options.mode ?? "nftables"),
      nodeName: options.nodeName ?? NODE_NAME,
      ...options.refusedFeatures && { refusedFeatures: options.refusedFeatures },
      ...options.ipFamilies && { ipFamilies: options.ipFamilies },
    });
  }

  /** Makes these the only objects. */
  load(objects: readonly ApiObject[]): Step & { readonly refused: readonly Refusal[] } {
    const refused = this.deliver(objects);
    return { ...this.desired.update(this.cache, this.cache.takeDirty()), refused };
  }

  /** Makes these the only objects, and returns the partial script that leads there. */
  step<S extends Script>(
    dataplane: { readonly changing: (...of: Changing) => Generator<undefined, S | undefined> },
    objects: readonly ApiObject[],
  ): S {
    const { change } = this.load(objects);
    const script = atOnce(dataplane.changing(change, this.desired));
    if (!script) throw new Error("the change needs a full script");
    return script;
  }

  /** Makes these the only objects, and applies a full script. */
  async apply<S extends Script>(
    dataplane: ScriptWriter<S>,
    objects: readonly ApiObject[],
  ): Promise<void> {
    this.load(objects);
    await dataplane.apply(dataplane.full(this.desired));
  }

  /** Makes these the only objects of the cache; the desired state is not updated. */
  deliver(objects: readonly ApiObject[]): readonly Refusal[] {
    return KINDS.flatMap((kind) => this.cache.apply(this.#replace(kind, objects)));
  }

  #replace(kind: Kind, all: readonly ApiObject[]): ReplaceEvent {
    const changes = all.filter((each) => each.kind === kind).map((raw) => this.#decode(kind, raw));
    return replacement(kind, changes);
  }
}
