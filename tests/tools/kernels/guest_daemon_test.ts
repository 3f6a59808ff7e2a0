import { DaemonLife } from "../../../tools/kernels/guest_daemon.ts";
import { BACKENDS, LIFE_PARTS } from "../../../tools/kernels/steps.ts";

for (const backend of BACKENDS) {
  Deno.test(`what is tried in a machine with ${backend} passes in this machine's kernel too`, async (test) => {
    await using life = await DaemonLife.create(backend, { families: [4, 6] });
    for (const part of LIFE_PARTS) await test.step(part, () => life.run(part));
  });
}
