import { assertEquals } from "@std/assert";
import { NodeFindings } from "../../../lib/daemon/reports/node_findings.ts";
import type { NodeFacts } from "../../../lib/findings/facts.ts";
import { factsOf } from "../../findings/facts.ts";
import { node, service, slice } from "../../policy/objects.ts";
import { AutoResetEvent } from "../../../lib/model/values/timing.ts";
import { ManualClock, MemoryLogger, settle } from "../../support/clock_and_log.ts";

const configuration = { clusterCIDRs: ["10.244.0.0/16"] };
const ELSEWHERE = factsOf([node(["192.168.77.3"])], {
  configuration,
  facts: { interfaceAddresses: ["192.168.77.2"] },
});
const HERE = factsOf([node(["192.168.77.2"])], { configuration });

/** Findings of facts that change, on a clock of the test. */
function start(first: NodeFacts, firstSync = Promise.resolve()) {
  const clock = new ManualClock();
  const logger = new MemoryLogger();
  const looks: boolean[] = [];
  const appeared: string[] = [];
  const over = new AbortController();
  const now: { facts: NodeFacts | undefined; drift?: NodeFacts["drift"]; takes?: number } = {
    facts: first,
  };
  const changed = new AutoResetEvent(clock);
  const findings = new NodeFindings({
    changed,
    gather: async (isFull) => {
      looks.push(isFull);
      if (now.takes !== undefined) await clock.sleep(now.takes);
      return now.facts ?? Promise.reject(new Error("no facts"));
    },
    appeared: ({ id }) => appeared.push(id),
    compareRules: () => {
      now.facts &&= { ...now.facts, drift: now.drift };
      return Promise.resolve();
    },
    clock,
    logger,
  });
  const following = findings.follow(firstSync, over.signal);
  const stop = async () => {
    over.abort();
    await following;
  };
  return { clock, logger, looks, appeared, now, changed, findings, stop };
}

Deno.test("a finding is logged when it appears or ends", async () => {
  const { clock, logger, appeared, now, changed, findings, stop } = start(ELSEWHERE);
  await settle();
  assertEquals(findings.list.map(({ id }) => id), ["node-address-elsewhere"]);
  changed.set();
  await clock.advance(1_000);
  assertEquals(logger.entries.map(({ level }) => level), ["warn"]);
  now.facts = HERE;
  changed.set();
  await clock.advance(1_000);
  assertEquals(findings.list, []);
  assertEquals(logger.messages.at(-1), "a finding is gone");
  await stop();
  assertEquals(logger.entries.map(({ level }) => level), ["warn", "info"]);
  assertEquals(appeared, ["node-address-elsewhere"]);
});

Deno.test("the whole node is checked every minute", async () => {
  const { clock, looks, changed, stop } = start(HERE);
  await settle();
  changed.set();
  await clock.advance(1_000);
  assertEquals(looks, [false, true, false]);
  await clock.advance(1_000);
  assertEquals(looks, [false, true, false]);
  await clock.advance(58_000);
  assertEquals(looks, [false, true, false, true]);
  await stop();
});

Deno.test("the whole node is looked at again after a sync that failed", async () => {
  const { clock, looks, findings, stop } = start(HERE);
  await settle();
  findings.suspected();
  await clock.advance(1_000);
  assertEquals(looks, [false, true, true]);
  await stop();
});

Deno.test("a look for somebody who asks compares the rules first", async () => {
  const { findings, now, stop } = start(HERE);
  await settle();
  now.drift = { missing: "the whole table", added: "", by: "" };
  assertEquals(findings.list, []);
  await findings.refresh();
  assertEquals(findings.list.map(({ id }) => id), ["rules-changed"]);
  await stop();
});

Deno.test("changes that come at once are looked at after a pause", async () => {
  const { clock, looks, changed, stop } = start(HERE);
  await settle();
  for (let i = 0; i < 10; i++) changed.set();
  await clock.advance(999);
  assertEquals(looks.length, 2);
  await clock.advance(1);
  assertEquals(looks.length, 3);
  await stop();
});

Deno.test("looks at objects take a part in two hundred of the time", async () => {
  const { clock, looks, changed, now, stop } = start(HERE);
  await settle();
  now.takes = 50;
  for (let time = 0; time < 25_000; time += 50) {
    changed.set();
    await clock.advance(50);
  }
  assertEquals(looks.slice(2), [false, false, false]);
  await stop();
});

Deno.test("facts that cannot be gathered leave the last list", async () => {
  const { clock, logger, now, changed, findings, stop } = start(ELSEWHERE);
  await settle();
  now.facts = undefined;
  for (let i = 0; i < 3; i++) {
    changed.set();
    await clock.advance(1_000);
  }
  assertEquals(findings.list.map(({ id }) => id), ["node-address-elsewhere"]);
  assertEquals(logger.entries.map(({ level }) => level), ["warn", "error"]);
  await stop();
});

