/**
 * A KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out.
 *
 * @module
 */
import { parse } from "@std/yaml";
import { check, formatPath, valueAt } from "./issues.ts";
import { API_VERSION, fileSchema, type FileSettings, KIND } from "./schema.ts";
import { plain, show } from "../model/text.ts";

/** What a file gives. */
export interface FileResult {
  /** What is right in it; without a key where the file does not say or says "default". */
  readonly settings: FileSettings;
  /** One line each, with the file and the path in it: `/etc/x.yaml: conntrack.min: must be …`. */
  readonly errors: readonly string[];
}

/**
 * Reads the text of a KubeProxyConfiguration file.
 *
 * Nulls mean "default", and so do the empty values that kube-proxy replaces by defaults
 * (`SetDefaults_KubeProxyConfiguration`): kubeadm writes all of them out.
 *
 * @param text YAML or JSON, one document
 * @param name the file's name, for messages
 */
export function readConfigurationFile(text: string, name: string): FileResult {
  const file = plain(name);
  let document: unknown;
  try {
    document = parse(text, { schema: "core" });
  } catch (error) {
    return { settings: {}, errors: [`${file}: ${firstLine(error)}`] };
  }
  const wrongType = checkType(document);
  if (wrongType !== undefined) return { settings: {}, errors: [`${file}: ${wrongType}`] };

  const { settings, problems } = check(fileSchema, document);
  const errors = problems.map(({ path, message }) => `${file}: ${formatPath(path)}: ${message}`);
  return { settings: withoutDefaults(settings ?? {}), errors };
}

/** A file of another kind is one error, not one for each of its fields. */
function checkType(document: unknown): string | undefined {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return `must be a ${KIND} of ${API_VERSION}, is ${show(document ?? "")}`;
  }
  for (const [field, expected] of [["apiVersion", API_VERSION], ["kind", KIND]] as const) {
    const found = valueAt(document, [field]);
    if (found === expected) continue;
    const is = found === undefined || found === null ? "missing" : show(found);
    return `${field}: must be ${expected}, is ${is}`;
  }
  return undefined;
}

/** Takes out the empty values that stand for a default, in the file only: as flags they are meant. */
function withoutDefaults(settings: FileSettings): FileSettings {
  return {
    ...settings,
    healthzBindAddress: settings.healthzBindAddress || undefined,
    metricsBindAddress: settings.metricsBindAddress || undefined,
    configSyncPeriod: settings.configSyncPeriod || undefined,
    ...settings.iptables && { iptables: withoutZeroPeriods(settings.iptables) },
    ...settings.nftables && { nftables: withoutZeroPeriods(settings.nftables) },
  };
}

function withoutZeroPeriods<T extends Periods>(section: T): T {
  return {
    ...section,
    syncPeriod: section.syncPeriod || undefined,
    minSyncPeriod: section.minSyncPeriod || undefined,
  };
}

interface Periods {
  readonly syncPeriod?: number | undefined;
  readonly minSyncPeriod?: number | undefined;
}

function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return plain((message.split("\n")[0] ?? "").replace(/:$/, ""));
}
