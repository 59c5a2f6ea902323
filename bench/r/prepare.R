# Makes a data frame of each CSV file, and keeps it as R does. Beside TABLE.csv stands TABLE.types: the
# class of each column.
tables <- strsplit(Sys.getenv("TABLES"), ",", fixed = TRUE)[[1L]]
directory <- Sys.getenv("DATA")

for (table in tables) {
  path <- function(ending) file.path(directory, paste0(table, ".", ending))
  types <- readLines(path("types"))
  read_as <- ifelse(types == "Date", "character", types)
  frame <- data.table::fread(path("csv"), colClasses = read_as, na.strings = "", data.table = FALSE, showProgress = FALSE)
  for (name in names(frame)[types == "Date"]) {
    # A year has few days: each is read once.
    texts <- unique(frame[[name]])
    frame[[name]] <- as.Date(texts)[match(frame[[name]], texts)]
  }
  saveRDS(frame, path("rds"), compress = FALSE)
}
