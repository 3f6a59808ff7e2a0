import { assertEquals } from "@std/assert";
import {
  refusedObjects,
  serviceStatus,
  shortenConflicts,
} from "../../../lib/daemon/reports/status_report.ts";
import type { ServiceStatus } from "../../../lib/model/status.ts";
import type { ServiceChange } from "../../../lib/model/kernel/desired.ts";
import type { Parts } from "../../../lib/daemon/parts.ts";
import { servicePort } from "../../observe/page/contents.ts";
import { countConflicts, describeObjectProblems } from "../../../lib/observe/human.ts";
import { ServiceSyncs } from "../../../lib/daemon/reports/history.ts";

const START = Date.parse("2026-01-02T03:04:05.000Z");
const OLD = [servicePort()];
const NEW = [servicePort({ port: 81 })];

/** A daemon whose objects and syncs the test decides. */
class Fake {
  readonly services = new Map([["shop/web", OLD], ["shop/db", OLD]]);
  readonly waiting = new Set<string>();
  readonly writing = new Set<string>();
  refused: { kind: "Service"; key: string; reason: string }[] = [];
  now = START;
  readonly syncs = new ServiceSyncs({
    desired: { services: this.services },
    clock: { now: () => this.now },
  });

  /** Ends a sync that was about one change. */
  sync(kind: "full" | "partial", change: Partial<ServiceChange> = {}, done = true): void {
    const services = new Map([["shop/web", { before: OLD, after: OLD, ...change }]]);
    this.syncs.follow({ change: { node: undefined, services }, applied: done ? kind : undefined });
  }

  of(service: string): ServiceStatus {
    return serviceStatus({
      serviceSyncs: this.syncs,
      refusals: () => this.refused,
      desired: { unsupported: () => [] },
      cache: { isWaiting: (key: string) => this.waiting.has(key) },
      loop: { isWriting: (key: string) => this.writing.has(key) },
    } as unknown as Parts, service);
  }

  /** Returns the status of `shop/web`. */
  get web(): string {
    const { state, since, sync, reason } = this.of("shop/web");
    return [state, since, sync && `${sync.kind} ${sync.number}`, reason].filter(Boolean).join("; ");
  }
}

const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();

Deno.test("a Service is in the kernel since the sync that changed it", () => {
  const daemon = new Fake();
  daemon.sync("full");
  assertEquals(daemon.web, `applied; ${at(0)}; full 1`);
  daemon.now += 1000;
  daemon.sync("partial", { after: NEW });
  daemon.now += 1000;
  daemon.sync("partial");
  assertEquals(daemon.web, `applied; ${at(1)}; partial 2`);
  assertEquals(daemon.of("shop/db").sync, { number: 1, kind: "full" });
});

Deno.test("a Service is pending while it waits, while it is written and after a failed sync", () => {
  const daemon = new Fake();
  daemon.sync("full");
  daemon.waiting.add("shop/web");
  assertEquals(daemon.web, `pending; ${at(0)}; full 1; the next sync writes it`);
  daemon.waiting.clear();
  daemon.writing.add("shop/web");
  assertEquals(daemon.web, `pending; ${at(0)}; full 1; a sync writes it now`);
  daemon.writing.clear();
  daemon.sync("partial", { after: NEW }, false);
  assertEquals(daemon.web, `pending; ${at(0)}; full 1; the last sync failed and is tried again`);
  daemon.now += 1000;
  daemon.sync("full");
  assertEquals(daemon.web, `applied; ${at(1)}; full 2`);
});

Deno.test("a rejected Service keeps the time of its rules and says why it is rejected", () => {
  const daemon = new Fake();
  daemon.sync("full");
  daemon.refused = [{ kind: "Service", key: "shop/web", reason: "spec.ports[0].port is 0" }];
  assertEquals(daemon.web, `rejected; ${at(0)}; full 1; spec.ports[0].port is 0`);
});

Deno.test("a Service without rules is absent, also after it was there", () => {
  const daemon = new Fake();
  assertEquals(daemon.of("shop/none").state, "absent");
  daemon.sync("full");
  daemon.services.delete("shop/web");
  daemon.sync("partial", { after: [] });
  assertEquals(daemon.web, "absent");
});

Deno.test("a status lists the first 1,000 refused objects", () => {
  assertEquals(refusedObjects([]), { refused: [] });
  const each = (kind: "Service" | "Node", index: number) => ({
    kind,
    key: `a/${index}`,
    reason: "x",
  });
  const services = Array.from({ length: 1_500 }, (_, index) => each("Service", index));
  const { refused, refusedByKind } = refusedObjects([...services, each("Node", 0)]);
  assertEquals(refused.length, 1_001);
  assertEquals(refused.at(-1), { kind: "Service", key: "", reason: "… and 501 more" });
  assertEquals(refusedByKind, { Service: 1_500, Node: 1 });
});

Deno.test("conflicts that a status does not list are counted in its last entries", () => {
  const lost = (loser: string, length: number) =>
    Array.from({ length }, (_, i) => ({ claim: `${i}`, holder: "a/b", loser, because: "older" }));
  const rest = { holder: "", because: "" };
  assertEquals(shortenConflicts(lost("c/d", 20)), lost("c/d", 20));
  const ofOne = shortenConflicts([...lost("c/d", 25), ...lost("e/f", 1)]);
  assertEquals(ofOne.slice(20), [
    { ...rest, claim: "… and 5 more", loser: "c/d", more: 5 },
    ...lost("e/f", 1),
  ]);
  const problems = { refused: [], conflicts: ofOne, servicesWithoutEndpoints: 0 };
  assertEquals(describeObjectProblems(problems), "26 conflicts");
  const ofAll = shortenConflicts(Array.from({ length: 100 }, (_, i) => lost(`c/${i}`, 30)).flat());
  assertEquals(ofAll.length, 1_001);
  assertEquals(ofAll.at(-1)?.claim, `… and ${ofAll.at(-1)?.more} more`);
  assertEquals(countConflicts(ofAll), 3_000);
});
