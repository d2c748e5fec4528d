//! The tiled product, written once for every kind of vector.

/// Number of rows of a full tile. Measured on an AVX-512 processor: 6 rows times 4 vectors keep 24 sums in its 32 registers; processors
/// with 16 registers use as many rows and fewer columns.
pub(super) const ROWS: usize = 6;

/// A product to compute. There is a coefficient for each pair of output and source, row by row; every output is `length` bytes
/// long and every source at least that.
pub(super) struct Job<'a, 'o> {
    pub coefficients: &'a [u8],
    pub sources: &'a [&'a [u8]],
    pub outputs: &'a mut [&'o mut [u8]],
    pub length: usize,
    /// Whether to add to the contents of the outputs instead of replacing them.
    pub add: bool,
}

/// A vector register of bytes.
///
/// # Safety
/// Every function may be called only where the processor has the instructions of the implementing type.
pub(super) unsafe trait Vector: Copy {
    const BYTES: usize;
    /// Number of adjacent vectors in a full tile: as many as registers allow with [`ROWS`] rows.
    const COLUMNS: usize;
    /// Number of rows of a full tile, at most [`ROWS`].
    const ROWS: usize = ROWS;
    /// Whether sources are processed in pairs, which pays off if a sum of three costs no more than one of two.
    const BY_TWOS: bool = false;
    /// A source's bytes, prepared for multiplication by any factor.
    type Prepared: Copy;
    /// A constant, prepared for multiplication.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    /// Reads [`Vector::BYTES`] bytes.
    unsafe fn load(at: *const u8) -> Self;
    /// Writes [`Vector::BYTES`] bytes.
    unsafe fn store(self, at: *mut u8);
    unsafe fn prepare(self) -> Self::Prepared;
    unsafe fn factor(constant: u8) -> Self::Factor;
    /// `self + source * factor`
    unsafe fn add_product(self, source: Self::Prepared, factor: Self::Factor) -> Self;

    /// `self + sources[0] * factors[0] + sources[1] * factors[1]`
    #[inline(always)]
    unsafe fn add_products(self, sources: [Self::Prepared; 2], factors: [Self::Factor; 2]) -> Self {
        // SAFETY: the caller's promise is the same.
        unsafe { self.add_product(sources[0], factors[0]).add_product(sources[1], factors[1]) }
    }
}

/// Computes the whole product.
///
/// # Safety
/// The processor has the instructions of `V`, `job` is as [`Job`] says, and `job.length` is at least [`Vector::BYTES`].
#[inline(always)]
pub(super) unsafe fn product<V: Vector>(mut job: Job<'_, '_>) {
    debug_assert!(job.length >= V::BYTES);
    let full = V::COLUMNS * V::BYTES;
    let mut at = 0;
    while at < job.length {
        let left = job.length - at;
        // The last vector is moved back to end with the symbol, so it overlaps the one before. Both must belong to one tile: a
        // tile reads what it adds to before it writes anything, another tile would read what the first has already written.
        let (columns, taken) = if left >= full && (left - full == 0 || left - full >= V::BYTES) {
            (V::COLUMNS, full)
        } else if left >= full {
            (V::COLUMNS - 1, full - V::BYTES)
        } else {
            (left.div_ceil(V::BYTES), left)
        };
        // SAFETY: `at + taken` is at most the length, and a tile of `columns` vectors lies within as `row_tiles` demands: only
        // the last vector of the last tile would reach beyond, and that one is moved back.
        unsafe {
            match columns {
                1 => row_tiles::<V, 1>(&mut job, at),
                2 => row_tiles::<V, 2>(&mut job, at),
                3 => row_tiles::<V, 3>(&mut job, at),
                _ => row_tiles::<V, 4>(&mut job, at),
            }
        }
        at += taken;
    }
}

