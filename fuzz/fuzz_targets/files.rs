//! Decodes arbitrary heads of chunks in files. The result is an error, or columns that are within
//! the files.
#![no_main]

use arrow_array::Array;
use hypostyle_client::MappedColumns;
use hypostyle_io::File;
use hypostyle_wire::{ChunkHeader, Place, Reader, read_schema};
use libfuzzer_sys::fuzz_target;

// The input is: schema, rows, how many to skip, lengths of the files, head. The tests of `wire`
// write a seed.
fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes);
    let Ok(schema) = read_schema(&mut reader) else { return };
    let (Ok(rows), Ok(skip)) = (reader.u64(), reader.u64()) else { return };
    let Ok(lengths) = reader.list(2, 16, |reader| reader.u16()) else { return };
    // The files are all zeros: as offsets they ascend, and the server is responsible for their
    // contents.
    let zeros = vec![0; usize::from(u16::MAX)];
    let sealed = |length| File::sealed(File::unsealed().unwrap(), &[&zeros[..usize::from(length)]]).unwrap();
    let files = lengths.into_iter().map(sealed).collect();
    let (place, head) = (Place::Columns, reader.rest().to_vec());
    let header = ChunkHeader { query: 1, place, number: 0, rows, checksum: 0, skip, head };
    let Ok(columns) = MappedColumns::new(schema.clone(), &header, files) else { return };
    for index in 0..schema.fields().len() {
        for private in [false, true] {
            if let Ok(column) = columns.column(index, private) {
                assert_eq!(column.len() as u64, rows);
                column.to_data().validate().unwrap();
            }
        }
    }
});
