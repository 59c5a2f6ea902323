{{ config(unique_key='id') }}
select id, price from {{ ref('dbt_orders') }}
{% if is_incremental() %} where id >= (select max(id) from {{ this }}) {% endif %}
