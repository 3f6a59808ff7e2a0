/**
 * The rules of the recorded packet flows, made outside of the machines: emulation is slow.
 *
 * @module
 */
import { execute, run } from "../../tests/support/command.ts";

/** A case of the recorded flows, as `flows.py` has it. */
interface FlowCase {
  /** The file that `flows.py --rules-from` reads. */
  readonly file: string;
  readonly config: string;
  readonly manifests: string;
}

const SIDE_BY_SIDE = 2;

/** Has `flows.py` tell its cases. */
const LIST_CASES = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import flows
cases = map(flows.prepare, json.load(open(sys.argv[1] + "/packet-flows.json"))["cases"])
json.dump([{"file": flows.file_name(case), "config": flows.configuration(case),
            "manifests": json.dumps(flows.manifests(case))} for case in cases], sys.stdout)
`;

/**
 * Writes what `signpost --once` prints for each case.
 *
 * @param options.conformance the folder with `flows.py`
 * @param options.signpost the command that starts signpost
 * @param options.folder where the rules go
 */
export async function makeRules(options: {
  readonly conformance: string;
  readonly signpost: readonly string[];
  readonly folder: string;
}): Promise<void> {
  const { conformance, signpost, folder } = options;
  const text = await run(["python3", "-c", LIST_CASES, conformance]);
  const left = JSON.parse(text) as FlowCase[];
  const worker = async () => {
    for (let next = left.pop(); next; next = left.pop()) {
      const path = `${folder}/${next.file}`;
      await Deno.writeTextFile(`${path}.config`, next.config);
      await Deno.writeTextFile(`${path}.json`, next.manifests);
      const args = ["--once", "--config", `${path}.config`, "--manifests", `${path}.json`];
      const { code, stdout, stderr } = await execute([...signpost, ...args]);
      if (code !== 0) throw new Error(`signpost --once for ${next.file} failed: ${stderr.trim()}`);
      await Deno.writeTextFile(path, stdout);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
}
