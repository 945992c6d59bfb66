module github.com/ration-go/ration/redisstore

go 1.26.0

require (
	github.com/ration-go/ration v0.0.0-00010101000000-000000000000
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.48.0 // indirect

replace github.com/ration-go/ration => ../
