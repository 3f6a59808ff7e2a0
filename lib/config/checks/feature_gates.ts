/**
 * Checks feature gates as kube-proxy does.
 *
 * @module
 */
import type { Configuration } from "../configuration.ts";
import { type Origin, placeOf } from "../origin.ts";
import { nearest, plain } from "../../model/values/text.ts";

/** A gate of kube-proxy 1.37 (pkg/features/kube_features.go). */
interface Gate {
  /** `""` is generally available. */
  readonly stage: "" | "ALPHA" | "BETA" | "DEPRECATED";
  readonly isOn: boolean;
  /** @default false */
  readonly isLocked?: boolean;
  /** True if signpost uses it. @default false */
  readonly hasEffect?: boolean;
}

/** The gate that rejects and counts node ports on loopback if loopback is not configured. */
export const LOCALHOST_GATE = "KubeProxyNFTablesLocalhostNodePorts";

const LOCKED_ON: Gate = { stage: "", isOn: true, isLocked: true };

/** kube-proxy's gates that affect the rules. */
const GATES: ReadonlyMap<string, Gate> = new Map<string, Gate>([
  ["AllowServiceExternalIPs", { stage: "", isOn: true, hasEffect: true }],
  ["KubeProxyIPVS", { stage: "DEPRECATED", isOn: true, hasEffect: true }],
  [LOCALHOST_GATE, { stage: "ALPHA", isOn: false, hasEffect: true }],
  ["MultiCIDRServiceAllocator", LOCKED_ON],
  ["NFTablesNetlink", { stage: "BETA", isOn: true }],
  ["NFTablesProxyMode", LOCKED_ON],
  ["PreferSameTrafficDistribution", LOCKED_ON],
  ["RelaxedServiceNameValidation", LOCKED_ON],
]);

/** A known gate, for `kubernetes_feature_enabled`. */
export interface KnownGate extends Pick<Gate, "stage"> {
  readonly name: string;
  readonly enabled: boolean;
}

/** Returns the gates that affect the rules, with their values. */
export function knownGates({ featureGates }: Pick<Configuration, "featureGates">): KnownGate[] {
  return [...GATES].map(([name, { stage, isOn }]) => ({
    name,
    stage,
    enabled: featureGates[name] ?? isOn,
  }));
}

/** Returns true if signpost uses the gate. */
export function hasEffect(name: string): boolean {
  return GATES.get(name)?.hasEffect ?? false;
}

/**
 * Returns errors for gates that kube-proxy surely refuses: a misspelt known name, an invalid name,
 * a locked gate, and `mode: ipvs` without its gate. Other names may be gates of other releases or
 * components, so they get warnings.
 */
export function checkFeatureGates(origin: Origin): string[] {
  const gates = origin.settings.featureGates ?? {};
  const errors = Object.entries(gates).flatMap(([name, on]) => {
    const place = `${placeOf(origin, "featureGates")}.${plain(name)}`;
    const known = GATES.get(name);
    if (known) return known.isLocked && !on ? [`${place}: is locked to true, leave it out`] : [];
    const meant = nearest(name, GATES.keys());
    if (meant !== undefined) return [`${place}: is not a feature gate (did you mean ${meant}?)`];
    return /^[A-Z][A-Za-z0-9]+$/.test(name) ? [] : [`${place}: is not a feature gate`];
  });
  if (origin.settings.mode === "ipvs" && gates["KubeProxyIPVS"] === false) {
    const reason = "cannot be ipvs while the feature gate KubeProxyIPVS is false: use nftables";
    errors.push(`${placeOf(origin, "mode")}: ${reason}`);
  }
  return errors;
}
