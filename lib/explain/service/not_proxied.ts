/**
 * Why signpost makes no rules for a Service.
 *
 * @module
 */
import type { ServiceTarget } from "../../config/command.ts";
import { objectKey } from "../../model/cluster/names.ts";
import type { Refusal } from "../../model/cluster/objects.ts";
import { error, note } from "./finding.ts";
import type { Inspector } from "../../source/objects/inspect.ts";
import type { Finding } from "../report.ts";

/** Tells it: malformed, not there, or none of a proxy's business. */
export function notProxied(
  target: ServiceTarget,
  { inspector, refused }: {
    readonly inspector: Pick<Inspector, "service"> | undefined;
    readonly refused: readonly Refusal[];
  },
): Finding {
  const key = objectKey(target);
  const refusal = refused.find((each) => each.kind === "Service" && each.key === key);
  if (refusal) return error("service-refused", `${key} is refused as malformed: ${refusal.reason}`);
  if (!inspector) {
    return error(
      "service-unknown",
      `the daemon has no Service ${key}, and the API server cannot be asked for it`,
      "signpost status shows what the watches wait for",
    );
  }
  const { service } = inspector;
  if (!service) {
    return error(
      "service-not-found",
      `there is no Service ${key}`,
      `kubectl get services -n ${target.namespace}`,
    );
  }
  if (service.otherProxy !== "") {
    return note(
      "other-proxy",
      `${key} is left to another proxy: label service.kubernetes.io/service-proxy-name=` +
        service.otherProxy,
    );
  }
  if (service.type === "ExternalName") {
    return note(
      "external-name",
      `${key} is a DNS alias (ExternalName): it has no address to proxy`,
    );
  }
  if (service.clusterIP === "None") {
    return note(
      "headless",
      `${key} is headless (clusterIP None): clients find its endpoints by DNS, no rules are made`,
    );
  }
  return error(
    "no-cluster-ip",
    `${key} has no cluster IP yet: the API server gives it one`,
    `kubectl get service -n ${key.replace("/", " ")} -o yaml`,
  );
}
