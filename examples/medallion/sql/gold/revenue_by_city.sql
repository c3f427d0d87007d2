CREATE MATERIALIZED VIEW gold.revenue_by_city (
  city, day, sales, revenue DECIMAL(14, 2), PRIMARY KEY (city, day)
)
COMMENT 'Revenue by city and day'
AS SELECT city, day, count(*), sum(revenue)
FROM silver.sales
GROUP BY city, day
