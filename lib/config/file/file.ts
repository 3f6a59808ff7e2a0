/** Reads a KubeProxyConfiguration file: YAML or JSON text in, checked settings and all problems out. */
import { checkValue, errorLine, type ProblemLine } from "../setting.ts";
import { type GivenSettings, inSections, ROWS } from "../settings.ts";
import { plain, show, TAB_INDENTATION, tabIndentedLine } from "../../model/values/text.ts";
import { didYouMean } from "../../model/values/nearest.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import { parseAll } from "@std/yaml";
import { familyOf } from "../../model/values/address.ts";
import { messageOf } from "../../model/values/errors.ts";

export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

export const KIND = "KubeProxyConfiguration";

/** The fields besides settings, and their values. */
const HEAD: ReadonlyMap<string, string> = new Map([["apiVersion", API_VERSION], ["kind", KIND]]);

/** The settings of the file. See v1alpha1/types.go of kube-proxy. */
const FILE_ROWS = new Map([...ROWS].filter(([, { inFile }]) => inFile !== false));

export interface FileResult {
  /** The valid settings that do not mean the default. */
  readonly settings: GivenSettings;
  /** The problems, with file and path: `/etc/x.yaml: conntrack.min: must be …`. */
  readonly problems: readonly ProblemLine[];
}

/**
 * Reads the text of a file. Null means the default. So do empty values that kube-proxy replaces by defaults
 * (`SetDefaults_KubeProxyConfiguration`), because kubeadm writes them all. Of repeated fields the last value counts, of
 * documents the first, as in kube-proxy.
 */
export function readConfigurationFile(text: string, name: string): FileResult {
  const file = plain(name);
  const failed = (reason: string): FileResult => (
    { settings: {}, problems: [errorLine(`${file}: ${reason}`)] }
  );
  const tab = tabIndentedLine(text);
  if (tab !== undefined) return failed(`line ${tab}: ${TAB_INDENTATION}`);
  let parsed: ReturnType<typeof parseDocument>;
  try {
    parsed = parseDocument(text);
  } catch (error) {
    return failed(firstLine(error));
  }
  const { document, ignored } = parsed;
  const wrongType = checkType(document);
  if (wrongType !== undefined) return failed(wrongType);
  const { settings: checked, problems } = checkDocument(document, file);
  const settings = { ...serversFor(checked), ...checked };
  const warnings = ignored.map((reason) => (
    { setting: "", kind: "ignored", line: `${file}: ${reason}` } as const
  ));
  return { settings, problems: [...problems, ...warnings] };
}

/** Parses YAML. @returns the first document, and what was ignored */
function parseDocument(
  text: string,
  allowDuplicateKeys = false,
): { readonly document: unknown; readonly ignored: readonly string[] } {
  try {
    const options = { schema: "core", allowDuplicateKeys } as const;
    const [document, ...others] = parseAll(text, options) as unknown[];
    const hasOthers = others.some((each) => each !== null);
    return { document, ignored: hasOthers ? ["only the first YAML document is used"] : [] };
  } catch (error) {
    const [, line] = /duplicated key at line (\d+)/.exec(messageOf(error)) ?? [];
    if (line === undefined) throw error;
    const { document, ignored } = parseDocument(text, true);
    const repeated = `line ${line}: a field is set more than once, the last value counts`;
    return { document, ignored: [repeated, ...ignored] };
  }
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

/** Returns the valid values of a document, and all problems. @param document untrusted */
function checkDocument(document: unknown, file: string): FileResult {
  const settings: Record<string, unknown> = {};
  const problems: ProblemLine[] = [];
  const report = (setting: string, kind: ProblemLine["kind"], message: string) =>
    void problems.push({ setting, kind, line: `${file}: ${setting}: ${message}` });
  const visit = (value: unknown, path: string, known: Readonly<Record<string, unknown>>): void => {
    const row = FILE_ROWS.get(path);
    if (value === null || value === undefined) return;
    if (row) {
      const checked = checkValue(row, {
        value,
        report: ({ inside, kind, message }) => report(path + inside, kind, message),
      });
      // In flags, empty values do not mean the default.
      const isDefault = !checked && row.empty === "in the file";
      if (checked !== undefined && !isDefault) settings[path] = checked;
    } else if (!isRecord(value)) {
      report(path, "type", `must be a mapping of fields, is ${show(value)}`);
    } else {
      for (const [key, inner] of Object.entries(value)) {
        const innerPath = path === "" ? plain(key) : `${path}.${plain(key)}`;
        const field = fieldAt(known, key);
        if (field === undefined) {
          const hint = didYouMean(key, Object.keys(known));
          report(innerPath, "ignored", `is not a known field, left out${hint}`);
        } else if (isRecord(field)) visit(inner, innerPath, field);
      }
    }
  };
  visit(document, "", inSections<unknown>([...FILE_ROWS, ...HEAD]));
  return { settings, problems };
}

/** Returns the servers' default hosts. As in kube-proxy, they have the family of the file's bind address, not of the flag. */
function serversFor({ bindAddress = "0.0.0.0" }: GivenSettings): GivenSettings {
  return familyOf(bindAddress) === 4 ? {} : { healthzBindAddress: "::", metricsBindAddress: "::1" };
}

function firstLine(error: unknown): string {
  const message = messageOf(error);
  return plain((message.split("\n")[0] ?? "").replace(/:$/, ""));
}
