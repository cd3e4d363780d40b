//! One declaration for each on-disk field: decoder, encoder, hex view, field tables and tests all read it.

/// How a field's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A little-endian number of 1, 2, 4 or 8 bytes.
    Number,
    /// Text up to the first zero byte.
    Text,
    /// A UUID.
    Uuid,
    /// Bytes without more meaning here.
    Bytes,
}

/// A field of an on-disk structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The kernel's name of it.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Its width in bytes.
    pub width: usize,
    /// How its bytes are to be read.
    pub kind: FieldKind,
    /// What it is for, in a phrase.
    pub meaning: &'static str,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Text, with what is not UTF-8 replaced.
    Text(String),
    /// Sixteen bytes.
    Uuid([u8; 16]),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Field {
    /// The value of this field in `record`; `None` where the record is too short to have it.
    pub fn value(&self, record: &[u8]) -> Option<FieldValue> {
        let bytes = record.get(self.offset..)?.get(..self.width)?;
        Some(match self.kind {
            FieldKind::Number => FieldValue::Number(number(bytes)),
            FieldKind::Text => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                FieldValue::Text(String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes)).into_owned())
            }
            FieldKind::Uuid => FieldValue::Uuid(bytes.try_into().ok()?),
            FieldKind::Bytes => FieldValue::Bytes(bytes.to_vec()),
        })
    }
}

/// A little-endian number of at most 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// A type that a record's field can have.
pub(crate) trait Stored: Sized + Copy {
    const KIND: FieldKind;
    /// What is at `offset`; zero where the record is too short, as for the fields that old revisions lack.
    fn get(record: &[u8], offset: usize) -> Self;
    /// Writes itself; nothing happens where the record is too short.
    fn put(self, record: &mut [u8], offset: usize);
}

macro_rules! stored_number {
    ($($type:ty)*) => {$(
        impl Stored for $type {
            const KIND: FieldKind = FieldKind::Number;

            fn get(record: &[u8], offset: usize) -> Self {
                let bytes = record.get(offset..).and_then(|rest| rest.first_chunk());
                bytes.map_or(0, |bytes| Self::from_le_bytes(*bytes))
            }

            fn put(self, record: &mut [u8], offset: usize) {
                if let Some(bytes) = record.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
                    *bytes = self.to_le_bytes();
                }
            }
        }
    )*};
}

stored_number!(u8 u16 u32 u64);

macro_rules! stored_bytes {
    ($($width:literal: $kind:ident)*) => {$(
        impl Stored for [u8; $width] {
            const KIND: FieldKind = FieldKind::$kind;

            fn get(record: &[u8], offset: usize) -> Self {
                record.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; $width])
            }

            fn put(self, record: &mut [u8], offset: usize) {
                if let Some(bytes) = record.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
                    *bytes = self;
                }
            }
        }
    )*};
}

stored_bytes!(4: Bytes 16: Uuid 32: Text 60: Bytes 64: Text 68: Bytes 8: Bytes);

/// Declares a record: a struct with its fields decoded, their table, and one constant offset per field.
macro_rules! record {
    (
        $(#[$doc:meta])* $name:ident, $fields:ident, $bytes:literal;
        $($field:ident: $type:ty = $offset:literal, $meaning:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $(#[doc = $meaning] pub $field: $type,)* }

        /// The fields, in the order of their offsets.
        pub const $fields: &[crate::record::Field] = &[$(crate::record::Field {
            name: stringify!($field),
            offset: $offset,
            width: size_of::<$type>(),
            kind: <$type as crate::record::Stored>::KIND,
            meaning: $meaning,
        },)*];

        impl $name {
            /// The fields in `record`; those that it is too short for are zero.
            pub fn decode(record: &[u8]) -> Self {
                Self { $($field: <$type as crate::record::Stored>::get(record, $offset),)* }
            }

            /// Writes every field into `record`; bytes between fields are left as they are.
            pub fn encode(&self, record: &mut [u8]) {
                $(<$type as crate::record::Stored>::put(self.$field, record, $offset);)*
            }
        }

        #[cfg(test)]
        mod declared {
            #[test]
            fn fields_neither_overlap_nor_reach_past_the_record() {
                let fields = super::$fields;
                assert!(fields.windows(2).all(|pair| pair[0].offset + pair[0].width <= pair[1].offset));
                assert!(fields.iter().all(|field| field.offset + field.width <= $bytes));
            }
        }
    };
}

pub(crate) use record;
