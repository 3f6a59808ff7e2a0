/**
 * Derives the type of the validated configuration from the table of settings: KubeProxyConfiguration
 * (kubeproxy.config.k8s.io/v1alpha1) with its own field names, and signpost's own settings under `signpost`. Defaults
 * are filled in, durations are milliseconds, addresses are canonical.
 */
import type { ProxyMode } from "../model/configuration.ts";
import type { Section, Settings } from "./settings/table.ts";

/** Turns paths into nested sections: `conntrack.min` is `min` in `conntrack`. */
export type Nested<T> = {
  readonly [H in keyof T as H extends string ? First<H> : never]: First<H> extends keyof T
    ? T[First<H>]
    : First<H> extends string ? Nested<Section<T, First<H>>>
    : never;
};
type First<P> = P extends `${infer Head}.${string}` ? Head : P;

/** Settings that only tell how others are found. */
type Unkept = "configFile" | "healthzPort" | "metricsPort" | "clusterCIDR";

/** The configuration of file, flags and defaults, with the configured mode. */
export type AskedConfiguration = Omit<Nested<Settings>, Unkept> & {
  /** Canonical CIDRs, at most one of each family: the setting `clusterCIDR`. */
  readonly clusterCIDRs: readonly string[];
};

/** The configuration with the mode that serves it: `ipvs` is served by nftables rules. */
export type Configuration = Omit<AskedConfiguration, "mode"> & { readonly mode: ProxyMode };
