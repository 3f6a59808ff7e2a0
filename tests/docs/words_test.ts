/** Texts for users say the same thing in the same words, those of the glossary in lib/README.md. */
import { assertEquals } from "@std/assert";
import { filesBelow, read } from "./checkout.ts";

/** Words that do not appear in texts for users, and the words to use instead. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bignor(?:e|es|ed|ing)\b|\bskip(?:s|ped|ping)?\b/, "left out, not used, or without effect"],
  [/\bVIPs?\b|\b[Ss]ervice (?:IP|address)(?:s|es)?\b/, "virtual IP"],
  [/\bput(?:ting)? back\b|\bresync|\bheal(?:s|ed)?\b/, "repair, or full sync"],
  [/\bmend(?:s|ed)?\b/, "fix; repair for rules"],
  [/\bsaved state\b/, "state file"],
  [/\bon localhost\b|\blocalhost node ports?\b/, "node port on loopback"],
  [/\bUDP connections\b|\btracked connections?\b/, "conntrack entry"],
  [/\bnot well\b/, "unhealthy"],
  [/\b(?:iptables|nft|legacy) backend/, "iptables variant"],
  [/\bof before\b|\bnone of signpost's business\b|\bat one go\b/, "old, not handled, at once"],
  [/\b(?:load balancer|loadbalancer) IPs?\b/, "load-balancer IP"],
  [/\bnodeports?\b|\bNodePorts?\b/, "node port"],
  [/\b[Tt]akeovers?\b|\bhand-?overs?\b/, "take over, take-over"],
  [/\b(?:is|are) told\b|\b[Ww]hoever\b|\bby itself\b/, "is reported, everyone who, alone"],
  [/\bas (?:it|they) should be\b|\bwhat it should\b/, "the desired rules, correct"],
  [/\b(?:whitelist|blacklist|master node|sanity)\b/, "allow, deny, control-plane node, check"],
];

/** The texts of a module that have more than one word, without comments. */
function textsOf(code: string): string[] {
  const bare = code.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
  return [...bare.matchAll(/"(?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)]
    .map(([text]) => text);
}

function modulesBelow(folder: string): string[] {
  return filesBelow(folder).filter((name) => name.endsWith(".ts"));
}

function pages(): string[] {
  return [...filesBelow("docs/"), "README.md", "SECURITY.md"]
    .filter((name) => /\.(?:md|1)$/.test(name));
}

/** Lines that use words of other programs: chains, fields, flags and kube-proxy's rule comments. */
const FOREIGN = /^lib\/(?:backend\/(?:iptables\/script|nftables\/sets\.ts)|cli\/licenses\/)/;

Deno.test("texts for users have none of the words that the glossary replaces", async () => {
  const found: string[] = [];
  const search = (name: string, text: string) => {
    // Flags, fields and code may have words of other programs.
    const plain = (name.endsWith(".ts") ? text : text.replace(/`[^`\n]*`/g, ""))
      .replace(/\$\{[^}]*\}|[\w\\]*-[\w\\-]*-[\w-]+/g, "");
    for (const [word, instead] of WORDS) {
      const [match] = word.exec(plain) ?? [];
      if (match !== undefined) found.push(`${name}: "${match}"; write: ${instead}`);
    }
  };
  for (const name of modulesBelow("lib/").filter((name) => !FOREIGN.test(name))) {
    for (const text of textsOf(await read(name))) search(name, text);
  }
  for (const name of pages()) {
    for (const line of (await read(name)).split("\n")) search(name, line);
  }
  assertEquals(found, []);
});

/** Matches a summary that neither begins with a verb nor names the thing (CONTRIBUTING.md). */
const NO_SUMMARY = /\/\*\*(?:\n \*)? (?:What|Whether|Where|Those)\b.*/g;

Deno.test("no summary of a comment begins with What, Whether, Where or Those", async () => {
  const found: string[] = [];
  for (const name of ["bench/", "lib/", "tests/", "tools/"].flatMap(modulesBelow)) {
    for (const [summary] of (await read(name)).matchAll(NO_SUMMARY)) {
      found.push(`${name}: ${summary}`);
    }
  }
  assertEquals(found, []);
});
