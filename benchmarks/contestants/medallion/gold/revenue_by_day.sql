CREATE MATERIALIZED VIEW gold.revenue_by_day
TBLPROPERTIES ('lakehouse.key' = 'day')
AS SELECT day, count(*) AS items, coalesce(sum(revenue), 0) AS revenue
FROM silver.items
WHERE status = 'paid'
GROUP BY day
