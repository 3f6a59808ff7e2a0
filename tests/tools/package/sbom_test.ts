import { assertEquals, assertMatch } from "@std/assert";
import { NOTICES } from "../../../lib/cli/licenses/notices.ts";
import { billOfMaterials, type Integrities } from "../../../tools/package/sbom.ts";
import { nameOf, readPins } from "../../../tools/image/packages.ts";
import { RELEASE } from "./support.ts";

interface Bill {
  readonly packages: readonly {
    readonly SPDXID: string;
    readonly name: string;
    readonly downloadLocation: string;
    readonly checksums?: readonly { readonly checksumValue: string }[];
  }[];
  readonly relationships: readonly { readonly relatedSpdxElement: string }[];
  readonly creationInfo: { readonly created: string };
}

Deno.test("the bill of materials has every package with its hash", async () => {
  const image = await readPins();
  const files = new Set(Object.values(image.packages).flat().map(({ path }) => path));
  const lock = await Deno.readTextFile(new URL("../../../deno.lock", import.meta.url));
  const bill = billOfMaterials({
    version: "0.1.0",
    commit: RELEASE.commit,
    notices: NOTICES,
    npm: (JSON.parse(lock) as { npm: Integrities }).npm,
    image,
  }) as Bill;
  assertEquals(bill.creationInfo.created, "2026-11-18T11:06:40Z");
  assertEquals(bill.packages.map(({ name }) => name), [
    "signpost",
    ...NOTICES.map(({ name }) => name),
    "signpost-image",
    ...[...files].map((path) => nameOf({ path })),
  ]);
  assertEquals(new Set(bill.packages.map(({ SPDXID }) => SPDXID)).size, bill.packages.length);
  assertEquals(
    bill.relationships.map(({ relatedSpdxElement }) => relatedSpdxElement),
    bill.packages.map(({ SPDXID }) => SPDXID),
  );
  const fromNpm = new Set(NOTICES.map(({ name }) => name));
  for (const { name, SPDXID, checksums, downloadLocation } of bill.packages) {
    assertMatch(SPDXID, /^SPDXRef-[A-Za-z0-9.-]+$/);
    if (name.startsWith("signpost")) continue;
    assertMatch(downloadLocation, /^https:/);
    const hash = fromNpm.has(name) ? /^[0-9a-f]{128}$/ : /^[0-9a-f]{64}$/;
    if (name !== "Deno") assertMatch(checksums?.[0]?.checksumValue ?? "", hash);
  }
});
