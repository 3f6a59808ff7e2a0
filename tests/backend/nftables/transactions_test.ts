import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  parseMark,
  Touched,
  TransactionReader,
} from "../../../lib/backend/nftables/transactions.ts";
import { Marks } from "../../../lib/backend/nftables/nft.ts";

/** Reads lines, and returns all transactions in words. */
function read(...lines: readonly string[]): string[] {
  const reader = new TransactionReader();
  return lines.flatMap((line) => {
    const transaction = reader.read(line);
    if (transaction === undefined) return [];
    const { missing, added, by, marks } = transaction;
    return [`-${missing} +${added} by ${by}${marks.map((mark) => ` #${mark}`).join("")}`];
  });
}

/** A name, the lines of nft monitor, and the transactions that they make. */
const CASES = `
a transaction ends with the line that names its process
delete element inet signpost services4 { 10.96.0.1 . tcp . 80 : goto x }
delete chain inet signpost services
add rule inet signpost firewall ip saddr 10.0.0.1 drop
# new generation 7 by process 4711 (nft)
# new generation 8 by process 4712 (ip tables)
=> -element of services4, chain of services +rule of firewall by nft (pid 4711)
=> - + by ip tables (pid 4712)

new maps and sets count as sets
delete map inet signpost services4
add set inet signpost other { type ipv4_addr; }
delete set inet signpost __set4
# new generation 7 by process 1 (nft)
=> -set of services4 +set of other by nft (pid 1)

devices of the flowtable come and go without a word
add flowtable inet signpost fast-path { hook ingress priority filter; devices = { "eth0" }; counter; }
# new generation 7 by process 1 (nft)
=> - + by nft (pid 1)

where the whole table is gone, its parts are not listed
delete chain inet signpost services
delete table inet signpost
# new generation 7 by process 1 (nft)
=> -the whole table + by nft (pid 1)
`;

for (const block of CASES.trim().split("\n\n")) {
  const [name = "", ...lines] = block.split("\n");
  const isExpected = (line: string) => line.startsWith("=> ");
  Deno.test(name, () => {
    const found = read(...lines.filter((line) => !isExpected(line)));
    assertEquals(found.map((each) => `=> ${each}`), lines.filter(isExpected));
  });
}

Deno.test("a long list names a few parts and counts the rest", () => {
  const lines = [..."abcdefg"].map((name) => `delete chain inet signpost ${name}`);
  assertEquals(read(...lines, "# new generation 7"), [
    "-chain of a, chain of b, chain of c, chain of d, chain of e and 2 more + by ",
  ]);
});

Deno.test("only its maker knows a mark", () => {
  const marks = new Marks(0x1000);
  const command = marks.next();
  assertStringIncludes(command, "    elements = {\n      0x1000 timeout 10ms\n    }\n");
  const line = "add element inet signpost transactions { 0x00001000 timeout 8ms expires 8ms }";
  assertEquals(read(line, "# new generation 7"), ["- + by  #4096"]);
  assertEquals(parseMark(line), 0x1000);
  assertEquals([0xfff, 0x1000, 0x1001].map((mark) => marks.isOwn(mark)), [false, true, false]);
  assertEquals(marks.next(), command, "the kernel did not take it");
  marks.taken();
  marks.taken();
  assertEquals(marks.isOwn(0x1001), false);
  assertEquals(marks.next().includes("0x1001"), true);
  assertEquals([0x1000, 0x1001].map((mark) => marks.isOwn(mark)), [true, true]);
});

Deno.test("the line of an element that nft prints with its memory is not kept", () => {
  const element = "delete element inet signpost source-ranges-tcp4 { 10.0.0.1-0x";
  const reader = new TransactionReader();
  reader.read(`${element}${"f".repeat(350_000)} }`);
  const { missing, elementLines } = reader.read("# new generation 7 by process 1 (nft)") ?? {};
  assertEquals([missing, elementLines], ["element of source-ranges-tcp4", [""]]);
  const touched = new Touched();
  touched.add({ elementLines, touchesStructure: false });
  assertEquals(touched.take().elements, undefined);
});
