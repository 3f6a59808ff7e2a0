/**
 * Defines kube-proxy's settings without effect here. They are checked and printed by `/configz`.
 * One warning names those that differ from their defaults.
 *
 * @module
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
import { duration, type Flag, group, list, value } from "./setting.ts";

const SECOND = 1_000;

const NO_EFFECT = "No effect.";

/** Settings for Windows, for Go's runtime and logger, and for kube-proxy's client. */
export const UNUSED_GROUP = group({
  title: "Accepted without effect",
  settings: {
    enableProfiling: value(boolean, false, {
      unused: true,
      flag: { name: "profiling", help: NO_EFFECT },
    }),
    showHiddenMetricsForVersion: value(text, "", {
      unused: true,
      flag: { name: "show-hidden-metrics-for-version", value: "VALUE", help: NO_EFFECT },
    }),
    "clientConnection.burst": value(integer(0, INT32_MAX), 10, {
      unused: true,
      empty: "in the file",
      flag: { name: "kube-api-burst", kind: "integer", value: "VALUE", help: NO_EFFECT },
    }),
    "clientConnection.qps": value(number, 5, {
      unused: true,
      empty: "in the file",
      flag: { name: "kube-api-qps", kind: "number", value: "VALUE", help: NO_EFFECT },
    }),
    "logging.flushFrequency": {
      ...duration(5 * SECOND, {
        unused: true,
        empty: "in the file",
        flag: { name: "log-flush-frequency", value: "DURATION", help: NO_EFFECT },
      }),
      read: durationOrNanoseconds,
    },
    "logging.options.text.splitStream": value(boolean, false, {
      unused: true,
      flag: { name: "log-text-split-stream", help: NO_EFFECT },
    }),
    "logging.options.text.infoBufferSize": value(quantity, "0", {
      unused: true,
      empty: "in the file",
      flag: { name: "log-text-info-buffer-size", value: "VALUE", help: NO_EFFECT },
    }),
    "logging.options.json.splitStream": value(boolean, false, {
      unused: true,
      flag: { name: "log-json-split-stream", help: NO_EFFECT },
    }),
    "logging.options.json.infoBufferSize": value(quantity, "0", {
      unused: true,
      empty: "in the file",
      flag: { name: "log-json-info-buffer-size", value: "VALUE", help: NO_EFFECT },
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
});

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
