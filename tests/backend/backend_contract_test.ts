/** Every backend, and the fake of other tests, under one contract. */
import { testBackend } from "./contract.ts";
import { fakeStage, KERNEL_STAGES } from "./contract_stage.ts";

testBackend("fake", fakeStage);
for (const [name, open] of KERNEL_STAGES) testBackend(name, open);
