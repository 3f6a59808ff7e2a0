/**
 * The names of IP families in Kubernetes.
 *
 * @module
 */
import type { Family } from "./address.ts";

/** The core/v1 `IPFamily`, for bodies of `/healthz` and the metric label `ip_family`. */
export const FAMILY_NAMES: Readonly<Record<Family, "IPv4" | "IPv6">> = { 4: "IPv4", 6: "IPv6" };
