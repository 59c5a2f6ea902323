# Designs of the survey package over the database, compared with those over data in memory.

test_that("statistics of designs are those in memory", {
  skip_if_not_installed("survey")
  suppressPackageStartupMessages(library(survey))
  # survey asks for the driver by its name.
  assign("hypostyle", hypostyle::hypostyle, envir = globalenv())
  on.exit(rm("hypostyle", envir = globalenv()))
  data(api, package = "survey", envir = environment())
  names(apistrat) <- gsub(".", "_", names(apistrat), fixed = TRUE)
  directory <- tempfile(fileext = ".hypo")
  con <- dbConnect(hypostyle(), directory)
  dbWriteTable(con, "apistrat", apistrat)
  dbDisconnect(con)
  ours <- svydesign(
    id = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = "apistrat",
    dbtype = "hypostyle", dbname = directory
  )
  memory <- svydesign(id = ~1, strata = ~stype, weights = ~pw, fpc = ~fpc, data = apistrat)
  same <- function(f) {
    a <- f(ours)
    b <- f(memory)
    expect_equal(coef(a), coef(b))
    expect_equal(SE(a), SE(b))
  }
  same(function(d) svytotal(~enroll, d, na.rm = TRUE))
  same(function(d) svymean(~api00, d))
  same(function(d) svyratio(~api_stu, ~enroll, d, na.rm = TRUE))
  same(function(d) svyby(~api99, ~stype, d, svymean))
  expect_equal(
    unlist(svyquantile(~api00, ours, c(0.25, 0.5, 0.75))), unlist(svyquantile(~api00, memory, c(0.25, 0.5, 0.75)))
  )
  same(function(d) svyglm(api00 ~ ell + meals, d))
  close(ours)
})

test_that("statistics of replicate weights are those in memory", {
  skip_if_not_installed("survey")
  suppressPackageStartupMessages(library(survey))
  assign("hypostyle", hypostyle::hypostyle, envir = globalenv())
  on.exit(rm("hypostyle", envir = globalenv()))
  set.seed(80)
  people <- data.frame(age = sample(0:90, 2000, TRUE), sex = sample(1:2, 2000, TRUE), wage = rexp(2000, 1e-4))
  people$pwgtp <- sample(1:200, 2000, TRUE)
  for (i in 1:80) people[[paste0("pwgtp", i)]] <- pmax(0, people$pwgtp + sample(-50:50, 2000, TRUE))
  directory <- tempfile(fileext = ".hypo")
  con <- dbConnect(hypostyle(), directory)
  dbWriteTable(con, "acs", people)
  dbDisconnect(con)
  design <- function(data, ...) {
    svrepdesign(
      weights = ~pwgtp, repweights = "pwgtp[1-9]", data = data, type = "other", combined.weights = TRUE,
      scale = 4 / 80, rscales = rep(1, 80), mse = TRUE, ...
    )
  }
  ours <- design("acs", dbtype = "hypostyle", dbname = directory)
  memory <- design(people)
  same <- function(f) {
    a <- f(ours)
    b <- f(memory)
    expect_equal(as.vector(coef(a)), as.vector(coef(b)))
    expect_equal(as.vector(SE(a)), as.vector(SE(b)))
  }
  same(function(d) svytotal(~age, d))
  same(function(d) svymean(~wage, d))
  same(function(d) svyratio(~wage, ~age, d))
  same(function(d) svyby(~wage, ~sex, d, svymean))
  same(function(d) svyglm(wage ~ age + sex, d))
  close(ours)
})
