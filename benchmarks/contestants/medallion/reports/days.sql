CREATE MATERIALIZED VIEW reports.days
TBLPROPERTIES ('lakehouse.key' = 'day')
AS SELECT day, revenue, revenue - lag(revenue) OVER (PARTITION BY year(day) ORDER BY day) AS more
FROM gold.revenue_by_day
