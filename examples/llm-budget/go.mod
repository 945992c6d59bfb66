module github.com/ration-go/ration/examples/llm-budget

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/ration-go/ration v0.0.0
	github.com/ration-go/ration/sqlitestore v0.0.0
)

require (
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	github.com/ration-go/ration => ../..
	github.com/ration-go/ration/sqlitestore => ../../sqlitestore
)
