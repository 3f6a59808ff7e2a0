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
      only: "run",
      help: "Print the script for the present state and exit; touch nothing.",
    },
    {
      name: "output",
      letter: "o",
      kind: "text",
      value: "FORMAT",
      sets: ["command.output"],
      only: "run",
      choices: ["script", "json"],
      help: "With --once: script (default), or json for the desired state as data.",
    },
    {
      name: "cleanup",
      kind: "boolean",
      sets: ["command.cleanup"],
      help: "The same as the command cleanup.",
    },
    {
      name: "kube-proxy",
      kind: "boolean",
      sets: ["command.kubeProxy"],
      only: "cleanup",
      help: "Remove kube-proxy's rules too.",
    },
    {
      name: "dry-run",
      kind: "boolean",
      sets: ["command.dryRun"],
      only: "cleanup",
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
