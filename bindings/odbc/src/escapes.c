/* Escape sequences of ODBC, such as {fn …} and {d '…'}, in the database's own words. Texts, names in quotes
 * and comments are passed over, and so are the structures that the database writes in braces, such as {'a':
 * 1}.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 100, ARGUMENTS_MAX = 32 };

/* A part of a statement, which is read from its begin to its end. */
typedef struct {
  const char *at, *end;
} span_of_text;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80;
}

static bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '$'; }

static const char *skip_spaces(const char *at, const char *end) {
  while (at < end && is_space(*at)) at++;
  return at;
}

/* ---- What is passed over ---- */

/* Returns the place behind a text or name in quotes; the end if they do not close. */
static const char *behind_quotes(const char *at, const char *end, bool has_escapes) {
  char quote = *at++;
  while (at < end) {
    if (has_escapes && *at == '\\' && at + 1 < end) {
      at += 2;
    } else if (*at++ == quote) {
      if (at == end || *at != quote) return at;
      at++;
    }
  }
  return end;
}

static const char *behind_comment(const char *at, const char *end) {
  if (*at == '-') {
    while (at < end && *at != '\n') at++;
    return at;
  }
  int depth = 0;
  while (at < end) {
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
      depth++, at += 2;
    } else if (end - at >= 2 && at[0] == '*' && at[1] == '/') {
      at += 2;
      if (--depth == 0) return at;
    } else {
      at++;
    }
  }
  return end;
}

/* Returns the place behind $tag$…$tag$; NULL if that is none. */
static const char *behind_dollars(const char *at, const char *end) {
  const char *tag_end = at + 1;
  while (tag_end < end && is_word(*tag_end) && *tag_end != '$') tag_end++;
  if (tag_end == end || *tag_end != '$' || (tag_end > at + 1 && at[1] >= '0' && at[1] <= '9')) return NULL;
  size_t length = (size_t)(tag_end + 1 - at);
  const char *close = memmem(tag_end + 1, (size_t)(end - tag_end - 1), at, length);
  return close == NULL ? end : close + length;
}

/* Returns the place behind the token at a place: a text, a comment, a word, or one character. */
static const char *behind_token(const char *at, const char *end) {
  if (*at == '\'' || *at == '"') return behind_quotes(at, end, false);
  if (end - at >= 2 && (at[0] == 'e' || at[0] == 'E') && at[1] == '\'')
    return behind_quotes(at + 1, end, true);
  if (end - at >= 2 && ((at[0] == '-' && at[1] == '-') || (at[0] == '/' && at[1] == '*')))
    return behind_comment(at, end);
  if (*at == '$') {
    const char *behind = behind_dollars(at, end);
    if (behind != NULL) return behind;
  }
  if (is_word(*at)) {
    while (at < end && is_word(*at)) at++;
    return at;
  }
  return at + 1;
}

/* Returns the brace that closes the one at a place, or NULL. */
static const char *closing_brace(const char *at, const char *end) {
  int depth = 0;
  while (at < end) {
    if (*at == '{') depth++;
    if (*at == '}' && --depth == 0) return at;
    at = behind_token(at, end);
  }
  return NULL;
}

/* ---- Functions ---- */

/* A function of ODBC, and what it is here: a name, or a pattern in which %1 and so on are the arguments. */
typedef struct {
  const char *name, *native;
  int least, most;
} scalar_function;

