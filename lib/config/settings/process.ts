/** Defines settings of the process, and of the node besides rules. */
import { address, bindAddress, boolean, INT32_MAX, integer, path } from "../file/readers.ts";
import { choice, duration, flagOnly, switchFlag, value } from "./setting.ts";
import { DEFAULT_LIMITS } from "../../model/configuration.ts";

const HOUR = 3_600_000;

export const HEALTHZ_PORT = 10256;
export const METRICS_PORT = 10249;

export const HEALTH_GROUP = {
  title: "Health and metrics",
  settings: {
    bindAddress: value<string>(address, "0.0.0.0", {
      empty: "everywhere",
      flag: "bind-address",
      value: "IP",
      help: "This node's primary IP, if the Node has none.",
    }),
    bindAddressHardFail: value(boolean, false, {
      flag: "bind-address-hard-fail",
      help: "Exit if the health or metrics server cannot listen.",
    }),
    healthzBindAddress: value(bindAddress, `0.0.0.0:${HEALTHZ_PORT}`, {
      empty: "in the file",
      flag: "healthz-bind-address",
      value: "IP:PORT",
      help: "Address of /healthz, /livez and /readyz; empty: none.",
    }),
    metricsBindAddress: value(bindAddress, `127.0.0.1:${METRICS_PORT}`, {
      empty: "in the file",
      flag: "metrics-bind-address",
      value: "IP:PORT",
      help: "Address of /metrics and /configz; empty: none.",
    }),
    "signpost.statusPage": choice(["auto", "on", "off"], "auto", {
      inFile: false,
      flag: "status-page",
      value: "MODE",
      help: "The metrics server's page for browsers: auto (on loopback alone), on or off.",
    }),
    "signpost.serviceMetrics": value(boolean, true, {
      flag: "service-metrics",
      help: "Count new connections by Service, for /metrics and signpost top.",
    }),
    healthzPort: flagOnly(integer(0, 65535), HEALTHZ_PORT, {
      flag: "healthz-port",
      value: "PORT",
      help: "Deprecated: use --healthz-bind-address. 0: no server.",
    }),
    metricsPort: flagOnly(integer(0, 65535), METRICS_PORT, {
      flag: "metrics-port",
      value: "PORT",
      help: "Deprecated: use --metrics-bind-address. 0: no server.",
    }),
  },
};

/** The kernel's connection tracking; see `conntrack` in KubeProxyConfiguration. */
export const CONNTRACK_GROUP = {
  title: "Connection tracking",
  settings: {
    "conntrack.maxPerCore": value(integer(0, INT32_MAX), 32 * 1024, {
      flag: "conntrack-max-per-core",
      help: "Connections to track per CPU core; 0: leave the limit.",
    }),
    "conntrack.min": value(integer(0, INT32_MAX), 128 * 1024, {
      flag: "conntrack-min",
      help: "Connections to track at least.",
    }),
    "conntrack.tcpEstablishedTimeout": duration(24 * HOUR, {
      flag: "conntrack-tcp-timeout-established",
      help: "For idle TCP connections; 0: leave it.",
    }),
    "conntrack.tcpCloseWaitTimeout": duration(HOUR, {
      flag: "conntrack-tcp-timeout-close-wait",
      help: "For TCP connections in CLOSE_WAIT; 0: leave it.",
    }),
    "conntrack.tcpBeLiberal": value(boolean, false, {
      flag: "conntrack-tcp-be-liberal",
      help: "Take TCP packets out of window for valid (nf_conntrack_tcp_be_liberal).",
    }),
    // Set by ipvs.tcpFinTimeout if the mode is ipvs.
    "conntrack.tcpFinWaitTimeout": duration(0, { inFile: false }),
    "conntrack.udpTimeout": duration(0, {
      flag: "conntrack-udp-timeout",
      help: "For UDP without a reply; 0: leave it.",
    }),
    "conntrack.udpStreamTimeout": duration(0, {
      flag: "conntrack-udp-timeout-stream",
      help: "For UDP with replies; 0: leave it.",
    }),
  },
};

export const PROCESS_GROUP = {
  title: "Process and logs",
  settings: {
    "logging.verbosity": value(integer(0, INT32_MAX), 0, {
      flag: "v",
      letter: "v",
      value: "LEVEL",
      alone: "1",
      help: "How much is logged or shown; 0 is the least, -v alone is 1.",
    }),
    "logging.format": choice(["text", "json"], "text", {
      flag: "logging-format",
      value: "FORMAT",
      help: "The form of log lines: text or json.",
    }),
    oomScoreAdj: value(integer(-1000, 1000), -999, {
      flag: "oom-score-adj",
      help: "For the kernel's out-of-memory killer, -1000 to 1000.",
    }),
    "signpost.stateFile": flagOnly(path, "/var/lib/signpost/state.json.gz", {
      flag: "state-file",
      value: "FILE",
      help: "The last complete state; empty: none.",
    }),
    "signpost.wait": switchFlag(
      "wait",
      "If another signpost writes this node's rules, wait for its end, then start.",
    ),
    "signpost.socket": flagOnly(path, "/run/signpost/signpost.sock", {
      flag: "socket",
      value: "PATH",
      help: "Socket for signpost status and other commands; empty: none.",
    }),
  },
};

/** A Service over a limit is refused alone. The defaults exceed the costs of known clusters. */
export const LIMIT_GROUP = {
  title: "Limits",
  settings: {
    "signpost.limits.service": value(integer(1, INT32_MAX), DEFAULT_LIMITS.service, {
      flag: "max-service-cost",
      help: "Elements of kernel sets that one Service may cost; see Limits in docs/differences.md.",
    }),
    "signpost.limits.namespace": value(integer(1, INT32_MAX), DEFAULT_LIMITS.namespace, {
      flag: "max-namespace-cost",
      help: "Elements that all Services of one namespace may cost.",
    }),
  },
};
