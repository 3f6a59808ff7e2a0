/** Loads configurations from command lines and files that exist only in the test. */
import { assertEquals } from "@std/assert";
import { helpText } from "../../lib/cli/help.ts";
import { type Invocation, loadConfiguration } from "../../lib/config/load.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import { DEFAULT_LIMITS } from "../../lib/model/configuration.ts";

/** The name of the file that `loadFile` gives its text. */
export const FILE = "/etc/x.yaml";

const HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/** The parts of a configuration without effect, if nothing sets them. */
export const UNUSED = {
  enableProfiling: false,
  showHiddenMetricsForVersion: "",
  portRange: "",
  windowsRunAsService: false,
  ipvs: {
    scheduler: "",
    excludeCIDRs: [],
    strictARP: false,
    syncPeriod: 30_000,
    minSyncPeriod: "adaptive",
    tcpTimeout: 0,
    tcpFinTimeout: 0,
    udpTimeout: 0,
  },
  winkernel: {
    networkName: "",
    sourceVip: "",
    enableDSR: false,
    rootHnsEndpointName: "",
    forwardHealthCheckVip: false,
  },
  logging: {
    verbosity: 0,
    format: "text",
    flushFrequency: 5_000,
    vmodule: [],
    options: {
      text: { splitStream: false, infoBufferSize: "0" },
      json: { splitStream: false, infoBufferSize: "0" },
    },
  },
};

/** signpost's own settings, where nothing sets them. */
export const SIGNPOST: Configuration["signpost"] = {
  manifests: [],
  fullSyncPeriod: 3_600_000,
  ipvsGracePeriod: 300_000,
  stateFile: "/var/lib/signpost/state.json.gz",
  wait: false,
  proxyFromEnvironment: false,
  socket: "/run/signpost/signpost.sock",
  statusPage: "auto",
  serviceMetrics: true,
  limits: DEFAULT_LIMITS,
  acceleration: { interfaces: [], packets: 20, services: "all" },
  scheduler: "random",
  hash: "source",
  hashTableSize: 251,
};

/** Loads a command line; `files` are the only files that there are. */
export function load(
  argv: readonly string[],
  files: Readonly<Record<string, string>> = {},
): Promise<Invocation> {
  return loadConfiguration(argv, {
    readFile: (path) => {
      const text = files[path];
      return text === undefined ? Promise.reject(new Error("No such file")) : Promise.resolve(text);
    },
  });
}

/** Loads a file (without apiVersion and kind) with flags beside it. */
export function loadFile(yaml: string, flags: readonly string[] = []): Promise<Invocation> {
  return load([`--config=${FILE}`, ...flags], { [FILE]: HEAD + yaml });
}

/** The errors of a load that is to fail. */
export function errorsOf(invocation: Invocation): readonly string[] {
  return invocation.type === "errors" ? invocation.errors : [`it is ${invocation.type}`];
}

/** A load that is to work, whatever it warns of. */
export function runOf(invocation: Invocation): Invocation & { readonly type: "run" } {
  if (invocation.type !== "run") throw new Error(JSON.stringify(invocation));
  return invocation;
}

/** The configuration of a load that is to work without a warning. */
export function configurationOf(invocation: Invocation): Configuration {
  const { configuration, warnings } = runOf(invocation);
  assertEquals(warnings, []);
  return configuration;
}

/** The text of a load that is to be help. */
export function helpOf(invocation: Invocation): string {
  if (invocation.type !== "help") throw new Error(JSON.stringify(invocation));
  return helpText(invocation.command);
}
