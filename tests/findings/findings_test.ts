import { assertEquals } from "@std/assert";
import { finding } from "../../lib/findings/catalog.ts";
import { findAll } from "../../lib/findings/findings.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { node, service, slice } from "../policy/objects.ts";
import { NODE_NAME } from "../support/pipeline.ts";
import { factsOf } from "./facts.ts";

Deno.test("a node on which nothing is wrong has no findings", () => {
  const objects = [
    node(["192.168.77.2"]),
    service("web"),
    slice("web", [`10.244.0.1@${NODE_NAME}`]),
  ];
  const facts = factsOf(objects, { configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  assertEquals(atOnce(findAll(facts)), []);
});

Deno.test("warnings come before findings that are only worth knowing", () => {
  const clusterCIDRs = ["10.244.0.0/16"];
  const facts = factsOf([], { mode: "iptables", configuration: { clusterCIDRs } });
  assertEquals(atOnce(findAll(facts)).map(({ severity }) => severity), ["warning", "info"]);
});

Deno.test("after twenty findings of a kind, the last one counts the others", () => {
  const failure = (port: number) =>
    finding("health-check-port-taken", { what: "in use", where: `shop/web port ${port}` });
  const found = Array.from({ length: 25 }, (_, i) => failure(30_000 + i));
  const listed = atOnce(findAll(factsOf([node(["192.168.77.2"])], { facts: { found } })))
    .filter(({ id }) => id === "health-check-port-taken");
  assertEquals([listed.length, listed.at(-1)?.what], [21, "… and 5 more of this kind"]);
});

Deno.test("findings that other parts made are listed", () => {
  const made = (id: Parameters<typeof finding>[0]) => finding(id, { what: "", where: id });
  const facts = {
    found: [made("ip-family-missing"), made("health-check-port-taken")],
    ruleset: { unreadable: made("nft-crashes"), chains: [], routes: [] },
  };
  const found = atOnce(findAll(factsOf([node(["192.168.77.2"])], { facts })));
  assertEquals(found.filter(({ id, where }) => id === where).map(({ id }) => id), [
    "nft-crashes",
    "health-check-port-taken",
    "ip-family-missing",
  ]);
});
