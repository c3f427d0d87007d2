CREATE MATERIALIZED VIEW points_by_kind (PRIMARY KEY (kind)) AS
SELECT kind, sum(points) AS points, count(*) AS events
FROM events
GROUP BY kind;
