package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Format is the form of a log.
type Format string

// The formats. Common and Combined are read alike: a combined log only says more.
const (
	Auto     Format = ""         // found out from the first lines
	Common   Format = "common"   // Apache's and nginx's common log format
	Combined Format = "combined" // the same with referrer and user agent
	JSON     Format = "json"     // an object a line
	CSV      Format = "csv"      // names of columns, then a line each; separated by a comma, a semicolon or a tab
)

// Formats are the names of all formats.
func Formats() []Format { return []Format{Common, Combined, JSON, CSV} }

// sampleLines is how many lines at the beginning are looked at for the form and the fields of a log.
const sampleLines = 100

// parserFor makes the parser for a log that begins with head: whole lines. skip is how many lines are no requests.
func parserFor(format Format, head []byte, want wanted, mapping map[string]string) (p parser, found Format, skip int, err error) {
	sample := firstLines(head)
	if len(sample) == 0 {
		return nil, format, 0, errEmpty
	}
	if format == Auto {
		if format = detect(sample); format == Auto {
			return nil, Auto, 0, errors.New("the form of this log is not known; say which it is: common, combined, json or csv")
		}
	}
	switch format {
	case Common, Combined:
		p, err = newCombined(want)
	case JSON:
		p, err = newJSONLines(sample, want, mapping)
	case CSV:
		p, skip, err = newCSVLines(sample, want, mapping)
	default:
		err = fmt.Errorf("%q is not a form of a log; there are common, combined, json and csv", format)
	}
	return p, format, skip, err
}

var errEmpty = errors.New("the log is empty")

func firstLines(head []byte) (sample [][]byte) {
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			sample = append(sample, line)
		}
		if len(sample) == sampleLines {
			break
		}
	}
	return sample
}

// detect finds out the form of a log: the first that any of its lines has.
func detect(sample [][]byte) Format {
	common, _ := newCombined(nil)
	rec := &record{}
	for _, line := range sample {
		if line[0] == '{' && json.Valid(line) {
			return JSON
		}
		if common.parse(line, rec) == understood {
			if bytes.HasSuffix(line, []byte(`"`)) {
				return Combined
			}
			return Common
		}
	}
	if header := bytes.ToLower(sample[0]); bytes.ContainsAny(header, ",;\t") {
		for _, name := range names[fieldTime] {
			if slices.ContainsFunc(cutHeader(header), func(column string) bool { return strings.EqualFold(column, name) }) {
				return CSV
			}
		}
	}
	return Auto
}

// names are the names under which servers log a field, the likeliest first; in any case. request.uri is Caddy's, RequestPath
// Traefik's, remote_addr nginx's, start_time Envoy's, httpRequest.remoteIp Google's.
var names = map[string][]string{
	fieldTime: {
		"time", "timestamp", "@timestamp", "ts", "time_iso8601", "StartUTC", "start_time", "time_local", "datetime", "date_time", "msec",
		"eventTime", "requestTime", "date",
	},
	fieldAddress: {
		"address", "client_ip", "clientip", "request.client_ip", "remote_addr", "remote_ip", "request.remote_ip", "ClientHost", "client_addr",
		"ip", "c-ip", "sourceIPAddress", "source_ip", "httpRequest.remoteIp", "x_forwarded_for", "downstream_remote_address", "remote_address",
		"client", "remote", "ClientAddr",
	},
	fieldUser: {
		"user", "user_id", "userid", "remote_user", "username", "ClientUsername", "auth_user", "account", "tenant",
	},
	fieldMethod: {
		"method", "request_method", "request.method", "RequestMethod", "http_method", "httpRequest.requestMethod", "verb", "request",
	},
	fieldPath: {
		"path", "uri", "request_uri", "request.uri", "RequestPath", "request_path", "url", "httpRequest.requestUrl", "request.path", "target", "request",
	},
	fieldStatus: {
		"status", "status_code", "DownstreamStatus", "response_code", "http_status", "httpRequest.status", "code", "response.status",
	},
	fieldBytes: {
		"bytes", "size", "body_bytes_sent", "bytes_sent", "DownstreamContentSize", "response_size", "httpRequest.responseSize",
	},
	fieldHost: {
		"host", "http_host", "request.host", "RequestHost", "server_name", "authority", "vhost",
	},
	fieldReferer: {
		"referer", "referrer", "http_referer", "request.headers.Referer", "request_Referer",
	},
	fieldUserAgent: {
		"user-agent", "user_agent", "http_user_agent", "useragent", "request.headers.User-Agent", "request_User-Agent", "agent",
	},
}

// headerPlaces are where servers log a header of the request, for the field "header:X-Api-Key".
var headerPlaces = []string{"request.headers.%s", "headers.%s", "header.%s", "request_%s", "http_%s", "%s"}

const headerField = "header:"

