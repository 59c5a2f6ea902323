/* Settings: connection strings, and data sources of odbc.ini.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <odbcinst.h>
#include <stdlib.h>
#include <string.h>

/* The keywords, and where their values are. README.md says what they mean. */
static const struct {
  const char *name;
  size_t place;
} keywords[] = {
    {"DSN", offsetof(settings, dsn)},
    {"DRIVER", offsetof(settings, driver)},
    {"DATABASE", offsetof(settings, database)},
    {"UID", offsetof(settings, user)},
    {"PWD", offsetof(settings, password)},
    {"READONLY", offsetof(settings, read_only)},
    {"THREADS", offsetof(settings, threads)},
    {"MEMORYLIMIT", offsetof(settings, memory_limit)},
    {"TEMPDIRECTORY", offsetof(settings, temp_directory)},
    {"VERIFY", offsetof(settings, verify)},
    {"TEXTSIZE", offsetof(settings, text_size)},
};
enum { KEYWORDS = sizeof keywords / sizeof *keywords };

static char **place_of(settings *s, size_t keyword) {
  return (char **)(void *)((char *)s + keywords[keyword].place);
}

void free_settings(settings *s) {
  for (size_t i = 0; i < KEYWORDS; i++) free(*place_of(s, i));
  memset(s, 0, sizeof *s);
}

static const char *skip_spaces(const char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\n') at++;
  return at;
}

/* Reads a value up to its semicolon, or in braces, where }} is a brace. Returns NULL if they do not close. */
static const char *read_value(const char *at, builder *value) {
  at = skip_spaces(at);
  if (*at != '{') {
    const char *end = at + strcspn(at, ";");
    size_t length = (size_t)(end - at);
    while (length > 0 && strchr(" \t\n", at[length - 1]) != NULL) length--;
    add_bytes(value, at, length);
    return end;
  }
  add_bytes(value, "", 0);
  for (at++; *at != '\0'; at++) {
    if (*at != '}') {
      add_bytes(value, at, 1);
    } else if (at[1] == '}') {
      add_bytes(value, at++, 1);
    } else {
      at = skip_spaces(at + 1);
      return *at == ';' || *at == '\0' ? at : NULL;
    }
  }
  return NULL;
}

/* Warns of a word of a connection string. Behind a password it may be a part of it: a semicolon ends a
 * value. */
static SQLRETURN warn_of_word(connection *conn, bool may_be_secret, const char *what, const char *word,
                              size_t length) {
  if (may_be_secret)
    return warn(conn, "01S00", "%s a word behind a password; one with a semicolon stands in { and }", what);
  return warn(conn, "01S00", "%s %.*s", what, (int)length, word);
}

static bool is_keyword(const char *name, size_t length, const char *keyword) {
  return strlen(keyword) == length && strncasecmp(keyword, name, length) == 0;
}

/* The first value of a keyword that stands there twice holds. */
static SQLRETURN set_keyword(connection *conn, settings *out, const char *name, size_t length, char *value,
                             bool may_be_secret) {
  for (size_t i = 0; i < KEYWORDS; i++) {
    if (!is_keyword(name, length, keywords[i].name)) continue;
    char **place = place_of(out, i);
    if (*place == NULL)
      *place = value;
    else
      free(value);
    return SQL_SUCCESS;
  }
  free(value);
  return warn_of_word(conn, may_be_secret, "a connection string has no keyword", name, length);
}

/* Tells whether a password may go on behind a value: that is one, an address, or of a keyword that is not
 * known. */
static bool may_have_secret(const char *name, size_t length, const builder *value) {
  if (is_keyword(name, length, "PWD")) return true;
  if (value->data != NULL && strstr(value->data, "://") != NULL) return true;
  for (size_t i = 0; i < KEYWORDS; i++)
    if (is_keyword(name, length, keywords[i].name)) return false;
  return true;
}

SQLRETURN read_settings(connection *conn, const char *text, settings *out) {
  SQLRETURN returned = SQL_SUCCESS;
  bool may_be_secret = false;
  const char *at = skip_spaces(text);
  while (*at != '\0') {
    size_t length = strcspn(at, "=;");
    const char *name = at;
    at += length;
    while (length > 0 && (name[length - 1] == ' ' || name[length - 1] == '\t')) length--;
    if (*at == ';') {
      if (length > 0) returned = warn_of_word(conn, may_be_secret, "there is no = behind", name, length);
    } else if (*at == '=') {
      builder value = {0};
      at = read_value(at + 1, &value);
      if (value.failed || at == NULL) {
        free(value.data);
        if (value.failed) return fail_memory(conn);
        if (may_be_secret) return fail(conn, "HY000", "a value begins with { and does not end with }");
        return fail(conn, "HY000", "the value of %.*s begins with { and does not end with }", (int)length, name);
      }
      bool has_secret = may_have_secret(name, length, &value);
      if (set_keyword(conn, out, name, length, value.data, may_be_secret) != SQL_SUCCESS)
        returned = SQL_SUCCESS_WITH_INFO;
      may_be_secret = may_be_secret || has_secret;
    } else if (length > 0) {
      return warn_of_word(conn, may_be_secret, "there is no = behind", name, length);
    }
    at = skip_spaces(at + (*at == ';'));
  }
  return returned;
}

