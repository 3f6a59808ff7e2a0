/** A Service for tests of repairs. */
import type { ApiObject } from "../../support/api_store.ts";
import { service, slice } from "../../support/cluster.ts";

/** The Service shop/web, and its two endpoints. */
export const SERVICE = objects("web", { clusterIP: "10.96.0.1", endpoints: [11, 12] });

/** The Service shop/sticky with session affinity, and its two endpoints. */
export const STICKY = objects("sticky", {
  clusterIP: "10.96.0.2",
  endpoints: [13, 14],
  spec: { sessionAffinity: "ClientIP" },
});

/** The Service shop/turns, whose two endpoints take turns. */
export const TURNS = objects("turns", {
  clusterIP: "10.96.0.3",
  endpoints: [15, 16],
  annotations: { "signpost.dev/scheduler": "round-robin" },
});

/** @param options.endpoints the last numbers of their addresses */
function objects(
  name: string,
  { clusterIP, endpoints, spec = {}, annotations = {} }: {
    readonly clusterIP: string;
    readonly endpoints: readonly number[];
    readonly spec?: object;
    readonly annotations?: Readonly<Record<string, string>>;
  },
): readonly ApiObject[] {
  const namespace = "shop";
  return [
    service({ namespace, name, metadata: { annotations }, clusterIP, ...spec }),
    slice({ namespace, service: name, endpoints: endpoints.map((each) => `10.244.0.${each}`) }),
  ];
}
