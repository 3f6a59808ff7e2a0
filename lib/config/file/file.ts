/** Reads a KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out. */
import { checkValue, formatPath, type Problem, type ProblemLine } from "./issues.ts";
import { type GivenSettings, ROWS } from "../settings/table.ts";
import { didYouMean, plain, show } from "../../model/values/text.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import { parse } from "@std/yaml";
import { messageOf } from "../../model/values/errors.ts";
import { append } from "../../model/values/lists.ts";

export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

export const KIND = "KubeProxyConfiguration";

/** The fields besides settings, and their values. */
const HEAD: ReadonlyMap<string, string> = new Map([["apiVersion", API_VERSION], ["kind", KIND]]);

/** The settings of the file. See v1alpha1/types.go of kube-proxy. */
const FILE_ROWS = new Map([...ROWS].filter(([, { inFile }]) => inFile !== false));

export interface FileResult {
  /** The valid settings, without those that are absent or mean the default. */
  readonly settings: GivenSettings;
  /** The reasons why it is no configuration at all, one line each, with the file's name. */
  readonly errors: readonly string[];
  /** The problems, with file and path: `/etc/x.yaml: conntrack.min: must be …`. */
  readonly problems: readonly ProblemLine[];
  /** Says that a field is set more than once. */
  readonly warnings: readonly string[];
}

export const NO_FILE: FileResult = { settings: {}, errors: [], problems: [], warnings: [] };

/**
 * Reads the text of a file. Null means the default. So do empty values that kube-proxy replaces by defaults
 * (`SetDefaults_KubeProxyConfiguration`), because kubeadm writes them all. Of repeated fields the last value counts,
 * as in kube-proxy.
 */
export function readConfigurationFile(text: string, name: string): FileResult {
  const file = plain(name);
  const failed = (reason: string) => ({ ...NO_FILE, errors: [`${file}: ${reason}`] });
  let document: unknown;
  try {
    document = parse(text, { schema: "core", allowDuplicateKeys: true });
  } catch (error) {
    return failed(firstLine(error));
  }
  const wrongType = checkType(document);
  if (wrongType !== undefined) return failed(wrongType);
  const { values, problems } = checkDocument(document);
  const repeated = repeatedKey(text);
  return {
    settings: withoutDefaults(values),
    errors: [],
    problems: problems.map(({ path, kind, message }) => {
      const setting = formatPath(path);
      return { setting, kind, line: `${file}: ${setting}: ${message}` };
    }),
    warnings: repeated === undefined
      ? []
      : [`${file}: line ${repeated}: a field is set more than once, the last value counts`],
  };
}

/** Checks the kind, so that another kind is one error, not one for each field. */
function checkType(document: unknown): string | undefined {
  if (!isRecord(document)) {
    return `must be a ${KIND} of ${API_VERSION}, is ${show(document ?? "")}`;
  }
  for (const [field, expected] of HEAD) {
    const found = fieldAt(document, field);
    if (found === expected) continue;
    return `${field}: must be ${expected}, is ${found == null ? "missing" : show(found)}`;
  }
  return undefined;
}

/** Returns the valid values of a document by path, and all problems. @param document untrusted */
function checkDocument(
  document: unknown,
): { readonly values: ReadonlyMap<string, unknown>; readonly problems: readonly Problem[] } {
  const values = new Map<string, unknown>();
  const problems: Problem[] = [];
  const paths = [...FILE_ROWS.keys(), ...HEAD.keys()];
  const walk = (section: unknown, path: readonly string[]): void => {
    if (section === null || section === undefined) return;
    if (!isRecord(section)) {
      const message = `must be a mapping of fields, is ${show(section)}`;
      problems.push({ path, kind: "type", message });
      return;
    }
    const prefix = path.map((key) => `${key}.`).join("");
    const names = new Set(
      paths.filter((each) => each.startsWith(prefix))
        .map((each) => each.slice(prefix.length).split(".")[0] ?? ""),
    );
    for (const [key, value] of Object.entries(section)) {
      const [name, inner] = [prefix + key, [...path, key]];
      const row = FILE_ROWS.get(name);
      if (!names.has(key)) problems.push(unknownField(inner, names));
      else if (row) {
        const checked = checkValue(row, value);
        if (checked.problems.length === 0) values.set(name, checked.value);
        append(
          problems,
          checked.problems.map((each) => ({ ...each, path: [...inner, ...each.path] })),
        );
      } else if (!HEAD.has(name)) walk(value, inner);
    }
  };
  walk(document, []);
  return { values, problems };
}

function unknownField(path: readonly string[], known: Iterable<string>): Problem {
  const hint = didYouMean(path.at(-1) ?? "", known);
  return { path, kind: "unknown", message: `is not a known field, left out${hint}` };
}

/** Removes the empty values that mean a default in the file. As flags they are real values. */
function withoutDefaults(values: ReadonlyMap<string, unknown>): GivenSettings {
  const set = [...values].filter(([path, value]) =>
    value !== undefined && (Boolean(value) || FILE_ROWS.get(path)?.empty !== "in the file")
  );
  return Object.fromEntries(set);
}

/** Returns the line of the first repeated key; `undefined`: there is none. */
function repeatedKey(text: string): string | undefined {
  try {
    parse(text, { schema: "core" });
    return undefined;
  } catch (error) {
    return /duplicated key at line (\d+)/.exec(messageOf(error))?.[1];
  }
}

function firstLine(error: unknown): string {
  const message = messageOf(error);
  return plain((message.split("\n")[0] ?? "").replace(/:$/, ""));
}
