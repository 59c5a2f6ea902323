# Q1 to Q10 of TPC-H with dplyr, over data frames and, by dbplyr, over tables of a database: the same code.
# As in the paper rows and columns that are not wanted are left out first.

suppressPackageStartupMessages({
  library(dplyr)
  library(lubridate)
})

nations_of <- function(t, name) {
  t$nation |>
    inner_join(filter(t$region, r_name == !!name), by = c("n_regionkey" = "r_regionkey")) |>
    select(n_nationkey, n_name)
}

day <- function(text) as.Date(text)

dplyr_queries <- list(
  q01 = function(t) {
    t$lineitem |>
      filter(l_shipdate <= !!day("1998-09-02")) |>
      mutate(price = l_extendedprice * (1 - l_discount), charge = l_extendedprice * (1 - l_discount) * (1 + l_tax)) |>
      group_by(l_returnflag, l_linestatus) |>
      summarise(
        sum_qty = sum(l_quantity, na.rm = TRUE), sum_base_price = sum(l_extendedprice, na.rm = TRUE),
        sum_disc_price = sum(price, na.rm = TRUE), sum_charge = sum(charge, na.rm = TRUE),
        avg_qty = mean(l_quantity, na.rm = TRUE), avg_price = mean(l_extendedprice, na.rm = TRUE),
        avg_disc = mean(l_discount, na.rm = TRUE), count_order = n(), .groups = "drop"
      ) |>
      arrange(l_returnflag, l_linestatus)
  },
  q02 = function(t) {
    suppliers <- t$supplier |>
      inner_join(nations_of(t, "EUROPE"), by = c("s_nationkey" = "n_nationkey")) |>
      select(s_suppkey, s_acctbal, s_name, n_name, s_address, s_phone, s_comment)
    offers <- t$part |>
      filter(p_size == 15L, grepl("BRASS$", p_type)) |>
      select(p_partkey, p_mfgr) |>
      inner_join(select(t$partsupp, ps_partkey, ps_suppkey, ps_supplycost), by = c("p_partkey" = "ps_partkey")) |>
      inner_join(suppliers, by = c("ps_suppkey" = "s_suppkey"))
    least <- offers |>
      group_by(p_partkey) |>
      summarise(ps_supplycost = min(ps_supplycost, na.rm = TRUE))
    offers |>
      inner_join(least, by = c("p_partkey", "ps_supplycost")) |>
      select(s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment) |>
      arrange(desc(s_acctbal), n_name, s_name, p_partkey) |>
      head(100)
  },
  q03 = function(t) {
    orders <- t$orders |>
      filter(o_orderdate < !!day("1995-03-15")) |>
      select(o_orderkey, o_custkey, o_orderdate, o_shippriority) |>
      semi_join(filter(t$customer, c_mktsegment == "BUILDING"), by = c("o_custkey" = "c_custkey"))
    t$lineitem |>
      filter(l_shipdate > !!day("1995-03-15")) |>
      select(l_orderkey, l_extendedprice, l_discount) |>
      inner_join(orders, by = c("l_orderkey" = "o_orderkey")) |>
      group_by(l_orderkey, o_orderdate, o_shippriority) |>
      summarise(revenue = sum(l_extendedprice * (1 - l_discount), na.rm = TRUE), .groups = "drop") |>
      select(l_orderkey, revenue, o_orderdate, o_shippriority) |>
      arrange(desc(revenue), o_orderdate) |>
      head(10)
  },
  q04 = function(t) {
    t$orders |>
      filter(o_orderdate >= !!day("1993-07-01"), o_orderdate < !!day("1993-10-01")) |>
      select(o_orderkey, o_orderpriority) |>
      semi_join(filter(t$lineitem, l_commitdate < l_receiptdate), by = c("o_orderkey" = "l_orderkey")) |>
      group_by(o_orderpriority) |>
      summarise(order_count = n()) |>
      arrange(o_orderpriority)
  },
  q05 = function(t) {
    nations <- nations_of(t, "ASIA")
    suppliers <- t$supplier |>
      select(s_suppkey, s_nationkey) |>
      inner_join(nations, by = c("s_nationkey" = "n_nationkey"))
    orders <- t$orders |>
      filter(o_orderdate >= !!day("1994-01-01"), o_orderdate < !!day("1995-01-01")) |>
      select(o_orderkey, o_custkey) |>
      inner_join(select(t$customer, c_custkey, c_nationkey), by = c("o_custkey" = "c_custkey"))
    t$lineitem |>
      select(l_orderkey, l_suppkey, l_extendedprice, l_discount) |>
      inner_join(orders, by = c("l_orderkey" = "o_orderkey")) |>
      inner_join(suppliers, by = c("l_suppkey" = "s_suppkey", "c_nationkey" = "s_nationkey")) |>
      group_by(n_name) |>
      summarise(revenue = sum(l_extendedprice * (1 - l_discount), na.rm = TRUE)) |>
      arrange(desc(revenue))
  },
  q06 = function(t) {
    t$lineitem |>
      filter(
        l_shipdate >= !!day("1994-01-01"), l_shipdate < !!day("1995-01-01"), l_discount >= 0.05,
        l_discount <= 0.07, l_quantity < 24
      ) |>
      summarise(revenue = sum(l_extendedprice * l_discount, na.rm = TRUE))
  },
  q07 = function(t) {
    nations <- t$nation |>
      filter(n_name %in% c("FRANCE", "GERMANY")) |>
      select(n_nationkey, n_name)
    suppliers <- t$supplier |>
      inner_join(nations, by = c("s_nationkey" = "n_nationkey")) |>
      select(s_suppkey, supp_nation = n_name)
    customers <- t$customer |>
      inner_join(nations, by = c("c_nationkey" = "n_nationkey")) |>
      select(c_custkey, cust_nation = n_name)
    orders <- t$orders |>
      select(o_orderkey, o_custkey) |>
      inner_join(customers, by = c("o_custkey" = "c_custkey"))
    t$lineitem |>
      filter(l_shipdate >= !!day("1995-01-01"), l_shipdate <= !!day("1996-12-31")) |>
      select(l_orderkey, l_suppkey, l_shipdate, l_extendedprice, l_discount) |>
      inner_join(suppliers, by = c("l_suppkey" = "s_suppkey")) |>
      inner_join(orders, by = c("l_orderkey" = "o_orderkey")) |>
      filter(supp_nation != cust_nation) |>
      mutate(l_year = year(l_shipdate)) |>
      group_by(supp_nation, cust_nation, l_year) |>
      summarise(revenue = sum(l_extendedprice * (1 - l_discount), na.rm = TRUE), .groups = "drop") |>
      arrange(supp_nation, cust_nation, l_year)
  },
  q08 = function(t) {
    customers <- t$customer |>
      inner_join(nations_of(t, "AMERICA"), by = c("c_nationkey" = "n_nationkey")) |>
      select(c_custkey)
    orders <- t$orders |>
      filter(o_orderdate >= !!day("1995-01-01"), o_orderdate <= !!day("1996-12-31")) |>
      select(o_orderkey, o_custkey, o_orderdate)
    suppliers <- t$supplier |>
      inner_join(t$nation, by = c("s_nationkey" = "n_nationkey")) |>
      select(s_suppkey, nation = n_name)
    t$lineitem |>
      select(l_partkey, l_orderkey, l_suppkey, l_extendedprice, l_discount) |>
      semi_join(filter(t$part, p_type == "ECONOMY ANODIZED STEEL"), by = c("l_partkey" = "p_partkey")) |>
      inner_join(orders, by = c("l_orderkey" = "o_orderkey")) |>
      semi_join(customers, by = c("o_custkey" = "c_custkey")) |>
      inner_join(suppliers, by = c("l_suppkey" = "s_suppkey")) |>
      mutate(o_year = year(o_orderdate), volume = l_extendedprice * (1 - l_discount)) |>
      group_by(o_year) |>
      summarise(mkt_share = sum(if_else(nation == "BRAZIL", volume, 0), na.rm = TRUE) / sum(volume, na.rm = TRUE)) |>
      arrange(o_year)
  },
  q09 = function(t) {
    suppliers <- t$supplier |>
      inner_join(t$nation, by = c("s_nationkey" = "n_nationkey")) |>
      select(s_suppkey, nation = n_name)
    offers <- t$partsupp |>
      select(ps_partkey, ps_suppkey, ps_supplycost) |>
      semi_join(filter(t$part, grepl("green", p_name)), by = c("ps_partkey" = "p_partkey")) |>
      inner_join(suppliers, by = c("ps_suppkey" = "s_suppkey"))
    t$lineitem |>
      select(l_partkey, l_suppkey, l_orderkey, l_quantity, l_extendedprice, l_discount) |>
      inner_join(offers, by = c("l_partkey" = "ps_partkey", "l_suppkey" = "ps_suppkey")) |>
      inner_join(select(t$orders, o_orderkey, o_orderdate), by = c("l_orderkey" = "o_orderkey")) |>
      mutate(o_year = year(o_orderdate), amount = l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) |>
      group_by(nation, o_year) |>
      summarise(sum_profit = sum(amount, na.rm = TRUE), .groups = "drop") |>
      arrange(nation, desc(o_year))
  },
  q10 = function(t) {
    orders <- t$orders |>
      filter(o_orderdate >= !!day("1993-10-01"), o_orderdate < !!day("1994-01-01")) |>
      select(o_orderkey, o_custkey)
    lost <- t$lineitem |>
      filter(l_returnflag == "R") |>
      select(l_orderkey, l_extendedprice, l_discount) |>
      inner_join(orders, by = c("l_orderkey" = "o_orderkey")) |>
      group_by(c_custkey = o_custkey) |>
      summarise(revenue = sum(l_extendedprice * (1 - l_discount), na.rm = TRUE)) |>
      arrange(desc(revenue)) |>
      head(20)
    lost |>
      inner_join(t$customer, by = "c_custkey") |>
      inner_join(t$nation, by = c("c_nationkey" = "n_nationkey")) |>
      select(c_custkey, c_name, revenue, c_acctbal, n_name, c_address, c_phone, c_comment) |>
      # By revenue alone dbplyr would take them for sorted, though they were joined since.
      arrange(desc(revenue), c_custkey)
  }
)
