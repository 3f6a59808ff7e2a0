import { assertEquals } from "@std/assert";
import {
  chance,
  comment,
  fromLocalPod,
  markAndMask,
  quote,
} from "../../../../lib/backend/iptables/script/rule.ts";
import { tokens } from "../../../../lib/backend/iptables/kernel/saved.ts";

Deno.test("an argument cannot end its line or its quotes", () => {
  const hostile = 'a"\n-A INPUT -j ACCEPT\r\0 \\" b';
  const quoted = quote(hostile);
  assertEquals(quoted.includes("\n"), false);
  assertEquals(tokens(`-m comment --comment ${quoted} -j X`), [
    "-m",
    "comment",
    "--comment",
    'a"?-A INPUT -j ACCEPT?? \\" b',
    "-j",
    "X",
  ]);
});

Deno.test("a plain word is not quoted, as iptables-save writes it", () => {
  assertEquals(comment("ns1"), "-m comment --comment ns1");
  assertEquals(comment("ns1/web:http"), '-m comment --comment "ns1/web:http"');
});

Deno.test("chances are those that the kernel keeps in 31 bits", () => {
  assertEquals(chance(1), undefined);
  assertEquals(chance(2), "-m statistic --mode random --probability 0.50000000000");
  assertEquals(chance(3), "-m statistic --mode random --probability 0.33333333349");
});

Deno.test("the highest mark bit is a positive number", () => {
  assertEquals(markAndMask((1 << 31) >>> 0), "0x80000000/0x80000000");
});

Deno.test("pods are detected by range, interface or beginning of the interface's name", () => {
  assertEquals(fromLocalPod({ type: "cidr", cidr: "10.0.0.0/8" }, "!"), {
    source: "! -s 10.0.0.0/8",
    input: "",
  });
  assertEquals(fromLocalPod({ type: "interface", name: "cni0" }).input, "-i cni0");
  assertEquals(fromLocalPod({ type: "interfacePrefix", prefix: "cali" }, "!").input, "! -i cali+");
  const longest = "a23456789012345";
  assertEquals(fromLocalPod({ type: "interfacePrefix", prefix: longest }).input, `-i ${longest}`);
});
