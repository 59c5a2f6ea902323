# The backend for dbplyr, edition 2. Its methods are found when dbplyr is loaded (NAMESPACE), so that
# dbplyr is needed by those alone who use it.

dbplyr_edition.HypostyleConnection <- function(con) 2L

db_connection_describe.HypostyleConnection <- function(con, ...) {
  paste0("Hypostyle ", hypostyle_version(), " [", con@state$dbname, "]")
}

sql_query_explain.HypostyleConnection <- function(con, sql, ...) dbplyr::build_sql("EXPLAIN ", sql, con = con)

sql_expr_matches.HypostyleConnection <- function(con, x, y, ...) {
  dbplyr::build_sql(x, " IS NOT DISTINCT FROM ", y, con = con)
}

supports_window_clause.HypostyleConnection <- function(con) TRUE

# Rows of a frame as a table of constants, for copy_inline(), in the form of PostgreSQL.
sql_values_subquery.HypostyleConnection <- function(con, df, types, lvl = 0, ...) {
  values <- utils::getS3method("sql_values_subquery", "PqConnection", envir = asNamespace("dbplyr"))
  values(con, df, types = types, lvl = lvl)
}

# Statistics are those of the stored columns, which need no analysis.
sql_table_analyze.HypostyleConnection <- function(con, table, ...) NULL

sql_escape_date.HypostyleConnection <- function(con, x) literal_of(con, x)

sql_escape_datetime.HypostyleConnection <- function(con, x) literal_of(con, x)

sql_escape_raw.HypostyleConnection <- function(con, x) {
  if (is.null(x)) "NULL" else bytes_literal(list(x))
}

# MERGE needs no unique key. That of PostgreSQL returns nothing before version 17.
sql_query_upsert.HypostyleConnection <- function(con, x_name, y, by, update_cols, ..., returning_cols = NULL,
                                                 method = NULL) {
  if (is_postgres(con)) {
    upsert <- utils::getS3method("sql_query_upsert", "PqConnection", envir = asNamespace("dbplyr"))
    return(upsert(con, x_name, y, by, update_cols, ..., returning_cols = returning_cols, method = method))
  }
  name <- function(columns) dbQuoteIdentifier(con, columns)
  columns <- colnames(y)
  source <- dbplyr::sql_render(y, con)
  parts <- c(
    paste0("MERGE INTO ", dbplyr::escape(x_name, con = con)),
    paste0("USING (", source, ") AS \"...y\""),
    paste0("ON ", paste0(
      dbplyr::escape(x_name, con = con), ".", name(by), " = \"...y\".", name(by),
      collapse = " AND "
    )),
    if (length(update_cols) > 0L) {
      paste0("WHEN MATCHED THEN UPDATE SET ", paste0(
        name(update_cols), " = \"...y\".", name(update_cols),
        collapse = ", "
      ))
    },
    paste0(
      "WHEN NOT MATCHED THEN INSERT (", paste0(name(columns), collapse = ", "), ") VALUES (",
      paste0("\"...y\".", name(columns), collapse = ", "), ")"
    ),
    if (length(returning_cols) > 0L) paste0("RETURNING ", paste0(name(returning_cols), collapse = ", "))
  )
  dbplyr::sql(paste0(parts, collapse = "\n"))
}

# ---- Functions ----

# Makes functions that put their arguments, which are SQL already, into a template: {x}, {y}. What an
# argument has of braces stays as it is.
template <- function(text, ...) {
  defaults <- list(...)
  places <- gregexpr("\\{[a-z]+\\}", text)
  used <- gsub("[{}]", "", regmatches(text, places)[[1L]])
  between <- regmatches(text, places, invert = TRUE)[[1L]]
  names <- unique(used)
  fun <- function() {
    con <- dbplyr_connection()
    values <- mget(names, envir = environment(), inherits = FALSE)
    written <- vapply(values, function(value) as.character(dbplyr::escape(value, con = con)), "")
    dbplyr::sql(paste0(between, c(written[used], ""), collapse = ""))
  }
  formals(fun) <- stats::setNames(lapply(names, function(name) if (name %in% names(defaults)) defaults[[name]] else quote(expr = )), names)
  fun
}

# Escaping needs a connection's rules; those of every connection are the same. PostgreSQL reads the same
# names of types.
dbplyr_connection <- function() methods::new("HypostyleConnection")

