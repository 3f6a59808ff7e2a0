/**
 * A buffered channel: messages wait until their recipient is there.
 *
 * @module
 */

/** Something to be done with the recipient. */
export type Message<Recipient> = (recipient: Recipient) => void;

/** Keeps messages until the recipient is there, and hands them over at once from then on. */
export class Mailbox<Recipient> {
  readonly #waiting: Message<Recipient>[] = [];
  #recipient: Recipient | undefined;

  /** Hands a message over, now or when the recipient is there; in their order. */
  send(message: Message<Recipient>): void {
    if (this.#recipient === undefined) this.#waiting.push(message);
    else message(this.#recipient);
  }

  /** Hands over what waits, and all that comes. */
  open(recipient: Recipient): void {
    this.#recipient = recipient;
    for (const message of this.#waiting.splice(0)) message(recipient);
  }
}