// place is the name, in the log, of a field, among those that the log has.
func place(field string, mapping map[string]string, has []string) (string, error) {
	if name, ok := mapping[field]; ok {
		return name, nil
	}
	candidates := slices.Clone(names[field])
	if header, ok := strings.CutPrefix(field, headerField); ok {
		for _, form := range headerPlaces {
			for _, spelled := range []string{header, strings.ReplaceAll(header, "-", "_")} {
				candidates = append(candidates, fmt.Sprintf(form, spelled))
			}
		}
	}
	candidates = append(candidates, field)
	for _, candidate := range candidates {
		for _, name := range has {
			if strings.EqualFold(name, candidate) {
				return name, nil
			}
		}
	}
	return "", missing(field, has)
}

func missing(field string, has []string) error {
	const most = 40
	more := ""
	if len(has) > most {
		has, more = has[:most], ", …"
	}
	return fmt.Errorf("the log has no field %q; say which of its fields is meant, as in %s=FIELD; it has %s%s", field, field, strings.Join(has, ", "), more)
}

func newJSONLines(sample [][]byte, want wanted, mapping map[string]string) (parser, error) {
	var has []string
	for _, line := range sample {
		var object map[string]any
		if json.Unmarshal(line, &object) == nil {
			has = fieldsOf(object, "", has)
		}
	}
	if len(has) == 0 {
		return nil, errors.New("no line at its beginning is a JSON object")
	}
	j := &jsonLines{}
	at, err := place(fieldTime, mapping, has)
	if err != nil {
		return nil, err
	}
	j.fields = append(j.fields, jsonField{at, -1})
	var same copies
	for slot, field := range want {
		if at, err = place(field, mapping, has); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(j.fields, func(f jsonField) bool { return f.path == at }); i < 0 {
			j.fields = append(j.fields, jsonField{at, slot})
		} else if same, err = same.add(at, slot, j.fields[i].slot); err != nil {
			return nil, err
		}
	}
	return same.of(j), nil
}

// fieldsOf adds the fields of an object that hold a value.
func fieldsOf(object map[string]any, prefix string, has []string) []string {
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	for _, key := range keys {
		if below, ok := object[key].(map[string]any); ok && strings.Count(prefix, ".") < 8 {
			has = fieldsOf(below, prefix+key+".", has)
		} else if name := prefix + key; len(has) < 4096 && !slices.Contains(has, name) {
			has = append(has, name)
		}
	}
	return has
}

// cutHeader is the names of a CSV log's columns.
func cutHeader(line []byte) (columns []string) {
	separator, rec := separatorOf(line), &record{}
	for more := true; more && len(columns) < 4096; {
		var name []byte
		ok := false
		if name, line, more, ok = cutField(line, separator, true, rec); !ok {
			return nil
		}
		columns = append(columns, strings.TrimSpace(string(name)))
	}
	return columns
}

func separatorOf(line []byte) byte {
	best, most := byte(','), 0
	for _, c := range []byte(",;\t") {
		if n := bytes.Count(line, []byte{c}); n > most {
			best, most = c, n
		}
	}
	return best
}

// newCSVLines reads the names of columns from the first line, unless the mapping names columns by number, from 1.
func newCSVLines(sample [][]byte, want wanted, mapping map[string]string) (p parser, skip int, err error) {
	columns := cutHeader(bytes.TrimPrefix(sample[0], []byte("\xef\xbb\xbf")))
	if len(columns) < 2 {
		return nil, 0, errors.New("the first line has no columns")
	}
	if _, err := strconv.Atoi(mapping[fieldTime]); err == nil {
		for i := range columns {
			columns[i] = strconv.Itoa(i + 1)
		}
	} else {
		skip = 1
	}
	var same copies
	c := &csvLines{separator: separatorOf(sample[0]), slots: make([]int, len(columns))}
	for i := range c.slots {
		c.slots[i] = notWanted
	}
	for i, field := range append([]string{fieldTime}, want...) {
		at, err := place(field, mapping, columns)
		if err != nil {
			return nil, 0, err
		}
		column := slices.IndexFunc(columns, func(name string) bool { return strings.EqualFold(name, at) })
		if column < 0 {
			return nil, 0, missing(at, columns)
		}
		if first := c.slots[column]; first == notWanted {
			c.slots[column] = i - 1
		} else if same, err = same.add(at, i-1, first); err != nil {
			return nil, 0, err
		}
	}
	return same.of(c), skip, nil
}

// copies are fields that stand where another does: method and path in nginx's request.
type copies []struct{ to, from int }

func (c copies) add(name string, to, from int) (copies, error) {
	if from < 0 {
		return nil, fmt.Errorf("%q is the time of a request, and cannot be another field too", name)
	}
	return append(c, struct{ to, from int }{to, from}), nil
}

// of is p, with these fields filled in.
func (c copies) of(p parser) parser {
	if len(c) == 0 {
		return p
	}
	return &copying{p, c}
}

type copying struct {
	parser
	copies copies
}

func (c *copying) parse(line []byte, rec *record) reason {
	why := c.parser.parse(line, rec)
	for _, one := range c.copies {
		rec.values[one.to] = rec.values[one.from]
	}
	return why
}
