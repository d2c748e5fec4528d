//! Reads the numbers of accessors, whichever type they are stored in.

use gltf::Document;
use gltf::accessor::sparse::IndexType;
use gltf::accessor::{DataType, Dimensions, Item, Iter};

use super::MAX_CORNERS;

/// Checks that everything that the library indexes with lies within the buffers.
pub fn check(document: &Document, buffers: &[Vec<u8>]) -> Result<(), String> {
    for view in document.views() {
        let length = buffers.get(view.buffer().index()).map_or(0, Vec::len);
        let end = view.offset().checked_add(view.length());
        if end.is_none_or(|end| end > length) {
            return Err(format!("its buffer view {} lies outside of the buffer", view.index()));
        }
    }
    for accessor in document.accessors() {
        let fits = |view: &gltf::buffer::View<'_>, offset: usize, count: usize, size: usize| {
            let stride = view.stride().unwrap_or(size).max(1);
            let steps = count.saturating_sub(1).saturating_mul(stride);
            stride >= size && offset.saturating_add(steps).saturating_add(size) <= view.length()
        };
        let (count, size) = (accessor.count(), accessor.size());
        let base = accessor.view().is_none_or(|view| fits(&view, accessor.offset(), count, size));
        let sparse = accessor.sparse().is_none_or(|sparse| {
            let (indices, values) = (sparse.indices(), sparse.values());
            let index_size = match indices.index_type() {
                IndexType::U8 => 1,
                IndexType::U16 => 2,
                IndexType::U32 => 4,
            };
            sparse.count() <= count
                && fits(&indices.view(), indices.offset(), sparse.count(), index_size)
                && fits(&values.view(), values.offset(), sparse.count(), size)
        });
        if !base || !sparse || count > MAX_CORNERS {
            return Err(format!("its accessor {} lies outside of its view", accessor.index()));
        }
    }
    Ok(())
}

/// Numbers that are stored one after the other.
struct Vector<T, const N: usize>([T; N]);

impl<T: Item, const N: usize> Item for Vector<T, N> {
    fn from_slice(bytes: &[u8]) -> Self {
        Self(std::array::from_fn(|number| T::from_slice(&bytes[number * size_of::<T>()..])))
    }

    fn zero() -> Self {
        Self(std::array::from_fn(|_| T::zero()))
    }
}

/// Reads accessors of a document whose views and accessors were checked.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    pub buffers: &'a [Vec<u8>],
}

impl Values<'_> {
    /// Returns vectors of floating-point numbers. `what` names them in errors.
    pub fn vectors<const N: usize>(&self, accessor: &gltf::Accessor<'_>, what: &str) -> Result<Vec<[f32; N]>, String> {
        let dimensions = match accessor.dimensions() {
            Dimensions::Scalar => 1,
            Dimensions::Vec2 => 2,
            Dimensions::Vec3 => 3,
            Dimensions::Vec4 => 4,
            Dimensions::Mat2 | Dimensions::Mat3 | Dimensions::Mat4 => 0,
        };
        if dimensions != N {
            return Err(format!("its {what} have {dimensions} numbers each; {N} belong there"));
        }
        // Normalised integers stand for -1 to 1, or 0 to 1 (section 3.11 of the specification).
        let (most, normalized) = match (accessor.data_type(), accessor.normalized()) {
            (DataType::I8, true) => (127.0, true),
            (DataType::U8, true) => (255.0, true),
            (DataType::I16, true) => (32_767.0, true),
            (DataType::U16, true) => (65_535.0, true),
            _ => (1.0, false),
        };
        let plain = |value: f32| if normalized { (value / most).max(-1.0) } else { value };
        match accessor.data_type() {
            DataType::F32 => Ok(self.read::<f32, N>(accessor, |value| value)),
            DataType::I8 => Ok(self.read::<i8, N>(accessor, |value| plain(value.into()))),
            DataType::U8 => Ok(self.read::<u8, N>(accessor, |value| plain(value.into()))),
            DataType::I16 => Ok(self.read::<i16, N>(accessor, |value| plain(value.into()))),
            DataType::U16 => Ok(self.read::<u16, N>(accessor, |value| plain(value.into()))),
            DataType::U32 => Err(format!("its {what} are 32-bit integers, which glTF permits for indices only")),
        }
    }

    /// Returns the indices of corners.
    pub fn indices(&self, accessor: &gltf::Accessor<'_>) -> Result<Vec<u32>, String> {
        if accessor.dimensions() != Dimensions::Scalar {
            return Err("its indices are no scalars".into());
        }
        match accessor.data_type() {
            DataType::U8 => Ok(self.items(accessor, |index: u8| index.into())),
            DataType::U16 => Ok(self.items(accessor, |index: u16| index.into())),
            DataType::U32 => Ok(self.items(accessor, |index: u32| index)),
            _ => Err("its indices are no whole numbers".into()),
        }
    }

    fn read<T: Item, const N: usize>(
        &self,
        accessor: &gltf::Accessor<'_>,
        convert: impl Fn(T) -> f32,
    ) -> Vec<[f32; N]> {
        self.items(accessor, |Vector(numbers): Vector<T, N>| numbers.map(&convert))
    }

    fn items<T: Item, U>(&self, accessor: &gltf::Accessor<'_>, convert: impl Fn(T) -> U) -> Vec<U> {
        let count = accessor.count();
        if count == 0 {
            return Vec::new();
        }
        let data = |buffer: gltf::Buffer<'_>| self.buffers.get(buffer.index()).map(Vec::as_slice);
        match Iter::<T>::new(accessor.clone(), data) {
            Some(items) => items.take(count).map(convert).collect(),
            // An accessor without a view consists of zeros (section 3.6.2.1 of the specification).
            None => std::iter::repeat_with(|| convert(T::zero())).take(count).collect(),
        }
    }
}
