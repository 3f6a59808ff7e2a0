/** Every backend, and the fake of other tests, under one contract. */
import { VARIANTS } from "./iptables/kernel.ts";
import { testBackend } from "./contract.ts";
import { fakeStage, iptablesStage, nftablesStage } from "./contract_stage.ts";

testBackend("fake", fakeStage);
testBackend("nftables", nftablesStage);
for (const variant of VARIANTS) testBackend(`iptables${variant}`, () => iptablesStage(variant));
