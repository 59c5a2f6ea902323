#' @useDynLib hypostyle, .registration = TRUE

.onLoad <- function(libname, pkgname) {
  defaults <- list(hypostyle.progress = interactive(), hypostyle.lazy_rows = 8192, hypostyle.forge = TRUE)
  missing_ones <- setdiff(names(defaults), names(options()))
  options(defaults[missing_ones])
}

.onUnload <- function(libpath) {
  # Vectors may still have their values in the library's memory, and ALTREP its functions there: the
  # code stays loaded.
  invisible(NULL)
}

#' The version of the library
hypostyle_version <- function() .Call(hs_version)
