/**
 * IP families in the words of Kubernetes.
 *
 * @module
 */
import type { Family } from "./address.ts";

/** core/v1 `IPFamily`: in bodies of `/healthz`, and the label `ip_family` of metrics. */
export const FAMILY_NAMES: Readonly<Record<Family, "IPv4" | "IPv6">> = { 4: "IPv4", 6: "IPv6" };
