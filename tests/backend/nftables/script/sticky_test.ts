import { assertEquals } from "@std/assert";
import { parseStickyClients, renderStickyClients } from "../../../../lib/backend/nftables/text.ts";
import { Kernel } from "../kernel.ts";

const FOUR = "affinity4-H6U4RGLG-default/web/tcp/http__10.0.0.1.8080";
const SIX = "affinity6-AKP6PIVP-default/web/tcp/http__fd00..1.8080";

/** What nft 1.0.6 printed. */
const LISTING = `table inet signpost {
	set hairpins4 {
		typeof ip saddr . ip daddr
		elements = { 10.0.0.1 . 10.0.0.1 }
	}
	set ${FOUR} {
		typeof ip saddr
		flags dynamic,timeout
		elements = { 198.51.100.1 timeout 3h expires 2h59m59s888ms, 198.51.100.2 timeout 1d expires 1h1m888ms,
			     198.51.100.3 timeout 10m expires 888ms, 198.51.100.4 timeout 10m expires 1s }
	}
	set ${SIX} {
		typeof ip6 saddr
		flags dynamic,timeout
		elements = { ::1 timeout 1m30s expires 1m29s888ms,
			     2001:db8::1 timeout 1m30s expires 1m29s888ms }
	}
	set affinity4-EMPTY {
		typeof ip saddr
		flags dynamic,timeout
	}
}
`;

Deno.test("clients are read from a listing, with the time that is left to them", () => {
  const client = (address: string, timeoutSeconds: number, expiresSeconds: number) => ({
    address,
    timeoutSeconds,
    expiresSeconds,
  });
  const clients = parseStickyClients(LISTING);
  assertEquals(clients.get(FOUR), [
    client("198.51.100.1", 10_800, 10_799),
    client("198.51.100.2", 86_400, 3_660),
    client("198.51.100.4", 600, 1),
  ]);
  assertEquals(clients.get(SIX), [client("::1", 90, 89), client("2001:db8::1", 90, 89)]);
  assertEquals(clients.get("affinity4-EMPTY"), []);
  assertEquals(clients.get("hairpins4"), []);
});

Deno.test("a client without a timeout of its own is given what is left to it", () => {
  const listing = "\tset x {\n\t\telements = { 10.0.0.1 expires 5m }\n\t}\n";
  assertEquals(parseStickyClients(listing).get("x"), [
    { address: "10.0.0.1", timeoutSeconds: 300, expiresSeconds: 300 },
  ]);
});

Deno.test("a listing of something else gives no clients", () => {
  for (const text of ["", "Error: No such file or directory", "set x {\nelements = { 1 }\n}"]) {
    assertEquals([...parseStickyClients(text).values()].flat(), []);
  }
});

const set = (name: string) => ({ name });

Deno.test("only clients of sets that are in the new table are written", () => {
  assertEquals(
    renderStickyClients(LISTING, [set(SIX), set("affinity4-EMPTY"), set("affinity4-NEW")]),
    `add element inet signpost ${SIX} {
  ::1 timeout 90s expires 89s,
  2001:db8::1 timeout 90s expires 89s
}
`,
  );
  assertEquals(renderStickyClients(LISTING, []), "");
});

Deno.test("the kernel lists clients so that they can be read, and takes them again", async () => {
  await using kernel = await Kernel.create();
  const table =
    `table inet signpost {\n set ${FOUR} { typeof ip saddr; flags dynamic,timeout; }\n` +
    ` set ${SIX} { typeof ip6 saddr; flags dynamic,timeout; }\n}\n`;
  const clients = `add element inet signpost ${FOUR} ` +
    `{ 198.51.100.1 timeout 10800s expires 10000s, 198.51.100.2 timeout 86400s expires 70000s }\n` +
    `add element inet signpost ${SIX} { 2001:db8::1 timeout 600s expires 500s }\n`;
  await kernel.script(table + clients);
  const first = await kernel.nft.listSets();
  await kernel.script(
    `delete table inet signpost\n${table}${renderStickyClients(first, [set(FOUR), set(SIX)])}`,
  );
  const found = [...parseStickyClients(await kernel.nft.listSets())].flatMap(([name, list]) =>
    list.map(({ address, timeoutSeconds, expiresSeconds }) =>
      `${name} ${address} ${timeoutSeconds} ${Math.ceil(expiresSeconds / 1_000)}`
    )
  );
  assertEquals(found.sort(), [
    `${FOUR} 198.51.100.1 10800 10`,
    `${FOUR} 198.51.100.2 86400 70`,
    `${SIX} 2001:db8::1 600 1`,
  ]);
});
