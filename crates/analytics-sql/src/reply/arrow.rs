//! Rows as an Arrow stream.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use datafusion::arrow::ipc::writer::StreamWriter;

pub(super) struct ArrowReply {
    writer: StreamWriter<Vec<u8>>,
}

impl ArrowReply {
    pub fn begin(out: &mut Vec<u8>, schema: &Schema) -> Result<ArrowReply, ArrowError> {
        let mut reply = ArrowReply { writer: StreamWriter::try_new(Vec::new(), schema)? };
        reply.take(out);
        Ok(reply)
    }

    pub fn push(&mut self, out: &mut Vec<u8>, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.writer.write(batch)?;
        self.take(out);
        Ok(())
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.writer.finish()?;
        self.take(out);
        Ok(())
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.get_mut());
    }
}
