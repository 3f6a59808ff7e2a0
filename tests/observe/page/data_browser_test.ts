import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { httpListen } from "../../../lib/system/http_servers.ts";
import type { PageContents } from "../../../lib/observe/page/data.ts";
import { contentSecurityPolicy, DATA_PATH } from "../../../lib/observe/endpoints.ts";
import type { HttpHandler, HttpListener } from "../../../lib/model/ports/http.ts";
import { type BrowserOptions, renderedDocument, screenshot } from "../../support/browser.ts";
import { MemoryLogger, realClock } from "../../support/clock_and_log.ts";
import { contents, endpoint, FINDING, pageOf, servicePort, STATUS } from "./contents.ts";

/** Milliseconds of the page's time: the first state is shown. */
const SHOWN = 2_000;

/** As `SHOWN`, after two more states. */
const REFRESHED = 12_000;

const LISTEN = httpListen({ clock: realClock, logger: new MemoryLogger() });

/** A server of the page that remembers what it was asked for. */
class Site implements AsyncDisposable {
  readonly requests: string[] = [];
  readonly #listener: HttpListener;

  constructor(handler: HttpHandler) {
    this.#listener = LISTEN({ hostname: "127.0.0.1", port: 0 }, (request) => {
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
  return pageOf({ page: shown });
}

/** A page of another path that has the page in a frame: no window is narrower than 500 pixels. */
const PHONE = `<!doctype html><html><body><iframe src="/" width="400" height="800">`;

/** The page with a script that may look at it, and the phone's page. */
function withProbe(handler: HttpHandler, script: string): HttpHandler {
  return async (request) => {
    if (request.path === "/phone") {
      return { status: 200, headers: { "Content-Type": "text/html" }, body: PHONE };
    }
    const { headers, body, status } = await handler(request);
    if (request.path === DATA_PATH) return { headers, body, status };
    const { "Content-Type": type = "" } = headers;
    const probe = `<script>const tell = (text) => top.document.documentElement.dataset.told = text;
${script}</script>`;
    return { status, headers: { "Content-Type": type }, body: body + probe };
  };
}

/** Returns the text that the probe's `tell` was last given. */
async function told(url: string, options: BrowserOptions): Promise<string | undefined> {
  return /<html[^>]* data-told="([^"]*)"/.exec(await renderedDocument(url, options))?.[1];
}

const SERVICES = new Map([
  ["shop/web", [servicePort()]],
  ["shop/search", [servicePort({ clusterEndpoints: [], hasEndpoints: false })]],
  ["bank/cash", [servicePort({ name: "bank/cash:http" })]],
]);

/** All kinds of problems, with long names. */
const BROKEN = contents({
  status: {
    ...STATUS,
    node: `node-${"1".repeat(200)}`,
    findings: [FINDING, { ...FINDING, severity: "info" }],
    watches: STATUS.watches.map((watch) => ({ ...watch, state: "backoff", lastError: "refused" })),
    refused: [{ kind: "Service", key: `shop/${"bad".repeat(60)}`, reason: "port 0" }],
    conflicts: [{ claim: "192.0.2.1 . tcp . 80", holder: "a/b", loser: "c/d", because: "older" }],
  },
  services: SERVICES,
});

function names(document: string): string[] {
  return [...document.matchAll(/<h3>([^<]*)<\/h3>/g)].map(([, name = ""]) => name);
}

Deno.test("the browser shows problems first, then the state", async () => {
  await using pages = new Site(page(() => BROKEN));
  const document = await renderedDocument(pages.url(), { time: SHOWN });
  assertMatch(document, /<nav.*?>1 watch fails<.*?>1 warning<.*?>1 refused object<.*?<\/nav>/);
  const places = [FINDING.remedy, "port 0", "adaptive, now 12 ms", "Good to know", "<h3>bank/cash"];
  const found = places.map((text) => document.indexOf(text));
  assertEquals(found, found.toSorted((a, b) => a - b));
  assert(!found.includes(-1), document);
});

Deno.test("the search finds Services", async () => {
  await using pages = new Site(page(() => contents({ services: SERVICES })));
  const search = async (query: string) =>
    names(await renderedDocument(pages.url(query), { time: SHOWN }));
  assertEquals(await search(""), ["bank/cash", "shop/search", "shop/web"]);
  assertEquals(await search("?q=shop"), ["shop/search", "shop/web"]);
  assertEquals(await search("?q=shop+cash"), []);
});

Deno.test("the page has the last changes of a Service", async () => {
  const at = "2026-01-02T03:04:05.000Z";
  const what = "endpoint 10.244.0.7:8080 gone";
  const historyOf = (service: string) =>
    service === "shop/web" ? [{ at, service, what, milliseconds: 12 }] : [];
  await using pages = new Site(page(() => contents({ services: SERVICES, historyOf })));
  const document = await renderedDocument(pages.url(), { time: SHOWN });
  const changes = document.match(/<li>2026-01-02[^<]*/g);
  assertEquals(changes, [`<li>${at} ${what}, in the kernel after 12 ms`]);
});

