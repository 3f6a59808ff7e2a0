/**
 * Defines the settings of commands and of the sources of objects.
 *
 * @module
 */
import { boolean, text } from "../file/fields.ts";
import { nodeName, oneOf, path, serverUrl } from "../file/readers.ts";
import { PROTOBUF } from "../../model/configuration.ts";
import { duration, flagOnly, group, list, value, word } from "./setting.ts";

const MINUTE = 60_000;

/** Signpost's own flags for commands, and `--cleanup`, `--init-only` and `--write-config-to`. */
export const COMMAND_GROUP = group({
  title: "What to do",
  settings: {
    "command.once": flagOnly(boolean, false, {
      name: "once",
      only: ["run"],
      help: "Print the script for the present state and exit; touch nothing.",
    }),
    "command.output": word(oneOf("script", "json"), "script", {
      inFile: false,
      flag: {
        name: "output",
        letter: "o",
        value: "FORMAT",
        choices: ["script", "json"],
        only: ["run"],
        help: "With --once: script (default), or json for the desired state as data.",
      },
    }),
    "command.report": word(oneOf("table", "json", "yaml"), "table", {
      inFile: false,
      flag: {
        name: "output",
        letter: "o",
        value: "FORMAT",
        choices: ["table", "json", "yaml"],
        only: ["check", "explain", "verify", "status", "top", "diff"],
        help: "table (default) for people; json or yaml for programs, see docs/output.md.",
      },
    }),
    "command.from": flagOnly(oneOf("pod", "node", "external"), "", {
      name: "from",
      value: "SOURCE",
      choices: ["pod", "node", "external"],
      only: ["explain"],
      help: "Who sends the packet: a pod of this node, this node itself, or any other host.",
    }),
    "command.trace": flagOnly(boolean, false, {
      name: "trace",
      only: ["explain"],
      help: "Send one packet from this node and show which rules of the kernel it meets.",
    }),
    "command.conntrack": flagOnly(boolean, false, {
      name: "conntrack",
      only: ["explain"],
      help: "Show conntrack entries, too.",
    }),
    "command.fix": flagOnly(boolean, false, {
      name: "fix",
      only: ["verify"],
      help: "Ask the daemon for a full sync where rules differ.",
    }),
    "command.timeout": duration(10_000, {
      inFile: false,
      flag: {
        name: "timeout",
        value: "DURATION",
        only: ["explain", "verify", "diff"],
        help: "How long to wait for the objects. Default 10s.",
      },
    }),
    "command.look": flagOnly(boolean, false, {
      name: "once",
      only: ["top"],
      help: "Print one table, also in a terminal.",
    }),
    "command.watch": flagOnly(boolean, false, {
      name: "watch",
      only: ["status"],
      help: "Show it again and again until interrupted.",
    }),
    "command.cleanup": flagOnly(boolean, false, {
      name: "cleanup",
      only: ["run", "cleanup"],
      help: "The same as the command cleanup.",
    }),
    "command.initOnly": flagOnly(boolean, false, {
      name: "init-only",
      only: ["run"],
      help: "Only make the kernel settings that need full root, and exit.",
    }),
    "command.writeConfigTo": flagOnly(path, "", {
      name: "write-config-to",
      value: "FILE",
      only: ["run"],
      help:
        "Only write what flags and file say, with defaults, as a KubeProxyConfiguration, and exit.",
    }),
    "command.kubeProxy": flagOnly(boolean, false, {
      name: "kube-proxy",
      only: ["cleanup"],
      help: "Remove kube-proxy's rules too.",
    }),
    "command.dryRun": flagOnly(boolean, false, {
      name: "dry-run",
      only: ["cleanup"],
      help: "Print what would be removed; touch nothing.",
    }),
    "command.force": flagOnly(boolean, false, {
      name: "force",
      only: ["cleanup"],
      help: "Remove the rules beside a running daemon, too; it writes them again.",
    }),
  },
});

/** The sources of configuration and objects. */
export const SOURCE_GROUP = group({
  title: "Sources",
  settings: {
    "command.config": flagOnly(path, "", {
      name: "config",
      value: "FILE",
      help: "KubeProxyConfiguration file (v1alpha1); flags win over it.",
    }),
    "clientConnection.kubeconfig": value(path, "", {
      flag: {
        name: "kubeconfig",
        value: "FILE",
        help: "How to reach the API server; without it, the in-cluster service account.",
      },
    }),
    master: flagOnly(serverUrl, "", {
      name: "master",
      value: "URL",
      help: "The API server's URL, instead of the kubeconfig's.",
    }),
    "signpost.proxyFromEnvironment": flagOnly(boolean, false, {
      name: "proxy-from-environment",
      help: "Reach the API server through the proxy that HTTPS_PROXY or HTTP_PROXY names.",
    }),
    "clientConnection.contentType": word(text, PROTOBUF, {
      flag: {
        name: "kube-api-content-type",
        value: "VALUE",
        help: "How watches are asked for: application/vnd.kubernetes.protobuf or application/json.",
      },
    }),
    "clientConnection.acceptContentTypes": value(text, ""),
    "signpost.manifests": list(path, {
      inFile: false,
      flag: {
        name: "manifests",
        kind: "words",
        value: "PATH",
        help:
          "Read objects from a file, a folder or - (stdin), not from an API server; repeatable.",
      },
    }),
    hostnameOverride: value(nodeName, "", {
      flag: {
        name: "hostname-override",
        value: "NAME",
        help: "The name of this Node; without it, the machine's host name.",
      },
    }),
    configSyncPeriod: duration(15 * MINUTE, {
      empty: "in the file",
      flag: {
        name: "config-sync-period",
        value: "DURATION",
        help: "Kept for /configz; watches need no refresh. Default 15m.",
      },
    }),
  },
});
