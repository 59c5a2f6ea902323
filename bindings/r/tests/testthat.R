library(testthat)
library(hypostyle)

test_check("hypostyle")
