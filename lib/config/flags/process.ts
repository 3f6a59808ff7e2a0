/**
 * Flags of the process and of what it sets on the node besides rules.
 *
 * @module
 */
import type { FlagGroup } from "./flag.ts";

/** Where the HTTP servers listen. */
export const HEALTH_FLAGS: FlagGroup = {
  title: "Health and metrics",
  flags: [
    {
      name: "bind-address",
      kind: "text",
      value: "IP",
      sets: ["bindAddress"],
      help: "This node's primary IP, where the Node does not tell. Default 0.0.0.0.",
    },
    {
      name: "bind-address-hard-fail",
      kind: "boolean",
      sets: ["bindAddressHardFail"],
      help: "Exit where the health or metrics server cannot listen.",
    },
    {
      name: "healthz-bind-address",
      kind: "text",
      value: "IP:PORT",
      sets: ["healthzBindAddress"],
      help: "Where /healthz and /livez answer; empty: nowhere. Default 0.0.0.0:10256.",
    },
    {
      name: "metrics-bind-address",
      kind: "text",
      value: "IP:PORT",
      sets: ["metricsBindAddress"],
      help: "Where /metrics and /configz answer; empty: nowhere. Default 127.0.0.1:10249.",
    },
    {
      name: "status-page",
      kind: "text",
      value: "MODE",
      sets: ["signpost.statusPage"],
      choices: ["auto", "on", "off"],
      help: "The metrics server's page for browsers: auto (default, on loopback alone), on or off.",
    },
    {
      name: "healthz-port",
      kind: "integer",
      value: "PORT",
      sets: ["healthzPort"],
      help: "Deprecated: use --healthz-bind-address. 0: no server.",
    },
    {
      name: "metrics-port",
      kind: "integer",
      value: "PORT",
      sets: ["metricsPort"],
      help: "Deprecated: use --metrics-bind-address. 0: no server.",
    },
  ],
};

/** The kernel's connection tracking; see `conntrack` in KubeProxyConfiguration. */
export const CONNTRACK_FLAGS: FlagGroup = {
  title: "Connection tracking",
  flags: [
    {
      name: "conntrack-max-per-core",
      kind: "integer",
      value: "N",
      sets: ["conntrack.maxPerCore"],
      help: "Connections to track per CPU core; 0: leave the limit. Default 32768.",
    },
    {
      name: "conntrack-min",
      kind: "integer",
      value: "N",
      sets: ["conntrack.min"],
      help: "Connections to track at least. Default 131072.",
    },
    {
      name: "conntrack-tcp-timeout-established",
      kind: "text",
      value: "DURATION",
      sets: ["conntrack.tcpEstablishedTimeout"],
      help: "For idle TCP connections; 0: leave it. Default 24h.",
    },
    {
      name: "conntrack-tcp-timeout-close-wait",
      kind: "text",
      value: "DURATION",
      sets: ["conntrack.tcpCloseWaitTimeout"],
      help: "For TCP connections in CLOSE_WAIT; 0: leave it. Default 1h.",
    },
    {
      name: "conntrack-tcp-be-liberal",
      kind: "boolean",
      sets: ["conntrack.tcpBeLiberal"],
      help: "Take TCP packets out of window for valid (nf_conntrack_tcp_be_liberal).",
    },
    {
      name: "conntrack-udp-timeout",
      kind: "text",
      value: "DURATION",
      sets: ["conntrack.udpTimeout"],
      help: "For UDP without a reply; 0: leave it.",
    },
    {
      name: "conntrack-udp-timeout-stream",
      kind: "text",
      value: "DURATION",
      sets: ["conntrack.udpStreamTimeout"],
      help: "For UDP with replies; 0: leave it.",
    },
  ],
};

/** Logs, files and the process itself. */
export const PROCESS_FLAGS: FlagGroup = {
  title: "Process and logs",
  flags: [
    {
      name: "v",
      letter: "v",
      kind: "integer",
      value: "LEVEL",
      sets: ["logging.verbosity"],
      help: "How much is logged; 0 is the least.",
    },
    {
      name: "logging-format",
      kind: "text",
      value: "FORMAT",
      sets: ["logging.format"],
      choices: ["text", "json"],
      help: "text (default) or json.",
    },
    {
      name: "oom-score-adj",
      kind: "integer",
      value: "N",
      sets: ["oomScoreAdj"],
      help: "For the kernel's out-of-memory killer, -1000 to 1000. Default -999.",
    },
    {
      name: "state-file",
      kind: "text",
      value: "FILE",
      sets: ["signpost.stateFile"],
      help: "The last complete state; empty: none. Default /var/lib/signpost/state.json.gz.",
    },
    {
      name: "socket",
      kind: "text",
      value: "PATH",
      sets: ["signpost.socket"],
      help: "For signpost status and its kin; empty: none. Default /run/signpost/signpost.sock.",
    },
  ],
};
