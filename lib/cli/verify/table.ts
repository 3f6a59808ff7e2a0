/**
 * What `signpost verify` prints for people.
 *
 * @module
 */
import { plain } from "../../model/values/text.ts";
import type { ServiceDifference, Verification } from "../../model/kernel/differences.ts";
import { type Paint, textTable } from "../output.ts";

const COLOURS = { missing: "red", extra: "yellow", wrong: "red" } as const;

/**
 * The report as text.
 *
 * @param options `parts`: what the rules are made of, in the plural
 */
export function verificationTable(
  report: Verification,
  { paint, parts }: { readonly paint: Paint; readonly parts: string },
): string {
  const {
    node,
    mode,
    services,
    servicePorts,
    compared,
    differences,
    inFlight,
    heldBack,
    otherProxies,
  } = report;
  const scope = `${mode} on ${plain(node)}: ${services} services with ${servicePorts} ports, ` +
    `${compared} ${parts}`;
  const count = differences.length;
  const verdict = report.same
    ? paint("the kernel holds what it should", "green")
    : count === 0
    ? paint("the kernel holds what it should, and another proxy's rules", "yellow")
    : paint(count === 1 ? "1 difference" : `${count} differences`, "red");
  return [
    `${scope}\n${verdict}\n`,
    ...listed(differences),
    ...inFlight.length === 0 ? [] : [
      "\nin flight: the daemon writes this within a moment, a change of the node's addresses within 30 s\n",
      ...listed(inFlight),
    ],
    ...heldBack.length === 0 ? [] : [
      "\nheld back: the daemon keeps the last good rules of these Services, and they count as right\n",
      textTable(heldBack.map(({ service, reason }) => [service, reason]), "  "),
    ],
    ...otherProxies.length === 0 ? [] : [
      "\nanother proxy has rules on this node; stop it, then its rules go\n",
      textTable(otherProxies.map((rules) => [rules]), "  "),
    ],
    ...report.fix ? [`\n${plain(report.fix.message)}\n`] : [],
  ].join("").replace(
    /^ {2}(missing|extra|wrong)/gm,
    (_, type: keyof typeof COLOURS) => `  ${paint(type, COLOURS[type])}`,
  );
}

function listed(differences: readonly ServiceDifference[]): string[] {
  return [...Map.groupBy(differences, (each) => each.in)].map(([place, list]) =>
    `\n${plain(place)}\n${textTable(list.map(toRow), "  ")}`
  );
}

function toRow({ type, key, desired, held, service }: ServiceDifference): string[] {
  const what = type === "missing"
    ? join(key, desired)
    : type === "extra"
    ? join(key, held)
    : `${key === "" ? "" : `${key} : `}${held} (should be ${desired || "nothing"})`;
  return [type, what, service];
}

function join(key: string, data: string): string {
  return [key === "" ? "all of it" : key, ...data === "" ? [] : [data]].join(" : ");
}
