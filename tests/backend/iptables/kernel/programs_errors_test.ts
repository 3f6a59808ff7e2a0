import { casesOf } from "../../../support/table.ts";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { failureOf } from "../../../../lib/backend/iptables/kernel/programs.ts";

const INPUT = "*nat\n-A KUBE-SVC-A -m recent --set\nCOMMIT\n";

/** The standard error of iptables 1.8.9, and the failure that it means. */
const CASES = casesOf(`
Another app is currently holding the xtables lock. Stopped waiting after 5s.\\n => busy
iptables-nft-restore v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\\n => not-permitted
Fatal: can't open lock file /run/xtables.lock: Permission denied\\n => not-permitted
iptables-restore v1.8.9 (legacy): can't initialize iptables table \`nat': Table does not exist (do you need to insmod?)\\n => not-supported
iptables-restore v1.8.9 (legacy): Couldn't load match \`recent':No such file or directory\\n\\nError occurred at line: 2\\nTry \`iptables-restore -h' or 'iptables-restore --help' for more information.\\n => not-supported
Warning: Extension recent revision 0 not supported, missing kernel module?\\niptables-nft-restore v1.8.9 (nf_tables): \\nline 2: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SVC-A\\n => not-supported
iptables-nft-restore: line 2 failed: No chain/target/match by that name.\\n => conflict
iptables-nft-restore: line 2 failed: Bad rule (does a matching rule exist in that chain?).\\n => conflict
iptables-nft-restore v1.8.9 (nf_tables): \\nline 5: CHAIN_DEL failed (Device or resource busy): chain B\\n => conflict
iptables-restore: line 3 failed\\n => conflict
Segmentation fault\\n => unknown
`);

for (const [stderr, failure] of CASES) {
  Deno.test(`${JSON.stringify(stderr.slice(0, 70))} is ${failure}`, () => {
    const error = failureOf("iptables-restore", { code: 1, stdout: "", stderr }, INPUT);
    assertEquals(error.failure, failure);
    assertEquals(error.message.includes("\n"), false);
  });
}

Deno.test("an error quotes the line at fault, escaped", () => {
  const stderr = "iptables-restore: line 2 failed: Bad\x1b[31m rule\n";
  const { message } = failureOf("iptables-restore", { code: 1, stdout: "", stderr }, INPUT);
  assertStringIncludes(message, "(line: -A KUBE-SVC-A -m recent --set)");
  assertEquals(message.includes("\x1b"), false);
});
