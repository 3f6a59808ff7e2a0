/**
 * How findings are made and put in order.
 *
 * @module
 */
import type { Finding as NodeFinding } from "../../model/status.ts";
import type { Finding } from "../report.ts";

const RANK = { error: 0, warning: 1, note: 2 } as const;

/** Errors first; what several ports say alike, once. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  const unique = new Map(findings.map((each) => [`${each.code} ${each.message}`, each]));
  return [...unique.values()].sort((a, b) => RANK[a.severity] - RANK[b.severity]);
}

/** Kinds that concern each Service whose clients are outside of the cluster. */
const ABOUT_OUTSIDE: ReadonlySet<string> = new Set(["firewall-drops-services"]);

/**
 * Takes over the node findings that concern a Service.
 *
 * @param isOutside clients outside of the cluster are asked about
 */
export function aboutService(
  key: string,
  { found, isOutside }: { readonly found: readonly NodeFinding[]; readonly isOutside: boolean },
): Finding[] {
  return found.filter(({ id, services }) =>
    services.includes(key) || isOutside && ABOUT_OUTSIDE.has(id)
  )
    .map(({ severity, id, what, remedy }) => ({
      severity: severity === "info" ? "note" : severity,
      code: id,
      message: what,
      hint: remedy,
    }));
}

/** Traffic is not delivered because of this. */
export function error(code: string, message: string, hint = ""): Finding {
  return { severity: "error", code, message, hint };
}

/** Traffic may not be what one expects because of this. */
export function warning(code: string, message: string, hint = ""): Finding {
  return { severity: "warning", code, message, hint };
}

/** Worth knowing. */
export function note(code: string, message: string, hint = ""): Finding {
  return { severity: "note", code, message, hint };
}