static const scalar_function functions[] = {
    {"CHAR", "chr", 1, 1},
    {"INSERT", "overlay(%1 PLACING %4 FROM %2 FOR %3)", 4, 4},
    {"LCASE", "lower", 1, 1},
    {"LENGTH", "length(rtrim(%1))", 1, 1},
    {"LOCATE", "strpos(%2, %1)", 2, 2},
    {"LOCATE", "coalesce(nullif(strpos(substring(%2, %3), %1), 0) + (%3) - 1, 0)", 3, 3},
    {"SPACE", "repeat(' ', %1)", 1, 1},
    {"UCASE", "upper", 1, 1},
    {"LOG", "ln", 1, 1},
    {"RAND", "random()", 0, 1},
    {"TRUNCATE", "trunc", 2, 2},
    {"CURDATE", "current_date", 0, 0},
    {"CURRENT_DATE", "current_date", 0, 0},
    {"CURTIME", "current_time", 0, 0},
    {"CURRENT_TIME", "current_time", 0, 1},
    {"CURRENT_TIMESTAMP", "current_timestamp", 0, 1},
    {"DAYNAME", "to_char(%1, 'FMDay')", 1, 1},
    {"DAYOFMONTH", "extract(day FROM %1)", 1, 1},
    {"DAYOFWEEK", "(extract(dow FROM %1) + 1)", 1, 1},
    {"DAYOFYEAR", "extract(doy FROM %1)", 1, 1},
    {"HOUR", "extract(hour FROM %1)", 1, 1},
    {"MINUTE", "extract(minute FROM %1)", 1, 1},
    {"MONTH", "extract(month FROM %1)", 1, 1},
    {"MONTHNAME", "to_char(%1, 'FMMonth')", 1, 1},
    {"QUARTER", "extract(quarter FROM %1)", 1, 1},
    {"SECOND", "floor(extract(second FROM %1))", 1, 1},
    {"WEEK", "extract(week FROM %1)", 1, 1},
    {"YEAR", "extract(year FROM %1)", 1, 1},
    {"DATABASE", "current_database()", 0, 0},
    {"IFNULL", "coalesce", 2, 2},
    {"USER", "current_user", 0, 0},
};

static bool equals(const char *name, size_t length, const char *other) {
  return strlen(other) == length && strncasecmp(name, other, length) == 0;
}

static const char *rewrite(span_of_text text, builder *out, int depth);

/* Finds the arguments between parentheses, and sets *at behind them. Returns their number, or -1. */
static int arguments_of(const char **at, const char *end, span_of_text *arguments) {
  const char *place = *at + 1;
  int count = 0, depth = 0;
  const char *start = place;
  while (place < end) {
    if (depth == 0 && (*place == ')' || *place == ',')) {
      span_of_text found = {skip_spaces(start, place), place};
      while (found.end > found.at && is_space(found.end[-1])) found.end--;
      bool is_last = *place == ')';
      if (count > 0 || !is_last || found.at < found.end) {
        if (count == ARGUMENTS_MAX) return -1;
        arguments[count++] = found;
      }
      start = ++place;
      if (is_last) {
        *at = place;
        return count;
      }
      continue;
    }
    if (*place == '(' || *place == '[') depth++;
    if (*place == ')' || *place == ']') depth--;
    if (*place == '{') {
      place = closing_brace(place, end);
      if (place == NULL) return -1;
      place++;
      continue;
    }
    place = behind_token(place, end);
  }
  return -1;
}

static const char *add_arguments(const span_of_text *arguments, int count, builder *out, int depth) {
  add_text(out, "(");
  for (int i = 0; i < count; i++) {
    if (i > 0) add_text(out, ", ");
    const char *problem = rewrite(arguments[i], out, depth);
    if (problem != NULL) return problem;
  }
  add_text(out, ")");
  return NULL;
}

static const char *add_pattern(const char *pattern, const span_of_text *arguments, builder *out, int depth) {
  for (; *pattern != '\0'; pattern++) {
    if (*pattern != '%') {
      add_bytes(out, pattern, 1);
      continue;
    }
    const char *problem = rewrite(arguments[*++pattern - '1'], out, depth);
    if (problem != NULL) return problem;
  }
  return NULL;
}