Deno.test("the page follows the daemon", async () => {
  let shown = 0;
  await using pages = new Site(
    page(() => contents({ status: { ...STATUS, driftRepairs: shown++ } })),
  );
  const document = await renderedDocument(pages.url(), { time: REFRESHED });
  const [, repairs = "0"] = /drift repairs<\/dt><dd>(\d+)/.exec(document) ?? [];
  assertEquals(Number(repairs) > 0, true, document);
});

Deno.test("the page says that the daemon does not answer", async () => {
  let asked = 0;
  const handler = page(() => contents({ services: SERVICES }));
  await using pages = new Site((request) =>
    request.path === DATA_PATH && asked++ > 0
      ? { status: 500, headers: {}, body: "it is busy" }
      : handler(request)
  );
  const document = await renderedDocument(pages.url(), { time: REFRESHED });
  assertMatch(document, /class="badge red"[^>]*>no answer from the daemon: it is busy</);
  assertEquals(names(document).length, 3);
});

Deno.test("a reader's focus and closed lists stay when the state is read again", async () => {
  const script = `
    setTimeout(() => {
      const summary = document.querySelector("summary");
      summary.click();
      summary.focus();
    }, 2000);
    setTimeout(() => {
      const { id, parentElement } = document.activeElement;
      tell(id + " " + parentElement.open);
    }, 11000);`;
  await using pages = new Site(withProbe(page(() => contents({ services: SERVICES })), script));
  assertEquals(await told(pages.url(), { time: REFRESHED }), "endpoints 0 bank/cash false");
});

Deno.test("a phone shows the page without scrolling sideways, in letters of 13 px and more", async () => {
  const script = `
    setTimeout(() => {
      const sizes = [...document.querySelectorAll("body *")]
        .map((each) => parseFloat(getComputedStyle(each).fontSize));
      const { scrollWidth } = document.documentElement;
      tell(innerWidth + " " + (scrollWidth <= innerWidth) + " " + (Math.min(...sizes) >= 13));
    }, 1500);`;
  await using pages = new Site(withProbe(page(() => BROKEN), script));
  assertEquals(await told(pages.url("phone"), { time: SHOWN }), "400 true true");
});

Deno.test("a wide window breaks no name of a setting", async () => {
  const script = `
    setTimeout(() => {
      const text = document.createRange();
      text.selectNodeContents(document.querySelector("#problem-0 td + td"));
      tell(innerWidth + " " + text.getClientRects().length);
    }, 1500);`;
  const finding = { ...FINDING, where: "nodePortAddresses", what: "what ".repeat(60) };
  const shown = contents({ status: { ...STATUS, findings: [finding] } });
  await using pages = new Site(withProbe(page(() => shown), script));
  const size = { width: 1280, height: 900 };
  assertEquals(await told(pages.url(), { time: SHOWN, size }), "1280 1");
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
        version: EVIL,
        kernel: EVIL,
        findings: [{ ...FINDING, what: EVIL, where: EVIL, remedy: EVIL }],
        refused: [{ kind: "Service", key: EVIL, reason: EVIL }],
        conflicts: [{ claim: EVIL, holder: EVIL, loser: EVIL, because: EVIL }],
      },
      services: new Map([[`shop/${EVIL}`, [
        servicePort({ name: EVIL, clusterIPs: [EVIL], clusterEndpoints: [endpoint(EVIL)] }),
      ]]]),
    })
  ));
  const search = `?q=${encodeURIComponent(EVIL)}`;
  const document = await renderedDocument(pages.url(search), { time: 6_000 });
  assertMatch(document, /<title>[^<]*signpost on "&gt;&lt;script/);
  assertNotMatch(document, /<img|<script src|<svg onload/);
  assertEquals(names(document).length, 1);
  assertEquals(pages.requests.filter((path) => path.startsWith("/stolen")), []);
});

Deno.test("even markup that got into the page would not run, for the policy forbids it", async () => {
  const headers = {
    "Content-Type": "text/html",
    "Content-Security-Policy": await contentSecurityPolicy(),
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
  const light = await screenshot(pages.url(), { size, time: SHOWN });
  const dark = await screenshot(pages.url(), { size, time: SHOWN, dark: true });
  const isPng = (image: Uint8Array) => new TextDecoder("latin1").decode(image.slice(1, 4));
  assertEquals([isPng(light), isPng(dark)], ["PNG", "PNG"]);
  assertEquals(light.toBase64() === dark.toBase64(), false);
});
