/**
 * `bench/scale.md`, made of the results.
 *
 * @module
 */
import type { Row } from "../report.ts";
import { megabytes } from "../report.ts";
import type { ScaleResults } from "./results.ts";
import { failureLines, goalRows, measureRows, missedRows } from "./tables.ts";

/** The page. */
export function renderPage(results: ScaleResults): string {
  const { date, commit, load, machine, minutes, base, noLimit, shapes } = results;
  const versions = [...new Set(shapes.flatMap(({ limit }) => limit?.version ?? []))];
  const limit = versions.length > 0
    ? `The memory limit is that of the unit (\`MemoryMax\`), in a cgroup of version ${
      versions.join(" and ")
    }.`
    : `The memory limit was not tried${noLimit === "" ? "" : `: ${noLimit}`}.`;
  return `<!-- Written by \`deno task bench scale\`; change bench/scale/page.ts. -->
# At scale

Clusters of the sizes that people have published: 5,006 Services with 250,011 endpoints
([#135639](https://github.com/kubernetes/kubernetes/issues/135639)), 44,125 Services
([#139513](https://github.com/kubernetes/kubernetes/issues/139513)), and beyond. Services × endpoints of each.

Measured at commit ${commit} on ${date}: ${machine.cores} cores (${machine.cpu}), kernel ${machine.kernel}, ${machine.nft},
load average ${load.toFixed(1)} before, in one sitting of ${
    Math.ceil(minutes)
  } minutes. signpost is the
program of the binary with its V8 flags and with the defaults that the unit starts it with, the state file among them, at log level 2; the
API server is in the same namespace. \`deno task bench scale\` measures it on the machine that it runs on.
${failureLines(results).map((line) => `\n${line}\n`).join("")}

People reported full syncs of kube-proxy from larger machines: 16m43s in #139513 (1.36.1), 2 to 20 minutes in #135639.

${markdownTable(measureRows(results))}

A restart finds the table in place. The exponent is that of growth with the elements (each Service has one, and each endpoint): 1 is linear, 0 flat. A change is
an endpoint of another address, four a second, until the kernel tells of the commit. Memory is resident; a peak is
that of one process, the largest of its kind. A foreign change is the deletion of one element by another program, three times:
it is noticed when the log names it, and repaired when it is back.
The health server is asked every 10 ms by another process, by a new connection each time, and is silent from a question to its answer; a full sync is one
that finds the table as it should be. Work until it answers is what signpost's main thread computes from a question to the answer: the turn that goes on, and a collection where one comes.

## Goals

${markdownTable(goalRows(results))}

The base, a daemon with one Service after the same changes and repairs, is ${
    megabytes(base)
  }; over it 0.5 kB for each endpoint and 3 kB for each Service are
allowed. ${limit}
${renderMissed(results)}`;
}

/** Empty where all goals are met. */
function renderMissed(results: ScaleResults): string {
  const rows = missedRows(results);
  if (rows.length === 0) return "";
  const head: Row = ["missed", "Services x endpoints", "by", "floor: nft -f alone", "reason"];
  return `\n${markdownTable([head, ...rows])}\n`;
}

function markdownTable([head, ...rows]: readonly [Row, ...Row[]]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, column) => column === 0 ? "---" : "---:");
  return [line(head), `|${rule.join("|")}|`, ...rows.map(line)].join("\n");
}
