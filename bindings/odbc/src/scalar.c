/* The texts of scalars.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "scalar.h"
#include <stdio.h>
#include <string.h>

static size_t guid_text(const uint8_t *guid, char *out) {
  char *at = out;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    at += sprintf(at, "%02x", guid[i]);
  }
  return (size_t)(at - out);
}

size_t scalar_text(const scalar *value, char *out) {
  switch (value->kind) {
  case SCALAR_EXACT: return decimal_text(&value->exact, out);
  case SCALAR_REAL: return real_text(value->real, value->is_float, out);
  case SCALAR_BOOLEAN: return (size_t)sprintf(out, "%d", value->boolean);
  case SCALAR_DATE: return date_text(&value->moment, out);
  case SCALAR_TIME: return time_text(&value->moment, value->fraction, out);
  case SCALAR_TIMESTAMP: return timestamp_text(&value->moment, value->fraction, out);
  case SCALAR_INTERVAL: return span_text(&value->span, out);
  case SCALAR_GUID: return guid_text(value->guid, out);
  case SCALAR_TEXT:
  case SCALAR_BYTES: break;
  }
  *out = '\0';
  return 0;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool read_guid(const char *text, size_t length, uint8_t *out) {
  if (length == 38 && text[0] == '{' && text[37] == '}') text++, length -= 2;
  if (length != 36) return false;
  int written = 0;
  for (size_t i = 0; i < length;) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (text[i++] != '-') return false;
      continue;
    }
    int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    out[written++] = (uint8_t)(high << 4 | low);
    i += 2;
  }
  return true;
}