/* Types of CONVERT(value, type). */
static const char *type_named(const span_of_text *name) {
  static const char *const types[][2] = {
      {"SQL_BIGINT", "BIGINT"},
      {"SQL_BINARY", "BLOB"},
      {"SQL_BIT", "BOOLEAN"},
      {"SQL_CHAR", "VARCHAR"},
      {"SQL_DATE", "DATE"},
      {"SQL_DECIMAL", "DECIMAL(38,10)"},
      {"SQL_DOUBLE", "DOUBLE"},
      {"SQL_FLOAT", "DOUBLE"},
      {"SQL_GUID", "UUID"},
      {"SQL_INTEGER", "INTEGER"},
      {"SQL_LONGVARBINARY", "BLOB"},
      {"SQL_LONGVARCHAR", "VARCHAR"},
      {"SQL_NUMERIC", "DECIMAL(38,10)"},
      {"SQL_REAL", "REAL"},
      {"SQL_SMALLINT", "SMALLINT"},
      {"SQL_TIME", "TIME"},
      {"SQL_TIMESTAMP", "TIMESTAMP"},
      {"SQL_TINYINT", "SMALLINT"},
      {"SQL_TYPE_DATE", "DATE"},
      {"SQL_TYPE_TIME", "TIME"},
      {"SQL_TYPE_TIMESTAMP", "TIMESTAMP"},
      {"SQL_VARBINARY", "BLOB"},
      {"SQL_VARCHAR", "VARCHAR"},
      {"SQL_WCHAR", "VARCHAR"},
      {"SQL_WLONGVARCHAR", "VARCHAR"},
      {"SQL_WVARCHAR", "VARCHAR"},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (equals(name->at, (size_t)(name->end - name->at), types[i][0])) return types[i][1];
  return NULL;
}

static const char *unit_named(const span_of_text *name) {
  static const char *const units[][2] = {
      {"SQL_TSI_SECOND", "second"},   {"SQL_TSI_MINUTE", "minute"}, {"SQL_TSI_HOUR", "hour"},
      {"SQL_TSI_DAY", "day"},         {"SQL_TSI_WEEK", "week"},     {"SQL_TSI_MONTH", "month"},
      {"SQL_TSI_QUARTER", "quarter"}, {"SQL_TSI_YEAR", "year"},
  };
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (equals(name->at, (size_t)(name->end - name->at), units[i][0])) return units[i][1];
  return NULL;
}

/* Functions one argument of which is a word; *is_one says whether it is one of them. */
static const char *add_special(const char *name, size_t length, const span_of_text *arguments, int count,
                               builder *out, int depth, bool *is_one) {
  *is_one = true;
  if (equals(name, length, "CONVERT") && count == 2) {
    const char *type = type_named(&arguments[1]);
    if (type == NULL) return "the type of {fn CONVERT(…)} is not there";
    add_text(out, "CAST(");
    const char *problem = rewrite(arguments[0], out, depth);
    add_format(out, " AS %s)", type);
    return problem;
  }
  bool is_add = equals(name, length, "TIMESTAMPADD");
  if ((is_add || equals(name, length, "TIMESTAMPDIFF")) && count == 3) {
    const char *unit = unit_named(&arguments[0]);
    if (unit == NULL) return "the unit of {fn TIMESTAMPADD(…)} or {fn TIMESTAMPDIFF(…)} is not there";
    bool is_quarter = strcmp(unit, "quarter") == 0;
    if (!is_add) {
      add_format(out, "date_diff('%s', ", unit);
      const char *problem = rewrite(arguments[1], out, depth);
      add_text(out, ", ");
      if (problem == NULL) problem = rewrite(arguments[2], out, depth);
      add_text(out, ")");
      return problem;
    }
    add_text(out, "((");
    const char *problem = rewrite(arguments[2], out, depth);
    add_text(out, ") + (");
    if (problem == NULL) problem = rewrite(arguments[1], out, depth);
    add_format(out, ") * INTERVAL '%s %s')", is_quarter ? "3" : "1", is_quarter ? "month" : unit);
    return problem;
  }
  *is_one = false;
  return NULL;
}

/* Rewrites name(arguments); what has no other name here is passed on. */
static const char *add_function(span_of_text text, builder *out, int depth) {
  const char *at = skip_spaces(text.at, text.end), *name = at;
  while (at < text.end && is_word(*at)) at++;
  size_t length = (size_t)(at - name);
  at = skip_spaces(at, text.end);
  if (length == 0) return "{fn …} has no function";
  if (at == text.end || *at != '(' || equals(name, length, "EXTRACT") || equals(name, length, "POSITION"))
    return rewrite(text, out, depth);
  span_of_text arguments[ARGUMENTS_MAX];
  int count = arguments_of(&at, text.end, arguments);
  if (count < 0 || skip_spaces(at, text.end) != text.end)
    return "{fn …} is not one function with its arguments";
  bool is_special;
  const char *problem = add_special(name, length, arguments, count, out, depth, &is_special);
  if (is_special) return problem;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const scalar_function *f = &functions[i];
    if (!equals(name, length, f->name) || count < f->least || count > f->most) continue;
    if (strpbrk(f->native, "(%") != NULL || f->most == 0 || f->least == 0)
      return add_pattern(f->native, arguments, out, depth);
    add_text(out, f->native);
    return add_arguments(arguments, count, out, depth);
  }
  add_bytes(out, name, length);
  return add_arguments(arguments, count, out, depth);
}

