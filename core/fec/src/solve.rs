//! Gauss-Jordan elimination that records its operations, so that the symbols follow in one product.

use crate::field::divide;
use crate::kernel::Kernel;

/// Row lengths are rounded up to this number of bytes, the widest vector, with zeros that no operation changes.
const ROW_ALIGNMENT: usize = 64;

/// The solution state of a set of equations.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// Reduced rows, each followed by its combination of original rows.
    work: Vec<u8>,
    stride: usize,
    columns: usize,
    rows: usize,
    /// Row and column of each pivot, in the order of columns.
    pivots: Vec<(usize, usize)>,
}

/// Reduces the rows of `matrix`, each `columns` long.
pub(crate) fn reduce(kernel: Kernel, matrix: &[u8], columns: usize) -> Reduction {
    let rows = matrix.len().checked_div(columns).unwrap_or(0);
    let stride = (columns + rows).next_multiple_of(ROW_ALIGNMENT);
    let mut work = vec![0; rows * stride];
    for (number, (row, source)) in work.chunks_mut(stride).zip(matrix.chunks(columns.max(1))).enumerate() {
        row[..columns].copy_from_slice(source);
        row[columns + number] = 1;
    }
    let mut reduction = Reduction { work, stride, columns, rows, pivots: Vec::new() };
    let mut pivot = vec![0; stride];
    let mut factors = vec![0; rows];
    for column in 0..columns {
        reduction.eliminate(kernel, column, &mut pivot, &mut factors);
    }
    reduction
}

impl Reduction {
    /// Makes `column` a unit vector, if a row without a pivot can provide it.
    fn eliminate(&mut self, kernel: Kernel, column: usize, pivot: &mut [u8], factors: &mut [u8]) {
        let done = self.pivots.len();
        let entry = |work: &[u8], row: usize| work[row * self.stride + column];
        let Some(found) = (done..self.rows).find(|row| entry(&self.work, *row) != 0) else { return };
        if found != done {
            let (upper, lower) = self.work.split_at_mut(found * self.stride);
            upper[done * self.stride..][..self.stride].swap_with_slice(&mut lower[..self.stride]);
        }
        pivot.copy_from_slice(&self.work[done * self.stride..][..self.stride]);
        let value = pivot[column];
        for (row, factor) in factors.iter_mut().enumerate() {
            // The pivot row itself: 1 / value times it is it plus (1 / value + 1) times it.
            *factor =
                if row == done { divide(1, value) ^ 1 } else { divide(self.work[row * self.stride + column], value) };
        }
        let mut rows: Vec<&mut [u8]> = self.work.chunks_mut(self.stride).collect();
        kernel.multiply_add(factors, &[pivot], &mut rows);
        self.pivots.push((done, column));
    }

    /// Number of independent rows.
    pub(crate) fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// The determined unknowns, in order, each with the combination of original rows that yields its value.
    pub(crate) fn determined(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.pivots.iter().filter_map(|(row, column)| {
            let entries = &self.work[row * self.stride..][..self.columns];
            let alone = entries.iter().enumerate().all(|(other, entry)| other == *column || *entry == 0);
            alone.then(|| (*column, self.combination(*row)))
        })
    }

    /// Combinations of original rows without any unknown: their values are 0 unless a symbol is wrong.
    pub(crate) fn checks(&self) -> impl Iterator<Item = &[u8]> {
        (self.rank()..self.rows).map(|row| self.combination(row))
    }

    fn combination(&self, row: usize) -> &[u8] {
        &self.work[row * self.stride + self.columns..][..self.rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(matrix: &[u8], columns: usize) -> (usize, Vec<(usize, Vec<u8>)>, usize) {
        let reduction = reduce(Kernel::best(), matrix, columns);
        let determined = reduction.determined().map(|(column, combination)| (column, combination.to_vec())).collect();
        (reduction.rank(), determined, reduction.checks().count())
    }

    #[test]
    fn finds_what_is_determined_and_what_is_not() {
        // x + y = a, y = b: both; x + y = a: neither; x + y = a, z = b: z alone; twice the same: a check.
        assert_eq!(reduced(&[1, 1, 0, 1], 2), (2, vec![(0, vec![1, 1]), (1, vec![0, 1])], 0));
        assert_eq!(reduced(&[1, 1], 2), (1, vec![], 0));
        assert_eq!(reduced(&[1, 1, 0, 0, 0, 1], 3), (2, vec![(2, vec![0, 1])], 0));
        assert_eq!(reduced(&[1, 1, 1, 1], 2), (1, vec![], 1));
        assert_eq!(reduced(&[], 3), (0, vec![], 0));
        // 2 x = a, rows in the wrong order.
        assert_eq!(reduced(&[0, 1, 2, 0], 2), (2, vec![(0, vec![0, 0x8E]), (1, vec![1, 0])], 0));
    }
}
