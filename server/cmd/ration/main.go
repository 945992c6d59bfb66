// Command ration decides rate limits and budgets for programs in any language: "ration serve" answers over HTTP, the other
// commands ask. See docs/server.md.
//
// To make it open a store of your own, copy this page and add a line.
package main

import (
	_ "time/tzdata" // budgets in a time zone, on a machine without a zone database

	"github.com/ration-go/ration/server"
	"github.com/ration-go/ration/server/postgres"
	"github.com/ration-go/ration/server/redis"
	"github.com/ration-go/ration/server/sqlite"
)

func main() {
	server.Main(&server.Options{
		Stores: map[string]server.OpenFunc{
			"memory":     server.OpenMemory,
			"sqlite":     sqlite.Open,
			"postgres":   postgres.Open,
			"postgresql": postgres.Open,

			"redis":           redis.Open,
			"rediss":          redis.Open,
			"redis-cluster":   redis.Open,
			"rediss-cluster":  redis.Open,
			"redis-sentinel":  redis.Open,
			"rediss-sentinel": redis.Open,
			"upstash":         server.OpenUpstash,
		},
		Migrations: map[string]server.MigrateFunc{
			"postgres":   postgres.Migrate,
			"postgresql": postgres.Migrate,
		},
		Examinations: map[string]server.ExamineFunc{
			"sqlite":     sqlite.Examine,
			"postgres":   postgres.Examine,
			"postgresql": postgres.Examine,

			"redis":           redis.Examine,
			"rediss":          redis.Examine,
			"redis-cluster":   redis.Examine,
			"rediss-cluster":  redis.Examine,
			"redis-sentinel":  redis.Examine,
			"rediss-sentinel": redis.Examine,
			"upstash":         server.ExamineUpstash,
		},
	})
}
