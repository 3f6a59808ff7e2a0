/**
 * Adapter: puts off what `Intl.Segmenter` costs until one is used. @optique/core makes one when it
 * is loaded, to measure help texts, and V8 lists all its locales for the first: 20 ms of each start.
 *
 * @module
 */

const { Segmenter } = Intl;

/** Makes the real one when it is first asked for something. */
class LazySegmenter implements Intl.Segmenter {
  static readonly supportedLocalesOf = Segmenter.supportedLocalesOf;
  readonly #options: ConstructorParameters<typeof Segmenter>;
  #segmenter: Intl.Segmenter | undefined;

  constructor(...options: ConstructorParameters<typeof Segmenter>) {
    this.#options = options;
  }

  get #real(): Intl.Segmenter {
    return this.#segmenter ??= new Segmenter(...this.#options);
  }

  segment(input: string): Intl.Segments {
    return this.#real.segment(input);
  }

  resolvedOptions(): Intl.ResolvedSegmenterOptions {
    return this.#real.resolvedOptions();
  }
}

Object.defineProperty(Intl, "Segmenter", { value: LazySegmenter });