/// All rows of the `C` vectors that begin at column `at`.
///
/// # Safety
/// As [`product`]; all but the last of the vectors lie within the length.
#[inline(always)]
unsafe fn row_tiles<V: Vector, const C: usize>(job: &mut Job<'_, '_>, at: usize) {
    if C > V::COLUMNS {
        return;
    }
    let rows = job.outputs.len();
    // Blocks of nearly the same size: ten rows are better divided into five and five than into six and four.
    let blocks = rows.div_ceil(V::ROWS);
    let mut row = 0;
    for block in 0..blocks {
        let count = (rows - row).div_ceil(blocks - block);
        // SAFETY: rows from `row` to `row + count` exist, the rest is the caller's promise.
        unsafe {
            match count {
                1 => tile::<V, 1, C>(job, row, at),
                2 => tile::<V, 2, C>(job, row, at),
                3 => tile::<V, 3, C>(job, row, at),
                4 => tile::<V, 4, C>(job, row, at),
                5 => tile::<V, 5, C>(job, row, at),
                _ => tile::<V, 6, C>(job, row, at),
            }
        }
        row += count;
    }
}

/// `R` rows from `row` on, of the `C` vectors that begin at column `at`.
///
/// # Safety
/// As [`row_tiles`]; the rows exist.
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize, const C: usize>(job: &mut Job<'_, '_>, row: usize, at: usize) {
    if R > V::ROWS {
        return;
    }
    let stride = job.sources.len();
    let mut columns = [0; C];
    for (index, column) in columns.iter_mut().enumerate() {
        *column = (at + index * V::BYTES).min(job.length - V::BYTES);
    }
    // SAFETY: a column begins at most at the length minus one vector, so every load and store of it lies within an output or
    // source. `row + R` rows of `stride` coefficients exist. The outputs are distinct, being exclusive borrows.
    unsafe {
        let mut sums = [[V::zero(); C]; R];
        if job.add {
            for (index, sums) in sums.iter_mut().enumerate() {
                let output = job.outputs.get_unchecked(row + index).as_ptr();
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = V::load(output.add(column));
                }
            }
        }
        let coefficients = job.coefficients.as_ptr().add(row * stride);
        let mut number = 0;
        while V::BY_TWOS && number + 1 < stride {
            let one = prepared::<V, C>(job.sources.get_unchecked(number), columns);
            let other = prepared::<V, C>(job.sources.get_unchecked(number + 1), columns);
            for (index, sums) in sums.iter_mut().enumerate() {
                let pair = coefficients.add(index * stride + number);
                let factors = [V::factor(*pair), V::factor(*pair.add(1))];
                for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
                    *sum = sum.add_products([one, other], factors);
                }
            }
            number += 2;
        }
        while number < stride {
            let prepared = prepared::<V, C>(job.sources.get_unchecked(number), columns);
            for (index, sums) in sums.iter_mut().enumerate() {
                let factor = V::factor(*coefficients.add(index * stride + number));
                for (sum, prepared) in sums.iter_mut().zip(prepared) {
                    *sum = sum.add_product(prepared, factor);
                }
            }
            number += 1;
        }
        for (index, sums) in sums.into_iter().enumerate() {
            let output = job.outputs.get_unchecked_mut(row + index).as_mut_ptr();
            for (sum, column) in sums.into_iter().zip(columns) {
                sum.store(output.add(column));
            }
        }
    }
}

/// Prepares a source's vectors at the columns.
///
/// # Safety
/// As [`tile`]; every column lies within the source.
#[inline(always)]
unsafe fn prepared<V: Vector, const C: usize>(source: &[u8], columns: [usize; C]) -> [V::Prepared; C] {
    // SAFETY: the caller's promise. A closure would not be inlined, and without that lose the caller's instruction set.
    unsafe {
        let mut prepared = [V::load(source.as_ptr().add(columns[0])).prepare(); C];
        for index in 1..C {
            prepared[index] = V::load(source.as_ptr().add(columns[index])).prepare();
        }
        prepared
    }
}
