module github.com/ration-go/ration/examples

go 1.26

require github.com/ration-go/ration v0.0.0

replace github.com/ration-go/ration => ../