SQLRETURN read_data_source(connection *conn, settings *out) {
  if (out->dsn == NULL) return SQL_SUCCESS;
  for (size_t i = 0; i < KEYWORDS; i++) {
    char value[4096];
    char **place = place_of(out, i);
    if (*place != NULL) continue;
    if (SQLGetPrivateProfileString(out->dsn, keywords[i].name, "", value, sizeof value, "odbc.ini") <= 0)
      continue;
    *place = strdup(value);
    if (*place == NULL) return fail_memory(conn);
  }
  return SQL_SUCCESS;
}

static bool needs_braces(const char *value) {
  return strpbrk(value, "[]{}(),;?*=!@") != NULL || *skip_spaces(value) != *value;
}

void write_settings(const settings *from, builder *out) {
  settings copy = *from;
  for (size_t i = 0; i < KEYWORDS; i++) {
    const char *value = *place_of(&copy, i);
    if (value == NULL) continue;
    add_format(out, "%s%s=", out->length > 0 ? ";" : "", keywords[i].name);
    if (!needs_braces(value)) {
      add_text(out, value);
      continue;
    }
    add_text(out, "{");
    for (; *value != '\0'; value++) {
      add_bytes(out, value, 1);
      if (*value == '}') add_bytes(out, value, 1);
    }
    add_text(out, "}");
  }
}

/* ---- Values ---- */

static bool read_count(const char *text, uint64_t most, uint64_t *out) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  unsigned long long number = strtoull(text, &end, 10);
  *out = number;
  return *end == '\0' && number <= most;
}

/* Reads bytes such as 2GB. */
static bool read_size(const char *text, uint64_t *out) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  unsigned long long number = strtoull(text, &end, 10);
  static const char *const units[] = {"KB", "MB", "GB", "TB"};
  for (int i = 0; i < 4; i++)
    if (strcasecmp(end, units[i]) == 0) {
      *out = number << (10 * (i + 1));
      return *out >> (10 * (i + 1)) == number;
    }
  *out = number;
  return *end == '\0';
}

static bool read_boolean(const char *text, int32_t *out) {
  static const char *const yes[] = {"1", "yes", "true", "on"}, *const no[] = {"0", "no", "false", "off"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
    if (strcasecmp(text, yes[i]) == 0) return *out = 1, true;
    if (strcasecmp(text, no[i]) == 0) return *out = 0, true;
  }
  return false;
}

/* Refuses a value. It is not told: behind a semicolon it may be a part of a password. */
static SQLRETURN refuse(connection *conn, const char *keyword, const char *wanted) {
  return fail(conn, "HY024", "%s: %s is wanted", keyword, wanted);
}

static bool is_given(const char *text) { return text != NULL && *text != '\0'; }

SQLRETURN options_of(connection *conn, hypostyle_options *out) {
  const settings *s = &conn->settings;
  memset(out, 0, sizeof *out);
  out->size = sizeof *out;
  uint64_t count;
  if (is_given(s->read_only) && !read_boolean(s->read_only, &out->read_only))
    return refuse(conn, "READONLY", "1 or 0");
  if (conn->access_mode == SQL_MODE_READ_ONLY) out->read_only = 1;
  if (is_given(s->threads)) {
    if (!read_count(s->threads, 1024, &count)) return refuse(conn, "THREADS", "a number up to 1024");
    out->threads = (uint32_t)count;
  }
  if (is_given(s->memory_limit) && !read_size(s->memory_limit, &out->memory_limit))
    return refuse(conn, "MEMORYLIMIT", "a number of bytes, also with KB, MB, GB or TB");
  conn->text_size = 65535;
  if (is_given(s->text_size)) {
    if (!read_count(s->text_size, INT32_MAX / 4, &count) || count == 0)
      return refuse(conn, "TEXTSIZE", "a number of characters");
    conn->text_size = (SQLULEN)count;
  }
  if (is_given(s->temp_directory)) out->temp_directory = s->temp_directory;
  if (is_given(s->verify)) out->verify = s->verify;
  if (is_given(s->user)) out->user = s->user;
  if (is_given(s->password)) out->password = s->password;
  return SQL_SUCCESS;
}
