/* The Rust half of the PostgreSQL extension: rows in columns become frames of docs/protocol.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread uses an encoder. Functions that can fail return true on success, and else false with the error
 * in `failure`. None of them calls back, jumps, or keeps a pointer that it was given. */
#ifndef HYPOSTYLE_ENCODER_H
#define HYPOSTYLE_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HypostyleEncoder HypostyleEncoder;

/* The numbers of types in docs/protocol.md §9. */
enum
{
  HYPOSTYLE_BOOLEAN = 1,
  HYPOSTYLE_SMALLINT = 3,
  HYPOSTYLE_INTEGER = 4,
  HYPOSTYLE_BIGINT = 5,
  HYPOSTYLE_UINTEGER = 8,
  HYPOSTYLE_FLOAT = 10,
  HYPOSTYLE_DOUBLE = 11,
  HYPOSTYLE_DECIMAL = 12,
  HYPOSTYLE_VARCHAR = 13,
  HYPOSTYLE_BLOB = 14,
  HYPOSTYLE_DATE = 15,
  HYPOSTYLE_TIME = 16,
  HYPOSTYLE_TIMESTAMP = 17,
  HYPOSTYLE_TIMESTAMPTZ = 18,
  HYPOSTYLE_INTERVAL = 19,
  HYPOSTYLE_UUID = 21,
  HYPOSTYLE_JSON = 23,
  HYPOSTYLE_LIST = 24,
  HYPOSTYLE_STRUCT = 26,
  HYPOSTYLE_DICTIONARY = 28
};

/* A field: a column, or what is within a list or struct. A parent comes before its members. */
typedef struct HypostyleField
{
  const char *name; /* in UTF-8 */
  size_t name_length;
  const char *const *labels; /* of a dictionary: its values in UTF-8, each ended by a zero */
  uint32_t label_count;
  uint32_t members; /* the fields directly within this one: 1 of a list */
  uint8_t kind;     /* HYPOSTYLE_BOOLEAN and so on */
  uint8_t precision;
  uint8_t scale;
} HypostyleField;

typedef struct HypostyleOptions
{
  const char *codec;    /* its name, or NULL: chosen by measurement */
  uint32_t codecs;      /* what the receiver can undo, as Hello.codecs */
  uint32_t chunk_bytes; /* before compression; 0: 1 MiB */
  uint32_t frame_bytes; /* the longest body of a frame that the receiver accepts */
  bool is_local;        /* the receiver is on this machine */
} HypostyleOptions;

/* A chunk is full when it has so many rows, or its rows have so many bytes. A row has row_bytes, and those of
 * its texts and of its lists' elements. */
typedef struct HypostyleRoom
{
  size_t row_bytes;
  size_t rows;
  size_t bytes;
} HypostyleRoom;

/* The buffers of a field. Values are written behind those that are there, and then counted in `length`. There
 * must be room for them: see hypostyle_encoder_reserve(). A flush empties the arrays and moves their buffers.
 *
 * values: `width` bytes for each. A BOOLEAN is a byte, an INTERVAL int32 months, int32 days and int64
 * nanoseconds. Of VARCHAR, BLOB, JSON and LIST they are int64 ends in `bytes` or in the member: the first one
 * is 0 and stands there already, so element i ends at index i + 1. A dictionary has signed codes, and -1 for
 * a NULL; other values of NULLs must be written, too, and may be anything. A struct has none, but its members
 * have an element for each of its own, also where it is NULL.
 *
 * validity: a bit for each element, the least significant first. All are 1; a NULL clears its own and counts
 * in `nulls`. */
typedef struct HypostyleArray
{
  size_t length;
  size_t capacity;
  size_t nulls;
  uint8_t *values;
  uint8_t *validity;
  uint8_t *bytes;
  size_t bytes_length;
  size_t bytes_capacity;
  size_t width;
} HypostyleArray;

typedef struct HypostyleFailure
{
  char sqlstate[6];
  char message[512];
} HypostyleFailure;

/* The newest version of the protocol, and the compressions that can be sent, as Hello.codecs. */
extern uint32_t hypostyle_encoder_protocol(void);
extern uint32_t hypostyle_encoder_codecs(void);

/* Begins a result. The arrays, one for each field, live as long as the encoder. */
extern bool hypostyle_encoder_open(const HypostyleField *fields, size_t count,
                                   const HypostyleOptions *options, HypostyleEncoder **encoder,
                                   HypostyleArray **arrays, HypostyleRoom *room, HypostyleFailure *failure);

/* Makes room for so many more elements of a field, and so many more bytes. */
extern bool hypostyle_encoder_reserve(HypostyleEncoder *encoder, size_t field, size_t elements, size_t bytes,
                                      HypostyleFailure *failure);

enum
{
  HYPOSTYLE_FITS = 0,
  HYPOSTYLE_NOT_A_NUMBER = 1,
  HYPOSTYLE_INFINITE = 2,
  HYPOSTYLE_TOO_MANY_DIGITS = 3,
  HYPOSTYLE_DAMAGED = 4
};

/* Writes the next value of a DECIMAL, whose array has room, from the bytes of a numeric; counting it in
 * `length` is left to the caller. */
extern int hypostyle_encoder_decimal(HypostyleEncoder *encoder, size_t field, const void *numeric,
                                     size_t length);

/* Encodes the rows that are there. */
extern bool hypostyle_encoder_flush(HypostyleEncoder *encoder, size_t rows, HypostyleFailure *failure);

/* Takes the next whole frame, which is valid until the next call; a length of 0 says that there is none. */
extern bool hypostyle_encoder_frame(HypostyleEncoder *encoder, const uint8_t **data, size_t *length,
                                    HypostyleFailure *failure);

/* Says that all frames that were taken have gone out, and whether the socket was full meanwhile. */
extern bool hypostyle_encoder_told(HypostyleEncoder *encoder, bool has_waited, HypostyleFailure *failure);

/* Leaves the frames that were encoded since to another process, which sends them, and says how many bytes they
 * were before codecs. They are taken afterwards. */
extern bool hypostyle_encoder_pass(HypostyleEncoder *encoder, uint64_t *raw, HypostyleFailure *failure);

/* Takes a chunk that an encoder in another process, of the same fields and none of them a dictionary, has
 * encoded of so many bytes, as the next one here, and says how many rows it has. */
extern bool hypostyle_encoder_relay(HypostyleEncoder *encoder, const void *frame, size_t length, uint64_t raw,
                                    uint64_t *rows, HypostyleFailure *failure);

/* Makes the last frame, when all others have been taken. `affected` is UINT64_MAX for a query. */
extern bool hypostyle_encoder_end(HypostyleEncoder *encoder, uint64_t affected, bool in_transaction,
                                  HypostyleFailure *failure);

/* Frees an encoder, in whatever state it is; NULL is nothing to free. */
extern void hypostyle_encoder_free(HypostyleEncoder *encoder);

#endif
