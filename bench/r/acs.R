# Figures 7 and 8: the American Community Survey is loaded, and its statistics are computed by the package
# survey, from a design whose columns are in a database or in memory. `case=load` or `case=statistics`.
#
# The steps are those of the analysis that the paper runs: a table, a design with 80 replicate weights, new
# variables; then counts, means, totals, quantiles, ratios, by groups and of a part, tests and regressions.
# Columns are named as bench/protocol/acs.py names them, and stand for the survey's own: person1 for the sex,
# person2 for being married, adult4 for citizenship, income1 for wages, income2 for other income.
source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))

suppressPackageStartupMessages(library(survey))
attach_driver()

# survey asks connections whether they are open by a function of DBI that RPostgreSQL does not have.
if (system_name == "RPostgreSQL" && !existsMethod("dbIsValid", "PostgreSQLConnection")) {
  setMethod("dbIsValid", "PostgreSQLConnection", function(dbObj, ...) isPostgresqlIdCurrent(dbObj))
}

replicates <- 80L

# The replicates of this survey are successive differences: the variance is 4 / 80 of the sum of the squares
# of their distances from the estimate.
design_of <- function(data, ...) {
  svrepdesign(
    weights = ~pwgtp, repweights = "pwgtp[0-9]+", data = data, type = "JK1", combined.weights = TRUE,
    scale = 4 / replicates, rscales = rep(1, replicates), mse = TRUE, ...
  )
}

new_variables <- function(design) {
  update(design,
    one = 0 * agep + 1, # survey wants a column of the table in each
    state = factor(st),
    sex = factor(person1, levels = 1:2, labels = c("male", "female")),
    married = as.numeric(person2 == 1),
    citizen = factor(adult4),
    age_group = factor(findInterval(agep, seq(0, 90, 10))),
    income = income1 + income2,
    has_wage = as.numeric(income1 > 0)
  )
}

in_memory <- function() design_of(load_frame("acs"))

in_database <- function() {
  address <- address_of("acs")
  do.call(design_of, c(list("acs", dbtype = address$driver, dbname = address$dbname), address$options))
}

# Each gives a list of numbers.
statistics <- list(
  "svytotal" = function(d) estimates(svytotal(~one, d)),
  "svytotal by state" = function(d) estimates(svyby(~one, ~state, d, svytotal)),
  "svytotal of classes" = function(d) estimates(svytotal(~citizen, d, na.rm = TRUE)),
  "svymean" = function(d) estimates(svymean(~income, d, na.rm = TRUE)),
  "svymean by state" = function(d) estimates(svyby(~income, ~state, d, svymean, na.rm = TRUE)),
  "svymean of classes" = function(d) estimates(svymean(~sex + age_group, d)),
  "svymean by two groups" = function(d) estimates(svyby(~agep, ~ sex + age_group, d, svymean)),
  "svyquantile" = function(d) estimates(svyquantile(~income, d, c(0.25, 0.5, 0.75), na.rm = TRUE)),
  "svyquantile by sex" = function(d) {
    estimates(svyby(~income, ~sex, d, svyquantile, quantiles = 0.5, na.rm = TRUE, keep.var = TRUE))
  },
  "svyratio" = function(d) estimates(svyratio(~income2, ~income, d, na.rm = TRUE)),
  # svyby() does not fetch the denominator from a database.
  "svyratio of subsets" = function(d) {
    parts <- list(men = subset(d, person1 == 1), women = subset(d, person1 == 2))
    lapply(unlist(lapply(parts, function(part) estimates(svyratio(~income2, ~income, part, na.rm = TRUE)))), identity)
  },
  "svyvar" = function(d) estimates(svyvar(~income, d, na.rm = TRUE)),
  "svymean with design effect" = function(d) {
    found <- svymean(~income, d, na.rm = TRUE, deff = TRUE)
    c(estimates(found), list(deff = as.vector(deff(found))))
  },
  "svymean of a subset" = function(d) estimates(svymean(~income, subset(d, agep >= 65), na.rm = TRUE)),
  "svyciprop" = function(d) {
    found <- svyciprop(~married, d, method = "likelihood")
    list(estimate = as.vector(found), interval = as.vector(confint(found)))
  },
  "svyttest" = function(d) tested(svyttest(income ~ married, d)),
  "svychisq" = function(d) tested(svychisq(~ married + sex, d)),
  "svyglm" = function(d) estimates(svyglm(income ~ agep + sex + married, d)),
  "logistic svyglm" = function(d) {
    estimates(svyglm(has_wage ~ agep + sex, d, family = quasibinomial()))
  }
)

estimates <- function(found) list(estimate = as.vector(coef(found)), error = as.vector(SE(found)))

tested <- function(found) list(statistic = as.vector(found$statistic), p = as.vector(found$p.value))

load_survey <- function() {
  frame <- load_frame("acs")
  if (system_name == "memory") {
    timed("design", function() new_variables(design_of(frame)))
    return(invisible())
  }
  timed("dbWriteTable()", function() {
    connection <- connect("acs")
    write_frame(connection, "acs", frame)
    dbDisconnect(connection)
    TRUE
  })
  timed("design", function() new_variables(in_database()))
}

survey_statistics <- function() {
  design <- new_variables(if (system_name == "memory") in_memory() else in_database())
  left <- listed("only")
  for (what in names(statistics)) {
    if (!identical(left, " ") && !what %in% left) next
    found <- timed(what, function() statistics[[what]](design))
    if (!is.null(found)) check(what, found)
  }
}

list_statistics <- function() for (what in names(statistics)) tell("named", what)

invisible(switch(argument("case"), load = load_survey(), statistics = survey_statistics(), list = list_statistics()))
