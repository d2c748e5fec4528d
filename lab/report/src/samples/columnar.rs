//! Parquet, for tables too large for text.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::{Samples, Values};

/// Writes `samples` as one row group, uncompressed: dictionaries and run lengths do most of the work for our columns, and
/// every reader understands them. Numbers that are not finite are kept as they are.
pub fn write_parquet(samples: &Samples, out: impl Write + Send) -> Result<()> {
    let fields = samples.columns.iter().map(|(name, values)| {
        let (physical, converted) = match values {
            Values::Numbers(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Values::Integers(_) => (Physical::INT64, ConvertedType::NONE),
            Values::Words(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let builder = Type::primitive_type_builder(name, physical);
        builder.with_repetition(Repetition::REQUIRED).with_converted_type(converted).build().map(Arc::new)
    });
    let schema = Type::group_type_builder("samples").with_fields(fields.collect::<Result<_>>()?).build()?;
    // Without a version of the writer: the same samples give the same bytes.
    let properties = WriterProperties::builder().set_created_by("nearlight".into()).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in &samples.columns {
        let Some(mut column) = group.next_column()? else { break };
        match values {
            Values::Numbers(values) => column.typed::<DoubleType>().write_batch(values, None, None)?,
            Values::Integers(values) => column.typed::<Int64Type>().write_batch(values, None, None)?,
            Values::Words(values) => {
                let values: Vec<ByteArray> = values.iter().map(|word| ByteArray::from(word.as_str())).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?
            }
        };
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn what_was_written_reads_back() {
        let mut samples = Samples::default();
        samples.column("controller", Values::Words(vec!["gcc".into(), "scream".into()])).unwrap();
        samples.column("latency_ms", Values::Numbers(vec![14.25, f64::INFINITY])).unwrap();
        samples.column("frame", Values::Integers(vec![7, -8])).unwrap();
        let mut out = Vec::new();
        write_parquet(&samples, &mut out).unwrap();
        let mut again = Vec::new();
        write_parquet(&samples, &mut again).unwrap();
        assert_eq!(out, again);
        let reader = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            [
                r#"{controller: "gcc", latency_ms: 14.25, frame: 7}"#,
                r#"{controller: "scream", latency_ms: inf, frame: -8}"#
            ]
        );
    }
}
