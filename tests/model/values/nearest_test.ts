import { assertEquals } from "@std/assert";
import { didYouMean } from "../../../lib/model/values/nearest.ts";

Deno.test("a misspelt name finds the nearest one, a strange one finds none", () => {
  const names = ["cluster-cidr", "config", "cleanup"];
  assertEquals(didYouMean("cluster-cdir", names), " (did you mean cluster-cidr?)");
  assertEquals(didYouMean("clusterCIDR", names), " (did you mean cluster-cidr?)");
  assertEquals(didYouMean("conf", names), "");
  assertEquals(didYouMean("confg", names), " (did you mean config?)");
  assertEquals(didYouMean("zzz", names), "");
  assertEquals(didYouMean("", names), "");
});
