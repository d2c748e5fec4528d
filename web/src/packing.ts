// Packs records into lists of numbers for the core, by the layouts that are generated from its own.

/** One part of a record: rows of the same columns, behind their number where that is not always the same. */
interface Part {
  readonly name: string;
  readonly columns: readonly string[];
  readonly least: number;
  readonly most: number;
}

type Row<P extends Part> = Readonly<Record<P["columns"][number], number | boolean>>;

/** What a layout packs: a row where a part always has one, else a list of rows. */
export type RecordOf<L extends readonly Part[]> = {
  readonly [P in L[number] as P["name"]]: P extends { least: 1; most: 1 } ? Row<P> : readonly Row<P>[];
};

/** The numbers of a record; of a list with more rows than the core takes, the first. */
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
