/**
 * Settings that say what to do and where objects come from.
 *
 * @module
 */

import { boolean, text } from "../file/fields.ts";
import { nodeName, oneOf, path, serverUrl } from "../file/readers.ts";
import { PROTOBUF } from "../../model/configuration.ts";
import { duration, group, list, value, word } from "./setting.ts";

const MINUTE = 60_000;

/** What signpost does; its own flags, but `--cleanup`, `--init-only` and `--write-config-to`. */
export const COMMAND_GROUP = group({
  title: "What to do",
  settings: {
    "command.once": value(boolean, false, {
      inFile: false,
      flag: {
        name: "once",
        kind: "boolean",
        only: ["run"],
        help: "Print the script for the present state and exit; touch nothing.",
      },
    }),
    "command.output": word(oneOf("script", "json"), "script", {
      inFile: false,
      flag: {
        name: "output",
        letter: "o",
        kind: "text",
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
        kind: "text",
        value: "FORMAT",
        choices: ["table", "json", "yaml"],
        only: ["explain", "verify", "status", "top", "diff"],
        help: "table (default) for people; json or yaml for programs, see docs/output.md.",
      },
    }),
    "command.from": value(oneOf("pod", "node", "external"), "", {
      inFile: false,
      flag: {
        name: "from",
        kind: "text",
        value: "SOURCE",
        choices: ["pod", "node", "external"],
        only: ["explain"],
        help: "Who sends the packet: a pod of this node, this node itself, or any other host.",
      },
    }),
    "command.trace": value(boolean, false, {
      inFile: false,
      flag: {
        name: "trace",
        kind: "boolean",
        only: ["explain"],
        help: "Send one packet from this node and show which rules of the kernel it meets.",
      },
    }),
    "command.conntrack": value(boolean, false, {
      inFile: false,
      flag: {
        name: "conntrack",
        kind: "boolean",
        only: ["explain"],
        help: "Show the connections that the kernel tracks, too.",
      },
    }),
    "command.fix": value(boolean, false, {
      inFile: false,
      flag: {
        name: "fix",
        kind: "boolean",
        only: ["verify"],
        help: "Ask the daemon to write all rules again where they differ.",
      },
    }),
    "command.look": value(boolean, false, {
      inFile: false,
      flag: {
        name: "once",
        kind: "boolean",
        only: ["top"],
        help: "Print one table, also in a terminal.",
      },
    }),
    "command.watch": value(boolean, false, {
      inFile: false,
      flag: {
        name: "watch",
        kind: "boolean",
        only: ["status"],
        help: "Show it again and again until interrupted.",
      },
    }),
    "command.cleanup": value(boolean, false, {
      inFile: false,
      flag: {
        name: "cleanup",
        kind: "boolean",
        only: ["run", "cleanup"],
        help: "The same as the command cleanup.",
      },
    }),
    "command.initOnly": value(boolean, false, {
      inFile: false,
      flag: {
        name: "init-only",
        kind: "boolean",
        only: ["run"],
        help: "Only make the kernel settings that need full root, and exit.",
      },
    }),
    "command.writeConfigTo": value(path, "", {
      inFile: false,
      flag: {
        name: "write-config-to",
        kind: "text",
        value: "FILE",
        only: ["run"],
        help: "Only write what flags and file come to, as a KubeProxyConfiguration, and exit.",
      },
    }),
    "command.kubeProxy": value(boolean, false, {
      inFile: false,
      flag: {
        name: "kube-proxy",
        kind: "boolean",
        only: ["cleanup"],
        help: "Remove kube-proxy's rules too.",
      },
    }),
    "command.dryRun": value(boolean, false, {
      inFile: false,
      flag: {
        name: "dry-run",
        kind: "boolean",
        only: ["cleanup"],
        help: "Print what would be removed; touch nothing.",
      },
    }),
  },
});

/** Where configuration and objects come from. */
export const SOURCE_GROUP = group({
  title: "Sources",
  settings: {
    "command.config": value(path, "", {
      inFile: false,
      flag: {
        name: "config",
        kind: "text",
        value: "FILE",
        help: "KubeProxyConfiguration file (v1alpha1); flags win over it.",
      },
    }),
    "clientConnection.kubeconfig": value(path, "", {
      flag: {
        name: "kubeconfig",
        kind: "text",
        value: "FILE",
        help: "How to reach the API server; without it, the in-cluster service account.",
      },
    }),
    master: value(serverUrl, "", {
      inFile: false,
      flag: {
        name: "master",
        kind: "text",
        value: "URL",
        help: "The API server's URL, instead of the kubeconfig's.",
      },
    }),
    "signpost.proxyFromEnvironment": value(boolean, false, {
      inFile: false,
      flag: {
        name: "proxy-from-environment",
        kind: "boolean",
        help: "Reach the API server through the proxy that HTTPS_PROXY or HTTP_PROXY names.",
      },
    }),
    "clientConnection.contentType": word(text, PROTOBUF, {
      flag: {
        name: "kube-api-content-type",
        kind: "text",
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
        kind: "text",
        value: "NAME",
        help: "The name of this Node; without it, the machine's host name.",
      },
    }),
    configSyncPeriod: duration(15 * MINUTE, {
      empty: "in the file",
      flag: {
        name: "config-sync-period",
        kind: "text",
        value: "DURATION",
        help: "Kept for /configz; watches need no refresh. Default 15m.",
      },
    }),
  },
});
