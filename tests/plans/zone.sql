-- rule in_session_zone: what clocks show at a point in time, and the point in time of what they show
SELECT tz::TIMESTAMP, ts::TIMESTAMPTZ FROM f

-- rule in_session_zone: a day is added, and begins, by the clocks
SELECT tz + INTERVAL '1 day', date_trunc('day', tz) FROM f

-- rule in_session_zone: times are texts as clocks show them
SELECT tz::VARCHAR, '2024-07-01 10:00:00'::TIMESTAMPTZ > tz FROM f
