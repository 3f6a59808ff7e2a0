/**
 * Reads a KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out.
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

/** The settings of the file. See v1alpha1/types.go of kube-proxy. */
const FILE_ROWS = new Map([...ROWS].filter(([, { inFile }]) => inFile !== false));

/** The result of reading a file. */
export interface FileResult {
  /** The valid settings, without those that are absent or mean the default. */
  readonly settings: GivenSettings;
  /** The reasons why it is no configuration at all, one line each, with the file's name. */
  readonly errors: readonly string[];
  /** The problems, with file and path: `/etc/x.yaml: conntrack.min: must be …`. */
  readonly problems: readonly ProblemLine[];
  /** Fields that are set more than once, one line each. */
  readonly warnings: readonly string[];
}

/** The result without a file. */
export const NO_FILE: FileResult = { settings: {}, errors: [], problems: [], warnings: [] };

/**
 * Reads the text of a KubeProxyConfiguration file.
 *
 * Null means the default. So do empty values that kube-proxy replaces by defaults
 * (`SetDefaults_KubeProxyConfiguration`), because kubeadm writes them all. Of repeated fields the
 * last value counts, as in kube-proxy.
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

/** Checks the kind, so that another kind is one error, not one for each field. */
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

/** Removes the empty values that mean a default in the file. As flags they are real values. */
function withoutDefaults(values: ReadonlyMap<string, unknown>): GivenSettings {
  const set = [...values].filter(([path, value]) =>
    value !== undefined && (Boolean(value) || FILE_ROWS.get(path)?.empty !== "in the file")
  );
  return Object.fromEntries(set);
}
