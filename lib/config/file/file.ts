/**
 * Reads a KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out.
 *
 * @module
 */
import { checkDocument, formatPath, type ProblemLine } from "./issues.ts";
import { type GivenSettings, ROWS } from "../settings/table.ts";
import { plain, show } from "../../model/values/text.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import { parse } from "@std/yaml";
import { messageOf } from "../../model/values/errors.ts";

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

/** A document, or one line with the error. */
type ParsedYaml =
  | {
    readonly type: "document";
    /** Untrusted. */
    readonly document: unknown;
    /** The places of repeated keys: `conntrack.min`, or `line 4` if the path is unknown. */
    readonly repeated: readonly string[];
  }
  | { readonly type: "error"; readonly message: string };

/** Precedes a repeated key while the text is parsed. */
const MARK = /^__repeated\d+__/;

/** The most repeated keys to look up. If there are more, only one line is named. */
const MOST_REPEATED = 50;

/** A key at the beginning of a line, in block style or in JSON with a line for each key. */
const KEY = /^(\s*(?:- +)*["']?)(?=[\w.-]+["']?\s*:)/;

/**
 * Parses one document. Of repeated keys the last value counts.
 *
 * The parser stops at the first repeated key and names its line. So that key is marked in the text,
 * and the text is parsed again, until no key is repeated.
 */
function parseYaml(text: string): ParsedYaml {
  let marked = text;
  let place: string | undefined;
  for (let count = 0;; count++) {
    try {
      const repeated = new Set<string>();
      const document = unmark(parse(marked, { schema: "core" }), { path: "", repeated });
      return { type: "document", document, repeated: [...repeated] };
    } catch (error) {
      const message = firstLine(error);
      const line = /duplicated key at line (\d+)/.exec(message)?.[1];
      if (line === undefined && !(error instanceof WrongMark)) return { type: "error", message };
      place ??= `line ${line}`;
      const next = line === undefined || count === MOST_REPEATED
        ? undefined
        : markLine(marked, { line: Number(line) - 1, mark: `__repeated${count}__` });
      if (next === undefined) return parseLeniently(text, place);
      marked = next;
    }
  }
}

/** Parses with repeated keys allowed. The text after the first one may be no YAML. */
function parseLeniently(text: string, place: string): ParsedYaml {
  try {
    const document = parse(text, { schema: "core", allowDuplicateKeys: true });
    return { type: "document", document, repeated: [place] };
  } catch (error) {
    return { type: "error", message: firstLine(error) };
  }
}

/** Thrown if a marked key is not the repeated one, because its line has several keys. */
class WrongMark extends Error {}

/** Marks the key at the beginning of a line. Returns `undefined` if there is none, or it is marked. */
function markLine(
  text: string,
  { line, mark }: { readonly line: number; readonly mark: string },
): string | undefined {
  const lines = text.split(/(?<=\r\n|\n|\r(?!\n))/);
  const found = lines[line];
  const start = KEY.exec(found ?? "")?.[1];
  if (found === undefined || start === undefined || MARK.test(found.slice(start.length))) {
    return undefined;
  }
  lines[line] = start + mark + found.slice(start.length);
  return lines.join("");
}

/** Moves the values of marked keys to their real keys, and notes their places. */
function unmark(
  value: unknown,
  { path, repeated }: { readonly path: string; readonly repeated: Set<string> },
): unknown {
  if (Array.isArray(value)) {
    return value.map((item, index) => unmark(item, { path: `${path}[${index}]`, repeated }));
  }
  if (typeof value !== "object" || value === null) return value;
  const result = new Map<string, unknown>();
  for (const [key, inner] of Object.entries(value)) {
    const name = key.replace(MARK, "");
    const place = path === "" ? plain(name) : `${path}.${plain(name)}`;
    if (name !== key) {
      if (!result.has(name)) throw new WrongMark();
      repeated.add(place);
    }
    result.set(name, unmark(inner, { path: place, repeated }));
  }
  return Object.fromEntries(result);
}

function firstLine(error: unknown): string {
  const message = messageOf(error);
  return plain((message.split("\n")[0] ?? "").replace(/:$/, ""));
}
