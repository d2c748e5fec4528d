//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11D), whose root 2 generates all other elements.

/// The field's polynomial, as in most Reed-Solomon coders, including Moonlight's.
const POLYNOMIAL: u16 = 0x11D;

/// Powers of 2, twice in a row so that the sum of two logarithms needs no reduction.
const POWERS: [u8; 510] = powers();
/// Logarithms to the base 2. That of 0 does not exist and reads 0.
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut powers = [0; 510];
    let mut value = 1_u16;
    let mut exponent = 0;
    while exponent < 510 {
        powers[exponent] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
}

/// The product of two elements.
pub(crate) const fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[left as usize] as usize + LOGARITHMS[right as usize] as usize]
}

/// The quotient of two elements. The divisor must not be 0.
pub(crate) const fn divide(dividend: u8, divisor: u8) -> u8 {
    debug_assert!(divisor != 0);
    if dividend == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[dividend as usize] as usize + 255 - LOGARITHMS[divisor as usize] as usize]
}

/// The logarithm of an element other than 0; 0 for 0.
pub(crate) const fn logarithm(element: u8) -> u32 {
    LOGARITHMS[element as usize] as u32
}

/// 2 to the power of `exponent`.
pub(crate) const fn power(exponent: u32) -> u8 {
    POWERS[(exponent % 255) as usize]
}

/// Products of each constant with the 16 low nibbles, then with the 16 high ones, for look-up by a byte shuffle.
pub(crate) static NIBBLES: [[u8; 32]; 256] = nibbles();

const fn nibbles() -> [[u8; 32]; 256] {
    let mut tables = [[0; 32]; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[constant][nibble] = multiply(constant as u8, nibble as u8);
            tables[constant][nibble + 16] = multiply(constant as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        constant += 1;
    }
    tables
}

/// Multiplication by each constant as the 8 x 8 bit matrix that `gf2p8affineqb` takes.
///
/// Bit `i` of a product is the parity of the byte `7 - i` of the matrix and the multiplied byte, so that bit `b` of that matrix
/// byte is bit `i` of the constant times 2^b.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86 has the instruction"))]
pub(crate) static MATRICES: [u64; 256] = matrices();

const fn matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut bit = 0;
        while bit < 8 {
            let product = multiply(constant as u8, 1 << bit);
            let mut row = 0;
            while row < 8 {
                matrices[constant] |= ((product as u64 >> row) & 1) << (8 * (7 - row) + bit);
                row += 1;
            }
            bit += 1;
        }
        constant += 1;
    }
    matrices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication by the definition: shift, add, reduce.
    fn by_definition(left: u8, right: u8) -> u8 {
        let mut product = 0_u16;
        for bit in (0..8).rev() {
            product <<= 1;
            if product & 0x100 != 0 {
                product ^= POLYNOMIAL;
            }
            if right >> bit & 1 == 1 {
                product ^= u16::from(left);
            }
        }
        product as u8
    }

    /// The affine instruction by the manual's definition.
    fn affine(matrix: u64, byte: u8) -> u8 {
        let bytes = matrix.to_le_bytes();
        (0..8).fold(0, |sum, bit| sum | (((bytes[7 - bit] & byte).count_ones() as u8 & 1) << bit))
    }

    #[test]
    fn every_table_gives_the_product_by_definition() {
        for left in 0..=255_u8 {
            let nibbles = &NIBBLES[usize::from(left)];
            for right in 0..=255_u8 {
                let product = by_definition(left, right);
                assert_eq!(multiply(left, right), product);
                assert_eq!(nibbles[usize::from(right & 15)] ^ nibbles[usize::from(16 + (right >> 4))], product);
                assert_eq!(affine(MATRICES[usize::from(left)], right), product, "{left} * {right}");
                if right != 0 {
                    assert_eq!(divide(product, right), left);
                }
            }
        }
    }
}
