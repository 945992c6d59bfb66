package simulate

// Names of fields that have a meaning, or that common logs have.
const (
	fieldTime      = "time"
	fieldAddress   = "address"
	fieldIdent     = "ident"
	fieldUser      = "user"
	fieldMethod    = "method"
	fieldPath      = "path"
	fieldStatus    = "status"
	fieldBytes     = "bytes"
	fieldHost      = "host"
	fieldReferer   = "referer"
	fieldUserAgent = "user-agent"
)

// record is what one line says. Its bytes are parts of the line, or of scratch, until the next line is parsed.
type record struct {
	at      int64    // µs since the Unix epoch
	values  [][]byte // of the fields asked for, in their order; empty: absent
	scratch []byte   // what had to be unescaped
}

func (r *record) clear() {
	clear(r.values)
	r.scratch = r.scratch[:0]
}

// parser reads lines of one form. It keeps nothing of a line.
type parser interface {
	parse(line []byte, rec *record) reason
}

// reason says why a line was not understood. It is a number, so that it costs nothing.
type reason uint8

const (
	understood reason = iota
	notItsForm
	badTime
	badStatus
	openQuote
	noTime
	badCost
	tooLong
	reasons
)

func (r reason) String() string {
	return [reasons]string{
		understood: "understood",
		notItsForm: "not of the log's form",
		badTime:    "the time cannot be read",
		badStatus:  "the status is no number of three digits",
		openQuote:  "a quotation mark is missing",
		noTime:     "there is no time",
		badCost:    "the cost is no whole number",
		tooLong:    "the line is longer than 256 KiB",
	}[r]
}

// wanted is the fields that parsers have to fill in, each once.
type wanted []string

// slot is the place of a field in record.values.
func (w *wanted) slot(field string) int {
	for i, f := range *w {
		if f == field {
			return i
		}
	}
	*w = append(*w, field)
	return len(*w) - 1
}