# A regular expression, to which something may be added before and behind.
regex_of <- function(before = "", behind = "") {
  whole <- if (nzchar(before) || nzchar(behind)) paste0("('", before, "(?:' || {pattern} || ')", behind, "')") else "{pattern}"
  match <- template(paste0("({string} ~ ", whole, ")"))
  not <- template(paste0("(NOT {string} ~ ", whole, ")"))
  function(string, pattern, negate = FALSE) if (isTRUE(negate)) not(string, pattern) else match(string, pattern)
}

# A text that a regular expression finds as it is. That of a column is known to the database alone.
fixed_text <- function(pattern, ignore_case = FALSE) {
  if (!is_text(pattern)) refuse("fixed() takes one text, not a column")
  paste0(if (isTRUE(ignore_case)) "(?i)", gsub("([][{}()+*^$|\\\\?.])", "\\\\\\1", pattern))
}

regex_text <- function(pattern, ignore_case = FALSE, ...) {
  if (!is_text(pattern)) refuse("regex() takes one text, not a column")
  paste0(if (isTRUE(ignore_case)) "(?i)", pattern)
}

pad_of <- function() {
  pad <- function(side) template(paste0(side, "({string}, CAST(greatest({width}, length({string})) AS INTEGER), {pad})"))
  both <- list(left = pad("lpad"), right = pad("rpad"))
  function(string, width, side = "left", pad = " ") {
    if (!side %in% names(both)) refuse("str_pad() pads on the left or on the right")
    both[[side]](string, whole_number(width), pad)
  }
}

# Whole numbers of R are doubles as they are written; a place or a count is an integer.
whole_number <- function(x) if (is.numeric(x) && length(x) == 1L && x == trunc(x)) as.integer(x) else x

substring_of <- function() {
  rest <- template("substr({string}, {first})")
  part <- template("substr({string}, {first}, greatest({last} - {first} + 1, 0))")
  function(text, first, last = 1000000L) {
    first <- whole_number(first)
    last <- whole_number(last)
    if (is.integer(first)) first <- max(first, 1L)
    if (identical(last, 1000000L)) rest(text, first) else part(text, first, last)
  }
}

grepl_of <- function() {
  match <- template("({x} ~ {pattern})")
  any_case <- template("({x} ~* {pattern})")
  literal <- template("(strpos({x}, {pattern}) > 0)")
  function(pattern, x, ignore.case = FALSE, perl = FALSE, fixed = FALSE, useBytes = FALSE) {
    if (isTRUE(fixed)) literal(x, pattern) else if (isTRUE(ignore.case)) any_case(x, pattern) else match(x, pattern)
  }
}

substitute_of <- function(flags) {
  regex <- template(paste0("regexp_replace({x}, {pattern}, {replacement}", flags, ")"))
  function(pattern, replacement, x, ...) regex(x, pattern, replacement)
}

# Dates and points in time of constants are those that R makes of them, in R's time zone.
date_of <- function() {
  cast <- template("CAST({x} AS DATE)")
  function(x, ...) if (is_constant(x)) as.Date(x, ...) else cast(x)
}

point_of <- function(zone) {
  cast <- template("CAST({x} AS TIMESTAMPTZ)")
  local <- template("(CAST({x} AS TIMESTAMP) AT TIME ZONE {tz})")
  function(x, tz = zone, ...) {
    if (is_constant(x)) as.POSIXct(x, tz = tz, ...) else if (identical(tz, "")) cast(x) else local(x, tz)
  }
}

is_constant <- function(x) !inherits(x, c("sql", "ident", "ident_q")) && (is.character(x) || inherits(x, c("Date", "POSIXt")))

format_of <- function() {
  plain <- template("CAST({x} AS VARCHAR)")
  shaped <- template("strftime({x}, {format})")
  function(x, format = NULL, ...) if (is.null(format)) plain(x) else shaped(x, format)
}

month_of <- function() {
  number <- template("CAST(EXTRACT(MONTH FROM {x}) AS INTEGER)")
  short <- template("to_char({x}, 'Mon')")
  long <- template("to_char({x}, 'FMMonth')")
  function(x, label = FALSE, abbr = TRUE) if (!label) number(x) else if (abbr) short(x) else long(x)
}

