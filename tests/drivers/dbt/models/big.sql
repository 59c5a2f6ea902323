select * from {{ ref('dbt_orders') }} where price > 2
