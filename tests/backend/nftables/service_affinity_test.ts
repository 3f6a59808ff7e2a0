import { assertEquals } from "@std/assert";
import { clientsIn, NO_CONTENTS, parsingListing } from "../../../lib/backend/nftables/read.ts";
import { tableSet } from "../../../lib/backend/nftables/sets.ts";
import { printClients } from "../../../lib/backend/nftables/write.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { Kernel } from "./kernel.ts";

const FOUR = "affinity4-H6U4RGLG-default/web/tcp/http__10.0.0.1.8080";
const SIX = "affinity6-AKP6PIVP-default/web/tcp/http__fd00..1.8080";

const SETS = [
  tableSet("affinityClients", { family: 4, endpoint: FOUR.slice("affinity4-".length) }),
  tableSet("affinityClients", { family: 6, endpoint: SIX.slice("affinity6-".length) }),
];

function parse(listing: string) {
  return atOnce(parsingListing(listing)) ?? NO_CONTENTS;
}

/** The output of nft 1.0.6. */
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
  const clients = parse(LISTING);
  assertEquals(clientsIn(clients, FOUR), [
    client("198.51.100.1", 10_800, 10_799),
    client("198.51.100.2", 86_400, 3_660),
    client("198.51.100.4", 600, 1),
  ]);
  assertEquals(clientsIn(clients, SIX), [client("::1", 90, 89), client("2001:db8::1", 90, 89)]);
  assertEquals(clientsIn(clients, "affinity4-EMPTY"), []);
  assertEquals(clientsIn(clients, "hairpins4"), []);
});

Deno.test("a client without a timeout of its own is given what is left to it", () => {
  const listing =
    "table inet signpost {\n\tset x {\n\t\telements = { 10.0.0.1 expires 5m }\n\t}\n}";
  assertEquals(clientsIn(parse(listing), "x"), [
    { address: "10.0.0.1", timeoutSeconds: 300, expiresSeconds: 300 },
  ]);
});

Deno.test("a listing of something else gives no clients", () => {
  for (const elements of ["", "1 expires 5m", "10.0.0.1", "10.0.0.1 expires soon"]) {
    const text = `table inet signpost {\n\tset x {\n\t\telements = { ${elements} }\n\t}\n}`;
    assertEquals(clientsIn(parse(text), "x"), []);
  }
  assertEquals(clientsIn(parse("Error: No such file or directory"), "x"), []);
});

Deno.test("the clients of each set of the new table are written", () => {
  const others = ["EMPTY", "NEW"].map((endpoint) =>
    tableSet("affinityClients", { family: 4, endpoint })
  );
  assertEquals(
    [...SETS.slice(1), ...others].map((set) => printClients(set, parse(LISTING))).join(""),
    `  set ${SIX} {
    typeof ip6 saddr; flags dynamic,timeout
    elements = {
      ::1 timeout 90s expires 89s,
      2001:db8::1 timeout 90s expires 89s
    }
  }

`,
  );
});

Deno.test("the kernel takes the clients that it lists", async () => {
  await using kernel = await Kernel.create();
  const table =
    `table inet signpost {\n set ${FOUR} { typeof ip saddr; flags dynamic,timeout; }\n` +
    ` set ${SIX} { typeof ip6 saddr; flags dynamic,timeout; }\n}\n`;
  const clients = `add element inet signpost ${FOUR} ` +
    `{ 198.51.100.1 timeout 10800s expires 10000s, 198.51.100.2 timeout 86400s expires 70000s }\n` +
    `add element inet signpost ${SIX} { 2001:db8::1 timeout 600s expires 500s }\n`;
  await kernel.script(table + clients);
  const first = parse(await kernel.nft.listSets());
  await kernel.script(
    `delete table inet signpost\n${table.slice(0, -2)}${
      SETS.map((set) => printClients(set, first)).join("")
    }}\n`,
  );
  const second = parse(await kernel.nft.listSets());
  const found = [FOUR, SIX].flatMap((name) =>
    clientsIn(second, name).map(({ address, timeoutSeconds, expiresSeconds }) =>
      `${name} ${address} ${timeoutSeconds} ${Math.ceil(expiresSeconds / 1_000)}`
    )
  );
  assertEquals(found.sort(), [
    `${FOUR} 198.51.100.1 10800 10`,
    `${FOUR} 198.51.100.2 86400 70`,
    `${SIX} 2001:db8::1 600 1`,
  ]);
});
