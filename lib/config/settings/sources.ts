/** Defines the sources of configuration and objects. */
import { nodeName, path, serverUrl, text } from "../file/readers.ts";
import { PROTOBUF } from "../../model/configuration.ts";
import { duration, flagOnly, list, switchFlag, value } from "./setting.ts";

const MINUTE = 60_000;

export const SOURCE_GROUP = {
  title: "Sources",
  settings: {
    configFile: flagOnly(path, "", {
      flag: "config",
      value: "FILE",
      help: "KubeProxyConfiguration file (v1alpha1); flags win over it.",
    }),
    "clientConnection.kubeconfig": value(path, "", {
      flag: "kubeconfig",
      value: "FILE",
      help:
        "Address and credentials of the API server; without it, the in-cluster service account.",
    }),
    master: flagOnly(serverUrl, "", {
      flag: "master",
      value: "URL",
      help: "The API server's URL, instead of the kubeconfig's.",
    }),
    "signpost.proxyFromEnvironment": switchFlag(
      "proxy-from-environment",
      "Reach the API server through the proxy that HTTPS_PROXY or HTTP_PROXY names.",
    ),
    "clientConnection.contentType": value<string>(text, PROTOBUF, {
      empty: "everywhere",
      flag: "kube-api-content-type",
      value: "VALUE",
      help: "Encoding of watches: application/vnd.kubernetes.protobuf or application/json.",
    }),
    "clientConnection.acceptContentTypes": value(text, ""),
    "signpost.manifests": list(path, {
      inFile: false,
      flag: "manifests",
      kind: "words",
      value: "PATH",
      help: "Read objects from a file, a folder or - (stdin), not from an API server; repeatable.",
    }),
    hostnameOverride: value(nodeName, "", {
      flag: "hostname-override",
      value: "NAME",
      help: "The name of this Node; without it, the machine's host name.",
    }),
    configSyncPeriod: duration(15 * MINUTE, {
      empty: "in the file",
      flag: "config-sync-period",
      help: "Kept for /configz; watches need no refresh.",
    }),
  },
};
