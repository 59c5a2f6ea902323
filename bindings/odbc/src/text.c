/* Texts in UTF-8, which the database has, and in UTF-16, which ODBC has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Encodings ---- */

/* Reads the character at a place of valid UTF-8, and goes behind it. A byte that begins none, which only
 * bytes that were cut can have, is read as U+FFFD. */
static uint32_t next_character(const uint8_t **at, const uint8_t *end) {
  uint8_t first = *(*at)++;
  if (first < 0x80) return first;
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc0 || end - *at < more) return 0xfffd;
  uint32_t character = first & (0x3fu >> more);
  for (int i = 0; i < more; i++) character = character << 6 | (*(*at)++ & 0x3fu);
  return character;
}

size_t utf16_length(const char *text, size_t bytes) {
  size_t units = 0;
  /* Each byte that begins a character is a unit, and a second one if it begins one of four bytes. */
  for (size_t i = 0; i < bytes; i++) {
    uint8_t byte = (uint8_t)text[i];
    units += (byte & 0xc0) != 0x80;
    units += byte >= 0xf0;
  }
  return units;
}

size_t utf16_from(const char *text, size_t bytes, SQLWCHAR *out, size_t room) {
  const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
  size_t units = 0;
  while (at < end && units < room) {
    if (*at < 0x80) {
      out[units++] = *at++;
      continue;
    }
    uint32_t character = next_character(&at, end);
    if (character < 0x10000) {
      out[units++] = (SQLWCHAR)character;
    } else {
      if (units + 2 > room) break;
      out[units++] = (SQLWCHAR)(0xd800 + ((character - 0x10000) >> 10));
      out[units++] = (SQLWCHAR)(0xdc00 + ((character - 0x10000) & 0x3ff));
    }
  }
  return units;
}

size_t utf8_from(const SQLWCHAR *text, size_t units, char *out) {
  uint8_t *at = (uint8_t *)out;
  for (size_t i = 0; i < units; i++) {
    uint32_t c = text[i];
    if (c < 0x80) {
      *at++ = (uint8_t)c;
    } else if (c < 0x800) {
      *at++ = (uint8_t)(0xc0 | c >> 6);
      *at++ = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0xd800 || c > 0xdfff) {
      *at++ = (uint8_t)(0xe0 | c >> 12);
      *at++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
      *at++ = (uint8_t)(0x80 | (c & 0x3f));
    } else {
      if (c > 0xdbff || i + 1 == units || (text[i + 1] & 0xfc00) != 0xdc00) return SIZE_MAX;
      c = 0x10000 + ((c - 0xd800) << 10) + (text[++i] - 0xdc00u);
      *at++ = (uint8_t)(0xf0 | c >> 18);
      *at++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
      *at++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
      *at++ = (uint8_t)(0x80 | (c & 0x3f));
    }
  }
  return (size_t)(at - (uint8_t *)out);
}

size_t units_until_nul(const void *text) {
  SQLWCHAR unit;
  size_t count = 0;
  for (;; count++) {
    memcpy(&unit, (const char *)text + count * sizeof unit, sizeof unit);
    if (unit == 0) return count;
  }
}

char *utf8_of(void *h, const SQLWCHAR *text, SQLINTEGER length, size_t *bytes) {
  if (text == NULL) return NULL;
  size_t units = 0;
  if (length == SQL_NTS) {
    units = units_until_nul(text);
  } else if (length < 0) {
    fail(h, "HY090", "a text has the length %d", (int)length);
    return NULL;
  } else {
    units = (size_t)length;
  }
  char *out = malloc(units * 3 + 1);
  if (out == NULL) {
    fail_memory(h);
    return NULL;
  }
  size_t written = utf8_from(text, units, out);
  if (written == SIZE_MAX) {
    free(out);
    fail(h, "22021", "a text has half of a surrogate pair, which is no character of UTF-16");
    return NULL;
  }
  out[written] = '\0';
  if (bytes != NULL) *bytes = written;
  return out;
}

/* ---- Giving texts to the application ---- */

static SQLRETURN give(void *h, const char *text, SQLWCHAR *out, size_t room, size_t *units) {
  size_t bytes = text == NULL ? 0 : strlen(text);
  *units = utf16_length(text == NULL ? "" : text, bytes);
  if (out == NULL) return SQL_SUCCESS;
  if (room > 0) out[utf16_from(text == NULL ? "" : text, bytes, out, room - 1)] = 0;
  if (*units < room) return SQL_SUCCESS;
  if (h == NULL) return SQL_SUCCESS_WITH_INFO;
  return warn(h, "01004", "a text of %zu characters was cut to %zu", *units, room > 0 ? room - 1 : 0);
}

SQLRETURN give_units(void *h, const char *text, SQLWCHAR *out, SQLLEN room, SQLSMALLINT *told) {
  size_t units;
  if (room < 0) return fail(h, "HY090", "a buffer has the length %lld", (long long)room);
  SQLRETURN returned = give(h, text, out, (size_t)room, &units);
  if (told != NULL) *told = (SQLSMALLINT)(units > INT16_MAX ? INT16_MAX : units);
  return returned;
}

SQLRETURN give_bytes(void *h, const char *text, SQLPOINTER out, SQLLEN room, SQLINTEGER *told) {
  size_t units;
  if (out != NULL && room < 0) return fail(h, "HY090", "a buffer has the length %lld", (long long)room);
  SQLRETURN returned = give(h, text, out, (size_t)room / sizeof(SQLWCHAR), &units);
  if (told != NULL) *told = (SQLINTEGER)(units * sizeof(SQLWCHAR));
  return returned;
}

/* ---- Making texts ---- */

void add_bytes(builder *b, const char *bytes, size_t length) {
  if (b->failed) return;
  if (length >= b->room - b->length) {
    /* A length that no memory has is none that a sum may be built of. */
    bool is_length = length < SIZE_MAX / 8 && b->room < SIZE_MAX / 8;
    size_t room = (b->room + length + 64) * 2;
    char *data = is_length ? realloc(b->data, room) : NULL;
    if (data == NULL) {
      b->failed = true;
      return;
    }
    b->data = data;
    b->room = room;
  }
  if (length > 0) memcpy(b->data + b->length, bytes, length);
  b->length += length;
  b->data[b->length] = '\0';
}

void add_text(builder *b, const char *text) { add_bytes(b, text, strlen(text)); }

void add_format(builder *b, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) {
    b->failed = true;
    return;
  }
  add_bytes(b, text, (size_t)length);
  free(text);
}

void add_literal(builder *b, const char *text, size_t length) {
  add_bytes(b, "'", 1);
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\'') add_bytes(b, "'", 1);
    add_bytes(b, text + i, 1);
  }
  add_bytes(b, "'", 1);
}
