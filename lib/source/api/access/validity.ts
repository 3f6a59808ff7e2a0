/**
 * Checks the dates of certificate authorities. `fetch` and `node:https` do not, but Go does, and so
 * does kube-proxy.
 *
 * @module
 */
import { X509Certificate } from "node:crypto";

/** Authorities, split by validity at some time. */
export interface Authorities {
  readonly valid: readonly string[];
  /** The reasons for the invalid ones, such as "expired on 2026-01-01T00:00:00.000Z". */
  readonly invalid: readonly string[];
}

/**
 * Splits authorities into valid and invalid ones. An unreadable one counts as valid: TLS reports
 * its fault.
 *
 * @param certificates PEM, one each
 * @param now milliseconds since 1970
 */
export function judgeAuthorities(certificates: readonly string[], now: number): Authorities {
  const judged = certificates.map((pem) => ({ pem, problem: problemOf(pem, now) }));
  return {
    valid: judged.filter(({ problem }) => problem === undefined).map(({ pem }) => pem),
    invalid: judged.flatMap(({ problem }) => problem ?? []),
  };
}

function problemOf(pem: string, now: number): string | undefined {
  const dates = datesOf(pem);
  if (dates === undefined) return undefined;
  const [from, to] = dates;
  if (now > to.getTime()) return `expired on ${to.toISOString()}`;
  if (now < from.getTime()) return `is not valid before ${from.toISOString()}`;
  return undefined;
}

function datesOf(pem: string): readonly [Date, Date] | undefined {
  try {
    const { validFrom, validTo } = new X509Certificate(pem);
    const dates = [new Date(validFrom), new Date(validTo)] as const;
    return dates.some((date) => Number.isNaN(date.getTime())) ? undefined : dates;
  } catch {
    return undefined;
  }
}
