module github.com/ration-go/ration/examples/bot

go 1.26.0

require (
	github.com/bwmarrin/discordgo v0.29.0
	github.com/ration-go/ration v0.0.0
)

require (
	github.com/gorilla/websocket v1.5.3 // indirect
	golang.org/x/crypto v0.56.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/ration-go/ration => ../..
