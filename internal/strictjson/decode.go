package strictjson

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// An Unmarshaler reads itself. It is called with the Decoder in front of its value, also if that is null, and must read
// exactly that value.
type Unmarshaler interface {
	UnmarshalStrict(d *Decoder) error
}

// Decode reads data, one JSON value, into v, a pointer. An error is an *Error, and v is then of no use.
//
// It reads into structs, strings, bools, int64s and types made of them, slices, arrays (all elements must be given),
// pointers (an absent field stays nil) and Unmarshalers. A field of a struct has the name in its json tag; with the tag
// strict:"required" it must be there. Fields without a json tag are left alone; those of embedded structs count as the
// outer one's. A type of another kind panics: that is a mistake in the program.
func Decode(data []byte, v any) error {
	d := &Decoder{data: data, path: make([]step, 0, 8)}
	if !utf8.Valid(data) {
		d.pos = firstInvalid(data)
		return d.Error(InvalidUnicode, "this byte is not valid UTF-8; give a key of arbitrary bytes in base64")
	}
	if d.space(); d.pos == len(data) {
		return d.Error(InvalidJSON, "the input is empty")
	}
	if err := d.value(reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if d.space(); d.pos != len(data) {
		return d.Error(InvalidJSON, "something follows after the value; send one value only")
	}
	return nil
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

func (d *Decoder) value(v reflect.Value) error {
	if v.CanAddr() {
		if u, ok := v.Addr().Interface().(Unmarshaler); ok {
			return u.UnmarshalStrict(d)
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.object(v)
	case reflect.String:
		s, err := d.Text()
		v.SetString(s)
		return err
	case reflect.Bool:
		b, err := d.Bool()
		v.SetBool(b)
		return err
	case reflect.Int64:
		n, err := d.Int()
		v.SetInt(n)
		return err
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 1))
		return d.Elements(func(int) error {
			v.Grow(1)
			v.SetLen(v.Len() + 1)
			last := v.Index(v.Len() - 1)
			last.SetZero()
			return d.value(last)
		})
	case reflect.Array:
		return d.array(v)
	default:
		panic(fmt.Sprintf("strictjson: cannot read into %s", v.Type()))
	}
}

func (d *Decoder) array(v reflect.Value) error {
	if err := d.want(Array, "a list"); err != nil {
		return err
	}
	start, n := d.pos, 0
	err := d.Elements(func(i int) error {
		if n++; n > v.Len() {
			return d.Error(WrongType, fmt.Sprintf("the list has more than %d elements", v.Len()))
		}
		return d.value(v.Index(i))
	})
	if err == nil && n < v.Len() {
		return d.errorAt(start, WrongType, fmt.Sprintf("the list has %d elements, not %d", n, v.Len()))
	}
	return err
}

func (d *Decoder) object(v reflect.Value) error {
	if err := d.want(Object, "an object"); err != nil {
		return err
	}
	sh := shapeOf(v.Type())
	start, seen := d.pos, uint64(0)
	err := d.fields(func(name string, offset int) error {
		i, ok := sh.byName[name]
		if !ok {
			return d.errorAt(offset, UnknownField, fmt.Sprintf("there is no field %.60q here; there are %s", name, sh.names))
		}
		if seen&(1<<i) != 0 {
			return d.errorAt(offset, DuplicateField, fmt.Sprintf("the field %q stands here twice", name))
		}
		seen |= 1 << i
		d.path = append(d.path, step{name: name})
		err := d.value(v.FieldByIndex(sh.fields[i].index))
		d.path = d.path[:len(d.path)-1]
		return err
	})
	if err != nil {
		return err
	}
	if missing := sh.required &^ seen; missing != 0 {
		for i := range sh.fields {
			if missing&(1<<i) != 0 {
				return d.errorAt(start, MissingField, fmt.Sprintf("the field %q is missing", sh.fields[i].name))
			}
		}
	}
	return nil
}

// shape is what Decode knows of a struct type.
type shape struct {
	fields   []shapeField
	byName   map[string]int
	names    string // for error texts
	required uint64
}

type shapeField struct {
	name  string
	index []int
}

var shapes sync.Map // of reflect.Type to *shape

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	sh := &shape{byName: map[string]int{}}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		i := len(sh.fields)
		if i == 64 {
			panic(fmt.Sprintf("strictjson: %s has more than 64 fields", t))
		}
		if f.Tag.Get("strict") == "required" {
			sh.required |= 1 << i
		}
		sh.byName[name] = i
		sh.fields = append(sh.fields, shapeField{name, f.Index})
		names = append(names, name)
	}
	sh.names = strings.Join(names, ", ")
	if len(names) == 0 {
		sh.names = "none"
	}
	s, _ := shapes.LoadOrStore(t, sh)
	return s.(*shape)
}
