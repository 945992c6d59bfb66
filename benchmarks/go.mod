module github.com/ration-go/ration/benchmarks

go 1.26.0

require (
	github.com/ration-go/ration v0.0.0
	github.com/sethvargo/go-limiter v0.7.1
	golang.org/x/time v0.16.0
)

replace github.com/ration-go/ration => ../