/* ---- Escapes ---- */

typedef enum { NO_ESCAPE, FUNCTION, LITERAL, PLAIN, CALL, LIKE_ESCAPE } escape_kind;

/* Says what an escape is by its first word, which *rest is behind. What has a colon or no text behind it is a
 * structure of the database. */
static escape_kind kind_of(span_of_text inside, const char **prefix, const char **rest) {
  static const struct {
    const char *word;
    escape_kind kind;
    const char *prefix;
  } escapes[] = {
      {"fn", FUNCTION, ""},
      {"d", LITERAL, "DATE "},
      {"t", LITERAL, "TIME "},
      {"ts", LITERAL, "TIMESTAMP "},
      {"guid", LITERAL, "UUID "},
      {"oj", PLAIN, ""},
      {"call", CALL, ""},
      {"escape", LIKE_ESCAPE, "ESCAPE "},
      {"interval", PLAIN, "INTERVAL "},
  };
  const char *at = skip_spaces(inside.at, inside.end), *word = at;
  while (at < inside.end && is_word(*at)) at++;
  size_t length = (size_t)(at - word);
  const char *next = skip_spaces(at, inside.end);
  if (next == inside.end || *next == ':') return NO_ESCAPE;
  for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
    if (!equals(word, length, escapes[i].word)) continue;
    bool wants_text = escapes[i].kind == LITERAL || escapes[i].kind == LIKE_ESCAPE;
    if (wants_text ? *next != '\'' : next == at) return NO_ESCAPE;
    *prefix = escapes[i].prefix;
    *rest = next;
    return escapes[i].kind;
  }
  return NO_ESCAPE;
}

/* Says whether CALL runs what is called. Any other name is that of a function, whose value is selected. */
static bool is_procedure(span_of_text call) {
  static const char *const names[] = {"tpch_generate", "ssb_generate"};
  const char *end = call.at;
  while (end < call.end && is_word(*end)) end++;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (equals(call.at, (size_t)(end - call.at), names[i])) return true;
  return false;
}

static const char *add_call(span_of_text rest, builder *out, int depth) {
  add_text(out, is_procedure(rest) ? "CALL " : "SELECT ");
  const char *problem = rewrite(rest, out, depth);
  /* A procedure without arguments may be called without parentheses. */
  if (problem == NULL && memchr(rest.at, '(', (size_t)(rest.end - rest.at)) == NULL) add_text(out, "()");
  return problem;
}

