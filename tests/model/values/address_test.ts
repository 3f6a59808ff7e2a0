import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  ADDRESS_BITS,
  addressToInteger,
  cidrContains,
  cidrTest,
  cutOut,
  FAMILIES,
  type Family,
  familyOf,
  integerToAddress,
  isEveryAddress,
  isSpecialAddress,
  isUsableAddress,
  mergeCidrs,
  parseAddress,
  parseCidr,
} from "../../../lib/model/values/address.ts";
import { wordsOf } from "../../support/table.ts";

const ADDRESSES: readonly (readonly [text: string, canonical: string])[] = [
  ["10.96.0.1", "10.96.0.1"],
  ["0.0.0.0", "0.0.0.0"],
  ["255.255.255.255", "255.255.255.255"],
  ["010.096.000.001", "10.96.0.1"],
  ["192.168.08.09", "192.168.8.9"],
  ["::", "::"],
  ["::1", "::1"],
  ["FD00:0010:0096:0::1", "fd00:10:96::1"],
  ["2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["2001:0db8:0000:0001:0001:0001:0001:0001", "2001:db8:0:1:1:1:1:1"],
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["::FFFF:0a00:0001", "10.0.0.1"],
  ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
];

for (const [text, canonical] of ADDRESSES) {
  Deno.test(`the address ${text} is read as ${canonical}`, () => {
    assertEquals(parseAddress(text), canonical);
    assertEquals(parseAddress(canonical), canonical);
  });
}

const NO_ADDRESSES: readonly unknown[] = [
  ...wordsOf(`
    10.0.0 10.0.0.1.2 10.0.0.256 10.0.0.0001 10.0.0.-1 10.0.0.+1 1e1.0.0.1 0x0a.0.0.1 167772161
    10.0.0.1/32 １０.0.0.1 fe80::1%eth0 fe80::1%25eth0 [::1] : ::: 1::2::3 1:2:3:4:5:6:7
    1:2:3:4:5:6:7:8:9 12345:: g::1 ::ffff:10.0.0.256 ::1.2.3 localhost
  `),
  ...["", " ", " 10.0.0.1", "10.0.0.1 ", "10.0.0.1\n", "10.0.0.1; flush ruleset", "::1\n"],
  ...[undefined, null, 0, 167772161, true, {}, ["10.0.0.1"]],
];

Deno.test("text that is not an address is refused", () => {
  for (const text of NO_ADDRESSES) assertEquals(parseAddress(text), undefined, Deno.inspect(text));
});

Deno.test("an address has the digits of addresses only, whatever the text was", () => {
  const nearlyAddress = fc.string({ unit: fc.constantFrom(..."0129afAF:.%/ \n-xg") });
  fc.assert(fc.property(fc.oneof(fc.string(), nearlyAddress, fc.ipV4(), fc.ipV6()), (text) => {
    const address = parseAddress(text);
    if (address === undefined) return;
    assert(/^[0-9a-f:.]+$/.test(address), address);
    assertEquals(parseAddress(address), address);
    assertEquals(integerToAddress(familyOf(address), addressToInteger(address)), address);
  }));
});

const family = fc.constantFrom<Family>(...FAMILIES);
const numberOf = (bits: number) => fc.bigInt({ min: 0n, max: (1n << BigInt(bits)) - 1n });

Deno.test("an address and its number stand for each other", () => {
  const addresses = family.chain((each) =>
    numberOf(ADDRESS_BITS[each]).map((value) => [each, value] as const)
  );
  fc.assert(fc.property(addresses, ([each, value]) => {
    const address = integerToAddress(each, value);
    assertEquals(familyOf(address), each);
    assertEquals(addressToInteger(address), value);
  }));
});

const CIDRS: readonly (readonly [text: string, canonical: string])[] = [
  ["10.0.0.0/8", "10.0.0.0/8"],
  ["10.1.2.3/8", "10.0.0.0/8"],
  ["10.1.2.3/32", "10.1.2.3/32"],
  ["10.1.2.3/0", "0.0.0.0/0"],
  ["010.0.0.0/08", "10.0.0.0/8"],
  ["  10.0.0.0/8\n", "10.0.0.0/8"],
  ["FD00::1/64", "fd00::/64"],
  ["::1/0", "::/0"],
  ["::ffff:10.1.2.3/120", "10.1.2.0/24"],
  ["::ffff:a01:203/128", "10.1.2.3/32"],
  ["::ffff:10.1.2.3/96", "0.0.0.0/0"],
  ["2001:db8::ffff/128", "2001:db8::ffff/128"],
  ["2001:db8::ffff/127", "2001:db8::fffe/127"],
];

for (const [text, canonical] of CIDRS) {
  Deno.test(`the CIDR ${JSON.stringify(text)} is read as ${canonical}`, () => {
    assertEquals(parseCidr(text), canonical);
    assertEquals(parseCidr(canonical), canonical);
  });
}

Deno.test("text that is not a CIDR is refused", () => {
  const texts: readonly unknown[] = [
    ...wordsOf(`
      / 10.0.0.0 10.0.0.0/ /8 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/8.0 10.0.0.0/8/8 10.0.0.0/255.0.0.0
      fd00::/129 ::ffff:10.0.0.1/95 ::ffff:10.0.0.1/24 fe80::%eth0/64 10.0.0/8
    `),
    ...["", "10.0.0.0 /8", "10.0.0.0/ 8", "0.0.0.0/0, ::/0"],
    ...[undefined, null, 8, ["10.0.0.0/8"]],
  ];
  for (const text of texts) assertEquals(parseCidr(text), undefined, Deno.inspect(text));
});

Deno.test("a CIDR contains the addresses of its range", () => {
  const cases: readonly (readonly [cidr: string, address: string, contains: boolean])[] = [
    ["10.0.0.0/8", "10.255.255.255", true],
    ["10.0.0.0/8", "11.0.0.0", false],
    ["10.0.0.1/32", "10.0.0.1", true],
    ["10.0.0.1/32", "10.0.0.2", false],
    ["0.0.0.0/0", "203.0.113.1", true],
    ["0.0.0.0/0", "::1", false],
    ["::/0", "10.0.0.1", false],
    ["fd00::/64", "fd00::ffff:1", true],
    ["fd00::/64", "fd00:0:0:1::1", false],
  ];
  for (const [cidr, address, contains] of cases) {
    assertEquals(cidrContains(cidr, address), contains, `${cidr} ${address}`);
    assertEquals(cidrTest(cidr)(address), contains, `${cidr} ${address}`);
  }
});

Deno.test("only a prefix of length 0 is every address", () => {
  assertEquals(["0.0.0.0/0", "::/0"].map(isEveryAddress), [true, true]);
  assertEquals(["10.0.0.0/10", "0.0.0.0/1", "::/10"].map(isEveryAddress), [false, false, false]);
});

Deno.test("unspecified, loopback and link-local addresses are special", () => {
  const special = ["0.0.0.0", "127.0.0.1", "127.255.0.1", "169.254.169.254", "224.0.0.1"]
    .concat(["::", "::1", "fe80::1", "ff01::1", "ff02::1"]);
  assertEquals(special.filter((each) => !isSpecialAddress(each)), []);
  const plain = ["10.0.0.1", "0.0.0.1", "128.0.0.1", "169.253.0.1", "224.0.1.1", "192.0.2.127"]
    .concat(["fd00::1", "2001:db8::1", "ff05::1", "::2"]);
  assertEquals(plain.filter(isSpecialAddress), []);
});

const NEVER_VIRTUAL: readonly string[] = wordsOf(`
  0.0.0.0 0.255.255.255 127.0.0.1 127.255.255.254 169.254.0.1 169.254.169.254 224.0.0.1
  239.255.255.255 255.255.255.255 :: ::1 fe80::1 febf:ffff::1 ff00::1 ff02::1 ff0e::1 ffff::1
  ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:224.0.0.1 ::ffff:255.255.255.255
`);

for (const text of NEVER_VIRTUAL) {
  Deno.test(`${text} is never a virtual IP`, () => {
    assertEquals(isUsableAddress(parseAddress(text) ?? ""), false);
  });
}

Deno.test("the neighbours of special ranges can be virtual IPs", () => {
  const plain = ["1.0.0.0", "126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.0"]
    .concat(["223.255.255.255", "240.0.0.1", "255.255.255.254", "10.127.0.1", "192.169.254.1"])
    .concat(["::2", "fe7f::1", "fec0::1", "feff::1", "fd00::1", "64:ff9b::7f00:1"]);
  assertEquals(plain.filter((each) => !isUsableAddress(each)), []);
});

Deno.test("merging drops contained CIDRs, joins neighbours", () => {
  const cases: readonly (readonly [cidrs: string[], merged: string[]])[] = [
    [[], []],
    [["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"], ["10.0.0.0/8"]],
    [["10.1.0.0/16", "10.0.0.0/8"], ["10.0.0.0/8"]],
    [["10.0.1.0/24", "10.0.0.0/24"], ["10.0.0.0/23"]],
    [["10.0.3.0/24", "10.0.2.0/24", "10.0.0.0/24", "10.0.1.0/24"], ["10.0.0.0/22"]],
    [["10.0.1.0/24", "10.0.2.0/24"], ["10.0.1.0/24", "10.0.2.0/24"]],
    [["192.0.2.0/24", "9.0.0.0/8", "10.0.0.0/8"], ["9.0.0.0/8", "10.0.0.0/8", "192.0.2.0/24"]],
    [["0.0.0.0/1", "128.0.0.0/1"], ["0.0.0.0/0"]],
    [["fd00::1/128", "fd00::/128"], ["fd00::/127"]],
    [["8000::/1", "::/1"], ["::/0"]],
  ];
  for (const [cidrs, merged] of cases) assertEquals(mergeCidrs(cidrs), merged);
});

/** CIDRs in a small part of the address space, so that they meet. */
const neighbours = family.chain((each) => {
  const bits = ADDRESS_BITS[each];
  const base = each === 4 ? addressToInteger("10.0.0.0") : addressToInteger("fd00::");
  const cidr = fc.tuple(fc.bigInt({ min: 0n, max: 63n }), fc.integer({ min: bits - 6, max: bits }))
    .map(([offset, length]) => parseCidr(`${integerToAddress(each, base + offset)}/${length}`));
  const cidrs = fc.array(cidr.map((text) => text ?? ""), { maxLength: 12 });
  return fc.record({ family: fc.constant(each), base: fc.constant(base), cidrs });
});

Deno.test("merged CIDRs cover the same addresses, each once, and cannot be merged further", () => {
  fc.assert(fc.property(neighbours, ({ family, base, cidrs }) => {
    const merged = mergeCidrs(cidrs);
    for (let offset = -1n; offset <= 64n; offset++) {
      const address = integerToAddress(family, base + offset);
      const covered = cidrs.some((cidr) => cidrContains(cidr, address));
      const times = merged.filter((cidr) => cidrContains(cidr, address)).length;
      assertEquals(times, covered ? 1 : 0, `${address} in ${merged}`);
    }
    assertEquals(mergeCidrs(merged), merged);
    assertEquals(mergeCidrs([...cidrs].reverse()), merged);
  }));
});

Deno.test("what is cut out of CIDRs is in none of the rest", () => {
  const cases: readonly (readonly [readonly string[], readonly string[], readonly string[]])[] = [
    [["10.0.0.0/30"], ["10.0.0.2/32"], ["10.0.0.0/31", "10.0.0.3/32"]],
    [["10.0.0.0/30", "10.0.1.0/30"], ["10.0.0.0/24", "fd00::/8"], ["10.0.1.0/30"]],
    [["fd00::/127"], ["fd00::1/128"], ["fd00::/128"]],
    [["10.0.0.0/8"], ["0.0.0.0/0"], []],
    [["10.0.0.0/8"], [], ["10.0.0.0/8"]],
  ];
  for (const [cidrs, holes, rest] of cases) assertEquals(cutOut(cidrs, holes), rest);
});

Deno.test("a CIDR is inside another one if all of its addresses are", () => {
  const inside = (inner: string, outer: string) => cidrContains(outer, inner);
  assertEquals(inside("10.1.0.0/16", "10.0.0.0/8"), true);
  assertEquals(inside("10.0.0.0/8", "10.0.0.0/8"), true);
  assertEquals(inside("10.0.0.0/8", "10.0.0.0/16"), false);
  assertEquals(inside("fd00::/64", "10.0.0.0/8"), false);
});
