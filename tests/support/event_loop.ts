/** Calls back when a socket of `Libc` can be read: epoll(7), waited for on another thread. */
import type { Libc } from "./libc.ts";

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 1;
const CAPACITY = 256;
/** `struct epoll_event` is packed on x86-64 alone. */
const EVENT_SIZE = Deno.build.arch === "x86_64" ? 12 : 16;
const DATA_OFFSET = EVENT_SIZE - 8;

/** Readability of many descriptors, level-triggered. Disposing it closes what is still watched. */
export class EventLoop implements AsyncDisposable {
  readonly #libc: Libc;
  readonly #poll: number;
  readonly #waker: number;
  readonly #handlers = new Map<number, () => void>();
  readonly #running: Promise<void>;
  #stopped = false;

  constructor(libc: Libc) {
    this.#libc = libc;
    this.#poll = libc.createPoll();
    this.#waker = libc.createWaker();
    this.#control(EPOLL_CTL_ADD, this.#waker);
    this.#running = this.#run();
  }

  /**
   * Calls `handler` whenever the descriptor can be read, has ended or has an error.
   *
   * A handler must bear being called when nothing is there to read.
   */
  watch(descriptor: number, handler: () => void): void {
    this.#handlers.set(descriptor, handler);
    this.#control(EPOLL_CTL_ADD, descriptor);
  }

  /** Stops watching, and closes the descriptor. */
  close(descriptor: number): void {
    if (!this.#handlers.delete(descriptor)) return;
    this.#control(EPOLL_CTL_DEL, descriptor);
    this.#libc.close(descriptor);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    this.#libc.wake(this.#waker);
    await this.#running;
    for (const descriptor of [...this.#handlers.keys()]) this.close(descriptor);
    this.#libc.close(this.#waker);
    this.#libc.close(this.#poll);
  }

  async #run(): Promise<void> {
    const events = new Uint8Array(CAPACITY * EVENT_SIZE);
    const view = new DataView(events.buffer);
    while (!this.#stopped) {
      const count = await this.#libc.waitPoll(this.#poll, events, CAPACITY);
      for (let i = 0; i < count; i++) {
        this.#handlers.get(view.getInt32(i * EVENT_SIZE + DATA_OFFSET, true))?.();
      }
    }
  }

  #control(operation: number, descriptor: number): void {
    const bytes = new Uint8Array(EVENT_SIZE);
    const view = new DataView(bytes.buffer);
    view.setUint32(0, EPOLLIN, true);
    view.setInt32(DATA_OFFSET, descriptor, true);
    this.#libc.controlPoll(this.#poll, operation, { descriptor, bytes });
  }
}
