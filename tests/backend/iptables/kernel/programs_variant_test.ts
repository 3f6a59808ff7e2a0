import { assertEquals, assertRejects } from "@std/assert";
import { chooseVariant, findIptables } from "../../../../lib/backend/iptables/kernel/programs.ts";
import { ApplyError } from "../../../../lib/model/kernel/dataplane.ts";
import {
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../../../../lib/model/ports/ports.ts";
import { Kernel, VARIANTS } from "../kernel.ts";

const HINT = "*mangle\n:PREROUTING ACCEPT [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n";
const rules = (count: number) => `*filter\n${"-A INPUT -j ACCEPT\n".repeat(count)}COMMIT\n`;

Deno.test("the variant with kubelet's hint is chosen, however many rules the other has", () => {
  const { variant, mixed } = chooseVariant({ nft: rules(9), legacy: HINT + rules(1) });
  assertEquals({ variant, mixed }, { variant: "-legacy", mixed: true });
  assertEquals(chooseVariant({ nft: HINT, legacy: rules(9) }).variant, "-nft");
  const canary = HINT.replace("KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY");
  assertEquals(chooseVariant({ nft: "", legacy: canary }).variant, "-legacy");
});

Deno.test("kubelet's hint counts beside a table mangle of the other family", () => {
  const other = "*mangle\n:PREROUTING ACCEPT [0:0]\n:MINE - [0:0]\nCOMMIT\n";
  assertEquals(chooseVariant({ nft: rules(9), legacy: HINT + other }).variant, "-legacy");
  assertEquals(chooseVariant({ nft: rules(9), legacy: other + HINT }).variant, "-legacy");
});

Deno.test("without a hint the variant with more rules is chosen, else the system's own", () => {
  assertEquals(chooseVariant({ nft: rules(1), legacy: rules(2) }).variant, "-legacy");
  assertEquals(chooseVariant({ nft: rules(3), legacy: rules(2) }).variant, "-nft");
  assertEquals(chooseVariant({ nft: "", legacy: "" }), {
    variant: "",
    reason: "0 rules in iptables-nft, 0 in iptables-legacy",
    mixed: false,
  });
});

for (const variant of VARIANTS) {
  Deno.test(`a kernel in which kubelet uses iptables${variant} is recognised`, async () => {
    await using kernel = await Kernel.create(variant);
    await kernel.restore(4, "*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n");
    const found = await findIptables(kernel.runner);
    assertEquals(found.variant, variant);
    assertEquals(found.families, [4, 6]);
    assertEquals(found.tcpBeLiberal, false);
  });
}

Deno.test("a node without ip6tables has IPv4 alone", async () => {
  await using kernel = await Kernel.create("-nft");
  const runner: ProcessRunner = {
    run: (argv, stdin) =>
      argv[0].startsWith("ip6")
        ? Promise.reject(new ProgramMissingError(argv[0]))
        : kernel.runner.run(argv, stdin),
  };
  const { families, missing } = await findIptables(runner);
  assertEquals(families, [4]);
  assertEquals(missing.get(6), "cannot run ip6tables-nft: install iptables");
});

Deno.test("the error on a node without iptables says to install it", async () => {
  const runner: ProcessRunner = { run: (argv) => Promise.reject(new ProgramMissingError(argv[0])) };
  const error = await assertRejects(() => findIptables(runner), ApplyError);
  assertEquals(error.failure, "program-missing");
});

Deno.test("a program that cannot be started now switches neither a family nor a variant off", async () => {
  for (const program of ["ip6tables-nft", "iptables-legacy-save"]) {
    const runner: ProcessRunner = {
      run: ([name]) =>
        name === program
          ? Promise.reject(new ProgramFailedError(name, "not-started", "cannot be started now"))
          : Promise.resolve({ code: 0, stdout: "", stderr: "" }),
    };
    const error = await assertRejects(() => findIptables(runner), ApplyError);
    assertEquals(error.failure, "program-failed");
  }
});

Deno.test("the only variant is called by its full name", async () => {
  for (const variant of VARIANTS) {
    const runner: ProcessRunner = {
      run: (argv) =>
        argv[0].includes(variant)
          ? Promise.resolve({ code: 0, stdout: "", stderr: "" })
          : Promise.reject(new ProgramMissingError(argv[0])),
    };
    assertEquals((await findIptables(runner)).variant, variant);
  }
});

Deno.test("a family whose lock is held is there all the same", async () => {
  const runner: ProcessRunner = {
    run: (argv) => {
      const isLocked = argv.includes("-S") && !argv[0].startsWith("ip6");
      const stderr = isLocked ? "Another app is currently holding the xtables lock; still 5s." : "";
      return Promise.resolve({ code: isLocked ? 4 : 0, stdout: "", stderr });
    },
  };
  const { families, missing } = await findIptables(runner);
  assertEquals([families, missing.size], [[4, 6], 0]);
});
