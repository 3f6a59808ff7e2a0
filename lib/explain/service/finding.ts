/**
 * How findings are made and put in order.
 *
 * @module
 */
import type { Finding as NodeFinding } from "../../model/finding.ts";
import type { Finding } from "../report.ts";

const RANK = { error: 0, warning: 1, note: 2 } as const;

/** Errors first; what several ports say alike, once. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  const unique = new Map(findings.map((each) => [`${each.code} ${each.message}`, each]));
  return [...unique.values()].sort((a, b) => RANK[a.severity] - RANK[b.severity]);
}

/** Takes over the node findings that concern a Service. */
export function aboutService(key: string, found: readonly NodeFinding[]): Finding[] {
  return found.filter(({ services }) => services.includes(key))
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
