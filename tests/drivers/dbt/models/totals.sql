select customer, sum(price) as total, count(*) as orders from {{ ref('dbt_orders') }} group by customer