weekday_of <- function() {
  short <- template("to_char({x}, 'Dy')")
  long <- template("to_char({x}, 'FMDay')")
  function(x, label = FALSE, abbr = TRUE, week_start = getOption("lubridate.week.start", 7)) {
    if (label) return(if (abbr) short(x) else long(x))
    template(paste0("((CAST(EXTRACT(DOW FROM {x}) AS INTEGER) + ", 7L - as.integer(week_start), ") % 7 + 1)"))(x)
  }
}

# The parts of "15 minutes".
parts_of_unit <- function(unit) {
  parts <- regmatches(unit, regexec("^\\s*([0-9]*)\\s*([a-z]+?)s?\\s*$", unit, perl = TRUE))[[1L]]
  if (length(parts) == 0L) refuse("\"", unit, "\" is no unit such as \"month\" or \"15 minutes\"")
  list(count = if (nzchar(parts[2L])) as.integer(parts[2L]) else 1L, unit = parts[3L])
}

floor_date_of <- function() {
  trunc <- template("date_trunc({unit}, {x})")
  bin <- template("date_bin({width}, {x}, {origin})")
  week <- template("(date_trunc('week', {x} + {days}) - {days})")
  # Within these units others begin anew.
  within <- c(second = 60L, minute = 60L, hour = 24L)
  function(x, unit = "second", week_start = getOption("lubridate.week.start", 7)) {
    parts <- parts_of_unit(unit)
    if (parts$count != 1L) {
      if (!isTRUE(within[parts$unit] %% parts$count == 0L)) {
        refuse("floor_date() knows seconds, minutes and hours that divide a minute, an hour or a day, not \"", unit, "\"")
      }
      origin <- dbplyr::sql("TIMESTAMPTZ '2000-01-01 00:00:00+00'")
      return(bin(interval_of(parts$unit)(parts$count), x, origin))
    }
    # The database's weeks begin on Monday.
    if (parts$unit == "week" && week_start != 1) return(week(x, interval_of("days")(8L - as.integer(week_start))))
    trunc(parts$unit, x)
  }
}

log_of <- function() {
  natural <- template("ln({x})")
  based <- template("(ln({x}) / ln({base}))")
  function(x, base = exp(1)) if (identical(base, exp(1))) natural(x) else based(x, base)
}

round_of <- function() {
  fun <- template("round({x}, {digits})")
  function(x, digits = 0L) fun(x, as.integer(digits))
}

interval_of <- function(unit) {
  many <- template(paste0("({x} * INTERVAL '1 ", unit, "')"))
  function(x) {
    is_number <- is.numeric(x) && length(x) == 1L && is.finite(x)
    if (is_number) dbplyr::sql(paste0("INTERVAL '", format(x, digits = 15L, scientific = FALSE), " ", unit, "'")) else many(x)
  }
}

