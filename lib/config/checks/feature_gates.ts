/**
 * Feature gates: which names and values kube-proxy refuses.
 *
 * @module
 */
import type { Configuration } from "../../model/configuration.ts";
import { type Origin, placeOf } from "../origin.ts";
import { nearest, plain } from "../../model/values/text.ts";

/** The one gate of kube-proxy that changes what rules are made. */
export const GATE_WITH_EFFECT = "AllowServiceExternalIPs";

/** Gates that can no longer be switched off in 1.36. */
const LOCKED_ON: ReadonlySet<string> = new Set([
  "MultiCIDRServiceAllocator",
  "PreferSameTrafficDistribution",
]);

/** A gate that signpost knows, for `kubernetes_feature_enabled`. */
export interface KnownGate {
  readonly name: string;
  /** `""`: generally available. */
  readonly stage: "" | "DEPRECATED";
  readonly enabled: boolean;
}

/** The gates that say something of the rules, as they stand. */
export function knownGates({ featureGates }: Pick<Configuration, "featureGates">): KnownGate[] {
  return [
    {
      name: GATE_WITH_EFFECT,
      stage: "DEPRECATED",
      enabled: featureGates[GATE_WITH_EFFECT] !== false,
    },
    ...[...LOCKED_ON].map((name) => ({ name, stage: "" as const, enabled: true })),
  ];
}

/**
 * Names the gates that kube-proxy refuses for certain: a misspelt one of those above, a name that
 * no gate can have, a gate that is locked. Any other name may be a gate of some release or of
 * another component, which kube-proxy knows too: those are warnings.
 */
export function checkFeatureGates(origin: Origin): string[] {
  const known = [GATE_WITH_EFFECT, ...LOCKED_ON];
  return Object.entries(origin.settings.featureGates ?? {}).flatMap(([name, on]) => {
    const place = `${placeOf(origin, "featureGates")}.${plain(name)}`;
    if (LOCKED_ON.has(name) && !on) return [`${place}: is locked to true, leave it out`];
    if (known.includes(name)) return [];
    const meant = nearest(name, known);
    if (meant !== undefined) return [`${place}: is not a feature gate (did you mean ${meant}?)`];
    return /^[A-Z][A-Za-z0-9]+$/.test(name) ? [] : [`${place}: is not a feature gate`];
  });
}
