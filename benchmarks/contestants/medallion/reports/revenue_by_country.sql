CREATE MATERIALIZED VIEW reports.revenue_by_country
TBLPROPERTIES ('lakehouse.key' = 'country')
AS SELECT c.country, count(*) AS customers, coalesce(sum(r.revenue), 0) AS revenue
FROM silver.customers c JOIN gold.revenue_by_customer r ON r.customer = c.id
GROUP BY c.country