scalar_functions <- function() {
  part <- function(field) template(paste0("CAST(EXTRACT(", field, " FROM {x}) AS INTEGER)"))
  dbplyr::sql_translator(
    .parent = dbplyr::base_scalar,
    desc = template(paste0("{x}", descending)),
    `/` = template("(CAST({x} AS DOUBLE PRECISION) / {y})"),
    `%/%` = template("floor(CAST({x} AS DOUBLE PRECISION) / {y})"),
    `%%` = template("(({x} % {y} + {y}) % {y})"),
    as.integer = template("CAST(trunc(CAST({x} AS DOUBLE PRECISION)) AS INTEGER)"),
    as.numeric = template("CAST({x} AS DOUBLE PRECISION)"),
    as.double = template("CAST({x} AS DOUBLE PRECISION)"),
    as.integer64 = template("CAST({x} AS BIGINT)"),
    as.character = template("CAST({x} AS VARCHAR)"),
    as.logical = template("CAST({x} AS BOOLEAN)"),
    as.Date = date_of(), as_date = date_of(), date = template("CAST({x} AS DATE)"), ymd = date_of(),
    as.POSIXct = point_of(""), as_datetime = point_of("UTC"), ymd_hms = point_of("UTC"),
    format = format_of(), strftime = format_of(),
    xor = template("(({x}) <> ({y}))"), near = template("(abs({x} - {y}) < {tol})", tol = 1e-8),
    bitwXor = dbplyr::sql_infix("#"),
    is.nan = template("({x} = 'NaN'::DOUBLE PRECISION)"),
    is.infinite = template("(abs({x}) = 'Infinity'::DOUBLE PRECISION)"),
    log = log_of(), log2 = template("(ln({x}) / ln(2e0))"), log10 = template("(ln({x}) / ln(10e0))"),
    log1p = template("ln(1e0 + {x})"), expm1 = template("(exp({x}) - 1e0)"),
    round = round_of(), trunc = template("trunc({x})"), cot = template("(1e0 / tan({x}))"),
    pmin = dbplyr::sql_aggregate_n("LEAST", "pmin"), pmax = dbplyr::sql_aggregate_n("GREATEST", "pmax"),
    paste = dbplyr::sql_paste(" "), paste0 = dbplyr::sql_paste(""),
    # NULL is NULL, as NA is NA.
    str_c = dbplyr::sql_paste_infix("", "||", template("CAST({x} AS VARCHAR)")),
    nchar = template("length({x})"), str_length = template("length({x})"),
    str_detect = regex_of(), grepl = grepl_of(), str_starts = regex_of(before = "^"), str_ends = regex_of(behind = "$"),
    fixed = fixed_text, regex = regex_text,
    startsWith = template("starts_with({x}, {prefix})"),
    endsWith = template("(right({x}, length({suffix})) = {suffix})"),
    str_count = template("CAST(regexp_count({string}, {pattern}) AS INTEGER)"),
    str_extract = template("regexp_substr({string}, {pattern})"),
    str_pad = pad_of(), substring = substring_of(),
    str_like = template("({string} ILIKE {pattern})"),
    sub = substitute_of(""), gsub = substitute_of(", 'g'"),
    str_replace = template("regexp_replace({string}, {pattern}, {replacement})"),
    str_replace_all = template("regexp_replace({string}, {pattern}, {replacement}, 'g')"),
    str_remove = template("regexp_replace({string}, {pattern}, '')"),
    str_remove_all = template("regexp_replace({string}, {pattern}, '', 'g')"),
    str_squish = template("trim(regexp_replace({string}, '\\s+', ' ', 'g'))"),
    str_to_title = template("initcap({string})"),
    str_locate = template("strpos({string}, {pattern})"),
    str_dup = template("repeat({string}, CAST({times} AS BIGINT))"),
    year = part("YEAR"), quarter = part("QUARTER"), month = month_of(), isoyear = part("ISOYEAR"),
    isoweek = part("WEEK"), day = part("DAY"), mday = part("DAY"), yday = part("DOY"), wday = weekday_of(),
    qday = template("(CAST({x} AS DATE) - CAST(date_trunc('quarter', {x}) AS DATE) + 1)"),
    semester = template("CASE WHEN EXTRACT(MONTH FROM {x}) > 6 THEN 2 WHEN {x} IS NOT NULL THEN 1 END"),
    am = template("(EXTRACT(HOUR FROM {x}) < 12)"), pm = template("(EXTRACT(HOUR FROM {x}) >= 12)"),
    hour = part("HOUR"), minute = part("MINUTE"),
    # The field counts whole seconds.
    second = template("(CAST(EXTRACT(MICROSECONDS FROM {x}) AS DOUBLE PRECISION) / 1e6)"),
    today = function() dbplyr::sql("CURRENT_DATE"), now = function() dbplyr::sql("CURRENT_TIMESTAMP"),
    Sys.Date = function() dbplyr::sql("CURRENT_DATE"), Sys.time = function() dbplyr::sql("CURRENT_TIMESTAMP"),
    floor_date = floor_date_of(), `%m+%` = template("({x} + {y})"), `%m-%` = template("({x} - {y})"),
    seconds = interval_of("seconds"), minutes = interval_of("minutes"), hours = interval_of("hours"),
    days = interval_of("days"), weeks = interval_of("weeks"), months = interval_of("months"),
    years = interval_of("years")
  )
}

quantile_of <- function(wrap = identity) {
  fun <- template("quantile_cont({x}, {probs})")
  function(x, probs, na.rm = FALSE, ...) wrap(fun(x, probs))
}

join_texts <- function(wrap = identity) {
  fun <- template("string_agg({x}, {collapse})")
  function(x, collapse = "", ...) wrap(fun(x, collapse))
}

# NA is the last of an order of R, whatever its direction.
descending <- " DESC NULLS LAST"

