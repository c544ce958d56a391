/** The part of Standard Schema (version 1) that a worker uses. zod, valibot, arktype and others implement it. */

/** A validator of payloads. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: ReadonlyArray<{
        readonly message: string;
        readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
      }>;
    };

/** Returns the validated payload, or a text that says what is wrong with it. */
export async function validate<T>(schema: StandardSchema<T>, value: unknown): Promise<{ value: T } | { invalid: string }> {
  const validated = await schema['~standard'].validate(value);
  if (validated.issues === undefined) return { value: validated.value };
  const texts = validated.issues.map(({ message, path }) => {
    const place = (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.');
    return place ? `${place}: ${message}` : message;
  });
  return { invalid: texts.join('; ') };
}
