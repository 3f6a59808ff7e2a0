/** Tests of one file that mostly wait, at the same time. */

type Body = (test: Deno.TestContext) => Promise<void>;

/**
 * Has a test whose cases run some at a time, in steps of their own.
 *
 * @param width how many at a time: few, where an answer must come soon
 * @returns adds a case, as `Deno.test` adds a test; what it changes is its own
 */
export function sideBySide(name: string, width = 3): (name: string, body: Body) => void {
  const cases: { readonly name: string; readonly fn: Body }[] = [];
  // Deno has one step at a time where it watches over `Deno.exit`.
  const sanitizeExit = false;
  const fn = async (test: Deno.TestContext) => {
    const left = cases.values();
    const worker = async () => {
      for (const each of left) await test.step({ ...each, sanitizeExit });
    };
    await Promise.all(Array.from({ length: width }, worker));
  };
  return (caseName, body) => {
    if (cases.push({ name: caseName, fn: body }) === 1) Deno.test({ name, fn, sanitizeExit });
  };
}
