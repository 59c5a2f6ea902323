# Q1 to Q10 of TPC-H with data.table. As in the paper the author of each does what a planner would do: rows
# and columns that are not wanted are left out first, and the small side is joined first.

suppressPackageStartupMessages(library(data.table))

day <- function(text) as.Date(text)

year_of <- function(date) as.integer(format(date, "%Y"))

# Years of few days: each day is converted once.
years_of <- function(dates) {
  days <- unique(dates)
  year_of(days)[match(dates, days)]
}

data_table_queries <- list(
  q01 = function(t) {
    t$lineitem[l_shipdate <= day("1998-09-02"), .(
      l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount,
      price = l_extendedprice * (1 - l_discount), charge = l_extendedprice * (1 - l_discount) * (1 + l_tax)
    )][, .(
      sum_qty = sum(l_quantity), sum_base_price = sum(l_extendedprice), sum_disc_price = sum(price),
      sum_charge = sum(charge), avg_qty = mean(l_quantity), avg_price = mean(l_extendedprice),
      avg_disc = mean(l_discount), count_order = .N
    ), keyby = .(l_returnflag, l_linestatus)]
  },
  q02 = function(t) {
    nations <- t$nation[t$region[r_name == "EUROPE"], on = .(n_regionkey = r_regionkey), .(n_nationkey, n_name)]
    suppliers <- t$supplier[nations,
      on = .(s_nationkey = n_nationkey), nomatch = NULL,
      .(s_suppkey, s_acctbal, s_name, n_name, s_address, s_phone, s_comment)
    ]
    parts <- t$part[p_size == 15L & endsWith(p_type, "BRASS"), .(p_partkey, p_mfgr)]
    offers <- t$partsupp[parts,
      on = .(ps_partkey = p_partkey), nomatch = NULL,
      .(p_partkey = ps_partkey, p_mfgr, ps_suppkey, ps_supplycost)
    ][suppliers, on = .(ps_suppkey = s_suppkey), nomatch = NULL]
    offers[, least := min(ps_supplycost), by = p_partkey]
    offers[ps_supplycost == least][order(-s_acctbal, n_name, s_name, p_partkey)][
      seq_len(min(100L, .N)),
      .(s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment)
    ]
  },
  q03 = function(t) {
    customers <- t$customer[c_mktsegment == "BUILDING", .(c_custkey)]
    orders <- t$orders[o_orderdate < day("1995-03-15"), .(o_orderkey, o_custkey, o_orderdate, o_shippriority)][
      customers,
      on = .(o_custkey = c_custkey), nomatch = NULL
    ]
    t$lineitem[l_shipdate > day("1995-03-15"), .(l_orderkey, volume = l_extendedprice * (1 - l_discount))][
      orders,
      on = .(l_orderkey = o_orderkey), nomatch = NULL
    ][, .(revenue = sum(volume)), by = .(l_orderkey, o_orderdate, o_shippriority)][
      order(-revenue, o_orderdate)
    ][seq_len(min(10L, .N)), .(l_orderkey, revenue, o_orderdate, o_shippriority)]
  },
  q04 = function(t) {
    orders <- t$orders[o_orderdate >= day("1993-07-01") & o_orderdate < day("1993-10-01"), .(o_orderkey, o_orderpriority)]
    late <- unique(t$lineitem[l_commitdate < l_receiptdate, .(l_orderkey)])
    orders[late, on = .(o_orderkey = l_orderkey), nomatch = NULL][,
      .(order_count = .N),
      keyby = o_orderpriority
    ]
  },
  q05 = function(t) {
    nations <- t$nation[t$region[r_name == "ASIA"], on = .(n_regionkey = r_regionkey), .(n_nationkey, n_name)]
    suppliers <- t$supplier[nations, on = .(s_nationkey = n_nationkey), nomatch = NULL, .(s_suppkey, s_nationkey, n_name)]
    customers <- t$customer[nations, on = .(c_nationkey = n_nationkey), nomatch = NULL, .(c_custkey, c_nationkey)]
    orders <- t$orders[o_orderdate >= day("1994-01-01") & o_orderdate < day("1995-01-01"), .(o_orderkey, o_custkey)][
      customers,
      on = .(o_custkey = c_custkey), nomatch = NULL
    ]
    t$lineitem[, .(l_orderkey, l_suppkey, l_extendedprice, l_discount)][
      orders,
      on = .(l_orderkey = o_orderkey), nomatch = NULL
    ][
      suppliers,
      on = .(l_suppkey = s_suppkey, c_nationkey = s_nationkey), nomatch = NULL
    ][, .(revenue = sum(l_extendedprice * (1 - l_discount))), by = n_name][order(-revenue)]
  },
  q06 = function(t) {
    t$lineitem[
      l_shipdate >= day("1994-01-01") & l_shipdate < day("1995-01-01") & l_discount >= 0.05 & l_discount <= 0.07 &
        l_quantity < 24,
      .(revenue = sum(l_extendedprice * l_discount))
    ]
  },
  q07 = function(t) {
    nations <- t$nation[n_name %chin% c("FRANCE", "GERMANY"), .(n_nationkey, n_name)]
    suppliers <- t$supplier[nations, on = .(s_nationkey = n_nationkey), nomatch = NULL, .(s_suppkey, supp_nation = n_name)]
    customers <- t$customer[nations, on = .(c_nationkey = n_nationkey), nomatch = NULL, .(c_custkey, cust_nation = n_name)]
    orders <- t$orders[, .(o_orderkey, o_custkey)][customers, on = .(o_custkey = c_custkey), nomatch = NULL]
    lines <- t$lineitem[
      l_shipdate >= day("1995-01-01") & l_shipdate <= day("1996-12-31"),
      .(l_orderkey, l_suppkey, l_shipdate, l_extendedprice, l_discount)
    ][suppliers, on = .(l_suppkey = s_suppkey), nomatch = NULL]
    lines[orders, on = .(l_orderkey = o_orderkey), nomatch = NULL][
      supp_nation != cust_nation
    ][, .(revenue = sum(l_extendedprice * (1 - l_discount))), keyby = .(supp_nation, cust_nation, l_year = years_of(l_shipdate))]
  },
  q08 = function(t) {
    nations <- t$nation[t$region[r_name == "AMERICA"], on = .(n_regionkey = r_regionkey), .(n_nationkey)]
    customers <- t$customer[nations, on = .(c_nationkey = n_nationkey), nomatch = NULL, .(c_custkey)]
    parts <- t$part[p_type == "ECONOMY ANODIZED STEEL", .(p_partkey)]
    lines <- t$lineitem[, .(l_partkey, l_orderkey, l_suppkey, l_extendedprice, l_discount)][
      parts,
      on = .(l_partkey = p_partkey), nomatch = NULL
    ]
    orders <- t$orders[o_orderdate >= day("1995-01-01") & o_orderdate <= day("1996-12-31"), .(o_orderkey, o_custkey, o_orderdate)]
    suppliers <- t$supplier[t$nation, on = .(s_nationkey = n_nationkey), nomatch = NULL, .(s_suppkey, nation = n_name)]
    sold <- orders[lines, on = .(o_orderkey = l_orderkey), nomatch = NULL][
      customers,
      on = .(o_custkey = c_custkey), nomatch = NULL
    ][suppliers, on = .(l_suppkey = s_suppkey), nomatch = NULL]
    sold[, .(nation, volume = l_extendedprice * (1 - l_discount), o_year = years_of(o_orderdate))][,
      .(mkt_share = sum(volume[nation == "BRAZIL"]) / sum(volume)),
      keyby = o_year
    ]
  },
  q09 = function(t) {
    parts <- t$part[grepl("green", p_name, fixed = TRUE), .(p_partkey)]
    suppliers <- t$supplier[t$nation, on = .(s_nationkey = n_nationkey), nomatch = NULL, .(s_suppkey, nation = n_name)]
    offers <- t$partsupp[parts, on = .(ps_partkey = p_partkey), nomatch = NULL, .(ps_partkey, ps_suppkey, ps_supplycost)][
      suppliers,
      on = .(ps_suppkey = s_suppkey), nomatch = NULL
    ]
    lines <- t$lineitem[, .(l_partkey, l_suppkey, l_orderkey, l_quantity, l_extendedprice, l_discount)][
      offers,
      on = .(l_partkey = ps_partkey, l_suppkey = ps_suppkey), nomatch = NULL
    ]
    t$orders[, .(o_orderkey, o_orderdate)][lines, on = .(o_orderkey = l_orderkey), nomatch = NULL][
      , .(nation, o_year = years_of(o_orderdate), amount = l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
    ][, .(sum_profit = sum(amount)), by = .(nation, o_year)][order(nation, -o_year)]
  },
  q10 = function(t) {
    orders <- t$orders[o_orderdate >= day("1993-10-01") & o_orderdate < day("1994-01-01"), .(o_orderkey, o_custkey)]
    lost <- t$lineitem[l_returnflag == "R", .(l_orderkey, l_extendedprice, l_discount)][
      orders,
      on = .(l_orderkey = o_orderkey), nomatch = NULL
    ][, .(revenue = sum(l_extendedprice * (1 - l_discount))), by = .(c_custkey = o_custkey)][
      order(-revenue)
    ][seq_len(min(20L, .N))]
    t$customer[lost, on = .(c_custkey)][t$nation, on = .(c_nationkey = n_nationkey), nomatch = NULL][
      order(-revenue),
      .(c_custkey, c_name, revenue, c_acctbal, n_name, c_address, c_phone, c_comment)
    ]
  }
)
