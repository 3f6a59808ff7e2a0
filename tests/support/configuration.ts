/** A configuration for tests: kube-proxy's defaults, with what a test changes. */
import { completeSettings, type Configuration } from "../../lib/config/configuration.ts";

const KUBE_PROXY = completeSettings({});

/** kube-proxy 1.37's defaults, but for what touches the machine. */
export const DEFAULTS: Configuration = {
  ...KUBE_PROXY,
  healthzBindAddress: "",
  metricsBindAddress: "",
  mode: "nftables",
  oomScoreAdj: 0,
  conntrack: {
    ...KUBE_PROXY.conntrack,
    maxPerCore: 0,
    min: 0,
    tcpEstablishedTimeout: 0,
    tcpCloseWaitTimeout: 0,
  },
  signpost: { ...KUBE_PROXY.signpost, stateFile: "", socket: "" },
};

/** The defaults but for the given settings. */
export function configuration(changes: Partial<Configuration> = {}): Configuration {
  return { ...DEFAULTS, ...changes };
}
