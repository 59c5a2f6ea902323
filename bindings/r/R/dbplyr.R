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

# Makes functions that paste their arguments, which are SQL already, into a template: {x}, {y}.
template <- function(text, ...) {
  defaults <- list(...)
  names <- unique(gsub("[{}]", "", regmatches(text, gregexpr("\\{[a-z]+\\}", text))[[1L]]))
  fun <- function() {
    con <- dbplyr_connection()
    values <- mget(names, envir = environment(), inherits = FALSE)
    written <- vapply(values, function(value) as.character(dbplyr::escape(value, con = con)), "")
    sql <- text
    for (name in names) sql <- gsub(paste0("{", name, "}"), written[[name]], sql, fixed = TRUE)
    dbplyr::sql(sql)
  }
  formals(fun) <- stats::setNames(lapply(names, function(name) if (name %in% names(defaults)) defaults[[name]] else quote(expr = )), names)
  fun
}

# Escaping needs a connection's rules; those of every connection are the same. PostgreSQL reads the same
# names of types.
dbplyr_connection <- function() methods::new("HypostyleConnection")

regex_of <- function() {
  match <- template("({string} ~ {pattern})")
  not <- template("(NOT {string} ~ {pattern})")
  function(string, pattern, negate = FALSE) if (isTRUE(negate)) not(string, pattern) else match(string, pattern)
}

fixed_part <- function(sql) {
  fun <- template(sql)
  not <- template(paste0("(NOT ", sql, ")"))
  function(string, pattern, negate = FALSE) if (isTRUE(negate)) not(string, pattern) else fun(string, pattern)
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

floor_date_of <- function() {
  trunc <- template("date_trunc({unit}, {x})")
  function(x, unit = "second") trunc(sub("s$", "", unit), x)
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
  function(x) dbplyr::sql(paste0("INTERVAL '", x, " ", unit, "'"))
}

scalar_functions <- function() {
  part <- function(field) template(paste0("CAST(EXTRACT(", field, " FROM {x}) AS INTEGER)"))
  dbplyr::sql_translator(
    .parent = dbplyr::base_scalar,
    `/` = template("(CAST({x} AS DOUBLE PRECISION) / {y})"),
    `%/%` = template("floor(CAST({x} AS DOUBLE PRECISION) / {y})"),
    `%%` = template("(({x} % {y} + {y}) % {y})"),
    as.integer = template("CAST(trunc(CAST({x} AS DOUBLE PRECISION)) AS INTEGER)"),
    as.numeric = template("CAST({x} AS DOUBLE PRECISION)"),
    as.double = template("CAST({x} AS DOUBLE PRECISION)"),
    as.integer64 = template("CAST({x} AS BIGINT)"),
    as.character = template("CAST({x} AS VARCHAR)"),
    as.logical = template("CAST({x} AS BOOLEAN)"),
    as.Date = template("CAST({x} AS DATE)"),
    as_date = template("CAST({x} AS DATE)"),
    as.POSIXct = template("CAST({x} AS TIMESTAMPTZ)"),
    as_datetime = template("CAST({x} AS TIMESTAMPTZ)"),
    bitwXor = dbplyr::sql_infix("#"),
    is.nan = template("({x} = 'NaN'::DOUBLE PRECISION)"),
    is.infinite = template("(abs({x}) = 'Infinity'::DOUBLE PRECISION)"),
    log = log_of(), log2 = template("(ln({x}) / ln(2e0))"), log10 = template("(ln({x}) / ln(10e0))"),
    log1p = template("ln(1e0 + {x})"), expm1 = template("(exp({x}) - 1e0)"),
    round = round_of(), trunc = template("trunc({x})"), cot = template("(1e0 / tan({x}))"),
    pmin = dbplyr::sql_aggregate_n("LEAST", "pmin"), pmax = dbplyr::sql_aggregate_n("GREATEST", "pmax"),
    paste = dbplyr::sql_paste(" "), paste0 = dbplyr::sql_paste(""), str_c = dbplyr::sql_paste(""),
    nchar = template("length({x})"), str_length = template("length({x})"),
    str_detect = regex_of(), grepl = grepl_of(),
    str_starts = fixed_part("starts_with({string}, {pattern})"),
    str_ends = fixed_part("(right({string}, length({pattern})) = {pattern})"),
    str_like = template("({string} ILIKE {pattern})"),
    sub = substitute_of(""), gsub = substitute_of(", 'g'"),
    str_replace = template("regexp_replace({string}, {pattern}, {replacement})"),
    str_replace_all = template("regexp_replace({string}, {pattern}, {replacement}, 'g')"),
    str_remove = template("regexp_replace({string}, {pattern}, '')"),
    str_remove_all = template("regexp_replace({string}, {pattern}, '', 'g')"),
    str_squish = template("trim(regexp_replace({string}, '\\s+', ' ', 'g'))"),
    str_to_title = template("initcap({string})"),
    str_locate = template("strpos({string}, {pattern})"),
    str_dup = template("repeat({string}, {times})"),
    year = part("YEAR"), quarter = part("QUARTER"), month = month_of(), isoyear = part("ISOYEAR"),
    isoweek = part("WEEK"), day = part("DAY"), mday = part("DAY"), yday = part("DOY"), wday = weekday_of(),
    hour = part("HOUR"), minute = part("MINUTE"), second = template("CAST(EXTRACT(SECOND FROM {x}) AS DOUBLE PRECISION)"),
    today = function() dbplyr::sql("CURRENT_DATE"), now = function() dbplyr::sql("CURRENT_TIMESTAMP"),
    Sys.Date = function() dbplyr::sql("CURRENT_DATE"), Sys.time = function() dbplyr::sql("CURRENT_TIMESTAMP"),
    floor_date = floor_date_of(),
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

over_group <- function(sql) dbplyr::win_over(sql, partition = dbplyr::win_current_group())

# Returns dbplyr's own translation for PostgreSQL, with divisions and whole numbers as R has them.
postgres_translation <- function() {
  theirs <- dbplyr::sql_translation(dbplyr::simulate_postgres())
  ours <- scalar_functions()
  dbplyr::sql_variant(
    dbplyr::sql_translator(.parent = theirs$scalar, `/` = ours$`/`, `%/%` = ours$`%/%`, as.integer = ours$as.integer),
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
      median = dbplyr::sql_aggregate("MEDIAN", "median"), quantile = quantile_of(), str_flatten = join_texts()
    ),
    dbplyr::sql_translator(
      .parent = dbplyr::base_win,
      sd = dbplyr::win_aggregate("STDDEV_SAMP"), var = dbplyr::win_aggregate("VAR_SAMP"),
      cor = dbplyr::win_aggregate_2("CORR"), cov = dbplyr::win_aggregate_2("COVAR_SAMP"),
      all = dbplyr::win_aggregate("BOOL_AND"), any = dbplyr::win_aggregate("BOOL_OR"),
      median = dbplyr::win_aggregate("MEDIAN"), quantile = quantile_of(over_group),
      str_flatten = join_texts(over_group)
    )
  )
}
