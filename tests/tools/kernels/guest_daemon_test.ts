import { DaemonLife } from "../../../tools/kernels/guest_daemon.ts";
import { BACKENDS, LIFE_PARTS } from "../../../tools/kernels/steps.ts";
import { sideBySide } from "../../support/side_by_side.ts";

const test = sideBySide("the daemon's life in a machine");

for (const backend of BACKENDS) {
  test(`what is tried in a machine with ${backend} passes in this machine's kernel too`, async (test) => {
    await using life = await DaemonLife.create(backend, { families: [4, 6] });
    for (const part of LIFE_PARTS) await test.step(part, () => life.run(part));
  });
}