# A rank by desc() of something. dbplyr 2.3 asks whether the order together with its direction is NULL.
rank_of <- function(name) {
  theirs <- dbplyr::win_rank(name)
  function(x = NULL) {
    order <- if (is.null(x)) "" else as.character(dbplyr::escape(x, con = dbplyr_connection()))
    if (!endsWith(order, descending)) return(theirs(x))
    value <- substr(order, 1L, nchar(order) - nchar(descending))
    is_null <- dbplyr::sql(paste0("CASE WHEN (", value, " IS NULL) THEN 1 ELSE 0 END"))
    groups <- dbplyr::sql(dbplyr::win_current_group(), is_null)
    ranked <- dbplyr::win_over(dbplyr::sql(paste0(name, "()")), groups, dbplyr::sql(order))
    dbplyr::sql(paste0("CASE WHEN (", value, " IS NOT NULL) THEN ", ranked, " END"))
  }
}

# The value of a row of the whole group, also behind the current one.
nth_of <- function() {
  value <- template("nth_value({x}, {n})")
  function(x, n, order_by = NULL) {
    order <- if (is.null(order_by)) dbplyr::win_current_order() else order_by
    frame <- if (length(order) > 0L) c(-Inf, Inf)
    dbplyr::win_over(value(x, as.integer(n)), dbplyr::win_current_group(), order, frame)
  }
}

# dbplyr's own counts one column only. Rows of values are counted, also those with NULL.
distinct_of <- function() {
  one <- template("COUNT(DISTINCT {x})")
  function(..., na.rm = FALSE) {
    columns <- list(...)
    if (length(columns) == 1L) return(one(columns[[1L]]))
    written <- vapply(columns, function(column) as.character(dbplyr::escape(column, con = dbplyr_connection())), "")
    dbplyr::sql(paste0("COUNT(DISTINCT (", paste0(written, collapse = ", "), "))"))
  }
}

over_group <- function(sql) dbplyr::win_over(sql, partition = dbplyr::win_current_group())

# Returns dbplyr's own translation for PostgreSQL, with divisions and whole numbers as R has them.
postgres_translation <- function() {
  theirs <- dbplyr::sql_translation(dbplyr::simulate_postgres())
  ours <- scalar_functions()
  dbplyr::sql_variant(
    dbplyr::sql_translator(.parent = theirs$scalar, desc = ours$desc, `/` = ours$`/`, `%/%` = ours$`%/%`, as.integer = ours$as.integer),
    theirs$aggregate, theirs$window
  )
}

sql_translation.HypostyleConnection <- function(con) {
  if (is_postgres(con)) return(postgres_translation())
  two <- dbplyr::sql_aggregate_2
  dbplyr::sql_variant(
    scalar_functions(),
    dbplyr::sql_translator(
      .parent = dbplyr::base_agg,
      sd = dbplyr::sql_aggregate("STDDEV_SAMP", "sd"), var = dbplyr::sql_aggregate("VAR_SAMP", "var"),
      cor = two("CORR"), cov = two("COVAR_SAMP"),
      all = dbplyr::sql_aggregate("BOOL_AND", "all"), any = dbplyr::sql_aggregate("BOOL_OR", "any"),
      median = dbplyr::sql_aggregate("MEDIAN", "median"), quantile = quantile_of(), str_flatten = join_texts(),
      n_distinct = distinct_of()
    ),
    dbplyr::sql_translator(
      .parent = dbplyr::base_win,
      sd = dbplyr::win_aggregate("STDDEV_SAMP"), var = dbplyr::win_aggregate("VAR_SAMP"),
      cor = dbplyr::win_aggregate_2("CORR"), cov = dbplyr::win_aggregate_2("COVAR_SAMP"),
      all = dbplyr::win_aggregate("BOOL_AND"), any = dbplyr::win_aggregate("BOOL_OR"),
      median = dbplyr::win_aggregate("MEDIAN"), quantile = quantile_of(over_group),
      row_number = rank_of("ROW_NUMBER"), min_rank = rank_of("RANK"), rank = rank_of("RANK"),
      dense_rank = rank_of("DENSE_RANK"), percent_rank = rank_of("PERCENT_RANK"), cume_dist = rank_of("CUME_DIST"),
      nth = nth_of(), cumall = dbplyr::win_cumulative("BOOL_AND"), cumany = dbplyr::win_cumulative("BOOL_OR"),
      str_flatten = join_texts(over_group)
    )
  )
}
