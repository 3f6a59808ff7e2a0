/** Tells if this machine's kernel has flowtables. */
import { execute } from "./command.ts";

const SCRIPT = `table inet signpost-flowtables {
  flowtable fast-path {
    hook ingress priority 0
  }
  chain forward {
    type filter hook forward priority 0;
    flow add @fast-path
  }
}
`;

/** True if the kernel takes a flowtable and a rule that uses it. */
export const HAS_FLOWTABLES: boolean = Deno.uid() === 0 &&
  (await execute(["nft", "-c", "-f", "-"], { stdin: SCRIPT })).code === 0;
