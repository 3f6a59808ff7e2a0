/**
 * Flags that say what to do and where objects come from.
 *
 * @module
 */
import type { FlagGroup } from "./flag.ts";

/** What signpost does; its own flags, but `--cleanup`. */
export const COMMAND_FLAGS: FlagGroup = {
  title: "What to do",
  flags: [
    {
      name: "once",
      kind: "boolean",
      sets: ["command.once"],
      only: ["run"],
      help: "Print the script for the present state and exit; touch nothing.",
    },
    {
      name: "output",
      letter: "o",
      kind: "text",
      value: "FORMAT",
      sets: ["command.output"],
      only: ["run"],
      choices: ["script", "json"],
      help: "With --once: script (default), or json for the desired state as data.",
    },
    {
      name: "output",
      letter: "o",
      kind: "text",
      value: "FORMAT",
      sets: ["command.report"],
      only: ["explain", "verify", "status", "diff"],
      choices: ["table", "json", "yaml"],
      help: "table (default) for people; json or yaml for programs, see docs/output.md.",
    },
    {
      name: "from",
      kind: "text",
      value: "SOURCE",
      sets: ["command.from"],
      only: ["explain"],
      choices: ["pod", "node", "external"],
      help: "Who sends the packet: a pod of this node, this node itself, or anybody else.",
    },
    {
      name: "trace",
      kind: "boolean",
      sets: ["command.trace"],
      only: ["explain"],
      help: "Send one packet from this node and show which rules of the kernel it meets.",
    },
    {
      name: "conntrack",
      kind: "boolean",
      sets: ["command.conntrack"],
      only: ["explain"],
      help: "Show the connections that the kernel tracks, too.",
    },
    {
      name: "fix",
      kind: "boolean",
      sets: ["command.fix"],
      only: ["verify"],
      help: "Ask the daemon to write all rules anew where they differ.",
    },
    {
      name: "watch",
      kind: "boolean",
      sets: ["command.watch"],
      only: ["status"],
      help: "Show it again and again until interrupted.",
    },
    {
      name: "services",
      kind: "boolean",
      sets: ["command.services"],
      only: ["completions"],
      hidden: true,
      help: "Print the names of all Services, one a line; what completion scripts call.",
    },
    {
      name: "cleanup",
      kind: "boolean",
      sets: ["command.cleanup"],
      only: ["run", "cleanup"],
      help: "The same as the command cleanup.",
    },
    {
      name: "init-only",
      kind: "boolean",
      sets: ["command.initOnly"],
      only: ["run"],
      help: "Only make the kernel settings that need full root, and exit.",
    },
    {
      name: "write-config-to",
      kind: "text",
      value: "FILE",
      sets: ["command.writeConfigTo"],
      only: ["run"],
      help: "Only write what flags and file come to, as a KubeProxyConfiguration, and exit.",
    },
    {
      name: "kube-proxy",
      kind: "boolean",
      sets: ["command.kubeProxy"],
      only: ["cleanup"],
      help: "Remove kube-proxy's rules too.",
    },
    {
      name: "dry-run",
      kind: "boolean",
      sets: ["command.dryRun"],
      only: ["cleanup"],
      help: "Print what would be removed; touch nothing.",
    },
  ],
};

/** Where configuration and objects come from. */
export const SOURCE_FLAGS: FlagGroup = {
  title: "Sources",
  flags: [
    {
      name: "config",
      kind: "text",
      value: "FILE",
      sets: ["command.config"],
      help: "KubeProxyConfiguration file (v1alpha1); flags win over it.",
    },
    {
      name: "kubeconfig",
      kind: "text",
      value: "FILE",
      sets: ["clientConnection.kubeconfig"],
      help: "How to reach the API server; without it, the in-cluster service account.",
    },
    {
      name: "master",
      kind: "text",
      value: "URL",
      sets: ["master"],
      help: "The API server's URL, instead of the kubeconfig's.",
    },
    {
      name: "kube-api-content-type",
      kind: "text",
      value: "VALUE",
      sets: ["clientConnection.contentType"],
      help: "How watches are asked for: application/vnd.kubernetes.protobuf or application/json.",
    },
    {
      name: "manifests",
      kind: "words",
      value: "PATH",
      sets: ["signpost.manifests"],
      help: "Read objects from a file, a folder or - (stdin), not from an API server; repeatable.",
    },
    {
      name: "hostname-override",
      kind: "text",
      value: "NAME",
      sets: ["hostnameOverride"],
      help: "The name of this Node; without it, the machine's host name.",
    },
    {
      name: "config-sync-period",
      kind: "text",
      value: "DURATION",
      sets: ["configSyncPeriod"],
      help: "Kept for /configz; watches need no refresh. Default 15m.",
    },
  ],
};
