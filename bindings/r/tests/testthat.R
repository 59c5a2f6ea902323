library(testthat)
library(hypostyle)

started <- Sys.time()
tests <- as.data.frame(test_check("hypostyle"))
failed <- sum(tests$failed > 0 | tests$error)
skipped <- sum(tests$skipped)
cat(sprintf(
  "%d passed, %d failed, %d skipped in %.1fs\n",
  nrow(tests) - failed - skipped, failed, skipped, as.numeric(difftime(Sys.time(), started, units = "secs"))
))
