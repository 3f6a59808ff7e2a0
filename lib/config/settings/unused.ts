/**
 * Defines kube-proxy's settings without effect here. They are checked and printed by `/configz`.
 * One warning names those that differ from their defaults.
 */
import {
  boolean,
  durationOrNanoseconds,
  Fault,
  INT32_MAX,
  integer,
  number,
  quantity,
  text,
} from "../file/readers.ts";
import { duration, type Flag, list, NO_EFFECT, value } from "./setting.ts";

const SECOND = 1_000;

/** Settings for Windows, for Go's runtime and logger, and for kube-proxy's client. */
export const UNUSED_GROUP = {
  title: "Accepted without effect",
  settings: {
    enableProfiling: value(boolean, false, { unused: true, flag: "profiling" }),
    showHiddenMetricsForVersion: value(text, "", {
      unused: true,
      flag: "show-hidden-metrics-for-version",
    }),
    "clientConnection.burst": value(integer(0, INT32_MAX), 10, {
      unused: true,
      empty: "in the file",
      flag: "kube-api-burst",
    }),
    "clientConnection.qps": value(number, 5, {
      unused: true,
      empty: "in the file",
      flag: "kube-api-qps",
      kind: "number",
    }),
    "logging.flushFrequency": {
      ...duration(5 * SECOND, {
        unused: true,
        empty: "in the file",
        flag: "log-flush-frequency",
        kind: "text",
        value: "DURATION",
      }),
      read: durationOrNanoseconds,
    },
    "logging.options.text.splitStream": value(boolean, false, {
      unused: true,
      flag: "log-text-split-stream",
    }),
    "logging.options.text.infoBufferSize": value(quantity, "0", {
      unused: true,
      empty: "in the file",
      flag: "log-text-info-buffer-size",
    }),
    "logging.options.json.splitStream": value(boolean, false, {
      unused: true,
      flag: "log-json-split-stream",
    }),
    "logging.options.json.infoBufferSize": value(quantity, "0", {
      unused: true,
      empty: "in the file",
      flag: "log-json-info-buffer-size",
    }),
    "logging.vmodule": list(vmoduleItem, { unused: true }),
    "winkernel.networkName": value(text, "", { unused: true }),
    "winkernel.sourceVip": value(text, "", { unused: true }),
    "winkernel.enableDSR": value(boolean, false, { unused: true }),
    "winkernel.rootHnsEndpointName": value(text, "", { unused: true }),
    "winkernel.forwardHealthCheckVip": value(boolean, false, { unused: true }),
    portRange: value(text, "", { unused: true }),
    windowsRunAsService: value(boolean, false, { unused: true }),
  },
  flags: ["vmodule", "boot-id-file", "machine-id-file"].map(unused),
};

/** Reads the log level of Go's source files. */
function vmoduleItem(
  item: unknown,
): { readonly filePattern: string; readonly verbosity: number } | Fault {
  const { filePattern, verbosity }: { filePattern?: unknown; verbosity?: unknown } =
    typeof item === "object" && item !== null ? item : {};
  return typeof filePattern === "string" && typeof verbosity === "number"
    ? { filePattern, verbosity }
    : new Fault("must be a mapping with filePattern and verbosity");
}

/** Returns a flag of Go's runtime and logger that has no setting. */
function unused(name: string): Flag {
  return { name, kind: "text", value: "VALUE", sets: [], help: NO_EFFECT };
}
