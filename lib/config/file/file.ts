/**
 * A KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out.
 *
 * @module
 */
import { checkDocument, formatPath, type ProblemLine } from "./issues.ts";
import { type GivenSettings, ROWS } from "../settings/table.ts";
import { plain, show } from "../../model/values/text.ts";
import { parseYaml } from "./yaml.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";

/** The API version of the file. */
export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

/** The kind of the file. */
export const KIND = "KubeProxyConfiguration";

/** The settings that the file may have; see v1alpha1/types.go of kube-proxy. */
const FILE_ROWS = new Map([...ROWS].filter(([, { inFile }]) => inFile !== false));

/** What a file gives. */
export interface FileResult {
  /** What is right in it; without a key where the file does not say or says "default". */
  readonly settings: GivenSettings;
  /** Why it is no configuration at all; one line each, with the file's name. */
  readonly errors: readonly string[];
  /** What is wrong in it, with the file and the path: `/etc/x.yaml: conntrack.min: must be …`. */
  readonly problems: readonly ProblemLine[];
  /** Fields that are set more than once; one line each. */
  readonly warnings: readonly string[];
}

/** What a file that is not there gives. */
export const NO_FILE: FileResult = { settings: {}, errors: [], problems: [], warnings: [] };

/**
 * Reads the text of a KubeProxyConfiguration file.
 *
 * Nulls mean "default", and so do the empty values that kube-proxy replaces by defaults
 * (`SetDefaults_KubeProxyConfiguration`): kubeadm writes all of them out. Of a field that is set
 * more than once the last value counts, as with kube-proxy.
 *
 * @param text YAML or JSON, one document
 * @param name the file's name, for messages
 */
export function readConfigurationFile(text: string, name: string): FileResult {
  const file = plain(name);
  const parsed = parseYaml(text);
  if (parsed.type === "error") return { ...NO_FILE, errors: [`${file}: ${parsed.message}`] };
  const { document, repeated } = parsed;
  const wrongType = checkType(document);
  if (wrongType !== undefined) return { ...NO_FILE, errors: [`${file}: ${wrongType}`] };

  const { values, problems } = checkDocument(document, {
    rows: FILE_ROWS,
    also: ["apiVersion", "kind"],
  });
  return {
    settings: withoutDefaults(values),
    errors: [],
    problems: problems.map(({ path, kind, message }) => ({
      setting: formatPath(path),
      kind,
      line: `${file}: ${formatPath(path)}: ${message}`,
    })),
    warnings: repeated.map((place) =>
      `${file}: ${place}: a field is set more than once, the last value counts`
    ),
  };
}

/** A file of another kind is one error, not one for each of its fields. */
function checkType(document: unknown): string | undefined {
  if (!isRecord(document)) {
    return `must be a ${KIND} of ${API_VERSION}, is ${show(document ?? "")}`;
  }
  for (const [field, expected] of [["apiVersion", API_VERSION], ["kind", KIND]] as const) {
    const found = fieldAt(document, field);
    if (found === expected) continue;
    const is = found === undefined || found === null ? "missing" : show(found);
    return `${field}: must be ${expected}, is ${is}`;
  }
  return undefined;
}

/** Takes out the empty values that stand for a default, in the file only: as flags they are meant. */
function withoutDefaults(values: ReadonlyMap<string, unknown>): GivenSettings {
  const set = [...values].filter(([path, value]) =>
    value !== undefined && (Boolean(value) || FILE_ROWS.get(path)?.empty !== "in the file")
  );
  return Object.fromEntries(set);
}
