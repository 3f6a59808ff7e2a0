import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { assertEquals } from "@std/assert";
import { queryText, readQuery, searchServices } from "../../../lib/observe/page/search.ts";
import { endpoint, servicePort } from "./contents.ts";

const SERVICES = new Map([
  ["shop/web", [servicePort({ nodePort: 30080, loadBalancerIPs: ["203.0.113.10"] })]],
  ["shop/cart", [servicePort({
    name: "shop/cart:grpc",
    clusterIPs: ["fd00:10:96::11"],
    clusterEndpoints: [endpoint("fd00:10:244::7")],
  })]],
]);

function find(words: string): string[] {
  return atOnce(searchServices(SERVICES, {
    query: { words, page: 1, sort: "name" },
    load: new Map(),
  })).services.map(([name]) => name);
}

Deno.test("Services are found by name, port name, address, node port and endpoint", () => {
  assertEquals(find(""), ["shop/cart", "shop/web"]);
  assertEquals(find("WEB"), ["shop/web"]);
  assertEquals(find("grpc"), ["shop/cart"]);
  assertEquals(find("203.0.113.10:80/tcp"), ["shop/web"]);
  assertEquals(find(":30080"), ["shop/web"]);
  assertEquals(find("10.244.1.9:8080"), ["shop/web"]);
  assertEquals(find("[fd00:10:244::7]"), ["shop/cart"]);
  assertEquals(find("shop 10.96.0.10"), ["shop/web"]);
  assertEquals(find("web cart"), []);
});

Deno.test("twenty Services are on a page, and a page too far is the last one", () => {
  const many = new Map(
    Array.from({ length: 45 }, (_, i) => [`a/s${`${i}`.padStart(2, "0")}`, [servicePort()]]),
  );
  const { services, ...rest } = atOnce(searchServices(many, {
    query: { words: "", page: 99, sort: "name" },
    load: new Map(),
  }));
  assertEquals(rest, {
    query: { words: "", page: 3, sort: "name" },
    matches: 45,
    pages: 3,
    isCut: false,
  });
  assertEquals(services.map(([name]) => name), ["a/s40", "a/s41", "a/s42", "a/s43", "a/s44"]);
});

Deno.test("of very many Services the first ten thousand are on pages, and all can be searched", () => {
  const many = new Map(
    Array.from({ length: 12_000 }, (_, i) => [`a/s${`${i}`.padStart(5, "0")}`, [servicePort()]]),
  );
  const find = (words: string, page: number) =>
    atOnce(searchServices(many, { query: { words, page, sort: "name" }, load: new Map() }));
  const { services, ...rest } = find("", 9_999);
  const query = { words: "", page: 500, sort: "name" as const };
  assertEquals(rest, { query, matches: 12_000, pages: 500, isCut: true });
  assertEquals([services[0]?.[0], services.at(-1)?.[0]], ["a/s09980", "a/s09999"]);
  assertEquals(find("s11999", 1).services.map(([name]) => name), ["a/s11999"]);
});

Deno.test("a query is read from a URL and written to one", () => {
  assertEquals(readQuery("?q=a%20%26b&page=3"), { words: "a &b", page: 3, sort: "name" });
  assertEquals(queryText({ words: "a &b", page: 3, sort: "name" }), "?q=a+%26b&page=3");
  assertEquals(queryText({ words: "", page: 1, sort: "name" }), "?");
});

Deno.test("what is wrong in a query is left out", () => {
  for (const page of ["0", "-1", "x", "1.5", "1e99", ""]) {
    assertEquals(readQuery(`?page=${page}`), { words: "", page: 1, sort: "name" }, page);
  }
  assertEquals(readQuery(`?q=${"x".repeat(10_000)}`).words.length, 200);
  assertEquals(readQuery("?%zz=%").words, "");
});
