/** Makes the place of the contract tests: a kernel of its own, and other programs in it. */
import type { Backend, BackendOptions } from "../../lib/backend/backend.ts";
import { likelyBackend } from "../../lib/backend/choose.ts";
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { CANARY_CHAIN } from "../../lib/backend/iptables/script/names.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { SystemClock } from "../../lib/system/clock.ts";
import { wholeInput } from "../support/whole_input.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";
import { configuration, DEFAULTS } from "../support/configuration.ts";
import { fakeBackend, FakeDataplane } from "../support/fake_backend.ts";
import type { Mode } from "../support/modes.ts";
import { listTable } from "../support/nft_table.ts";
import { Kernel as IptablesKernel, VARIANTS } from "./iptables/kernel.ts";
import { Kernel as NftablesKernel } from "./nftables/kernel.ts";

/** A backend and the world around it. */
export interface Stage extends AsyncDisposable {
  readonly backend: Backend;
  /** While it is set, the kernel refuses every script. */
  refuses: boolean;
  /** Another program deletes what leads to the cluster IP of `shop/web`. */
  deleteRule(): Promise<void>;
  /** Another program deletes so much that parts cannot mend it. */
  deleteAll(): Promise<void>;
  /** All that the kernel holds of us; equal states are equal texts. */
  dump(): Promise<string>;
}

/** Milliseconds between checks for drift. */
const CHECK_PERIOD = 200;

/** A backend on a kernel; its scripts end with what no program takes while `refuses` is set. */
function openBackend(
  mode: Mode,
  { runner, streamer }: Pick<BackendOptions["runtime"], "runner" | "streamer">,
): Pick<Stage, "backend" | "refuses"> & { readonly runner: ProcessRunner } {
  const settings = { ...DEFAULTS.nftables, syncPeriod: CHECK_PERIOD };
  const refusing: ProcessRunner = {
    run: async (argv, stdin) =>
      await runner.run(
        argv,
        stdin === undefined || !stage.refuses ? stdin : `no such word\n${await wholeInput(stdin)}`,
      ),
  };
  const backend = likelyBackend({
    configuration: configuration({
      mode,
      nftables: settings,
      iptables: { ...settings, localhostNodePorts: false },
    }),
    runtime: {
      runner: refusing,
      streamer,
      clock: new SystemClock(),
      hasIpv6: () => true,
      pid: 4711,
      osRelease: () => "6.0.0",
    },
    logger: new MemoryLogger(),
  });
  const stage = { backend, refuses: false, runner };
  return stage;
}

/** The stage of a backend that writes to a kernel. */
export interface KernelStage extends Stage {
  readonly runner: ProcessRunner;
}

/** nftables in a network namespace. */
export async function nftablesStage(): Promise<KernelStage> {
  const kernel = await NftablesKernel.create();
  return Object.assign(openBackend("nftables", kernel), {
    deleteRule: () =>
      kernel.script("delete element inet signpost services4 { 10.96.0.10 . tcp . 80 }\n"),
    deleteAll: () => kernel.script("delete table inet signpost\n"),
    dump: async () => {
      const objects = await listTable(kernel.prefix);
      // The marks of transactions are there for a moment.
      return objects.filter((each) => !each.includes('"transactions"')).join("\n");
    },
    [Symbol.asyncDispose]: () => kernel[Symbol.asyncDispose](),
  });
}

/** A variant of iptables in a network namespace, which kubelet uses there, too. */
export async function iptablesStage(variant: Variant): Promise<KernelStage> {
  const kernel = await IptablesKernel.create(variant);
  await kernel.run(`iptables${variant}`, "-t", "mangle", "-N", "KUBE-IPTABLES-HINT");
  return Object.assign(openBackend("iptables", kernel), {
    deleteRule: async () => {
      const saved = await kernel.save(4);
      const rule = saved.split("\n").find((line) =>
        line.startsWith("-A KUBE-SERVICES -d 10.96.0.10/32")
      );
      if (rule === undefined) throw new Error(`no rule for the cluster IP: ${saved}`);
      await kernel.restore(4, `*nat\n${rule.replace("-A", "-D")}\nCOMMIT\n`);
    },
    deleteAll: () => kernel.restore(4, `*nat\n-F KUBE-SERVICES\n-X ${CANARY_CHAIN}\nCOMMIT\n`),
    dump: () => kernel.state(),
    [Symbol.asyncDispose]: () => kernel[Symbol.asyncDispose](),
  });
}

/** The stage of each backend that writes to a kernel, by the backend's name. */
export const KERNEL_STAGES: readonly (readonly [string, () => Promise<KernelStage>])[] = [
  ["nftables", nftablesStage],
  ...VARIANTS.map((variant) => [`iptables${variant}`, () => iptablesStage(variant)] as const),
];

/** The fake of other tests. */
export function fakeStage(): Promise<Stage> {
  const dataplane = new FakeDataplane({ repairs: true });
  return Promise.resolve({
    backend: fakeBackend(dataplane),
    get refuses() {
      return dataplane.failures.length > 0;
    },
    set refuses(refuses: boolean) {
      dataplane.failures.splice(0);
      if (refuses) dataplane.failures.push(...Array.from({ length: 9 }, () => "unknown" as const));
    },
    deleteRule: () => Promise.resolve(dataplane.deleteByOther("shop/web")),
    deleteAll: () => Promise.resolve(dataplane.deleteByOther()),
    dump: () => Promise.resolve(JSON.stringify([...dataplane.kernel].sort())),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  });
}
