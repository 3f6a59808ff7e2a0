/**
 * Reports requests and answers to the observer, as client-go counts them.
 *
 * @module
 */
import { BoundedMap } from "../../model/values/bounded.ts";
import type { Clock } from "../../model/ports/ports.ts";
import type { HttpRequest, HttpResponse } from "./http/http.ts";
import type { WatchObserver } from "./observer.ts";

/** client-go's code if there was no answer. */
const NO_ANSWER = "<error>";

/** The number of failed paths to remember. */
const MAX_REMEMBERED = 100;

/** The observer and the clock. */
export interface RequestReportsOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly observer?: WatchObserver;
}

/** Reports requests. A GET that repeats a failed one is a retry. */
export class RequestReports {
  /** The code of the last GET by path, if that failed. */
  readonly #failed = new BoundedMap<string, string>(MAX_REMEMBERED);

  /** @param options the observer and the clock */
  constructor(private readonly options: RequestReportsOptions) {}

  /**
   * Sends a request, and reports it and its answer.
   *
   * @param send returns the answer; its errors are passed on
   */
  async follow(
    request: Pick<HttpRequest, "method" | "url" | "body">,
    send: () => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const report = this.#begin(request);
    let response: HttpResponse;
    try {
      response = await send();
    } catch (error) {
      report(NO_ANSWER);
      throw error;
    }
    report(String(response.status));
    const { method: verb, url } = request;
    if (url.searchParams.has("watch")) return response;
    return counted(
      response,
      (size) => this.options.observer?.responseRead?.({ verb, host: url.host, size }),
    );
  }

  #begin(
    { method: verb, url, body }: Pick<HttpRequest, "method" | "url" | "body">,
  ): (code: string) => void {
    const { clock, observer } = this.options;
    const start = clock.monotonic();
    const retryOf = verb === "GET" ? this.#failed.get(url.pathname) : undefined;
    return (code) => {
      if (verb === "GET") {
        if (code.startsWith("2")) this.#failed.delete(url.pathname);
        else this.#failed.set(url.pathname, code);
      }
      observer?.requestDone?.({
        verb,
        host: url.host,
        code,
        duration: clock.monotonic() - start,
        size: body === undefined ? 0 : new TextEncoder().encode(body).length,
        ...retryOf !== undefined && { retryOf },
      });
    };
  }
}

/** Counts the bytes of a body until it ends or is given up. */
function counted(response: HttpResponse, done: (size: number) => void): HttpResponse {
  async function* body() {
    let size = 0;
    try {
      for await (const chunk of response.body) {
        size += chunk.length;
        yield chunk;
      }
    } finally {
      done(size);
    }
  }
  return { ...response, body: body() };
}
