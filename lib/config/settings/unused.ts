/** Defines kube-proxy's settings without effect here: checked, printed by `/configz`, and named in one warning. */
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

/** Settings for Windows, for Go's runtime and logger, and for kube-proxy's client. `flags` have no setting. */
export const UNUSED_GROUP = {
  title: "Accepted without effect",
  settings: {
    "ipvs.strictARP": value(boolean, false, { flag: "ipvs-strict-arp" }),
    enableProfiling: value(boolean, false, { flag: "profiling" }),
    showHiddenMetricsForVersion: value(text, "", { flag: "show-hidden-metrics-for-version" }),
    "clientConnection.burst": value(integer(0, INT32_MAX), 10, {
      empty: "in the file",
      flag: "kube-api-burst",
    }),
    "clientConnection.qps": value(number, 5, {
      empty: "in the file",
      flag: "kube-api-qps",
      kind: "number",
    }),
    "logging.flushFrequency": {
      ...duration(5 * SECOND, {
        empty: "in the file",
        flag: "log-flush-frequency",
        kind: "text",
        value: "DURATION",
      }),
      read: durationOrNanoseconds,
    },
    "logging.options.text.splitStream": value(boolean, false, { flag: "log-text-split-stream" }),
    "logging.options.text.infoBufferSize": value(quantity, "0", {
      empty: "in the file",
      flag: "log-text-info-buffer-size",
    }),
    "logging.options.json.splitStream": value(boolean, false, { flag: "log-json-split-stream" }),
    "logging.options.json.infoBufferSize": value(quantity, "0", {
      empty: "in the file",
      flag: "log-json-info-buffer-size",
    }),
    "logging.vmodule": list(vmoduleItem),
    "winkernel.networkName": value(text, ""),
    "winkernel.sourceVip": value(text, ""),
    "winkernel.enableDSR": value(boolean, false),
    "winkernel.rootHnsEndpointName": value(text, ""),
    "winkernel.forwardHealthCheckVip": value(boolean, false),
    portRange: value(text, ""),
    windowsRunAsService: value(boolean, false),
  },
  flags: ["vmodule", "boot-id-file", "machine-id-file"].map((name): Flag => (
    { name, kind: "text", value: "VALUE", sets: [], help: NO_EFFECT }
  )),
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