/* The sign of an interval stands before the word in the database's SQL. */
static const char *add_signed(span_of_text content, const char *prefix, builder *out, int depth) {
  add_format(out, "(%c%s", *content.at, prefix);
  content.at = skip_spaces(content.at + 1, content.end);
  const char *problem = rewrite(content, out, depth);
  add_text(out, ")");
  return problem;
}

static const char *add_escape(span_of_text inside, builder *out, int depth, bool *is_escape) {
  const char *prefix = "", *rest = inside.at;
  const char *at = skip_spaces(inside.at, inside.end);
  *is_escape = true;
  if (at < inside.end && *at == '?') {
    at = skip_spaces(at + 1, inside.end);
    if (at < inside.end && *at == '=') return "{?= call …} is a statement of its own, and no part of one";
  }
  escape_kind kind = kind_of(inside, &prefix, &rest);
  *is_escape = kind != NO_ESCAPE;
  if (kind == NO_ESCAPE) return NULL;
  span_of_text content = {rest, inside.end};
  while (content.end > content.at && is_space(content.end[-1])) content.end--;
  bool is_signed = kind == PLAIN && content.at < content.end && (*content.at == '-' || *content.at == '+');
  if (is_signed && strncmp(prefix, "INTERVAL", 8) == 0) return add_signed(content, prefix, out, depth);
  add_text(out, prefix);
  if (kind == FUNCTION) return add_function(content, out, depth);
  if (kind == CALL) return add_call(content, out, depth);
  if (kind == LITERAL && behind_quotes(content.at, content.end, false) != content.end)
    return "an escape of a date, time or GUID is not one text in quotes";
  return rewrite(content, out, depth);
}

static const char *rewrite(span_of_text text, builder *out, int depth) {
  if (depth > DEPTH_MAX) return "escapes are nested too deep";
  const char *at = text.at;
  while (at < text.end) {
    if (*at == '{') {
      const char *close = closing_brace(at, text.end);
      if (close == NULL) {
        add_bytes(out, at, (size_t)(text.end - at));
        return NULL;
      }
      bool is_escape;
      const char *problem = add_escape((span_of_text){at + 1, close}, out, depth + 1, &is_escape);
      if (problem != NULL) return problem;
      if (is_escape) {
        at = close + 1;
        continue;
      }
    }
    const char *behind = behind_token(at, text.end);
    add_bytes(out, at, (size_t)(behind - at));
    at = behind;
  }
  return NULL;
}

/* Finds what is called, if a text is {?= call …} and nothing else. */
static bool find_value_call(span_of_text text, span_of_text *call) {
  const char *at = skip_spaces(text.at, text.end);
  const char *close = at < text.end && *at == '{' ? closing_brace(at, text.end) : NULL;
  if (close == NULL) return false;
  const char *after = skip_spaces(close + 1, text.end);
  if (after < text.end && *after == ';') after = skip_spaces(after + 1, text.end);
  if (after < text.end) return false;
  at = skip_spaces(at + 1, close);
  if (at == close || *at != '?') return false;
  at = skip_spaces(at + 1, close);
  if (at == close || *at != '=') return false;
  const char *word = skip_spaces(at + 1, close);
  for (at = word; at < close && is_word(*at);) at++;
  if (!equals(word, (size_t)(at - word), "call")) return false;
  call->at = skip_spaces(at, close);
  call->end = close;
  while (call->end > call->at && is_space(call->end[-1])) call->end--;
  return call->at < call->end;
}

const char *without_escapes(const char *sql, size_t length, builder *out, bool *gives_value) {
  span_of_text text = {sql, sql + length}, call;
  *gives_value = false;
  if (memchr(sql, '{', length) == NULL) {
    add_bytes(out, sql, length);
    return NULL;
  }
  add_bytes(out, "", 0);
  *gives_value = find_value_call(text, &call);
  return *gives_value ? add_call(call, out, 0) : rewrite(text, out, 0);
}
