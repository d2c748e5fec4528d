use rand_pcg::Pcg32;
use rand_pcg::rand_core::{RngCore, SeedableRng};

use super::*;

fn bytes(random: &mut Pcg32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

/// The product with `kernel`, starting from `before` where it is added to.
fn product(kernel: Kernel, coefficients: &[u8], sources: &[Vec<u8>], before: &[Vec<u8>], add: bool) -> Vec<Vec<u8>> {
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut outputs = before.to_vec();
    let mut borrowed: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    if add {
        kernel.multiply_add(coefficients, &sources, &mut borrowed);
    } else {
        kernel.multiply(coefficients, &sources, &mut borrowed);
    }
    outputs
}

fn compare(random: &mut Pcg32, sources: usize, rows: usize, length: usize) {
    let plain = Kernel::named("plain").expect("always there");
    let coefficients = bytes(random, sources * rows);
    // Sources may be longer than the outputs: the surplus must not matter.
    let sources: Vec<Vec<u8>> = (0..sources).map(|number| bytes(random, length + number % 3)).collect();
    let before: Vec<Vec<u8>> = (0..rows).map(|_| bytes(random, length)).collect();
    for add in [false, true] {
        let expected = product(plain, &coefficients, &sources, &before, add);
        for kernel in Kernel::available() {
            let found = product(kernel, &coefficients, &sources, &before, add);
            assert!(found == expected, "{}: {rows} x {} of {length} bytes, add {add}", kernel.name(), sources.len());
        }
    }
}

#[test]
fn every_kernel_equals_the_plain_one_at_every_length() {
    let mut random = Pcg32::seed_from_u64(1);
    let last = if cfg!(miri) { 40 } else { 600 };
    for length in 0..=last {
        compare(&mut random, 1 + length % 5, 1 + length % 13, length);
    }
    // All the places where a tile may end, for the widest vectors, with a full block of rows.
    for length in if cfg!(miri) { [63, 64, 65, 127, 257, 300].as_slice() } else { &[1_199, 1_200, 1_201, 1_343, 1_345] }
    {
        compare(&mut random, 3, 6, *length);
    }
}

#[test]
fn every_kernel_equals_the_plain_one_at_every_number_of_rows() {
    let mut random = Pcg32::seed_from_u64(2);
    for rows in 0..=if cfg!(miri) { 7 } else { 30 } {
        compare(&mut random, 7, rows, 200);
        compare(&mut random, 0, rows, 200);
    }
}

#[test]
fn the_plain_kernel_multiplies_by_definition() {
    let plain = Kernel::named("plain").expect("always there");
    let found = product(plain, &[3, 1, 0, 0x80], &[vec![1, 0xFF], vec![7, 2]], &[vec![0; 2], vec![0; 2]], false);
    // 3 * 255 = 255 ^ 510 reduced by 0x11D; 0x80 * 7 and 0x80 * 2 reduced likewise.
    assert_eq!(found, [vec![3 ^ 7, 0x1C ^ 2], vec![0x80 ^ 0x1D ^ 0x3A, 0x1D]]);
}

#[test]
fn names_are_distinct_and_found_again() {
    for kernel in Kernel::available() {
        assert_eq!(Kernel::named(kernel.name()), Some(kernel));
    }
    assert_eq!(Kernel::named("abacus"), None);
    assert_eq!(Kernel::available().last().map(Kernel::name), Some("plain"));
}
