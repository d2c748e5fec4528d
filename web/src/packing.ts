// Packs records into lists of numbers for the core, by the layouts that are generated from its own.

/** One part of a record: rows of the same columns, prefixed with their number if it varies. */
interface Part {
  readonly name: string;
  readonly columns: readonly string[];
  readonly least: number;
  readonly most: number;
}

type Row<P extends Part> = Readonly<Record<P["columns"][number], number | boolean>>;

/** The record that a layout packs: a row for a part that always has one, else a list of rows. */
export type RecordOf<L extends readonly Part[]> = {
  readonly [P in L[number] as P["name"]]: P extends { least: 1; most: 1 } ? Row<P> : readonly Row<P>[];
};

/** Returns the numbers of a record. Rows beyond the core's limit are left out. */
export function pack<const L extends readonly Part[]>(layout: L, record: RecordOf<L>): number[] {
  const parts = record as Readonly<Record<string, Row<Part> | readonly Row<Part>[]>>;
  return layout.flatMap(({ name, columns, least, most }) => {
    const rows = [parts[name] ?? []].flat().slice(0, most);
    const numbers = rows.flatMap((row) => columns.map((column) => Number(row[column])));
    return least === most ? numbers : [rows.length, ...numbers];
  });
}

/** Numbers as the only column of a part. */
export function values(numbers: readonly number[]): { value: number }[] {
  return numbers.map((value) => ({ value }));
}