/** Findings whose looks end when the test says so, each with its facts. */
function startHeld() {
  const looks: { readonly isFull: boolean; readonly end: (facts: NodeFacts) => void }[] = [];
  const clock = new ManualClock();
  const logger = new MemoryLogger();
  const findings = new NodeFindings({
    changed: new AutoResetEvent(clock),
    gather: (isFull) => {
      const { promise, resolve } = Promise.withResolvers<NodeFacts>();
      looks.push({ isFull, end: resolve });
      return promise;
    },
    appeared: () => {},
    compareRules: () => Promise.resolve(),
    clock,
    logger,
  });
  return { looks, logger, findings };
}

Deno.test("a look that takes long does not undo a later one", async () => {
  const { looks, logger, findings } = startHeld();
  const over = new AbortController();
  const following = findings.follow(Promise.resolve(), over.signal);
  const refreshed = findings.refresh();
  await settle();
  // Only one runs at a time: the second one begins when the first one ends.
  looks[1]?.end(HERE);
  await settle();
  looks[0]?.end(ELSEWHERE);
  await settle();
  looks[1]?.end(HERE);
  await refreshed;
  assertEquals(findings.list, []);
  assertEquals(logger.entries.map(({ level }) => level), ["warn", "info"]);
  over.abort();
  await settle();
  looks[2]?.end(HERE);
  await following;
});

Deno.test("those who ask while a look runs share the next one", async () => {
  const { looks, findings } = startHeld();
  const first = findings.refresh();
  await settle();
  const others = Promise.all([findings.refresh(), findings.refresh()]);
  looks[0]?.end(HERE);
  await first;
  await settle();
  assertEquals(looks.map(({ isFull }) => isFull), [true, true]);
  looks[1]?.end(ELSEWHERE);
  await others;
  assertEquals(findings.list.map(({ id }) => id), ["node-address-elsewhere"]);
});

/** Facts of a node whose API server gives this error. */
function cutOff(message: string): NodeFacts {
  const failures = [{ kind: "", message, isRefusal: false }];
  return { ...HERE, apiServer: { where: "https://api", warnings: [], failures } };
}

Deno.test("an error is logged every ten minutes while it lasts", async () => {
  const { clock, logger, now, changed, stop } = start(cutOff("refused"));
  await settle();
  for (const cause of ["unknown authority", "refused", "unknown authority"]) {
    now.facts = cutOff(cause);
    changed.set();
    await clock.advance(1_000);
  }
  assertEquals(logger.messages, ["refused", "unknown authority"]);
  for (let minute = 0; minute < 11; minute++) await clock.advance(60_000);
  assertEquals(logger.messages, ["refused", "unknown authority", "unknown authority"]);
  await stop();
});

Deno.test("before the first sync, only what needs no program is looked at, when it changes", async () => {
  const { clock, looks, now, changed, findings, stop } = start(HERE, new Promise(() => {}));
  await settle();
  now.facts = cutOff("refused");
  changed.set();
  await clock.advance(1_000);
  assertEquals(findings.list.map(({ id }) => id), ["api-server-unreachable"]);
  assertEquals(looks.includes(true), false);
  await stop();
});

Deno.test("a firewall is reported if two looks find it", async () => {
  const hook = { type: "filter", hook: "forward", priority: 0, policy: "drop", devices: [] };
  const chains = [{ table: "inet firewalld_policy_drop", name: "filter_forward", hook, rules: [] }];
  const objects = [node(["192.168.77.2"]), service("web"), slice("web", ["10.244.0.11"])];
  const factsWith = (listed: typeof chains) =>
    factsOf(objects, { configuration, facts: { ruleset: { chains: listed, routes: [] } } });
  const { clock, appeared, now, findings, stop } = start(factsWith([]));
  await settle();
  const looking = async () => {
    const look = findings.refresh();
    await settle();
    return look;
  };
  now.facts = factsWith(chains);
  const reloading = looking();
  await settle();
  now.facts = factsWith([]);
  await clock.advance(3_000);
  await reloading;
  assertEquals(appeared, []);
  now.facts = factsWith(chains);
  const staying = looking();
  await settle();
  await clock.advance(3_000);
  await staying;
  assertEquals(appeared, ["firewall-drops-services"]);
  await stop();
});

Deno.test("rules that a new firewall removes are reported though they are repaired", async () => {
  const hook = { type: "filter", hook: "forward", priority: 0, policy: "drop", devices: [] };
  const chains = [{ table: "inet firewalld", name: "filter_FORWARD", hook, rules: [] }];
  const objects = [node(["192.168.77.2"]), service("web"), slice("web", ["10.244.0.11"])];
  const firewall = factsOf(objects, { configuration, facts: { ruleset: { chains, routes: [] } } });
  const { clock, appeared, now, findings, stop } = start(HERE);
  await settle();
  now.facts = firewall;
  now.drift = { missing: "iptables nat", added: "", by: "" };
  const look = findings.refresh();
  await settle();
  now.facts = firewall;
  await clock.advance(3_000);
  await look;
  assertEquals(appeared, ["rules-changed", "firewall-drops-services"]);
  await stop();
});
