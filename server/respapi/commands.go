package respapi

import (
	"fmt"
	"strings"

	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/internal/verbs"
)

// throttleName is the command that this is about.
const throttleName = "CL.THROTTLE"

// version is that of the Redis whose connections this is like: clients look at it to know what they can send.
const version = "7.2.0"

// spec is what a command is like.
type spec struct {
	name  string
	least int   // arguments, without the name
	most  int   // the same
	key   int64 // which argument is a key; 0: none
	// run answers it; nil for CL.THROTTLE, which is decided before. last ends the connection.
	run func(c *conn, args [][]byte) (last bool)
}

func table() map[string]*spec {
	specs := map[string]*spec{}
	for _, one := range []*spec{
		{name: throttleName, least: 2, most: 5, key: 1},
		{name: "PING", most: 1, run: (*conn).ping},
		{name: "ECHO", least: 1, most: 1, run: (*conn).echo},
		{name: "HELLO", most: maxArgs, run: (*conn).hello},
		{name: "AUTH", least: 1, most: 2, run: (*conn).auth},
		{name: "SELECT", least: 1, most: 1, run: (*conn).selectDB},
		{name: "CLIENT", least: 1, most: maxArgs, run: (*conn).client},
		{name: "COMMAND", most: maxArgs, run: (*conn).command},
		{name: "INFO", most: maxArgs, run: (*conn).info},
		{name: "CLUSTER", most: maxArgs, run: (*conn).cluster},
		{name: "QUIT", most: maxArgs, run: (*conn).quit},
	} {
		specs[one.name] = one
	}
	return specs
}

// find is the command that args begins with.
func (s *Service) find(args [][]byte) (*spec, error) {
	one := s.specs[strings.ToUpper(string(args[0]))]
	if one == nil {
		return nil, wrong("unknown command%s; this server is for %s", shown(args[0]), throttleName)
	}
	if n := len(args) - 1; n < one.least || n > one.most {
		return one, wrong("wrong number of arguments for %s", one.name)
	}
	return one, nil
}

// wrong is the error of a command that cannot be.
func wrong(format string, args ...any) error {
	return verbs.Problem(wire.CodeInvalidTxn, fmt.Sprintf(format, args...))
}

// shown is name in quotes behind a space, if it is like that of a command; what else it is, may be anybody's secret.
func shown(name []byte) string {
	const longest = 32
	for _, b := range name {
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
		if !letter && b != '.' && b != '_' && b != '-' {
			return ""
		}
	}
	if len(name) == 0 || len(name) > longest {
		return ""
	}
	return " '" + string(name) + "'"
}

func (c *conn) ping(args [][]byte) bool {
	if len(args) == 1 {
		return c.echo(args)
	}
	c.line('+', "PONG")
	return false
}

func (c *conn) echo(args [][]byte) bool {
	c.bulk(string(args[0]))
	return false
}

func (c *conn) quit([][]byte) bool {
	c.ok()
	return true
}

// hello reads [protocol [AUTH user password] [SETNAME name]].
func (c *conn) hello(args [][]byte) bool {
	proto, name := c.proto, c.name
	if len(args) > 0 {
		switch string(args[0]) {
		case "2":
			proto = 2
		case "3":
			proto = 3
		default:
			c.fail(kindProtocol, "this server speaks protocols 2 and 3")
			return false
		}
		for args = args[1:]; len(args) > 0; {
			switch option := strings.ToUpper(string(args[0])); {
			case option == "AUTH" && len(args) >= 3: // readAll has done it
				args = args[3:]
			case option == "SETNAME" && len(args) >= 2:
				name, args = string(args[1]), args[2:]
			default:
				c.fail(kindError, "HELLO takes protocol [AUTH user token] [SETNAME name]")
				return false
			}
		}
	}
	c.proto, c.name = proto, name
	c.pairs(7)
	for _, pair := range [][2]string{{"server", "ration"}, {"version", version}, {"mode", "standalone"}, {"role", "master"}} {
		c.bulk(pair[0])
		c.bulk(pair[1])
	}
	c.bulk("proto")
	c.integer(int64(proto))
	c.bulk("id")
	c.integer(c.id)
	c.bulk("modules")
	c.array(0)
	return false
}

// auth answers that readAll has found the token good.
func (c *conn) auth([][]byte) bool {
	c.ok()
	return false
}

func (c *conn) selectDB(args [][]byte) bool {
	if string(args[0]) == "0" {
		c.ok()
	} else {
		c.fail(kindError, "there is database 0 only; applications are kept apart by the server's namespace")
	}
	return false
}

// client answers what clients say of themselves.
func (c *conn) client(args [][]byte) bool {
	sub := strings.ToUpper(string(args[0]))
	switch args = args[1:]; {
	case sub == "SETNAME" && len(args) == 1:
		c.name = string(args[0])
		c.ok()
	case sub == "GETNAME" && len(args) == 0:
		if c.name == "" {
			c.null()
		} else {
			c.bulk(c.name)
		}
	case sub == "ID" && len(args) == 0:
		c.integer(c.id)
	// A client that wants to hear of changes of what it has read reads nothing here: there is nothing to say. Nor is anything
	// evicted or touched.
	case sub == "SETINFO" && len(args) == 2, sub == "TRACKING", sub == "NO-EVICT", sub == "NO-TOUCH":
		c.ok()
	default:
		c.fail(kindError, "unknown subcommand of CLIENT, or wrong number of arguments")
	}
	return false
}

// command describes the commands, for clients that look for keys in them.
func (c *conn) command(args [][]byte) bool {
	sub := ""
	if len(args) > 0 {
		sub, args = strings.ToUpper(string(args[0])), args[1:]
	}
	switch {
	case sub == "":
		c.array(len(c.service.specs))
		for _, one := range c.service.specs {
			c.describe(one)
		}
	case sub == "COUNT" && len(args) == 0:
		c.integer(int64(len(c.service.specs)))
	case sub == "DOCS":
		c.pairs(0)
	case sub == "INFO":
		c.array(len(args))
		for _, name := range args {
			if one := c.service.specs[strings.ToUpper(string(name))]; one != nil {
				c.describe(one)
			} else {
				c.null()
			}
		}
	default:
		c.fail(kindError, "unknown subcommand of COMMAND, or wrong number of arguments")
	}
	return false
}

// describe has the six elements that all versions of Redis have.
func (c *conn) describe(one *spec) {
	arity := int64(one.least + 1)
	if one.most > one.least {
		arity = -arity
	}
	flags := []string{"fast"}
	if one.key > 0 {
		flags = append(flags, "write")
	}
	c.array(6)
	c.bulk(strings.ToLower(one.name))
	c.integer(arity)
	c.array(len(flags))
	for _, flag := range flags {
		c.line('+', flag)
	}
	for range 3 { // the first key, the last, and the step between them
		c.integer(one.key)
	}
}

// info is what clients look for before they send anything.
func (c *conn) info([][]byte) bool {
	c.bulk("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n")
	return false
}

// cluster is asked by clients that try whether this is one; they look for these words.
func (c *conn) cluster([][]byte) bool {
	c.fail(kindError, "this server has cluster support disabled: it is none")
	return false
}
