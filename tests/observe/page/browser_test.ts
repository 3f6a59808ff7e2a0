import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { listenHttp } from "../../../lib/system/http/servers.ts";
import { CONTENT_SECURITY_POLICY } from "../../../lib/observe/page/assets.ts";
import { pageHandler } from "../../../lib/observe/page/handler.ts";
import type { PageContents } from "../../../lib/observe/page/page.ts";
import type { HttpHandler, HttpListener } from "../../../lib/model/ports/http.ts";
import { renderedDocument, screenshot } from "../../support/browser.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { contents, endpoint, servicePort, STATUS } from "./contents.ts";

/** A server of the page that remembers what it was asked for. */
class Site implements AsyncDisposable {
  readonly requests: string[] = [];
  readonly #listener: HttpListener;

  constructor(handler: HttpHandler) {
    this.#listener = listenHttp({ hostname: "127.0.0.1", port: 0 }, (request) => {
      this.requests.push(request.path + request.search);
      return handler(request);
    });
  }

  url(search = ""): string {
    return `http://127.0.0.1:${this.#listener.port}/${search}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener.close();
  }
}

function page(shown: () => PageContents): HttpHandler {
  return pageHandler({
    setting: "auto",
    bindAddress: "127.0.0.1:10249",
    contents: shown,
    clock: realClock,
  });
}

/** For the page, a browser that runs no script. */
function withoutScripts(handler: HttpHandler): HttpHandler {
  return async (request) => {
    const answer = await handler(request);
    const policy = CONTENT_SECURITY_POLICY.replace(/script-src [^;]*/, "script-src 'none'");
    return { ...answer, headers: { ...answer.headers, "Content-Security-Policy": policy } };
  };
}

const SERVICES = new Map([
  ["shop/web", [servicePort()]],
  ["shop/search", [servicePort({ clusterEndpoints: [], hasEndpoints: false })]],
  ["bank/cash", [servicePort({ name: "bank/cash:http" })]],
]);

function names(document: string): string[] {
  return [...document.matchAll(/<h3>([^<]*)<\/h3>/g)].map(([, name = ""]) => name);
}

Deno.test("without scripts the browser shows the page, and its search finds Services", async () => {
  await using pages = new Site(withoutScripts(page(() => contents({ services: SERVICES }))));
  const all = await renderedDocument(pages.url());
  assertEquals(names(all), ["bank/cash", "shop/search", "shop/web"]);
  assertMatch(all, /<form method="get" action="\/"/);
  assertMatch(all, /<input type="search" name="q"/);
  const found = await renderedDocument(pages.url("?q=shop+cash"));
  assertEquals(names(found), []);
  assertEquals(names(await renderedDocument(pages.url("?q=shop"))), [
    "shop/search",
    "shop/web",
  ]);
  assertMatch(found, /<span id="live"[^>]*hidden/);
});

Deno.test("with scripts the page follows the daemon", async () => {
  let shown = 0;
  await using pages = new Site(
    page(() => contents({ status: { ...STATUS, driftRepairs: shown++ } })),
  );
  const document = await renderedDocument(pages.url(), { time: 12_000 });
  assertMatch(document, /<span id="live"[^>]*>live<\/span>/);
  const [, repairs = "0"] = /Drift repairs<\/dt>\s*<dd>(\d+)/.exec(document) ?? [];
  assertEquals(Number(repairs) > 0, true, document);
});

const EVIL =
  `"><script src="/stolen"></script><img src="/stolen" onerror="document.title='stolen'">` +
  `<svg onload="document.title='stolen'"></svg>`;

Deno.test("no name, address or message runs a script", async () => {
  await using pages = new Site(page(() =>
    contents({
      status: {
        ...STATUS,
        node: EVIL,
        refused: [{ kind: "Service", key: EVIL, reason: EVIL }],
      },
      services: new Map([[`shop/${EVIL}`, [
        servicePort({ name: EVIL, clusterIPs: [EVIL], clusterEndpoints: [endpoint(EVIL)] }),
      ]]]),
    })
  ));
  const search = `?q=${encodeURIComponent(EVIL)}`;
  const document = await renderedDocument(pages.url(search), { time: 6_000 });
  assertMatch(document, /<title>signpost on "&gt;&lt;script/);
  assertNotMatch(document, /<img|<script src|<svg onload/);
  assertEquals(
    pages.requests.filter((path) => path.includes("stolen") && !path.startsWith("/?")),
    [],
  );
});

Deno.test("even markup that got into the page would not run, for the policy forbids it", async () => {
  const headers = {
    "Content-Type": "text/html",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  };
  const body = `<title>mine</title>${EVIL}<script>document.title = "stolen"</script>`;
  await using pages = new Site(() => ({ status: 200, headers, body }));
  const document = await renderedDocument(pages.url());
  assertMatch(document, /<title>mine<\/title>/);
  assertEquals(pages.requests.filter((path) => path.includes("stolen")), []);
});

Deno.test("the page is light or dark as the reader wants it", async () => {
  await using pages = new Site(page(() => contents({ services: SERVICES })));
  const size = { width: 800, height: 600 };
  const light = await screenshot(pages.url(), { size });
  const dark = await screenshot(pages.url(), { size, dark: true });
  const isPng = (image: Uint8Array) => new TextDecoder("latin1").decode(image.slice(1, 4));
  assertEquals([isPng(light), isPng(dark)], ["PNG", "PNG"]);
  assertEquals(light.toBase64() === dark.toBase64(), false);
});
